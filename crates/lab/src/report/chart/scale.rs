//! Scales and round ticks. Pure.

use crate::units::significant;

/// From figures to places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: (f64, f64),
    to: (f64, f64),
    is_log: bool,
}

impl Scale {
    /// Even steps.
    pub(super) const fn linear(from: (f64, f64), to: (f64, f64)) -> Self {
        Self {
            from,
            to,
            is_log: false,
        }
    }

    /// Even factors; `from` must be above zero.
    pub(super) const fn log(from: (f64, f64), to: (f64, f64)) -> Self {
        Self {
            from,
            to,
            is_log: true,
        }
    }

    /// Where `value` is; what lies outside is at the edge.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high, value) = if self.is_log {
            (
                self.from.0.ln(),
                self.from.1.ln(),
                value.max(f64::MIN_POSITIVE).ln(),
            )
        } else {
            (self.from.0, self.from.1, value)
        };
        let span = high - low;
        let part = if span > 0.0 {
            ((value - low) / span).clamp(0.0, 1.0)
        } else {
            0.5
        };
        self.to.0 + part * (self.to.1 - self.to.0)
    }
}

/// Ticks of 1, 2 or 5 times a power of ten from zero to `max`, about `count` of them.
pub(super) fn linear_ticks(max: f64, count: f64) -> Vec<(f64, String)> {
    if !(max > 0.0 && max.is_finite()) {
        return vec![(0.0, "0".into())];
    }
    let raw = max / count.max(1.0);
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw)
        .unwrap_or(power * 10.0);
    let mut ticks = Vec::new();
    let mut value = 0.0;
    while value <= max * 1.0001 && ticks.len() < 50 {
        ticks.push((value, plain(value, step)));
        value += step;
    }
    ticks
}

/// As many digits as the step needs, thousands grouped.
fn plain(value: f64, step: f64) -> String {
    if step >= 1.0 {
        return crate::units::grouped(value);
    }
    let digits = crate::units::round((-step.log10()).ceil().max(0.0));
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

/// Ticks at 1, 2 and 5 times the powers of ten between the two; fewer where the span is wide.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return Vec::new();
    }
    let factors: &[f64] = if high / low > 1e3 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let mut ticks = Vec::new();
    let mut power = 10f64.powf(low.log10().floor());
    while power <= high && ticks.len() < 100 {
        ticks.extend(
            factors
                .iter()
                .map(|factor| factor * power)
                .filter(|tick| (low..=high).contains(tick)),
        );
        power *= 10.0;
    }
    ticks
}

/// Ticks at powers of two from `low` to `high`, as `1/2` or `2`.
pub(super) fn ratio_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    (-20..=20)
        .map(|power| 2f64.powi(power))
        .filter(|tick| (low * 0.999..=high * 1.001).contains(tick))
        .map(|tick| {
            let text = if tick < 1.0 {
                format!("1/{}×", significant_whole(1.0 / tick))
            } else {
                format!("{}×", significant_whole(tick))
            };
            (tick, text)
        })
        .collect()
}

fn significant_whole(value: f64) -> String {
    if value.fract() == 0.0 {
        crate::units::grouped(value)
    } else {
        significant(value)
    }
}
