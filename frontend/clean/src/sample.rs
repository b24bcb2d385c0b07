//! `--sample`: an estimate of the classes of a list from a part of its addresses.
//!
//! The list is read once. The sample is the `n` distinct addresses with the smallest keyed hashes ([`Smallest`]). Every set of `n`
//! addresses has the same chance. Only the sample is checked, as a list of its own.
//!
//! The interval is Wilson's score interval (E. B. Wilson, Probable Inference, 1927) at 95 %. Of `N` distinct addresses, the formula
//! uses the effective sample size `n (N - 1) / (N - n)`, which includes the finite population correction.

use super::seen::Seen;
use super::summary::{Extent, Summary};
use super::{Checker, CleanArgs, CleanError, driver, progress, sink};
use indicatif::HumanCount;
use lists::{Class, ReadOptions, Row, Source, Verdict};
use spill::State;
use spill::keyed::Keyed;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Cursor;
use std::path::Path;

/// The quantile of the normal distribution for an interval of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;

/// The estimate for a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows without an address: they are undeliverable without a check.
    pub without_address: u64,
    /// Number of distinct addresses.
    pub distinct: u64,
    /// Number of addresses that were checked.
    pub checked: u64,
    /// The seed of the sample.
    pub seed: u64,
    /// The estimates by class.
    pub classes: Vec<ClassEstimate>,
}

/// The estimate for a class of addresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassEstimate {
    pub class: Class,
    /// Number of addresses of the class in the sample.
    pub sampled: u64,
    /// The share among the distinct addresses of the list, from 0 to 1.
    pub share: f64,
    /// The interval of the share.
    pub low: f64,
    pub high: f64,
}

/// The estimate of a share from `hits` among `checked` of `distinct` addresses: the share, and the ends of its interval.
pub(super) fn interval(hits: u64, checked: u64, distinct: u64) -> (f64, f64, f64) {
    if checked == 0 {
        return (0.0, 0.0, 1.0);
    }
    let (n, all) = (checked as f64, distinct as f64);
    let share = hits as f64 / n;
    if checked >= distinct {
        return (share, share, share);
    }
    // As many draws with replacement as have the same variance.
    let draws = n * (all - 1.0) / (all - n);
    let z2 = Z_95 * Z_95;
    let centre = (share + z2 / (2.0 * draws)) / (1.0 + z2 / draws);
    let spread =
        Z_95 / (1.0 + z2 / draws) * (share * (1.0 - share) / draws + z2 / (4.0 * draws * draws)).sqrt();
    // The addresses of the sample are known: the list cannot have fewer hits, or fewer others.
    let (least, most) = (hits as f64 / all, (all - (n - hits as f64)) / all);
    (share, (centre - spread).clamp(least, most), (centre + spread).clamp(least, most))
}

/// The addresses with the smallest hashes.
struct Smallest {
    most: usize,
    keyed: Keyed,
    /// The addresses by their hashes. Equal addresses have equal hashes.
    kept: BTreeMap<u128, Box<str>>,
}

impl Smallest {
    fn new(most: usize, seed: u64) -> Smallest {
        Smallest { most, keyed: Keyed::with_seed(seed), kept: BTreeMap::new() }
    }

    /// Takes an address by its canonical form.
    fn take(&mut self, canonical: &str, address: &str) {
        let hash = self.keyed.hash(canonical.as_bytes());
        let is_full = self.kept.len() >= self.most;
        if is_full && self.kept.last_key_value().is_none_or(|(largest, _)| hash >= *largest) {
            return;
        }
        self.kept.entry(hash).or_insert_with(|| address.into());
        if self.kept.len() > self.most {
            self.kept.pop_last();
        }
    }
}

/// Chooses the sample, checks it and estimates the classes of the list.
///
/// # Errors
/// As `Job::run`.
pub(super) fn run(
    args: &CleanArgs,
    most: u32,
    mut source: Source,
    checker: &mut dyn Checker,
) -> Result<Summary, CleanError> {
    let seed = match args.writing.seed {
        Some(seed) => seed,
        None => random()?,
    };
    let memory = args.memory as usize * 1024 * 1024;
    let options = sink::SinkOptions {
        resume: false,
        replaces: true,
        unordered: false,
        compression: super::Compression::None,
        is_part: false,
        is_sample: true,
        delivery: args.delivery()?,
    };
    let nowhere = Path::new("/dev/null");
    // From here on the sink prevents other runs from using these names, also that of the state.
    let sink = sink::Sink::open(Some(args.output.as_deref().unwrap_or(nowhere)), options)?;
    let mut estimate = Estimate { seed, ..Estimate::default() };
    let mut smallest = Smallest::new(most as usize, seed);
    let chosen = State::open(args.output.as_deref(), memory)
        .map_err(CleanError::from)
        .and_then(|state| choose(&mut source, state, &mut estimate, &mut smallest));
    if let Err(error) = chosen {
        return Err(sink.keep(error));
    }
    let reading = super::summary::Reading::of(&source);
    let list = list(smallest.kept.values());
    let csv = ReadOptions { format: Some(lists::Format::Csv), ..ReadOptions::default() };
    let source = match Source::new(Box::new(Cursor::new(list)), "the sample", None, &csv) {
        Ok(source) => source,
        Err(error) => return Err(sink.keep(error.into())),
    };
    let state = match State::open(args.output.as_deref(), memory) {
        Ok(state) => state,
        Err(error) => return Err(sink.keep(error.into())),
    };
    let mut summary = driver::run(driver::Parts {
        progress: progress::Progress::new(!args.no_progress, None),
        part: None,
        source,
        sink,
        state,
        ordered: true,
        checker,
        waits: args.waits(),
        drop_duplicates: false,
        known: None,
        list: None,
        retried: None,
        is_fast: args.fast,
        stop: args.writing.stop.clone(),
        finds_typos: false,
    })?;
    estimate.checked = summary.total();
    estimate.classes = Class::ALL.map(|class| of_class(class, &summary, &estimate)).to_vec();
    summary.extent = Extent::Sample;
    summary.estimate = Some(estimate);
    summary.reading = Some(reading);
    Ok(summary)
}

/// Reads the list, and chooses the sample.
fn choose(
    source: &mut Source,
    mut state: State,
    estimate: &mut Estimate,
    smallest: &mut Smallest,
) -> Result<(), CleanError> {
    let mut seen = Seen::new(&state, Keyed::new()?, false);
    let mut row = Row::default();
    while source.next(&mut row)? {
        estimate.rows += 1;
        let Some(address) = &row.address else {
            estimate.without_address += 1;
            continue;
        };
        if seen.earlier(&mut state, address, estimate.rows)?.is_none() {
            estimate.distinct += 1;
            smallest.take(&address.canonical(), address.as_str());
        }
    }
    Ok(())
}

fn of_class(class: Class, summary: &Summary, estimate: &Estimate) -> ClassEstimate {
    let is_of =
        |reason: &str| Verdict::all().any(|verdict| verdict.reason == reason && verdict.class() == class);
    let sampled = summary.reasons().iter().filter(|(reason, _)| is_of(reason)).map(|(_, rows)| rows).sum();
    let (share, low, high) = interval(sampled, estimate.checked, estimate.distinct);
    ClassEstimate { class, sampled, share, low, high }
}

/// The sample as CSV.
fn list<'a>(addresses: impl Iterator<Item = &'a Box<str>>) -> Vec<u8> {
    let mut list = b"email\n".to_vec();
    for address in addresses {
        list.extend(format!("\"{}\"\n", address.replace('"', "\"\"")).bytes());
    }
    list
}

fn random() -> Result<u64, CleanError> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|e| CleanError::failed(format!("cannot get random bits: {e}")))?;
    // Short enough to be typed again.
    Ok(u32::from_le_bytes(bytes).into())
}

impl Estimate {
    pub(super) fn json(&self) -> serde_json::Value {
        let of = |estimate: &ClassEstimate| {
            let ClassEstimate { class, sampled, share, low, high } = *estimate;
            let addresses = |share: f64| (share * self.distinct as f64).round() as u64;
            serde_json::json!({
                "class": class.as_str(),
                "sampled": sampled,
                "share": share,
                "low": low,
                "high": high,
                "addresses": addresses(share),
                "addresses_low": addresses(low),
                "addresses_high": addresses(high),
            })
        };
        serde_json::json!({
            "rows": self.rows,
            "without_address": self.without_address,
            "distinct": self.distinct,
            "checked": self.checked,
            "seed": self.seed,
            "confidence": 0.95,
            "classes": self.classes.iter().map(of).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { rows, without_address, distinct, checked, seed, .. } = *self;
        writeln!(
            f,
            "the list has {} rows, {} distinct addresses, {} rows without an address",
            HumanCount(rows),
            HumanCount(distinct),
            HumanCount(without_address)
        )?;
        writeln!(
            f,
            "estimate from {} addresses (--seed {seed}), with the 95 % interval:",
            HumanCount(checked)
        )?;
        for ClassEstimate { class, share, low, high, .. } in &self.classes {
            let count = HumanCount((share * distinct as f64).round() as u64).to_string();
            let (share, low, high) = (100.0 * share, 100.0 * low, 100.0 * high);
            let name = class.as_str();
            writeln!(f, "  {name:<18}{count:>12}{share:>8.1} %   ({low:.1} % to {high:.1} %)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_wilsons() {
        // The values of Wilson's interval for 10 of 100 and 0 of 100, from an unlimited list.
        let (share, low, high) = interval(10, 100, u64::MAX);
        assert!((share - 0.1).abs() < 1e-9 && (low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4);
        let (_, low, high) = interval(0, 100, u64::MAX);
        assert!(low.abs() < 1e-9 && (high - 0.0370).abs() < 1e-4);
        // A sample that is most of the list is narrow, and one that is all of it is exact.
        let (_, low, high) = interval(10, 100, 101);
        assert!(low >= 10.0 / 101.0 && high <= 11.0 / 101.0);
        assert_eq!(interval(10, 100, 100), (0.1, 0.1, 0.1));
        assert_eq!(interval(0, 0, 0), (0.0, 0.0, 1.0));
    }

    /// 1,000 draws from lists of known truth: the interval covers the truth in at least 930.
    #[test]
    fn intervals_cover_the_truth() {
        for (distinct, hits, most) in [(2000_u64, 1400_u64, 200_usize), (500, 60, 100), (300, 150, 250)] {
            let covered = (0..1000).filter(|&seed| {
                let mut smallest = Smallest::new(most, seed);
                for n in 0..distinct {
                    let address = format!("user{n}@d{}.example", n % 17);
                    // Duplicates change nothing.
                    (0..=n % 3).for_each(|_| smallest.take(&address, &address));
                }
                assert_eq!(smallest.kept.len(), most);
                let number = |address: &str| address[4..].split('@').next().unwrap().parse::<u64>().unwrap();
                let sampled = smallest.kept.values().filter(|address| number(address) < hits).count() as u64;
                let (_, low, high) = interval(sampled, most as u64, distinct);
                (low..=high).contains(&(hits as f64 / distinct as f64))
            });
            let covered = covered.count();
            assert!(covered >= 930, "{covered} of 1,000 for {hits} of {distinct}");
        }
    }
}
