//! A histogram with fixed bounds: counting a value and adding two histograms are cheap.

/// Upper bounds for the time of requests in microseconds: from an answer in memory to the longest check.
pub const REQUEST_US: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Upper bounds for the time of commits in microseconds.
pub const COMMIT_US: &[u64] =
    &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// Upper bounds for the number of writes in a commit.
pub const GROUP: &[u64] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/// Counts of values by size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One count for each bound, and one for larger values.
    counts: Vec<u64>,
    sum: u64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which must increase.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    /// Counts a value in its bucket.
    pub fn record(&mut self, value: u64) {
        let place = self.bounds.partition_point(|&bound| bound < value);
        self.counts[place] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds the counts of another histogram with the same bounds.
    pub fn add(&mut self, other: &Histogram) {
        debug_assert_eq!(self.bounds, other.bounds);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Each bound with the number of values up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut total = 0;
        self.bounds.iter().zip(&self.counts).map(move |(&bound, count)| {
            total += count;
            (bound, total)
        })
    }

    /// The number of counted values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the counted values, in their unit.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_up_to_its_bound() {
        let mut one = Histogram::new(GROUP);
        for value in [0, 1, 2, 3, 1_000, 1_001, u64::MAX] {
            one.record(value);
        }
        let mut both = Histogram::new(GROUP);
        both.record(7);
        both.add(&one);
        let at = |bound| both.cumulative().find(|(found, _)| *found == bound).unwrap().1;
        assert_eq!((at(1), at(2), at(5), at(10), at(1_000)), (2, 3, 4, 5, 6));
        assert_eq!((both.count(), both.sum()), (8, u64::MAX));
    }

    #[test]
    fn bounds_rise() {
        for bounds in [REQUEST_US, COMMIT_US, GROUP] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
    }
}
