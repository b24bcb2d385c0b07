//! The runs of `soak timeleft`: lists whose time depends on different things.

use std::time::Duration;

/// A run of `mailprobe clean`.
pub struct TimedRun {
    /// Its name in the table.
    pub name: String,
    /// The scenario of its mail internet.
    pub scenario: String,
    /// The addresses of its list.
    pub rows: Vec<String>,
    /// The value of `--max-wait`.
    pub max_wait: Duration,
    /// Whether the budget of refused recipients of [`SPENT`] is spent when the run begins, and free again within minutes.
    pub spent: bool,
}

/// The domain whose budget of refused recipients is spent.
pub const SPENT: &str = "spent.example";
/// The number of addresses that spend it.
pub const SPENDING: usize = 130;

/// What makes the time of a run, beside domains that answer at an even pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing else.
    Even,
    /// A few large domains and many small ones.
    Sizes,
    /// Domains that no connection reaches, in the first rows.
    Dead,
    /// Servers that hang at the recipient, in the first rows.
    Silent,
    /// Greylisted mailboxes.
    Grey,
    /// A site whose budget of refused recipients is spent.
    Budget,
    /// Dead, silent and greylisted domains, and different sizes.
    All,
}

/// The runs of the full version, or the four of the small one.
pub fn runs(seed: u64, small: bool) -> Vec<TimedRun> {
    use Kind::{All, Budget, Dead, Even, Grey, Silent, Sizes};
    // For each run, its seconds at an even pace, and its wait for greylisting.
    let runs: &[(Kind, u64, u64)] = if small {
        &[(Even, 25, 0), (Sizes, 25, 0), (Dead, 30, 0), (Grey, 20, 30)]
    } else {
        &[
            (Even, 25, 0),
            (Even, 60, 0),
            (Even, 130, 0),
            (Sizes, 30, 0),
            (Sizes, 60, 0),
            (Sizes, 120, 0),
            (Dead, 30, 0),
            (Dead, 60, 0),
            (Dead, 120, 0),
            (Silent, 60, 0),
            (Silent, 100, 0),
            (Grey, 20, 40),
            (Grey, 30, 90),
            (Grey, 100, 40),
            (Budget, 20, 330),
            (Budget, 60, 330),
            (Budget, 30, 330),
            (All, 40, 60),
            (All, 60, 80),
            (All, 70, 90),
        ]
    };
    runs.iter().enumerate().map(|(n, &run)| made(run, seed.wrapping_add(n as u64))).collect()
}

fn made((kind, seconds, wait): (Kind, u64, u64), seed: u64) -> TimedRun {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut making =
        Making { scenario: format!("seed = {seed}\njournal = true\n{STEADY}"), rows: Vec::new() };
    let is_all = kind == Kind::All;
    // A list grows by a session each two seconds, up to ten sessions at a site: this number of recipients takes so long at a server
    // that answers one each half second.
    let rows_of = |seconds: u64| (0..seconds).map(|second| 2 * (1 + second / 2).min(10)).sum::<u64>();
    let full = rows_of(seconds);
    // Most mailboxes exist, so no budget is spent.
    let steady = format!("mailboxes.ok = [\"95% user-#\"]\n{PACE}");
    if matches!(kind, Kind::Sizes | Kind::All) {
        making.domains("large", 3, full, &steady);
        making.domains("small", 120, (full / 60).clamp(2, 30), &steady);
    } else {
        making.domains("even", 8, full, &steady);
    }
    random.shuffle(&mut making.rows);
    let even = std::mem::take(&mut making.rows);
    if is_all || kind == Kind::Dead {
        for (name, state) in [("gone", "blackhole"), ("shut", "refused")] {
            making.scenario += &format!("[[host]]\nname = \"mx.{name}.example\"\nstate = \"{state}\"\n");
            making.domains(name, 40, 4, &format!("mx = [\"10 mx.{name}.example\"]"));
        }
    }
    if is_all || kind == Kind::Silent {
        making.domains("silent", 2, 20, &format!("mailboxes.silent = [\"user-#\"]\n{PACE}"));
    }
    if is_all || kind == Kind::Grey {
        // Greylisting ends long before the last try, at the end of `--max-wait`.
        let grey = format!(
            "mailboxes.greylisted = [\"user-#\"]\ngreylist_ms = {}\n\
             server = {{ personality = \"steady\", latency_ms = [20, 80] }}",
            wait * 1000 / 2
        );
        making.domains("grey", 5, 40, &grey);
    }
    let spent = kind == Kind::Budget;
    if spent {
        making.scenario += &format!("[[domain]]\nname = \"{SPENT}\"\nmailboxes.ok = [\"user-#\"]\n");
        making.rows.extend((0..60).map(|n| format!("gone.{n}@{SPENT}")));
    }
    let mut rows = making.rows;
    // Dead and silent domains come first; rows that wait are anywhere.
    if matches!(kind, Kind::Grey | Kind::Budget) {
        rows.extend(even);
        random.shuffle(&mut rows);
    } else {
        rows.extend(even);
    }
    let kind = format!("{kind:?}").to_lowercase();
    TimedRun {
        name: format!("{kind}-{seconds}-{wait}"),
        scenario: making.scenario,
        rows,
        max_wait: Duration::from_secs(wait),
        spent,
    }
}

/// A server that answers one recipient each half second or so.
const STEADY: &str = "[[personality]]\nname = \"steady\"\nlike = \"generic\"\nehlo = []\n";
const PACE: &str = "server = { personality = \"steady\", latency_ms = [400, 600] }";

struct Making {
    scenario: String,
    rows: Vec<String>,
}

impl Making {
    /// Domains with this number of rows each, and with these settings.
    fn domains(&mut self, name: &str, count: u64, rows: u64, settings: &str) {
        self.scenario +=
            &format!("[[group]]\nname = \"{name}-{{n}}.example\"\ncount = {count}\n{settings}\n");
        for domain in 1..=count {
            self.rows.extend((0..rows).map(|n| format!("user-{n}@{name}-{domain}.example")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailnet::Scenario;

    #[test]
    fn each_run_has_a_scenario_and_a_list() {
        for small in [false, true] {
            let runs = runs(1, small);
            assert_eq!(runs.len(), if small { 4 } else { 20 });
            for run in runs {
                let scenario = Scenario::parse(&run.scenario).unwrap();
                assert!(scenario.domains() >= 8 && run.rows.len() > 100, "{}", run.name);
            }
        }
    }
}
