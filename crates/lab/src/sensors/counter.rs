//! [`Counter`] and [`Gauge`]: what all sensors but those of processors and processes come down to.
//! Pure.

/// A figure that only grows. What it grew by in a second is the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    /// The sensor's name.
    pub sensor: &'static str,
    /// Which one and what of it.
    pub item: String,
    /// Since boot.
    pub count: u64,
    /// What one step of it is worth in the sample's unit.
    pub unit: f64,
}

impl Counter {
    /// A counter in steps of one.
    #[must_use]
    pub const fn new(sensor: &'static str, item: String, count: u64) -> Self {
        Self {
            sensor,
            item,
            count,
            unit: 1.0,
        }
    }

    /// The same, each step worth `unit`.
    #[must_use]
    pub fn worth(self, unit: f64) -> Self {
        Self { unit, ..self }
    }

    /// What it grew by in a second since `earlier`; nothing if it went back.
    #[must_use]
    pub(crate) fn per_second(&self, earlier: &Self, seconds: f64) -> f64 {
        self.count.saturating_sub(earlier.count) as f64 * self.unit / seconds
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.sensor == other.sensor && self.item == other.item
    }
}

/// A figure that is what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// The sensor's name.
    pub sensor: &'static str,
    /// Which one and what of it.
    pub item: String,
    /// In the sample's unit.
    pub value: f64,
}

impl Gauge {
    /// A value as it is now.
    #[must_use]
    pub const fn new(sensor: &'static str, item: String, value: f64) -> Self {
        Self {
            sensor,
            item,
            value,
        }
    }
}

/// The counter of `all` that is the same one as `wanted`. Readings list theirs in one order, so it
/// mostly is at the same `index`.
pub(super) fn same<'a>(all: &'a [Counter], wanted: &Counter, index: usize) -> Option<&'a Counter> {
    all.get(index)
        .filter(|counter| counter.is_same(wanted))
        .or_else(|| all.iter().find(|counter| counter.is_same(wanted)))
}
