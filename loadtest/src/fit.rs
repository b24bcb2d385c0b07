//! The cost of each part of a workload, from the costs of whole workloads: least squares of the relative errors,
//! without negative costs.

/// A workload: how often each part occurs in it, and its total cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<const N: usize> {
    pub counts: [f64; N],
    pub cost: f64,
}

/// The cost of each part. A part that never occurs costs nothing.
pub fn fit<const N: usize>(rows: &[Row<N>]) -> [f64; N] {
    // There are few parts, so every set of parts with a cost can be tried. The best one without negative costs is
    // taken.
    (0..1u32 << N)
        .filter_map(|set| solve(rows, set))
        .filter(|costs| costs.iter().all(|cost| *cost >= 0.0))
        .min_by(|one, other| error(rows, one).total_cmp(&error(rows, other)))
        .unwrap_or([0.0; N])
}

/// The total cost of a workload.
pub fn cost<const N: usize>(counts: &[f64; N], costs: &[f64; N]) -> f64 {
    counts.iter().zip(costs).map(|(count, cost)| count * cost).sum()
}

fn error<const N: usize>(rows: &[Row<N>], costs: &[f64; N]) -> f64 {
    rows.iter().map(|row| (cost(&row.counts, costs) / row.cost.max(1e-9) - 1.0).powi(2)).sum()
}

/// Solves the normal equations for the parts in `set`, with zero for the others; `None` if the workloads do not
/// separate the parts.
fn solve<const N: usize>(rows: &[Row<N>], set: u32) -> Option<[f64; N]> {
    let (mut left, mut right) = ([[0.0; N]; N], [0.0; N]);
    for row in rows {
        let weight = row.cost.max(1e-9).powi(-2);
        for i in 0..N {
            right[i] += weight * row.counts[i] * row.cost;
            let products = row.counts.map(|count| weight * row.counts[i] * count);
            left[i].iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
        }
    }
    for i in (0..N).filter(|i| set & (1 << i) == 0) {
        left.iter_mut().for_each(|row| row[i] = 0.0);
        left[i] = [0.0; N];
        (left[i][i], right[i]) = (1.0, 0.0);
    }
    eliminate(left, right)
}

/// Gauss-Jordan elimination with the largest pivot.
fn eliminate<const N: usize>(mut left: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    let scale = left.iter().flatten().fold(0.0f64, |most, value| most.max(value.abs()));
    for i in 0..N {
        let pivot = (i..N).max_by(|a, b| left[*a][i].abs().total_cmp(&left[*b][i].abs()))?;
        left.swap(i, pivot);
        right.swap(i, pivot);
        if left[i][i].abs() <= scale * 1e-14 {
            return None;
        }
        for j in (0..N).filter(|j| *j != i) {
            let (pivot_row, factor) = (left[i], left[j][i] / left[i][i]);
            left[j].iter_mut().zip(pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
            right[j] -= factor * right[i];
        }
    }
    Some(std::array::from_fn(|i| right[i] / left[i][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close<const N: usize>(found: [f64; N], wanted: [f64; N]) {
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() <= 1e-6 * wanted.abs().max(1e-3), "{found} for {wanted}");
        }
    }

    #[test]
    fn parts_are_told_apart() {
        let costs = [20e-6, 150e-6, 300e-6];
        let rows =
            [[20_000.0, 200.0, 400.0], [4000.0, 4000.0, 4000.0], [20_000.0, 4000.0, 100.0], [1.0, 1.0, 9.0]]
                .map(|counts| Row { counts, cost: cost(&counts, &costs) });
        close(fit(&rows), costs);
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        let rows = [Row { counts: [1.0, 1.0], cost: 1.0 }, Row { counts: [1.0, 2.0], cost: 0.9 }];
        let found = fit(&rows);
        assert!(found.iter().all(|cost| *cost >= 0.0), "{found:?}");
        assert!((found[0] - 0.944).abs() < 0.01 && found[1].abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_never_occurs_costs_nothing() {
        close(fit(&[Row { counts: [10.0, 0.0], cost: 5.0 }]), [0.5, 0.0]);
        close(fit::<2>(&[]), [0.0, 0.0]);
    }
}
