//! The estimate of the classes of a list from a sample of its addresses.
//!
//! The interval is that of C. J. Clopper and E. S. Pearson (1934) at 95 %, in the approximation of Paulson, Camp and Pratt (J. W. Pratt,
//! A Normal Approximation for Binomial, ..., II, 1968). It is at most 10 % wider than Wilson's score interval (E. B. Wilson, Probable
//! Inference, 1927), whose coverage falls to 84 % for shares near 0 and 1. From 30 addresses on, the coverage is at least 94.9 % for
//! every share. Of `N` distinct addresses, the formulas use the effective sample size `n (N - 1) / (N - n)`, which includes the finite
//! population correction.

use crate::Class;
use crate::numbers::{counted, grouped};
use spill::keyed::Keyed;
use std::collections::BTreeMap;
use std::fmt;

/// The quantile of the normal distribution for an interval of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;
/// The greatest width of an interval, as a multiple of the width of Wilson's.
const WIDTH_MAX: f64 = 1.0999;

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
    /// The class of its addresses.
    pub class: Class,
    /// Number of addresses of the class in the sample.
    pub sampled: u64,
    /// The share among the distinct addresses of the list, from 0 to 1.
    pub share: f64,
    /// The lower end of the interval of the share.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The estimate of a share from `hits` among `checked` of `distinct` addresses: the share, and the ends of its interval,
/// from 0 to 1.
pub fn interval(hits: u64, checked: u64, distinct: u64) -> (f64, f64, f64) {
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
    let (low, high) = limits(share * draws, draws);
    // The addresses of the sample are known: the list cannot have fewer hits, or fewer others.
    let (least, most) = (hits as f64 / all, (all - (n - hits as f64)) / all);
    (share, low.clamp(least, most), high.clamp(least, most))
}

/// The limits of Clopper and Pearson, moved towards those of Wilson until they are at most [`WIDTH_MAX`] times as far apart.
fn limits(hits: f64, draws: f64) -> (f64, f64) {
    let (low, high) = (1.0 - upper_limit(draws - hits, draws), upper_limit(hits, draws));
    let (wilson_low, wilson_high) = wilson(hits, draws);
    let (width, wilson_width) = (high - low, wilson_high - wilson_low);
    if width <= WIDTH_MAX * wilson_width {
        return (low, high);
    }
    let part = (width - WIDTH_MAX * wilson_width) / (width - wilson_width);
    (low + part * (wilson_low - low), high + part * (wilson_high - high))
}

/// The upper limit of Clopper and Pearson.
fn upper_limit(hits: f64, draws: f64) -> f64 {
    let (more, left, z2) = (hits + 1.0, draws - hits, Z_95 * Z_95);
    if hits <= 0.0 {
        return 1.0 - 0.025_f64.powf(1.0 / draws);
    }
    if left <= 0.0 {
        return 1.0;
    }
    let root = (9.0 * more * left * (9.0 * draws + 5.0 - z2) + draws + 1.0).sqrt();
    let above = 81.0 * more * left - 9.0 * draws - 8.0 - 3.0 * Z_95 * root;
    let below = 81.0 * more * more - 9.0 * more * (2.0 + z2) + 1.0;
    1.0 / (1.0 + (more / left).powi(2) * (above / below).powi(3))
}

/// The limits of Wilson.
fn wilson(hits: f64, draws: f64) -> (f64, f64) {
    let (share, z2) = (hits / draws, Z_95 * Z_95);
    let centre = (share + z2 / (2.0 * draws)) / (1.0 + z2 / draws);
    let spread =
        Z_95 / (1.0 + z2 / draws) * (share * (1.0 - share) / draws + z2 / (4.0 * draws * draws)).sqrt();
    ((centre - spread).max(0.0), (centre + spread).min(1.0))
}

impl Estimate {
    /// The estimate as JSON for scripts.
    pub fn json(&self) -> serde_json::Value {
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
        let counted_rows = |number| counted(number, "row", "rows");
        let addresses = counted(distinct, "distinct address", "distinct addresses");
        let (rows, without) = (counted_rows(rows), counted_rows(without_address));
        writeln!(f, "the list has {rows}, {addresses}, {without} without an address")?;
        let checked = counted(checked, "address", "addresses");
        writeln!(f, "estimate from {checked} (--seed {seed}), with the 95 % interval:")?;
        for ClassEstimate { class, share, low, high, .. } in &self.classes {
            let count = grouped((share * distinct as f64).round() as u64);
            let (share, low, high) = (100.0 * share, 100.0 * low, 100.0 * high);
            let name = class.as_str();
            writeln!(f, "  {name:<18}{count:>12}{share:>8.1} %   ({low:.1} % to {high:.1} %)")?;
        }
        Ok(())
    }
}

/// The addresses with the smallest hashes.
pub struct Smallest {
    most: usize,
    keyed: Keyed,
    /// The addresses by their hashes. Equal addresses have equal hashes.
    kept: BTreeMap<u128, Box<str>>,
}

impl Smallest {
    /// The `most` addresses with the smallest hashes, with the key of this seed.
    pub fn new(most: usize, seed: u64) -> Smallest {
        Smallest { most, keyed: Keyed::with_seed(seed), kept: BTreeMap::new() }
    }

    /// Takes an address by its canonical form.
    pub fn take(&mut self, canonical: &str, address: &str) {
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

    /// The addresses so far.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.kept.values().map(|address| &**address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published limits: R. G. Newcombe, Two-Sided Confidence Intervals for the Single Proportion, Statistics in Medicine 17 (1998),
    /// table I, methods 3 (Wilson) and 5 (Clopper and Pearson).
    #[test]
    fn limits_are_the_published_ones() {
        for (hits, draws, wilsons, exact) in [
            (81.0, 263.0, (0.2553, 0.3662), (0.2527, 0.3676)),
            (15.0, 148.0, (0.0624, 0.1605), (0.0578, 0.1617)),
            (0.0, 20.0, (0.0, 0.1611), (0.0, 0.1684)),
            (1.0, 29.0, (0.0061, 0.1718), (0.0009, 0.1776)),
        ] {
            let found = (1.0 - upper_limit(draws - hits, draws), upper_limit(hits, draws));
            for (found, published) in [(found, exact), (wilson(hits, draws), wilsons)] {
                let difference = (found.0 - published.0).abs().max((found.1 - published.1).abs());
                assert!(difference < 0.0005, "{hits} of {draws}: {found:?}, not {published:?}");
            }
        }
    }

    /// The exact coverage of the intervals for many shares, and their width.
    #[test]
    fn intervals_cover_each_share() {
        for draws in [30_u32, 31, 47, 100, 333, 1000, 3000] {
            let n = f64::from(draws);
            let ends: Vec<_> =
                (0..=draws).map(|hits| interval(hits.into(), draws.into(), u64::MAX)).collect();
            for (hits, (_, low, high)) in (0..=draws).zip(&ends) {
                let (wilson_low, wilson_high) = wilson(hits.into(), n);
                assert!(high - low <= (WIDTH_MAX + 1e-9) * (wilson_high - wilson_low), "{hits} of {draws}");
            }
            assert_eq!((ends[0].1, ends[draws as usize].2), (0.0, 1.0), "shares of 0 and 1 are covered");
            for step in 1..1000 {
                let share = f64::from(step) / 1000.0;
                let (mut log, mut covered) = (n * (1.0 - share).ln(), 0.0);
                for (hits, (_, low, high)) in (0..=draws).zip(&ends) {
                    if (*low..=*high).contains(&share) {
                        covered += log.exp();
                    }
                    log += (f64::from(draws - hits) / f64::from(hits + 1) * share / (1.0 - share)).ln();
                }
                assert!(covered > 0.949, "{covered} of {share} from {draws}");
            }
        }
    }

    #[test]
    fn a_sample_that_is_most_of_the_list_is_narrow() {
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
                assert_eq!(smallest.addresses().count(), most);
                let number = |address: &str| address[4..].split('@').next().unwrap().parse::<u64>().unwrap();
                let sampled = smallest.addresses().filter(|address| number(address) < hits).count() as u64;
                let (_, low, high) = interval(sampled, most as u64, distinct);
                (low..=high).contains(&(hits as f64 / distinct as f64))
            });
            let covered = covered.count();
            assert!(covered >= 930, "{covered} of 1,000 for {hits} of {distinct}");
        }
    }
}
