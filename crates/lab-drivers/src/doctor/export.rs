//! An export: the I/O path from the doctor's own client to the server's disk.

use std::time::Duration;

use lab::doctor::{Bound, CpuUse, Examination, Stage, Substitution, queue_may_limit};
use lab::units::{Nanos, Rate, SECOND, round};
use nbd::client::{ClientConfig, Target, describe};

use super::pairs::{Retrial, measure_pairs};
use super::read_load::{Measure, Opening, measure};
use super::remote::Remote;
use super::session::DoctorSession;
use super::watcher::Watcher;
use crate::DriverError;
use crate::runtime::on_engine;

/// Results of the target that differ by more are not steady.
const UNSTEADY: f64 = 1.3;
/// So many times the requests at once show whether there were too few.
const DEEPER: u32 = 4;
/// The most requests in flight of any measurement.
const DEPTH_MAX: u32 = 256;

/// Examines an export by reading it.
pub(super) fn examine(
    session: &DoctorSession<'_>,
    target: &Target,
) -> Result<Examination, DriverError> {
    let used = server_in_use(target)?;
    let remote = Remote::new(session, &used)?;
    let mut about = about(&remote);
    if target.has_several() {
        about.push_str(&format!(", on {used}, the first server that answers"));
    }
    let mut e = begun(session, about, remote.way());
    e.server = target.has_several().then(|| used.to_string());
    let elsewhere = remote.far.address.filter(|_| !remote.far.is_here);
    e.peer = elsewhere.map(|address| address.ip());
    let plain = remote.plain()?;
    e.rate = plain.measured.rate;
    plain.measured.check_window(session, &used)?;
    let mut rates = vec![plain.measured.rate];
    let deeper = queue(session, &mut e, |depth| remote.at_depth(depth))?;
    rates.push(remote.plain()?.measured.rate);
    let ciphers = remote.replace(&mut e, &plain)?;
    rates.push(remote.plain()?.measured.rate);
    settle(&mut e, &rates);
    e.share_disk();
    let (client, server) = (plain.measured.client, plain.measured.server);
    busy(
        &mut e,
        Stage::Client,
        client,
        ciphers.client,
        "this kernel does not report it",
    );
    let why = no_processor(&e);
    busy(&mut e, Stage::Server, server, ciphers.server, why);
    generator(session, &mut e)?;
    // What is left of the time is theirs.
    let repeats = remote.take_repeats();
    let mut retrials = remote.retrials(&repeats);
    if let Some(deeper) = &deeper {
        let again = |time| remote.read_for(time, deeper.depth);
        retrials.push(deeper.retrial(again));
    }
    let target = |time| remote.read_for(time, session.job.depth);
    measure_pairs(session, &mut e, &retrials, target)?;
    Ok(e)
}

/// The export on the server that is measured: of several, on the first one that answers, which a client uses.
pub(super) fn server_in_use(target: &Target) -> Result<Target, DriverError> {
    if !target.has_several() {
        return Ok(target.clone());
    }
    let timeout = ClientConfig::default().request_timeout;
    on_engine(async || {
        let described = Box::pin(describe(target, timeout)).await;
        Ok(described.map_err(DriverError::from_error)?.target)
    })
}

fn about(remote: &Remote<'_, '_>) -> String {
    let tls = match remote.target.tls {
        Some(_) => " with TLS",
        None => "",
    };
    let place = match (remote.far.process, remote.far.is_here) {
        (Some(process), _) => format!("process {process} of this machine"),
        (None, true) => "this machine".to_owned(),
        (None, false) => "another machine".to_owned(),
    };
    format!("an export of {place}, over NBD{tls}")
}

/// Why the processor of the server is not known.
pub(super) const fn no_processor(e: &Examination) -> &'static str {
    match (e.peer, &e.agent) {
        (None, _) => "its processor: the process of the server cannot be looked at",
        (Some(_), Some(_)) => "its processor: the agent does not find the process of the server",
        (Some(_), None) => "its processor: the server runs elsewhere; --agent reports it",
    }
}

/// An examination that nothing is known of yet.
pub(super) fn begun(session: &DoctorSession<'_>, about: String, way: Vec<Stage>) -> Examination {
    Examination {
        target: session.args.target.clone(),
        about,
        way,
        job: session.job,
        is_flushed: false,
        rate: Rate(0.0),
        best: Rate(0.0),
        in_flight_part: 0.0,
        bounds: Vec::new(),
        substitutions: Vec::new(),
        signs: Vec::new(),
        peer: None,
        server: None,
        cache: None,
        agent: session.watcher.as_ref().map(Watcher::place),
        is_own_server: false,
        connect: None,
        greeting: None,
        wire: None,
        served: None,
        readahead: None,
        flush: None,
        unmeasured: Vec::new(),
        remarks: session.args.remarks.clone(),
    }
}

/// One request at a time, which gives its latency, and more in flight than requested where there may be too few: large
/// requests on a slow disk take long, and the time is better spent on what else may limit it.
pub(super) fn queue(
    session: &DoctorSession<'_>,
    e: &mut Examination,
    at_depth: impl Fn(u32) -> Result<Rate, DriverError>,
) -> Result<Option<DeeperQueue>, DriverError> {
    if session.has_time(e, Stage::Queue, "one request alone")? {
        let one = at_depth(1)?;
        let nanos = session.job.block_size.0 as f64 / one.0.max(1.0) * SECOND as f64;
        let latency = Nanos(round(nanos));
        e.bounds
            .extend(Bound::in_flight(session.job.in_flight(), latency));
    }
    let deeper = (session.job.depth * DEEPER).min(DEPTH_MAX);
    let by = format!("{deeper} requests at once");
    let is_of_use = deeper > session.job.depth && queue_may_limit(e);
    if is_of_use && session.has_time(e, Stage::Queue, &by)? {
        let rate = at_depth(deeper)?;
        e.substitutions.push(Substitution::deeper(deeper, by, rate));
        let index = e.substitutions.len() - 1;
        return Ok(Some(DeeperQueue {
            index,
            depth: deeper,
        }));
    }
    Ok(None)
}

/// The measurement with more requests at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeeperQueue {
    /// Its place among the substitutions.
    index: usize,
    /// Requests at once.
    pub(super) depth: u32,
}

impl DeeperQueue {
    pub(super) fn retrial<'a>(
        &self,
        measure: impl Fn(Duration) -> Result<Rate, DriverError> + 'a,
    ) -> Retrial<'a> {
        Retrial {
            index: self.index,
            measure: Box::new(measure),
        }
    }
}

/// The doctor's own load on nothing.
pub(super) fn generator(
    session: &DoctorSession<'_>,
    e: &mut Examination,
) -> Result<(), DriverError> {
    if session.has_time(e, Stage::Generator, "the doctor's own load on nothing")? {
        let how = Measure::new(session.job, session.slice() / 2);
        let alone = measure(session, &Opening::Nothing, &how)?;
        let how = "the doctor's own load on a disk of nothing";
        e.bounds
            .push(Bound::alone(Stage::Generator, alone.rate, how));
    }
    Ok(())
}

/// The bound of a thread's time at one end; none where it was not seen.
pub(super) fn busy(
    e: &mut Examination,
    part: Stage,
    cpu: Option<CpuUse>,
    cipher: Option<f64>,
    why_not: &str,
) {
    match cpu {
        Some(cpu) => {
            let cpu = CpuUse { cipher, ..cpu };
            e.bounds.extend(Bound::busy(part, e.rate, cpu));
        }
        None => e.note_unmeasured(part, why_not),
    }
}

/// What the target did each time that it was measured: the middle counts, and outliers are reported.
pub(super) fn settle(e: &mut Examination, rates: &[Rate]) {
    let each: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    let most = each.iter().copied().fold(0.0, f64::max);
    if most > least * UNSTEADY {
        e.remarks.push(format!(
            "It was not steady: between {} and {}, so small differences mean nothing.",
            Rate(least),
            Rate(most)
        ));
    }
    e.rate = Rate(lab::stats::median(&each).unwrap_or(0.0));
    e.best = Rate(most);
}
