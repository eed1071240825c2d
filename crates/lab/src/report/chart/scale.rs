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

/// Ticks at 1, 2 and 5 times the powers of ten between the two, where at most `most` are; else at powers of
/// ten, every second or third of them where they are still more.
pub(super) fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return Vec::new();
    }
    let first = low.log10().floor();
    let powers = (0..100u8).map(|power| 10f64.powf(first + f64::from(power)));
    let powers: Vec<f64> = powers.take_while(|power| *power <= high).collect();
    let within = |tick: &f64| (low..=high).contains(tick);
    let fine = powers
        .iter()
        .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * power));
    let fine: Vec<f64> = fine.filter(within).collect();
    if fine.len() <= most && high / low <= 1e3 {
        return fine;
    }
    let powers: Vec<f64> = powers.into_iter().filter(within).collect();
    let every = powers.len().div_ceil(most.max(1)).max(1);
    powers.into_iter().step_by(every).collect()
}

/// Whole numbers from 1 to `last`, every second or third where they are more than `most`.
pub(super) fn count_ticks(last: u32, most: u32) -> Vec<(f64, String)> {
    let every = last.div_ceil(most.max(1)).max(1);
    let every = usize::try_from(every).unwrap_or(usize::MAX);
    let numbers = (1..=last).step_by(every);
    numbers
        .map(|number| (f64::from(number), number.to_string()))
        .collect()
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
