//! `/proc/pressure/*`: for how long something waited for a processor, memory or a disk. Pure. Source: the
//! kernel's psi.rst.
//!
//! The totals are taken, not the averages: those lag by 10 s and more.

use super::Counter;

/// The resources there are.
pub(super) const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];
/// The totals are in microseconds; a sample is a part of the time.
const PART: f64 = 1e-6;

/// The counters of one resource: `io/some`, `io/full`. Lines that are none are left out.
pub fn parse(resource: &str, text: &str) -> Vec<Counter> {
    text.lines()
        .filter_map(|line| {
            let (kind, rest) = line.split_once(' ')?;
            // That of the processors is there for scripts and always zero.
            let wanted = kind == "some" || (kind == "full" && resource != "cpu");
            let total = rest.rsplit_once("total=")?.1.trim().parse().ok()?;
            wanted
                .then(|| Counter::new("pressure", format!("{resource}/{kind}"), total).worth(PART))
        })
        .collect()
}
