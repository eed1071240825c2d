//! The straight line of least squares, and the part of vectors that lies in a space: what every fit
//! here rests on.
//!
//! Values are centred first, so that large numbers far from zero (times since 1970, bytes) lose no
//! digits. Weights are for values with an error that grows with them.

/// A value to be fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitPoint {
    /// What was set.
    pub x: f64,
    /// What was seen.
    pub y: f64,
    /// How much it counts; 1 for all where all are equally good.
    pub weight: f64,
}

impl FitPoint {
    /// A point that counts as much as the others.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, weight: 1.0 }
    }
}

/// `y = intercept + slope x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLine {
    /// At x = 0.
    pub intercept: f64,
    /// Per unit of x.
    pub slope: f64,
    /// The weighted squares that are left.
    pub residual: f64,
}

impl FittedLine {
    /// The line's value.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The line with the least weighted squares; none through fewer than two different x, or through
/// what is no number.
#[must_use]
pub fn line(points: &[FitPoint]) -> Option<FittedLine> {
    let total: f64 = points.iter().map(|point| point.weight).sum();
    let mean = |value: fn(&FitPoint) -> f64| {
        points
            .iter()
            .map(|point| point.weight * value(point))
            .sum::<f64>()
            / total
    };
    let (x, y) = (mean(|point| point.x), mean(|point| point.y));
    let sum = |value: &dyn Fn(&FitPoint) -> f64| {
        points
            .iter()
            .map(|point| point.weight * value(point))
            .sum::<f64>()
    };
    let xx = sum(&|point| (point.x - x).powi(2));
    let xy = sum(&|point| (point.x - x) * (point.y - y));
    let slope = xy / xx;
    let intercept = y - slope * x;
    if !slope.is_finite() || !intercept.is_finite() {
        return None;
    }
    Some(FittedLine {
        intercept,
        slope,
        residual: sum(&|point| (point.y - y - slope * (point.x - x)).powi(2)),
    })
}

/// An orthonormal basis of the space that `columns` span (modified Gram-Schmidt, done twice, which
/// keeps it orthogonal to the last digit). Columns that add nothing are left out.
pub(super) fn basis(columns: impl IntoIterator<Item = Vec<f64>>) -> Vec<Vec<f64>> {
    const NOTHING: f64 = 1e-9;
    let mut found: Vec<Vec<f64>> = Vec::new();
    for mut column in columns {
        let before = dot(&column, &column).sqrt();
        for _ in 0..2 {
            for direction in &found {
                let part = dot(&column, direction);
                subtract(&mut column, direction, part);
            }
        }
        let length = dot(&column, &column).sqrt();
        if length > NOTHING * before.max(f64::MIN_POSITIVE) {
            column.iter_mut().for_each(|value| *value /= length);
            found.push(column);
        }
    }
    found
}

/// The part of `values` that lies in the space of `basis`.
pub(super) fn project(values: &[f64], basis: &[Vec<f64>]) -> Vec<f64> {
    let mut part = vec![0.0; values.len()];
    for direction in basis {
        let along = dot(values, direction);
        subtract(&mut part, direction, -along);
    }
    part
}

/// The squares of `values` outside the space of `basis`.
pub(super) fn squares_outside(values: &[f64], basis: &[Vec<f64>]) -> f64 {
    let inside = project(values, basis);
    values
        .iter()
        .zip(&inside)
        .map(|(value, part)| (value - part).powi(2))
        .sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn subtract(from: &mut [f64], direction: &[f64], times: f64) {
    for (value, part) in from.iter_mut().zip(direction) {
        *value -= part * times;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_needs_two_different_x() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[FitPoint::new(1.0, 2.0)]), None);
        assert_eq!(
            line(&[FitPoint::new(1.0, 2.0), FitPoint::new(1.0, 3.0)]),
            None
        );
        assert_eq!(
            line(&[FitPoint::new(1.0, f64::NAN), FitPoint::new(2.0, 3.0)]),
            None
        );
    }

    #[test]
    fn a_point_without_weight_does_not_count() {
        let mut points = vec![FitPoint::new(0.0, 1.0), FitPoint::new(1.0, 3.0)];
        points.push(FitPoint {
            x: 5.0,
            y: -100.0,
            weight: 0.0,
        });
        let found = line(&points).unwrap();
        assert!((found.at(2.0) - 5.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn points_of_a_line_give_that_line(
            intercept in -1e3f64..1e3, slope in -1e3f64..1e3, start in -1e9f64..1e9, n in 2usize..40
        ) {
            let points: Vec<FitPoint> = (0..n)
                .map(|i| start + i as f64)
                .map(|x| FitPoint::new(x, intercept + slope * (x - start)))
                .collect();
            let found = line(&points).unwrap();
            prop_assert!((found.slope - slope).abs() < 1e-5);
            // The intercept at 0 and the slope's part cancel there: what is left has the rounding errors of both.
            let rounding = 16.0 * f64::EPSILON * slope.abs() * start.abs();
            prop_assert!((found.at(start) - intercept).abs() < rounding.max(1e-3));
        }

        #[test]
        fn no_other_line_has_fewer_squares(
            ys in prop::collection::vec(-1e3f64..1e3, 3..30), tilt in -1.0f64..1.0, lift in -10.0f64..10.0
        ) {
            let points: Vec<FitPoint> =
                ys.iter().zip(0..).map(|(y, x)| FitPoint::new(f64::from(x), *y)).collect();
            let found = line(&points).unwrap();
            let other: f64 = points
                .iter()
                .map(|p| (p.y - found.at(p.x) - tilt * p.x - lift).powi(2))
                .sum();
            prop_assert!(other >= found.residual - 1e-6 * (1.0 + found.residual));
        }

        #[test]
        fn a_basis_is_orthonormal_and_holds_its_columns(
            columns in prop::collection::vec(prop::collection::vec(-3i8..4, 6), 1..9)
        ) {
            let columns: Vec<Vec<f64>> = columns
                .into_iter()
                .map(|column| column.into_iter().map(f64::from).collect())
                .collect();
            let basis = basis(columns.clone());
            prop_assert!(basis.len() <= 6);
            for (i, a) in basis.iter().enumerate() {
                for (j, b) in basis.iter().enumerate() {
                    let wanted = if i == j { 1.0 } else { 0.0 };
                    prop_assert!((dot(a, b) - wanted).abs() < 1e-9);
                }
            }
            for column in &columns {
                prop_assert!(squares_outside(column, &basis) < 1e-9);
            }
        }
    }
}
