//! *engine*: the engine that was used, not the one that was requested; and as many requests in flight as
//! were requested.
//!
//! Caught in: study C, whose `--ioengine=aiolib` is no engine of fio's. fio takes any name that begins
//! with `aio` for libaio (`load_ioengine` in its ioengines.c) and says nothing.

use super::phase::FioMeasurement;
use super::{Check, Finding};
use crate::plan::Direction;
use crate::units::Nanos;

/// Engines that answer one request before they take the next.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];
/// Less than this part of the depth kept in flight, and it is another experiment.
const KEPT_MIN: f64 = 0.5;

pub(super) fn of_fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let (job, result) = (seen.job, seen.result);
    let wanted = seen.engine;
    let engine = wanted.and_then(|wanted| check(wanted.as_str(), &result.engine));
    // The latency of a write includes its flush, in which nothing is in flight.
    let depth = match job.direction {
        Direction::Read => depth(&InFlight {
            engine: &result.engine,
            depth: job.depth,
            jobs: job.jobs,
            operations: seen.operations(),
            latency: result.latencies.mean().unwrap_or_default(),
        }),
        Direction::Write => None,
    };
    engine.into_iter().chain(depth).collect()
}

/// The engine that fio takes for a name.
fn taken_for(name: &str) -> &str {
    if name.starts_with("aio") || name.starts_with("linuxaio") {
        return "libaio";
    }
    name
}

/// Holds the engine that was used against the one that was requested.
fn check(asked: &str, used: &str) -> Option<Finding> {
    let taken = taken_for(used);
    (asked != taken).then(|| {
        Finding::remark(
            Check::Engine,
            format!("{asked} was asked for and {taken} was used"),
        )
    })
}

/// What a job was to keep in flight, and did.
#[derive(Debug, Clone, Copy)]
struct InFlight<'a> {
    /// The engine.
    engine: &'a str,
    /// Requests in flight of each job.
    depth: u32,
    /// Jobs.
    jobs: u32,
    /// Operations per second of all of them.
    operations: f64,
    /// Mean latency of an operation.
    latency: Nanos,
}

/// Whether the depth was there: by what the engine can, and by Little's law.
fn depth(asked: &InFlight<'_>) -> Option<Finding> {
    let remark = |text: String| Some(Finding::remark(Check::Engine, text));
    let engine = taken_for(asked.engine);
    if asked.depth > 1 && SYNCHRONOUS.contains(&engine) {
        return remark(format!(
            "{engine} makes one request at a time: the depth of {} had no effect",
            asked.depth
        ));
    }
    let wanted = f64::from(asked.depth) * f64::from(asked.jobs);
    let kept = crate::stats::knee::in_flight(asked.operations, asked.latency);
    if wanted > 1.0 && kept > 0.0 && kept < wanted * KEPT_MIN {
        return remark(format!(
            "{kept:.1} of the {wanted:.0} requests asked for were in flight"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_c_asked_for_aiolib_and_had_libaio() {
        assert_eq!(
            check("aiolib", "aiolib").unwrap().text,
            "aiolib was asked for and libaio was used"
        );
        assert_eq!(check("libaio", "libaio"), None);
        assert_eq!(check("io_uring", "io_uring"), None);
    }

    const READS: InFlight<'_> = InFlight {
        engine: "io_uring",
        depth: 32,
        jobs: 1,
        operations: 10_000.0,
        latency: Nanos(3_200_000),
    };

    #[test]
    fn a_depth_of_32_that_was_kept_is_good() {
        assert_eq!(depth(&READS), None);
    }

    #[test]
    fn a_depth_that_little_s_law_does_not_find_was_not_there() {
        let buffered = InFlight {
            latency: Nanos(100_000),
            ..READS
        };
        assert_eq!(
            depth(&buffered).unwrap().text,
            "1.0 of the 32 requests asked for were in flight"
        );
    }

    #[test]
    fn an_engine_that_waits_for_each_request_has_no_depth() {
        let waiting = InFlight {
            engine: "psync",
            ..READS
        };
        assert!(depth(&waiting).unwrap().text.contains("had no effect"));
        assert_eq!(
            depth(&InFlight {
                depth: 1,
                ..waiting
            }),
            None
        );
    }
}
