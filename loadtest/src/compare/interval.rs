//! The interval for the difference of a figure, from pairs of runs, and the correction for many figures.
//!
//! The method is the signed-rank test of Wilcoxon (1945) with the interval of Hodges and Lehmann (1963), on the logarithms of the
//! ratios B / A. What disturbs both runs of a pair, such as other work on the machine, cancels in the ratio. Between equal
//! builds, a pair is as probable as the same pair in the other order. This is all that the test assumes, so its chance of a
//! false alarm is right for any noise. A busy moment in one run changes a rank, and not the scale of all ranks. Errors are
//! compared by the difference of their share of the requests, because this share may be 0.

/// The probability that an interval contains the true difference.
const CONFIDENCE: f64 = 0.95;

/// How a figure is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// In percent of A.
    Ratio,
    /// In percentage points.
    Points,
}

/// The difference of B from A in percent, or in percentage points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The median of the means of all two pairs.
    pub middle: f64,
    /// The interval; `None` if there are too few pairs.
    pub interval: Option<(f64, f64)>,
    /// The probability of at least such a difference between equal builds.
    pub p: f64,
}

impl Unit {
    fn difference(self, (a, b): (f64, f64)) -> f64 {
        match self {
            Unit::Ratio => (b / a).ln(),
            Unit::Points => b - a,
        }
    }

    /// A difference in percent.
    fn shown(self, difference: f64) -> f64 {
        match self {
            Unit::Ratio => difference.exp_m1() * 100.0,
            Unit::Points => difference,
        }
    }
}

impl Difference {
    /// The difference over the pairs of A and B; `None` without pairs, or if a ratio has a 0.
    pub fn of(pairs: &[(f64, f64)], unit: Unit) -> Option<Difference> {
        let differences: Vec<f64> = pairs.iter().map(|pair| unit.difference(*pair)).collect();
        if differences.is_empty() || !differences.iter().all(|one| one.is_finite()) {
            return None;
        }
        let averages = averages(&differences);
        let tails = tails(differences.len());
        // A difference of 0 counts for neither direction, so it makes the test more careful.
        let above = averages.iter().filter(|one| **one > 0.0).count();
        let below = averages.iter().filter(|one| **one < 0.0).count();
        // The number of averages outside the interval on each side.
        let outside = tails.iter().rev().take_while(|chance| **chance <= (1.0 - CONFIDENCE) / 2.0).count();
        let interval = (outside > 0).then(|| {
            let last = averages.len() - outside;
            (unit.shown(averages[outside - 1]), unit.shown(averages[last]))
        });
        Some(Difference {
            middle: unit.shown(median(&averages)),
            interval,
            p: (2.0 * tails[above.max(below)]).min(1.0),
        })
    }
}

/// The sorted means of all two differences, and of each with itself (Walsh averages).
fn averages(differences: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (at, one) in differences.iter().enumerate() {
        averages.extend(differences[at..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// For each number, the probability that at least so many averages of equal builds are positive. This number is the sum of
/// the ranks of the positive differences, and each difference is positive with probability 1/2.
fn tails(count: usize) -> Vec<f64> {
    let mut chances = vec![0.0; count * (count + 1) / 2 + 1];
    chances[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..chances.len()).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = f64::midpoint(chances[sum], with);
        }
    }
    let mut sum = 0.0;
    for chance in chances.iter_mut().rev() {
        sum += *chance;
        *chance = sum;
    }
    chances
}

/// The median of sorted values, of which there is at least one.
pub fn median(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// The smallest number of pairs with which one of this many figures can have a verdict at this limit.
pub fn pairs_needed(figures: usize, limit: f64) -> usize {
    let least = |pairs: &usize| 2.0 * 0.5f64.powi(*pairs as i32) * (figures as f64) < limit;
    (1..64).find(least).unwrap_or(64)
}

/// Holm's procedure (Holm 1979): the probability of each difference, corrected for the number of figures. Between equal builds,
/// the chance that any corrected probability is below a limit is at most that limit. This also holds for figures that depend on
/// each other, as percentiles do.
pub fn holm(chances: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        chances.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))).collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut corrected = vec![None; chances.len()];
    let mut highest: f64 = 0.0;
    for (rank, (at, p)) in order.iter().enumerate() {
        highest = highest.max(p * (order.len() - rank) as f64).min(1.0);
        corrected[*at] = Some(highest);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }

    #[test]
    fn the_probabilities_are_those_of_the_tables() {
        // Critical rank sums at 2.5 % in each direction (Wilcoxon 1945): 21 with 6 pairs, 47 with 10, 158 with 20.
        close(tails(6)[21], 1.0 / 64.0);
        close(tails(3)[3], 5.0 / 8.0);
        assert!(tails(10)[47] <= 0.025 && tails(10)[46] > 0.025);
        assert!(tails(20)[158] <= 0.025 && tails(20)[157] > 0.025);
        close(tails(20)[0], 1.0);
    }

    #[test]
    fn an_interval_excludes_zero_exactly_if_the_test_finds_a_difference() {
        let mut random = crate::random::Random::new(3);
        let mut found = 0;
        for _ in 0..2000 {
            let pairs: Vec<(f64, f64)> = (0..12).map(|_| (random.unit(), random.unit() * 1.3)).collect();
            let difference = Difference::of(&pairs, Unit::Ratio).unwrap();
            let (low, high) = difference.interval.unwrap();
            assert!(low <= difference.middle && difference.middle <= high);
            assert_eq!(difference.p <= 0.05, low > 0.0 || high < 0.0, "{difference:?}");
            found += u32::from(difference.p <= 0.05);
        }
        assert!((100..1000).contains(&found), "{found}");
    }

    #[test]
    fn differences_have_their_units() {
        let pairs: Vec<(f64, f64)> = (1..=9).map(|n| (f64::from(n), f64::from(n) * 1.1)).collect();
        let ratio = Difference::of(&pairs, Unit::Ratio).unwrap();
        close(ratio.middle, 10.0);
        close(ratio.p, 2.0 / 512.0);
        let points = Difference::of(&pairs, Unit::Points).unwrap();
        close(points.middle, 0.5);
        assert_eq!(Difference::of(&[], Unit::Points), None);
        assert_eq!(Difference::of(&[(1.0, 2.0), (0.0, 2.0)], Unit::Ratio), None);
        assert_eq!(Difference::of(&[(1.0, 2.0), (1.0, 0.0)], Unit::Ratio), None);
        let few = Difference::of(&pairs[..5], Unit::Ratio).unwrap();
        assert_eq!(few.interval, None);
        let equal = Difference::of(&[(2.0, 2.0); 20], Unit::Points).unwrap();
        assert_eq!((equal.middle, equal.interval, equal.p), (0.0, Some((0.0, 0.0)), 1.0));
    }

    #[test]
    fn many_figures_are_corrected() {
        let corrected = holm(&[Some(0.03), None, Some(0.01), Some(0.04), Some(0.9)]);
        let rounded: Vec<Option<f64>> =
            corrected.iter().map(|p| p.map(|p| (p * 1000.0).round() / 1000.0)).collect();
        assert_eq!(rounded, [Some(0.09), None, Some(0.04), Some(0.09), Some(0.9)]);
        assert_eq!(holm(&[Some(0.4), Some(0.9)]), [Some(0.8), Some(0.9)]);
        assert_eq!(holm(&[]), []);
        assert_eq!((pairs_needed(1, 0.05), pairs_needed(10, 0.05)), (6, 9));
    }
}
