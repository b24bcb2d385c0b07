//! The runs of `soak timeleft`: lists whose time depends on different things, beside domains that answer at an even pace.
//!
//! - `even`: nothing else;
//! - `sizes`: a few large domains and many small ones;
//! - `dead`: domains that no connection reaches, in the first rows;
//! - `silent`: servers that hang at the recipient, in the first rows;
//! - `grey`: greylisted mailboxes;
//! - `budget`: a site whose budget of refused recipients is spent;
//! - `all`: dead, silent and greylisted domains, and different sizes.

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

/// The names of the runs of the full version, and behind an empty line those of the small one. A name has the kind of the run, its
/// seconds at an even pace, and its `--max-wait` in seconds.
const RUNS: &str = include_str!("../../../soak/timeleft-runs.txt");

/// The runs of the full version, or those of the small one.
pub fn runs(seed: u64, small: bool) -> Vec<TimedRun> {
    let (full, few) = RUNS.split_once("\n\n").unwrap_or((RUNS, RUNS));
    let names = if small { few } else { full }.lines();
    names.zip(seed..).filter_map(|(name, seed)| made(name, seed)).collect()
}

/// The run with this name; `None` if the name has another form.
fn made(name: &str, seed: u64) -> Option<TimedRun> {
    let (kind, times) = name.split_once('-')?;
    let (seconds, wait) = times.split_once('-')?;
    let (seconds, wait): (u64, u64) = (seconds.parse().ok()?, wait.parse().ok()?);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut making =
        Making { scenario: format!("seed = {seed}\njournal = true\n{STEADY}"), rows: Vec::new() };
    let is_all = kind == "all";
    // A list grows by a session each two seconds, up to ten sessions at a site: this number of recipients takes so long at a server
    // that answers one each half second.
    let rows_of = |seconds: u64| (0..seconds).map(|second| 2 * (1 + second / 2).min(10)).sum::<u64>();
    let full = rows_of(seconds);
    // Most mailboxes exist, so no budget is spent.
    let steady = format!("mailboxes.ok = [\"95% user-#\"]\n{PACE}");
    if is_all || kind == "sizes" {
        making.domains("large", 3, full, &steady);
        making.domains("small", 120, (full / 60).clamp(2, 30), &steady);
    } else {
        making.domains("even", 8, full, &steady);
    }
    random.shuffle(&mut making.rows);
    let even = std::mem::take(&mut making.rows);
    if is_all || kind == "dead" {
        for (name, state) in [("gone", "blackhole"), ("shut", "refused")] {
            making.scenario += &format!("[[host]]\nname = \"mx.{name}.example\"\nstate = \"{state}\"\n");
            making.domains(name, 40, 4, &format!("mx = [\"10 mx.{name}.example\"]"));
        }
    }
    if is_all || kind == "silent" {
        making.domains("silent", 2, 20, &format!("mailboxes.silent = [\"user-#\"]\n{PACE}"));
    }
    if is_all || kind == "grey" {
        // Greylisting ends long before the last try, at the end of `--max-wait`.
        let grey = format!(
            "mailboxes.greylisted = [\"user-#\"]\ngreylist_ms = {}\n\
             server = {{ personality = \"steady\", latency_ms = [20, 80] }}",
            wait * 1000 / 2
        );
        making.domains("grey", 5, 40, &grey);
    }
    let spent = kind == "budget";
    if spent {
        making.scenario += &format!("[[domain]]\nname = \"{SPENT}\"\nmailboxes.ok = [\"user-#\"]\n");
        making.rows.extend((0..60).map(|n| format!("gone.{n}@{SPENT}")));
    }
    let mut rows = making.rows;
    // Dead and silent domains come first; rows that wait are anywhere.
    rows.extend(even);
    if matches!(kind, "grey" | "budget") {
        random.shuffle(&mut rows);
    }
    let (scenario, max_wait) = (making.scenario, Duration::from_secs(wait));
    Some(TimedRun { name: name.to_owned(), scenario, rows, max_wait, spent })
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
