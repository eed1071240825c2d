//! *generator*: what makes the load has a ceiling of its own, and a result that is the processor's is
//! not called one of the storage.
//!
//! Caught in: study B, whose kernel compilation was "largely unaffected by disk performance being CPU
//! bound" and is in every chart of disks.

use super::phase::{FioMeasurement, ToolMeasurement};
use super::{Check, Finding};
use crate::units::{Nanos, grouped};

/// Above this part of a core for each job, fio waits for its processor.
const CPU_BOUND: f64 = 0.95;
/// Above this part of the cores that it can use, a program waits for processors.
const ALL_BUSY: f64 = 0.90;
/// Above this part of the generator's ceiling, it is the generator that is seen.
const NEAR_CEILING: f64 = 0.80;

pub(super) fn of_fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let found = check(&Generated {
        operations: seen.operations(),
        cpu: seen.result.generator_cpu,
        ceiling: seen.generator,
    });
    found.into_iter().collect()
}

pub(super) fn of_tool(seen: &ToolMeasurement<'_>) -> Option<Finding> {
    let (tool, evidence) = (seen.tool, seen.measurement.evidence);
    let there = u32::try_from(evidence.cores.len()).unwrap_or(u32::MAX);
    let spent = Program {
        cpu: evidence.tool_cpu?,
        elapsed: seen.measurement.elapsed,
        cores: tool
            .kind()
            .at_once()
            .map_or(there, |tasks| tasks.min(there)),
        with_server: tool.brings_its_server(),
    };
    program(&seen.name(), &spent)
}

/// What the generator did.
#[derive(Debug, Clone, Copy)]
struct Generated {
    /// Operations per second that it made.
    operations: f64,
    /// Parts of one core that each job used.
    cpu: f64,
    /// Operations per second that it makes of the same job on a disk that does nothing, if measured.
    ceiling: Option<f64>,
}

/// Whether it is fio that was measured.
fn check(seen: &Generated) -> Option<Finding> {
    if let Some(ceiling) = seen.ceiling.filter(|ceiling| *ceiling > 0.0) {
        let part = seen.operations / ceiling;
        if part > NEAR_CEILING {
            return Some(Finding::remark(
                Check::Generator,
                format!(
                    "{:.0} % of the {} operations a second that fio makes on a disk which does nothing: the \
                     storage may be faster",
                    part * 100.0,
                    grouped(ceiling)
                ),
            ));
        }
    }
    (seen.cpu >= CPU_BOUND).then(|| {
        Finding::remark(
            Check::Generator,
            format!(
                "fio was CPU-bound ({:.0} % of a core for each job): the storage may be faster",
                seen.cpu * 100.0
            ),
        )
    })
}

/// What a program that is not fio had of the processors, with all that it started.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// Their CPU time together. Not the machine's: others may keep that busy.
    cpu: Nanos,
    /// Meanwhile.
    elapsed: Nanos,
    /// The cores that they can use: one for each of them that works at the same time, and no more than there
    /// are.
    cores: u32,
    /// Whether the server that it works on is among them.
    with_server: bool,
}

/// Whether it waited for processors and not for storage.
fn program(name: &str, seen: &Program) -> Option<Finding> {
    let cores = f64::from(seen.cores.max(1));
    let part = seen.cpu.seconds() / seen.elapsed.seconds().max(f64::MIN_POSITIVE) / cores;
    // Ticks of the kernel's clock are coarse: a short program may seem to have had more than there is.
    let percent = part.min(1.0) * 100.0;
    let of = match seen.cores {
        0 | 1 => "the one core that it can use".to_owned(),
        many => format!("the {many} cores that it can use"),
    };
    let who = match seen.with_server {
        true => "with its server",
        false => "itself",
    };
    (part >= ALL_BUSY).then(|| {
        Finding::remark(
            Check::Generator,
            format!(
                "{name} {who} kept {percent:.0} % of {of} busy: it is CPU-bound and says nothing about storage"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(ms: u64, cores: u32) -> Program {
        Program {
            cpu: Nanos::from_ms(ms),
            elapsed: Nanos::from_ms(1000),
            cores,
            with_server: false,
        }
    }

    #[test]
    fn study_b_compiled_a_kernel_which_is_cpu_bound() {
        let said = program("make", &spent(3920, 4)).unwrap().text;
        assert!(
            said.starts_with("make itself kept 98 % of the 4 cores that it can use busy"),
            "{said}"
        );
        assert!(said.contains("says nothing about storage"));
    }

    #[test]
    fn a_program_of_one_process_is_bound_by_the_one_core_it_can_use() {
        assert_eq!(program("tar", &spent(300, 1)), None);
        let said = program("tar", &spent(970, 1)).unwrap().text;
        assert!(said.contains("97 % of the one core"), "{said}");
        // The same on all four, for one that can use them.
        assert_eq!(program("make", &spent(970, 4)), None);
    }

    /// The CPU time of a scenario's server was reported as that of its clients.
    #[test]
    fn what_a_server_did_is_not_attributed_to_its_client() {
        let both = Program {
            with_server: true,
            ..spent(1960, 2)
        };
        let said = program("one client", &both).unwrap().text;
        assert!(
            said.starts_with("one client with its server kept 98 % of the 2 cores"),
            "{said}"
        );
    }

    #[test]
    fn a_moment_that_is_shorter_than_a_tick_is_never_more_than_all() {
        let said = program("tar", &spent(1010, 1)).unwrap().text;
        assert!(said.contains("kept 100 % of"), "{said}");
        let nothing = Program {
            elapsed: Nanos(0),
            ..spent(0, 1)
        };
        assert_eq!(program("tar", &nothing), None);
    }

    #[test]
    fn near_its_ceiling_on_a_null_disk_it_is_fio_that_is_seen() {
        let seen = |operations, cpu| {
            check(&Generated {
                operations,
                cpu,
                ceiling: Some(1_000_000.0),
            })
        };
        assert!(
            seen(910_000.0, 1.0)
                .unwrap()
                .text
                .starts_with("91 % of the 1\u{202f}000\u{202f}000 operations")
        );
        assert_eq!(seen(200_000.0, 0.5), None);
        assert!(
            seen(200_000.0, 0.97)
                .unwrap()
                .text
                .contains("CPU-bound (97 %")
        );
    }

    #[test]
    fn without_a_ceiling_the_processor_alone_is_looked_at() {
        let seen = Generated {
            operations: 1e9,
            cpu: 0.5,
            ceiling: None,
        };
        assert_eq!(check(&seen), None);
    }
}
