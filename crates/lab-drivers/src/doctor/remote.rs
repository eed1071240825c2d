//! [`Remote`]: an export, measured part by part: itself, a null export of our own in its place, what else
//! its server has, its disk by itself.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use lab::agent::Side;
use lab::doctor::{
    Bound, ConnectTimes, DoctorJob, Examination, OwnClients, ServedUse, Stage, Substitution,
    needs_pairs,
};
use lab::units::{Nanos, Rate};
use nbd::client::{ClientConfig, Target, is_outboard, list};

use super::bare_wire;
use super::cipher_share::Ciphers;
use super::disk::ExaminedDisk;
use super::null_export::{NullExport, Over};
use super::pairs::Retrial;
use super::read_load::{Measure, Opening, ReadResult, is_hole, measure};
use super::report::ReportSpan;
use super::server::RemoteServer;
use super::session::DoctorSession;
use super::stripe::each_alone;
use super::watcher::WatchedSpan;
use super::wire;
use crate::DriverError;
use crate::runtime::on_engine;

/// Bytes that are read again and again to have them in the server's memory.
const WARM: u64 = 16 << 20;
/// Other exports of the server that are looked at.
const OTHERS_MAX: usize = 8;
/// Of another export, so many bytes must be reported as a hole.
const HOLE: u64 = 64 << 20;
/// The least depth at which a disk shows what it can do.
pub(super) const DEPTH_FULL: u32 = 16;
/// A client that is busy for less has time to notice what arrives.
pub(super) const IDLE_CLIENT: f64 = 0.6;

/// An export that is examined.
pub(super) struct Remote<'a, 'b> {
    pub(super) session: &'a DoctorSession<'b>,
    pub(super) target: &'a Target,
    pub(super) named: ExaminedDisk,
    pub(super) far: RemoteServer,
    /// Stages of the examined path that a reading of the export itself leaves out.
    pub(super) without: Vec<Stage>,
    /// The clients of its server that the target itself is: a mount's, which may be busy meanwhile.
    pub(super) own: OwnClients,
    /// Requests of the measurements until now: the next one continues where they ended.
    requests: Cell<u64>,
    repeats: RefCell<Vec<Repeat>>,
}

/// A substitute that can be measured again.
#[derive(Debug)]
pub(super) struct Repeat {
    /// Its place among the substitutions.
    index: usize,
    opening: Opening,
    how: Measure,
    /// What serves it, where that is our own.
    _server: Option<NullExport>,
}

/// A null export of our own that was read.
struct NullRun {
    server: NullExport,
    opening: Opening,
    how: Measure,
}

/// The doctor's own reading of the export.
#[derive(Debug, Clone)]
pub(super) struct PlainRead {
    pub(super) measured: ReadResult,
    connect_idle: Vec<Nanos>,
    pub(super) span: WatchedSpan,
    /// What its server did meanwhile, where it is ours.
    served: Option<ServedUse>,
}

impl<'a, 'b> Remote<'a, 'b> {
    pub(super) fn new(
        session: &'a DoctorSession<'b>,
        target: &'a Target,
    ) -> Result<Self, DriverError> {
        Ok(Self {
            session,
            target,
            named: session.args.disks.resolve(&target.to_string())?,
            far: RemoteServer::find(session, target),
            without: Vec::new(),
            own: OwnClients::default(),
            requests: Cell::new(0),
            repeats: RefCell::default(),
        })
    }

    /// The parts that every export has in its way.
    pub(super) fn way(&self) -> Vec<Stage> {
        let mut way = vec![Stage::Generator, Stage::Queue, Stage::Client];
        if self.target.tls.is_some() {
            way.push(Stage::Cipher);
        }
        way.extend([Stage::Protocol, Stage::Wire, Stage::Server, Stage::Disk]);
        way
    }

    pub(super) fn measure(&self, job: DoctorJob) -> Measure {
        Measure {
            follow: self.far.processes(),
            skip: self.requests.get(),
            ..Measure::new(job, self.session.slice())
        }
    }

    fn opening(&self) -> Opening {
        Opening::Disk(Box::new(self.named.clone()))
    }

    fn opening_of(&self, export: &Target) -> Result<Opening, DriverError> {
        let disk = self.session.args.disks.resolve(&export.to_string())?;
        Ok(Opening::Disk(Box::new(disk)))
    }

    /// Reads the export as the job says, with nothing of it in its server's memory where that can be had.
    pub(super) fn plain(&self) -> Result<PlainRead, DriverError> {
        if let Some(disk) = &self.far.disk {
            disk.forget();
        }
        let over_a_wire = self
            .far
            .address
            .filter(|address| !address.ip().is_loopback());
        let connect_idle = match over_a_wire {
            Some(address) => wire::idle(address)?,
            None => Vec::new(),
        };
        let how = Measure {
            probe: over_a_wire.filter(|_| !connect_idle.is_empty()),
            ..self.measure(self.session.job)
        };
        let port = self.far.address.map(|address| address.port());
        let watcher = self.session.watcher.as_ref();
        watcher.inspect(|watcher| watcher.drop_caches(port));
        let before = watcher.and_then(|watcher| watcher.look(port, Side::Before));
        let report = ReportSpan::begin(self.session, self.far.process);
        let mut measured = measure(self.session, &self.opening(), &how)?;
        let direction = self.session.job.direction;
        let export = &self.target.export;
        let served = report.end(self.session, export, direction, &self.own);
        self.requests.set(measured.requests);
        let after = watcher.and_then(|watcher| watcher.look(port, Side::After));
        if let Some(watcher) = watcher.filter(|_| measured.server.is_none()) {
            measured.server = watcher.between(before.as_ref(), after.as_ref());
        }
        let (first, last) = (before.as_ref(), after.as_ref());
        let far = || super::report::between(first, last, export, direction, &self.own);
        Ok(PlainRead {
            served: served.or_else(far),
            measured,
            connect_idle,
            span: WatchedSpan::new(watcher, before, after),
        })
    }

    /// The export at another depth.
    pub(super) fn at_depth(&self, depth: u32) -> Result<Rate, DriverError> {
        self.read_for(self.session.slice(), depth)
    }

    /// The export at a depth, for a time.
    pub(super) fn read_for(&self, time: Duration, depth: u32) -> Result<Rate, DriverError> {
        if let Some(disk) = &self.far.disk {
            disk.forget();
        }
        let how = Measure {
            time,
            ..self.measure(self.session.at_depth(depth))
        };
        let measured = measure(self.session, &self.opening(), &how)?;
        self.requests.set(measured.requests);
        Ok(measured.rate)
    }

    /// What was measured in place of the target, to be measured again.
    pub(super) fn retrials<'r>(&'r self, repeats: &'r [Repeat]) -> Vec<Retrial<'r>> {
        let retrial = |repeat: &'r Repeat| {
            let again = move |time| {
                let how = Measure {
                    time,
                    ..repeat.how.clone()
                };
                Ok(measure(self.session, &repeat.opening, &how)?.rate)
            };
            Retrial {
                index: repeat.index,
                measure: Box::new(again),
            }
        };
        repeats.iter().map(retrial).collect()
    }

    /// Takes what can be measured again.
    pub(super) fn take_repeats(&self) -> Vec<Repeat> {
        self.repeats.take()
    }

    /// Adds a substitution and keeps how it is measured.
    fn add(
        &self,
        e: &mut Examination,
        sub: Substitution,
        opening: Opening,
        how: Measure,
        server: Option<NullExport>,
    ) {
        // A server of our own runs on only if it is used once more.
        if needs_pairs(e, &sub) {
            self.repeats.borrow_mut().push(Repeat {
                index: e.substitutions.len(),
                opening,
                how,
                _server: server,
            });
        }
        e.substitutions.push(sub);
    }

    /// Replaces stage after stage, and measures what can be measured by itself. Returns the
    /// part of the client's and the server's time that encryption takes.
    pub(super) fn replace(
        &self,
        e: &mut Examination,
        plain: &PlainRead,
    ) -> Result<Ciphers, DriverError> {
        e.served.clone_from(&plain.served);
        e.is_own_server =
            self.far.is_own() || plain.span.is_own_server() || self.describes_itself_as_own()?;
        e.bounds.extend(
            plain
                .span
                .disk(plain.measured.rate, self.session.job.direction, None),
        );
        self.wire(e, plain);
        let ciphers = self.null_of_ours(e)?;
        // It takes the least time of all that separates wire, server and disk.
        if let Some(address) = self.far.address {
            bare_wire::both_ways(self.session, e, address.ip())?;
        }
        // What is certain before what may not be.
        self.null_of_theirs(e)?;
        self.warm(e)?;
        self.disk(e)?;
        let deep = self.session.job.depth.max(DEPTH_FULL);
        let how = Measure::new(self.session.at_depth(deep), self.session.slice());
        each_alone(self.session, e, &self.far.striped, &how)?;
        if plain.measured.window.0 < plain.measured.read.0 {
            let times = plain.measured.read.0 / plain.measured.window.0.max(1);
            e.remarks.push(format!(
                "The disk is small: all of it was read about {times} times, so that the server's memory \
                 answered most of it."
            ));
        }
        Ok(ciphers)
    }

    /// What was measured without `parts`, and without those that a reading of the export leaves out.
    fn substitution(&self, parts: &[Stage], by: impl Into<String>, rate: Rate) -> Substitution {
        Substitution::new([&self.without, parts].concat(), by, rate)
    }

    fn wire(&self, e: &mut Examination, plain: &PlainRead) {
        let Some(address) = self.far.address.filter(|a| !a.ip().is_loopback()) else {
            return;
        };
        let client = plain.measured.client.as_ref();
        let is_idle = client.is_none_or(|cpu| cpu.utilisation() < IDLE_CLIENT);
        // A client that is busy notices late that it is connected.
        if is_idle {
            let loaded = plain.measured.probed.clone();
            e.connect = ConnectTimes::new(plain.connect_idle.clone(), loaded.connect);
            e.greeting = Nanos::middle(loaded.greeting);
        }
        // What a link says of itself is passed by none, but other links may follow.
        let link = wire::link_bound(address.ip());
        let near = link.filter(|bound| e.rate.0 > bound.rate.0 / 2.0);
        e.bounds.extend(near);
    }

    /// A null export of our own in place of the server, and without the encryption.
    pub(super) fn null_of_ours(&self, e: &mut Examination) -> Result<Ciphers, DriverError> {
        let over = self.far.alike(self.target);
        let Some((alike, run)) = self.null(e, Stage::Protocol, over)? else {
            return Ok(Ciphers::default());
        };
        let named = over.named();
        let behind = [Stage::Wire, Stage::Server, Stage::Disk];
        let without = self.substitution(&behind, named, alike.rate);
        self.add(e, without, run.opening, run.how, Some(run.server));
        let how = format!("{named}, which has to ask in the same way");
        e.bounds
            .push(Bound::at_least(Stage::Protocol, alike.rate, how));
        if self.far.is_here {
            let how = format!("the same kind of socket: {named}");
            e.bounds.push(Bound::at_least(Stage::Wire, alike.rate, how));
        }
        if over != Over::Tls {
            return Ok(Ciphers::default());
        }
        let Some((clear, run)) = self.null(e, Stage::Cipher, Over::Tcp)? else {
            return Ok(Ciphers::default());
        };
        let behind = [&[Stage::Cipher][..], &behind].concat();
        let by = format!("{}, in the clear", Over::Tcp.named());
        let without = self.substitution(&behind, by, clear.rate);
        self.add(e, without, run.opening, run.how, Some(run.server));
        Ok(Ciphers::between(&alike, &clear))
    }

    fn null(
        &self,
        e: &mut Examination,
        part: Stage,
        over: Over,
    ) -> Result<Option<(ReadResult, NullRun)>, DriverError> {
        if !self.session.has_time(e, part, over.named())? {
            return Ok(None);
        }
        let server = NullExport::start(self.session, over)?;
        let how = Measure {
            follow: vec![server.process()],
            ..self.measure(self.session.job)
        };
        let opening = Opening::Disk(Box::new(server.disk(self.session)?));
        let measured = measure(self.session, &opening, &how)?;
        let run = NullRun {
            server,
            opening,
            how,
        };
        Ok(Some((measured, run)))
    }

    /// A few MiB again and again: a server that has memory answers from it.
    fn warm(&self, e: &mut Examination) -> Result<(), DriverError> {
        let what = "its first bytes again and again, from the server's memory";
        if !self.session.has_time(e, Stage::Disk, what)? {
            return Ok(());
        }
        let how = Measure {
            window: Some(WARM),
            ..self.measure(self.session.job)
        };
        self.fill_memory(e, &how)?;
        let warm = measure(self.session, &self.opening(), &how)?;
        let disk = self.far.disk.as_ref();
        let sure = disk.is_some_and(|disk| disk.is_in_memory(warm.window.0));
        let window = warm.window;
        let by = format!("the first {window} again and again, from the server's memory");
        let without = self.substitution(&[Stage::Disk], by, warm.rate);
        let without = Substitution { sure, ..without };
        // Locally, the target's own measurement empties the memory.
        if self.far.disk.is_none() {
            self.add(e, without, self.opening(), how, None);
        } else {
            e.substitutions.push(without);
        }
        Ok(())
    }

    /// Reads what is to be in the server's memory once, where that takes longer than the part of a measurement that is
    /// not counted.
    fn fill_memory(&self, e: &Examination, how: &Measure) -> Result<(), DriverError> {
        let once = Duration::from_secs_f64(WARM as f64 / e.rate.0.max(1.0));
        if once <= how.time.mul_f64(0.2) {
            return Ok(());
        }
        let time = once.mul_f64(1.2).min(how.time * 2);
        if self.session.has_left(time + how.time) {
            let how = Measure {
                time,
                ..how.clone()
            };
            measure(self.session, &self.opening(), &how)?;
        }
        Ok(())
    }

    /// Another export of the same server that has no data, over the same wire.
    fn null_of_theirs(&self, e: &mut Examination) -> Result<(), DriverError> {
        let what = "another export of the server, one without data";
        if !self.session.has_time(e, Stage::Disk, what)? {
            return Ok(());
        }
        let Some(other) = self.other_without_data()? else {
            return Ok(());
        };
        let name = other.export.clone();
        let (opening, how) = (self.opening_of(&other)?, self.measure(self.session.job));
        let read = measure(self.session, &opening, &how)?;
        let by = format!("the server's export {name:?}, which has no data");
        let without = self.substitution(&[Stage::Disk], by, read.rate);
        // A rate limit of the export is out with it.
        let perhaps = match e.is_own_server {
            true => Vec::new(),
            false => vec![Stage::Server],
        };
        let without = Substitution { perhaps, ..without };
        self.add(e, without, opening, how, None);
        Ok(())
    }

    /// Whether the server answers as ours does.
    fn describes_itself_as_own(&self) -> Result<bool, DriverError> {
        let timeout = ClientConfig::default().request_timeout;
        // What does not answer is not known to be.
        on_engine(async || {
            let answer = Box::pin(is_outboard(self.target, timeout)).await;
            Ok(answer.unwrap_or(false))
        })
    }

    fn other_without_data(&self) -> Result<Option<Target>, DriverError> {
        let server = Target {
            export: String::new(),
            ..self.target.clone()
        };
        let timeout = ClientConfig::default().request_timeout;
        // Not every server lists what it has.
        let listed = on_engine(async || Ok(Box::pin(list(&server, timeout)).await.ok()))?;
        let mut listed = listed.unwrap_or_default();
        // The first export is also the default one.
        let own = match (self.target.export.is_empty(), listed.first()) {
            (true, Some(first)) => first.name.clone(),
            _ => self.target.export.clone(),
        };
        listed.retain(|other| other.name != own && !other.name.is_empty());
        for other in listed.into_iter().take(OTHERS_MAX) {
            let other = Target {
                export: other.name,
                ..self.target.clone()
            };
            if is_hole(self.session, &self.opening_of(&other)?, HOLE).unwrap_or(false) {
                return Ok(Some(other));
            }
            self.session.go_on()?;
        }
        Ok(None)
    }

    /// The server's disk without the server, at a depth at which it shows what it can do.
    fn disk(&self, e: &mut Examination) -> Result<(), DriverError> {
        let Some(disk) = &self.far.disk else {
            e.note_unmeasured(Stage::Disk, &self.far.no_disk);
            return Ok(());
        };
        if !self.session.has_time(e, Stage::Disk, &disk.named)? {
            return Ok(());
        }
        disk.forget();
        let depth = self.session.job.depth.max(DEPTH_FULL);
        let how = self.measure(self.session.at_depth(depth));
        let how = Measure {
            follow: Vec::new(),
            ..how
        };
        match measure(self.session, &disk.opening, &how) {
            Ok(alone) => {
                let by = format!("{}, {depth} at once", disk.named);
                e.bounds.push(Bound::alone(Stage::Disk, alone.rate, by));
            }
            Err(failure) => {
                self.session.go_on()?;
                e.note_unmeasured(Stage::Disk, failure.to_string());
            }
        }
        Ok(())
    }
}
