//! Temperature, clock and what a board does when it is too hot or its supply too weak. Pure.
//!
//! Sources: the kernel's sysfs-api.rst of thermal and hwmon, cpufreq's admin guide, and Raspberry Pi's
//! documentation of `vcgencmd get_throttled`.

use super::Gauge;

/// What the bits of `get_throttled` mean now; sixteen bits higher: since boot.
const FLAGS: [(u32, &str); 4] = [
    (0, "under-voltage"),
    (1, "frequency-capped"),
    (2, "throttled"),
    (3, "soft-temperature-limit"),
];
const SINCE_BOOT: u32 = 16;
/// Sensors that are not connected give less or more.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = -60.0..=200.0;

/// A temperature in degrees Celsius from the kernel's thousandths.
#[must_use]
pub(crate) fn degrees(text: &str) -> Option<f64> {
    let thousandths: i64 = text.trim().parse().ok()?;
    let degrees = thousandths as f64 / 1000.0;
    PLAUSIBLE.contains(&degrees).then_some(degrees)
}

/// A clock in hertz from cpufreq's thousands.
#[must_use]
pub(crate) fn hertz(text: &str) -> Option<f64> {
    let thousands: u32 = text.trim().parse().ok()?;
    (thousands > 0).then(|| f64::from(thousands) * 1000.0)
}

/// The flags from `throttled=0x50005`, as vcgencmd prints them, or `50005`, as the firmware's file does.
#[must_use]
pub(crate) fn throttled(text: &str) -> Vec<Gauge> {
    let text = text.trim();
    let digits = text.strip_prefix("throttled=").unwrap_or(text);
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let Ok(bits) = u32::from_str_radix(digits, 16) else {
        return Vec::new();
    };
    let flag = |shift: u32, item: String| {
        Gauge::new(
            "throttle",
            item,
            f64::from(u8::from(bits >> shift & 1 == 1)),
        )
    };
    FLAGS
        .iter()
        .flat_map(|(bit, name)| {
            [
                flag(*bit, (*name).to_owned()),
                flag(bit + SINCE_BOOT, format!("{name}-since-boot")),
            ]
        })
        .collect()
}

/// What the temperature of a chip of hwmon is called: its label, or its number where it has several.
/// None for what is a thermal zone too.
#[must_use]
pub(crate) fn chip_item(
    chip: &str,
    label: Option<&str>,
    input: &str,
    zones: &[String],
) -> Option<String> {
    let chip = chip.trim();
    // A zone `cpu-thermal` shows itself as a chip `cpu_thermal`.
    let is_zone = zones
        .iter()
        .any(|zone| zone.replace('-', "_") == chip.replace('-', "_"));
    (!is_zone && !chip.is_empty()).then(|| match label.map(str::trim) {
        Some(label) if !label.is_empty() => format!("{chip}/{label}"),
        _ => format!("{chip}/{input}"),
    })
}
