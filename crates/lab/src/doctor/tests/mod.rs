//! Verdicts on known figures, what holds of every verdict, and the look at threads.

mod cache_file;
mod close_limits;
mod flush;
mod model;
mod properties;
mod readahead;
mod server_report;
mod store_use;
mod study_c;
mod threads;
mod verdicts;
mod wire;

use super::*;
use crate::plan::{Direction, Pattern};
use crate::units::{Bytes, MIB, Rate};

/// The way to a server on another machine, past the page cache.
const REMOTE: [Stage; 5] = [
    Stage::Client,
    Stage::Protocol,
    Stage::Wire,
    Stage::Server,
    Stage::Disk,
];

/// A way with these parts that carries so many MiB/s.
fn way(parts: &[Stage], mib: f64) -> Examination {
    Examination {
        target: "/mnt/media".into(),
        about: "a test".into(),
        way: parts.to_vec(),
        job: DoctorJob {
            direction: Direction::Read,
            pattern: Pattern::Sequential,
            block_size: Bytes(64 << 10),
            depth: 32,
        },
        is_flushed: false,
        rate: rate(mib),
        best: rate(mib),
        in_flight_part: 0.0,
        bounds: Vec::new(),
        substitutions: Vec::new(),
        signs: Vec::new(),
        peer: None,
        server: None,
        cache: None,
        agent: None,
        is_own_server: false,
        connect: None,
        greeting: None,
        wire: None,
        served: None,
        readahead: None,
        flush: None,
        unmeasured: Vec::new(),
        remarks: Vec::new(),
    }
}

fn rate(mib: f64) -> Rate {
    Rate(mib * MIB as f64)
}

fn alone(part: Stage, mib: f64) -> Bound {
    Bound::alone(part, rate(mib), "measured alone")
}

fn without(parts: &[Stage], mib: f64) -> Substitution {
    Substitution::new(parts.to_vec(), "something else", rate(mib))
}

fn cpu(running: f64, waiting: f64, cipher: Option<f64>) -> CpuUse {
    CpuUse {
        who: "outboard (process 7)".into(),
        running,
        waiting,
        cipher,
        quota: None,
        pressure: None,
    }
}
