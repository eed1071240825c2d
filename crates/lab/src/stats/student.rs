//! Quantiles of Student's t distribution with whole degrees of freedom. Pure.
//!
//! Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: for whole degrees
//! of freedom the distribution is a finite sum.

use std::f64::consts::FRAC_2_PI;

/// Halvings of the bracket of a quantile: more than a float has digits.
const HALVINGS: usize = 100;

/// The t within which a value lies with probability 1 - `error`, on both sides of zero together.
///
/// # Panics
/// When `freedom` is zero.
pub(super) fn two_sided(error: f64, freedom: usize) -> f64 {
    assert!(freedom > 0, "one value has no degree of freedom");
    // The angle grows with t and is bounded: t = tan(angle) * sqrt(freedom).
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if within(middle, freedom) < 1.0 - error {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.tan() * (freedom as f64).sqrt()
}

/// The probability of less than `angle` on both sides of zero.
fn within(angle: f64, freedom: usize) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let first = if is_odd { 1 } else { 0 };
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    for step in (first..freedom.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cosine * cosine * (step as f64 + 1.0) / (step as f64 + 2.0);
    }
    match is_odd {
        true => FRAC_2_PI * (angle + sine * sum),
        false => sine * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the table in Abramowitz and Stegun, 26.10.
    #[test]
    fn quantiles_are_those_of_the_table() {
        let table = [
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.05, 4, 2.776),
            (0.05, 15, 2.131),
            (0.01, 4, 4.604),
            (0.01, 30, 2.750),
            (0.001, 7, 5.408),
        ];
        for (error, freedom, quantile) in table {
            let found = two_sided(error, freedom);
            assert!(
                (found - quantile).abs() < 6e-4,
                "{error} {freedom}: {found}"
            );
        }
    }
}
