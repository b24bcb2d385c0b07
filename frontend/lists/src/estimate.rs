//! The estimate of the classes of a list from a sample of its addresses.
//!
//! The interval is Wilson's score interval (E. B. Wilson, Probable Inference, 1927) at 95 %. Of `N` distinct addresses, the formula
//! uses the effective sample size `n (N - 1) / (N - n)`, which includes the finite population correction.

use crate::Class;
use crate::numbers::grouped;
use std::fmt;

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
    let z2 = Z_95 * Z_95;
    let centre = (share + z2 / (2.0 * draws)) / (1.0 + z2 / draws);
    let spread =
        Z_95 / (1.0 + z2 / draws) * (share * (1.0 - share) / draws + z2 / (4.0 * draws * draws)).sqrt();
    // The addresses of the sample are known: the list cannot have fewer hits, or fewer others.
    let (least, most) = (hits as f64 / all, (all - (n - hits as f64)) / all);
    (share, (centre - spread).clamp(least, most), (centre + spread).clamp(least, most))
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
        let [rows, addresses, without_address, checked] =
            [rows, distinct, without_address, checked].map(grouped);
        writeln!(
            f,
            "the list has {rows} rows, {addresses} distinct addresses, {without_address} rows without an address"
        )?;
        writeln!(f, "estimate from {checked} addresses (--seed {seed}), with the 95 % interval:")?;
        for ClassEstimate { class, share, low, high, .. } in &self.classes {
            let count = grouped((share * distinct as f64).round() as u64);
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
}
