//! Background load: the CPU time of every program between two readings. Pure but for [`Programs::now`].
//!
//! Threads of the kernel are left out: what they do is done for the measurement, too (loop devices,
//! writing back). Programs that begin or end between the looks are not seen; see
//! [`crate::checks::noise`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{ProcessCpu, process, read};
use crate::checks::noise::Others;
use crate::units::Nanos;

/// Programs that are looked at; a machine with more has more to do than measure.
const PROGRAMS_MAX: usize = 4096;
/// The kernel's flag of its own threads (PF_KTHREAD of include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Every program at one moment.
#[derive(Debug, Clone, Default)]
pub struct Programs(BTreeMap<u32, (String, ProcessCpu)>);

impl Programs {
    /// Looks at all of them but those in `ours` and what these started.
    #[must_use]
    pub fn now(ours: &[u32]) -> Self {
        let mut found = BTreeMap::new();
        let mut parents = BTreeMap::new();
        for number in read::pids().take(PROGRAMS_MAX) {
            let Ok(text) = fs::read_to_string(format!("/proc/{number}/stat")) else {
                continue;
            };
            if let Some((parent, program)) = program(number, &text) {
                parents.insert(number, parent);
                found.insert(number, program);
            }
        }
        let own = family(&parents, ours);
        // This program's children make the load; it itself is counted separately.
        found.retain(|number, _| !own.contains(number) && *number != std::process::id());
        Self(found)
    }

    /// What was done since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Others {
        let mut others = Others::default();
        for (number, (name, cpu)) in &self.0 {
            let Some((_, before)) = earlier.0.get(number) else {
                continue;
            };
            if before.started != cpu.started {
                continue;
            }
            let spent = read::ticks_to_time(cpu.own.saturating_sub(before.own));
            others.cpu = Nanos(others.cpu.0.saturating_add(spent.0));
            if spent > others.busiest_cpu {
                others.busiest_cpu = spent;
                others.busiest.clone_from(name);
            }
        }
        others
    }
}

/// A program's parent, its name with its number, and its CPU time; none of a thread of the kernel.
fn program(number: u32, text: &str) -> Option<(u32, (String, ProcessCpu))> {
    let (before, rest) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    let mut fields = rest.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    if flags & KERNEL_THREAD != 0 {
        return None;
    }
    Some((parent, (format!("{name} {number}"), process::parse(text)?)))
}

/// `ours` and all that descends from them.
fn family(parents: &BTreeMap<u32, u32>, ours: &[u32]) -> BTreeSet<u32> {
    let mut own: BTreeSet<u32> = ours.iter().copied().collect();
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(number, parent)| own.contains(parent) && !own.contains(number))
            .map(|(number, _)| *number)
            .collect();
        if more.is_empty() {
            return own;
        }
        own.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, parent: u32, flags: u64, ticks: u64) -> String {
        format!("7 ({name}) R {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 500 0 0")
    }

    fn programs(list: &[(u32, &str, u64)]) -> Programs {
        let of = |(number, name, ticks): &(u32, &str, u64)| {
            let (_, found) = program(*number, &stat(name, 1, 0, *ticks)).unwrap();
            (*number, found)
        };
        Programs(list.iter().map(of).collect())
    }

    #[test]
    fn the_busiest_is_named_and_all_are_summed() {
        let before = programs(&[(7, "cc1", 100), (8, "sshd", 5), (9, "gone", 1)]);
        let after = programs(&[(7, "cc1", 190), (8, "sshd", 15), (10, "new", 50)]);
        let others = after.since(&before);
        let tick = read::ticks_to_time(1).0;
        assert_eq!(others.cpu, Nanos(100 * tick));
        assert_eq!(
            (others.busiest.as_str(), others.busiest_cpu),
            ("cc1 7", Nanos(90 * tick))
        );
    }

    #[test]
    fn a_name_with_brackets_and_blanks_is_read_and_a_thread_of_the_kernel_is_none() {
        let (parent, (name, cpu)) = program(7, &stat("a) (b c", 3, 0, 12)).unwrap();
        assert_eq!((parent, name.as_str(), cpu.own), (3, "a) (b c 7", 12));
        assert_eq!(
            program(7, &stat("kworker", 2, KERNEL_THREAD | 64, 12)),
            None
        );
        assert_eq!(program(7, "nonsense"), None);
    }

    #[test]
    fn children_of_ours_are_ours() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]);
        assert_eq!(family(&parents, &[2]), BTreeSet::from([2, 3, 4]));
    }
}
