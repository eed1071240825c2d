//! `/proc/loadavg` and `/proc/meminfo`: what the machine is busy with. Pure. Source: proc_loadavg(5),
//! proc_meminfo(5).

use super::Gauge;

/// The lines of `/proc/meminfo` that are kept, and what they are called.
const MEMORY: [(&str, &str); 4] = [
    ("MemAvailable:", "available"),
    ("Cached:", "cached"),
    ("Dirty:", "dirty"),
    ("Writeback:", "writeback"),
];

/// `load`: processes that wanted to run in the last minute, and those that do now.
#[must_use]
pub fn parse(text: &str) -> Vec<Gauge> {
    let mut words = text.split_whitespace();
    let minute = words.next().and_then(|word| word.parse().ok());
    let running = words
        .nth(2)
        .and_then(|word| word.split_once('/')?.0.parse().ok());
    [("minute", minute), ("running", running)]
        .into_iter()
        .filter_map(|(what, value)| finite("load", what, value?))
        .collect()
}

/// `memory`: bytes that are free for the asking, in the page cache, to be written, being written.
#[must_use]
pub(crate) fn parse_memory(text: &str) -> Vec<Gauge> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let (_, what) = MEMORY.iter().find(|(line, _)| *line == name)?;
            let kib: f64 = words.next()?.parse().ok()?;
            finite("memory", what, kib * 1024.0)
        })
        .collect()
}

fn finite(sensor: &'static str, item: &str, value: f64) -> Option<Gauge> {
    value
        .is_finite()
        .then(|| Gauge::new(sensor, item.to_owned(), value))
}
