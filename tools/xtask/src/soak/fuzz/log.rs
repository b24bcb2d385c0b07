//! Reading the log of libFuzzer.

/// The number of inputs before the first measurement of memory: by then everything that is allocated once is allocated.
const WARM_EXECUTIONS: u64 = 100_000;

/// The figures of a run of libFuzzer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FuzzFigures {
    /// Edges of the code in the binary, and how many of them were reached.
    pub edges: u64,
    pub reached: u64,
    /// How many inputs were executed.
    pub executions: u64,
    /// Inputs per second, as an average over the run.
    pub per_second: u64,
    /// Inputs that are kept because each reached a new edge.
    pub corpus: u64,
    /// The peak of resident memory after [`WARM_EXECUTIONS`] and at the end, in MiB.
    pub warm_mib: u64,
    pub end_mib: u64,
    /// The longest time of one input, in whole seconds.
    pub slowest_s: u64,
}

impl FuzzFigures {
    /// Reads the figures; `None` if the run did not end regularly.
    pub fn read(log: &str) -> Option<FuzzFigures> {
        let mut figures = FuzzFigures {
            edges: number_after(log.lines().find(|line| line.contains(" inline 8-bit counters)"))?, "(")?,
            executions: stat(log, "number_of_executed_units")?,
            per_second: stat(log, "average_exec_per_sec")?,
            slowest_s: stat(log, "slowest_unit_time_sec")?,
            ..FuzzFigures::default()
        };
        for line in log.lines().filter(|line| line.starts_with('#')) {
            let (Some(at), Some(mib)) = (number_after(line, "#"), number_after(line, " rss: ")) else {
                continue;
            };
            figures.reached = number_after(line, " cov: ").unwrap_or(figures.reached);
            figures.corpus = number_after(line, " corp: ").unwrap_or(figures.corpus);
            figures.end_mib = mib;
            if at < WARM_EXECUTIONS || figures.warm_mib == 0 {
                figures.warm_mib = mib;
            }
        }
        Some(figures)
    }
}

/// The cause of a failed run, in the words of libFuzzer and the target.
pub fn complaint(log: &str) -> String {
    let telling = |line: &&str| {
        line.starts_with("broken rule: ")
            || line.contains(" panicked at ")
            || line.contains("ERROR: libFuzzer: ")
    };
    let mut lines = log.lines().peekable();
    let mut said = Vec::new();
    while let Some(line) = lines.next() {
        if telling(&line) {
            said.push(line);
            // The message of a panic is on the line after its source position.
            if line.contains(" panicked at ") {
                said.extend(lines.next());
            }
        }
    }
    match said.is_empty() {
        true => log.lines().rev().take(5).collect::<Vec<_>>().join(" | "),
        false => said.join(" | "),
    }
}

fn stat(log: &str, name: &str) -> Option<u64> {
    let name = format!("stat::{name}:");
    log.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse().ok())
}

fn number_after(line: &str, mark: &str) -> Option<u64> {
    let rest = &line[line.find(mark)? + mark.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 7\n\
        INFO: Loaded 1 modules   (5123 inline 8-bit counters): 5123 [0x55, 0x56),\n\
        #2\tINITED cov: 20 ft: 21 corp: 1/1b exec/s: 0 rss: 31Mb\n\
        #65536\tpulse  cov: 900 ft: 2000 corp: 300/10Kb lim: 400 exec/s: 32768 rss: 40Mb\n\
        #131072\tpulse  cov: 950 ft: 2100 corp: 310/11Kb lim: 400 exec/s: 32768 rss: 44Mb\n\
        #200000\tDONE   cov: 960 ft: 2200 corp: 320/12Kb lim: 400 exec/s: 33333 rss: 47Mb\n\
        Done 200000 runs in 6 second(s)\n\
        stat::number_of_executed_units: 200000\n\
        stat::average_exec_per_sec:     33333\n\
        stat::new_units_added:          319\n\
        stat::slowest_unit_time_sec:    0\n\
        stat::peak_rss_mb:              47\n";

    #[test]
    fn a_run_is_read() {
        let expected = FuzzFigures {
            edges: 5123,
            reached: 960,
            executions: 200_000,
            per_second: 33_333,
            corpus: 320,
            warm_mib: 40,
            end_mib: 47,
            slowest_s: 0,
        };
        assert_eq!(FuzzFigures::read(LOG), Some(expected));
        assert_eq!(FuzzFigures::read(LOG.split("Done").next().unwrap()), None);
    }

    #[test]
    fn a_failure_is_told_in_its_own_words() {
        let log = "#9\tNEW cov: 1\nthread '<unnamed>' (7) panicked at tools/fuzz/src/lib.rs:42:9:\n\
                   broken rule: 7 records\nstack backtrace:\n==7== ERROR: libFuzzer: deadly signal\n";
        let said = complaint(log);
        assert!(said.contains("lib.rs:42:9: | broken rule: 7 records | ==7== ERROR"), "{said}");
        assert_eq!(complaint("a\nb\n"), "b | a");
    }
}
