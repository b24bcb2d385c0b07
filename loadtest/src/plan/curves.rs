//! The curves of a plan: hours and rate, by source addresses and by cores.

use super::Plan;
use crate::digits::grouped;
use crate::svg::{At, Plot, PlotSeries, Rule, Scale};

/// The most points of a curve.
const POINTS: usize = 60;
/// From this ratio of the values on, an axis is logarithmic.
const WIDE: f64 = 20.0;

impl Plan {
    /// The plots of the page.
    pub(super) fn curves(&self) -> Vec<Plot> {
        let needed = self.sources_needed.max(f64::from(self.sources));
        let sources = steps(2.0 * needed, 8.0);
        let own_cores = f64::from(self.own_cores());
        let cores = steps(2.0 * self.cores.max(own_cores), 4.0);
        let by_sources = |sources: f64| (self.hours_at_sites(sources), self.hours_of_cores(own_cores));
        let own_sources = f64::from(self.sources);
        let by_cores = |cores: f64| (self.hours_at_sites(own_sources), self.hours_of_cores(cores));
        let given = format!("--sources {}", self.sources);
        let machine = format!("{own_cores} cores");
        let of_sources = self.pair("source addresses", &sources, &by_sources, (own_sources, given));
        of_sources.into_iter().chain(self.pair("cores", &cores, &by_cores, (own_cores, machine))).collect()
    }

    /// The hours that this number of cores needs.
    fn hours_of_cores(&self, cores: f64) -> f64 {
        self.hours_machine * f64::from(self.own_cores()) / cores
    }

    /// The hours and the addresses per hour over one quantity.
    fn pair(
        &self,
        x_name: &'static str,
        xs: &[f64],
        of: &dyn Fn(f64) -> (f64, f64),
        given: (f64, String),
    ) -> [Plot; 2] {
        let addresses = self.workload.addresses;
        let rate = |hours: f64| addresses / hours;
        let hours = self.workload.seconds / 3600.0 / self.peak;
        let in_hours = (hours, format!("{} h for the work", grouped(hours, 1)));
        let at_rate = (rate(hours), format!("{}/h for the work", grouped(rate(hours), 0)));
        let lines = |shown: &dyn Fn(f64) -> f64| lines(xs, of, shown);
        [
            plot(format!("Hours by {x_name}"), x_name, lines(&|hours| hours), given.clone(), in_hours),
            plot(format!("Addresses per hour by {x_name}"), x_name, lines(&rate), given, at_rate),
        ]
    }
}

/// Numbers from 1 to at least `most` and `least`, at equal distances.
fn steps(most: f64, least: f64) -> Vec<f64> {
    let most = most.max(least).ceil();
    let step = (most / POINTS as f64).ceil();
    (0..POINTS).map(|number| 1.0 + number as f64 * step).take_while(|at| *at <= most).collect()
}

/// The lines of the mail servers and of the machine. The slower one counts. A part without a limit has no line.
fn lines(xs: &[f64], of: &dyn Fn(f64) -> (f64, f64), shown: &dyn Fn(f64) -> f64) -> Vec<PlotSeries> {
    let line = |name: &str, part: &dyn Fn((f64, f64)) -> f64| {
        let points: Vec<(f64, f64)> =
            xs.iter().map(|x| (*x, part(of(*x)))).filter(|(_, hours)| *hours > 0.0).collect();
        PlotSeries {
            name: name.into(),
            points: points.into_iter().map(|(x, hours)| (x, shown(hours))).collect(),
        }
    };
    let all = [line("mail servers", &|(sites, _)| sites), line("cores", &|(_, cores)| cores)];
    all.into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// A plot with the vertical line of what there is and the horizontal line of what the work needs. The title has the
/// unit, because a name above the axis hides large numbers.
fn plot(
    title: String,
    x_name: &'static str,
    series: Vec<PlotSeries>,
    given: (f64, String),
    wanted: (f64, String),
) -> Plot {
    let lines = series.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    // The horizontal line belongs to the values: an axis that begins above it would show it at a wrong value.
    let values: Vec<f64> = lines.chain([wanted.0]).collect();
    let (least, most) =
        (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max));
    let y = if most > least * WIDE { Scale::Log(least) } else { Scale::Linear };
    let rules =
        vec![Rule { name: given.1, at: At::X(given.0) }, Rule { name: wanted.1, at: At::Y(wanted.0) }];
    Plot { title, x_name, y, series, rules, ..Plot::default() }
}
