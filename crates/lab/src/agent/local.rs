//! What an agent does on its own machine. No sockets, no tokens: that is the binary's.
//!
//! Invariants: everything but [`AgentService::drop_caches`], [`FioServer`] and [`Iperf3Server`] only reads. Caches are dropped for
//! one asker at a time. What is looked for in `/proc` is named by a port, never by a path.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::protocol::{self, About, Clock, Counters, SampleLine};
use crate::checks::cache::DroppedThere;
use crate::checks::direct::Residency;
use crate::doctor::ServedReading;
use crate::doctor::cpu::ProcessorReading;
use crate::host::{boot_id, machine, residency, sockets};
use crate::sensors::{DiskCounters, Disks, Sample, Sampler, read};
use crate::units::{Bytes, MIB, Nanos};

pub use super::fio_server::{FioServer, FioServerError};
pub use super::iperf3_server::Iperf3Server;

/// Open files of the server that are looked into.
const FILES_MAX: usize = 64;
/// Smaller files (libraries' and logs) say nothing about a disk.
const FILE_MIN: u64 = MIB;
/// How long writing out may take: no client waits longer.
pub(super) const DROP_MAX: Duration = Duration::from_secs(120);
const DROP: &str = "/proc/sys/vm/drop_caches";

/// This machine, as an agent shows it.
#[derive(Debug)]
pub struct AgentService {
    began: Instant,
    session: String,
    rights: Rights,
    /// Held while caches are dropped.
    dropping: Mutex<()>,
    /// The server that was found last: its port, its process, when that began. Looking for one costs more
    /// than any other request.
    server: Mutex<Option<(u16, u32, u64)>>,
    /// Has a server of ours report.
    reports: fn(u32) -> Option<ServedReading>,
}

/// What an agent may do besides reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// Have the machine's page cache dropped.
    pub drop_caches: bool,
    /// Start fio as a server.
    pub fio: bool,
    /// Start iperf3 as a server.
    pub iperf3: bool,
}

impl AgentService {
    /// An agent that begins now. `session` is another one at each start.
    #[must_use]
    pub fn new(session: String, rights: Rights) -> Self {
        Self {
            began: engine::clock::now(),
            session,
            rights,
            dropping: Mutex::new(()),
            server: Mutex::new(None),
            reports: |_| None,
        }
    }

    /// The same, with what has the server of a process report of itself.
    #[must_use]
    pub fn with_reports(self, reports: fn(u32) -> Option<ServedReading>) -> Self {
        Self { reports, ..self }
    }

    /// Whether this process may drop caches at all.
    ///
    /// # Errors
    /// Why not.
    pub fn can_drop_caches() -> io::Result<()> {
        OpenOptions::new().write(true).open(DROP).map(|_| ())
    }

    /// What it may do besides reading.
    #[must_use]
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// Time since the agent began.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos::from_duration(engine::clock::now().duration_since(self.began))
    }

    /// This agent and its machine.
    #[must_use]
    pub fn about(&self) -> About {
        About {
            protocol: protocol::VERSION,
            outboard: env!("CARGO_PKG_VERSION").into(),
            session: self.session.clone(),
            boot: boot_id(),
            machine: machine(),
            drops_caches: self.rights.drop_caches,
            runs_fio: self.rights.fio,
            runs_iperf3: self.rights.iperf3,
        }
    }

    /// The process that listens on a port of this machine.
    #[must_use]
    pub fn server_at(&self, port: u16) -> Option<u32> {
        let mut known = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |(of, pid, started): &(u16, u32, u64)| {
            *of == port && read::one_process(*pid).is_some_and(|now| now.started == *started)
        };
        if let Some((_, pid, _)) = known.filter(is_there) {
            return Some(pid);
        }
        let pid = sockets::owner_of_tcp(port)?;
        *known = read::one_process(pid).map(|cpu| (port, pid, cpu.started));
        Some(pid)
    }

    /// The clock, for a request that was taken in at `received`.
    #[must_use]
    pub fn clock(&self, received: Nanos) -> Clock {
        Clock {
            received,
            answered: self.now(),
        }
    }

    /// What was spent until now; `server` is the process that is measured.
    #[must_use]
    pub fn counters(&self, server: Option<u32>) -> Counters {
        let used = read::devices().into_iter().filter(DiskCounters::is_used);
        Counters {
            at: self.now(),
            cores: read::cores(),
            tick: read::ticks_to_time(1),
            server: server.and_then(read::process_tree),
            agent: read::one_process(std::process::id()),
            processor: server.map(|server| ProcessorReading::of(&[server])),
            disks: used.collect(),
            served: server.and_then(self.reports),
        }
    }

    /// A sampler of everything that is used here.
    #[must_use]
    pub fn sampler(server: Option<u32>) -> Sampler {
        let processes = [("server", server), ("agent", Some(std::process::id()))];
        let processes = processes
            .into_iter()
            .filter_map(|(role, pid)| Some((role.to_owned(), pid?)));
        Sampler::new(processes.collect(), Disks::Used)
    }

    /// Takes a reading, and gives the line of what changed; none with the first one.
    pub fn line(&self, sampler: &mut Sampler) -> Option<SampleLine> {
        let at = self.now();
        sampler.tick(at);
        let samples = sampler.collect();
        let parts = |sample: Sample| (sample.sensor, sample.item, sample.value);
        let samples: Vec<_> = samples.into_iter().map(parts).collect();
        (!samples.is_empty()).then_some(SampleLine { at, samples })
    }

    /// Writes out what is dirty and drops the page cache, then looks what of the server's files is left. A child
    /// process does it, which is abandoned when `tick` returns false or after [`DROP_MAX`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while another client has it done, or what the kernel says.
    pub fn drop_caches(
        &self,
        server: Option<u32>,
        tick: &mut dyn FnMut(Instant) -> bool,
    ) -> io::Result<DroppedThere> {
        let Ok(_held) = self.dropping.try_lock() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        residency::drop_all(DROP_MAX, tick)?;
        Ok(DroppedThere {
            residency: server.and_then(open_files_residency),
        })
    }
}

/// What of the files that a process and those below it have open is in memory. None if there is no such
/// file, or the kernel does not say.
fn open_files_residency(pid: u32) -> Option<Residency> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut sum: Option<Residency> = None;
    let processes = std::iter::once(pid).chain(read::below(pid));
    let files = processes.flat_map(read::descriptors);
    let large = files.filter_map(|(link, file)| {
        let size = disk_size(&link).filter(|size| *size >= FILE_MIN)?;
        Some((link, file, Bytes(size)))
    });
    for (link, file, size) in large.take(FILES_MAX) {
        if seen.contains(&file) {
            continue;
        }
        seen.push(file);
        let found = residency::look(&link, size)?;
        let before = sum.unwrap_or(Residency {
            sampled: 0,
            resident: 0,
        });
        sum = Some(Residency {
            sampled: before.sampled.saturating_add(found.sampled),
            resident: before.resident.saturating_add(found.resident),
        });
    }
    sum
}

/// The size of a regular file or a block device.
fn disk_size(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    let kind = found.file_type();
    if kind.is_file() {
        return Some(found.len());
    }
    // A device's size is where it ends.
    kind.is_block_device().then_some(())?;
    let mut device = OpenOptions::new().read(true).open(path).ok()?;
    device.seek(SeekFrom::End(0)).ok()
}
