//! `/proc/interrupts`: how often each core was interrupted, by source. Pure. Source: proc_interrupts(5).
//!
//! What follows the counts differs from one architecture to the next; the last words name the
//! device. Lines of one name (the queues of some drivers) are one source.

use super::Counter;

/// The sources of a second that are kept: the busiest ones.
pub(super) const SOURCES_MAX: usize = 8;
/// Lines that are looked at. Machines with hundreds of cores have thousands.
const LINES_MAX: usize = 4096;

/// Interrupts since boot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupts {
    /// Each core's number and interrupts.
    pub cores: Vec<(u32, u64)>,
    /// Each source's name and interrupts, on all cores together.
    pub sources: Vec<(String, u64)>,
}

impl Interrupts {
    /// As counters: `core/0` and `source/eth0`.
    pub(super) fn counters(self) -> impl Iterator<Item = Counter> {
        let cores = self.cores.into_iter();
        let cores = cores
            .map(|(number, count)| Counter::new("interrupts", format!("core/{number}"), count));
        let sources = self.sources.into_iter();
        cores.chain(
            sources
                .map(|(name, count)| Counter::new("interrupts", format!("{SOURCE}{name}"), count)),
        )
    }
}

/// What items of sources begin with.
pub(super) const SOURCE: &str = "source/";

/// Reads the table. Lines that are none are left out.
#[must_use]
pub fn parse(text: &str) -> Interrupts {
    let mut lines = text.lines();
    let numbers: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut found = Interrupts {
        cores: numbers.iter().map(|number| (*number, 0)).collect(),
        sources: Vec::new(),
    };
    for line in lines.take(LINES_MAX) {
        if let Some((name, counts)) = source(line, numbers.len()) {
            for (core, count) in found.cores.iter_mut().zip(&counts) {
                core.1 = core.1.saturating_add(*count);
            }
            let sum = counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
            add(&mut found.sources, name, sum);
        }
    }
    found
}

fn add(sources: &mut Vec<(String, u64)>, name: String, count: u64) {
    match sources.iter_mut().find(|(same, _)| *same == name) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => sources.push((name, count)),
    }
}

/// A line's name and the count of each core. Lines with one count for the machine (`ERR`) are no
/// core's.
fn source(line: &str, cores: usize) -> Option<(String, Vec<u64>)> {
    let (label, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace();
    let counts: Vec<u64> = words
        .by_ref()
        .take(cores)
        .map_while(|word| word.parse().ok())
        .collect();
    (cores > 0 && counts.len() == cores).then_some(())?;
    let said: Vec<&str> = words.collect();
    let label = label.trim();
    let is_device = label.bytes().all(|byte| byte.is_ascii_digit());
    let name = if is_device {
        device(&said)
    } else {
        said.join(" ")
    };
    let name = if name.is_empty() { label.into() } else { name };
    Some((name, counts))
}

/// Behind the controller, its own number and how it signals come the devices; some controllers say
/// how they signal nowhere.
fn device(said: &[&str]) -> String {
    let signals = said.iter().rposition(|word| {
        let word = word.to_ascii_lowercase();
        ["edge", "level", "fasteoi"]
            .iter()
            .any(|kind| word == *kind || word.ends_with(&format!("-{kind}")))
    });
    match signals {
        Some(at) => said[at + 1..].join(" "),
        None => said.last().copied().unwrap_or_default().into(),
    }
}
