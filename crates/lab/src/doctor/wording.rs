//! The sentences of a verdict. Pure.

use std::net::IpAddr;

use super::cause::CROWDED;
use super::effect::Effect;
use super::verdict::{Analysis, NextBottleneck, VerdictBasis};
use super::{
    Bound, Cause, ClientUse, CpuUse, Evidence, Examination, MemberUse, ServedUse, Stage,
    StripeMember, Substitution, wire,
};
use crate::agent::protocol::PORT;
use crate::fio::command::quoted;
use crate::units::Rate;

/// What a part is in a sentence.
const fn noun(part: Stage) -> &'static str {
    match part {
        Stage::Generator => "the load itself",
        Stage::Queue => "how little is asked for at once",
        Stage::Cache => "the memory of this machine, which answers in place of the disk",
        Stage::Readahead => "how little the kernel reads ahead",
        Stage::Client => "the processor of this end",
        Stage::Cipher => "the encryption",
        Stage::Protocol => "the protocol, which waits more than it moves",
        Stage::Wire => "the wire",
        Stage::Server => "the processor of the server",
        Stage::Disk => "the disk",
        Stage::Flush => "the flush, which makes writes durable",
    }
}

/// What a part is in a sentence, where its cause is known.
fn noun_of(part: Stage, cause: Option<&Cause>) -> String {
    match cause {
        Some(Cause::Quota(_)) => format!("a quota on {}", noun(part)),
        Some(cause) => cause.noun().unwrap_or_else(|| noun(part).to_owned()),
        None => noun(part).to_owned(),
    }
}

/// Names in a row: `a, b or c`.
fn either(parts: &[Stage]) -> String {
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// The verdict in one sentence.
pub(super) fn sentence(
    examination: &Examination,
    limiter: &[Stage],
    ground: VerdictBasis,
    cause: Option<&Cause>,
) -> String {
    let rate = examination.rate;
    match limiter {
        [only] => {
            let how = match ground {
                VerdictBasis::Nearest => "is most likely",
                _ => "is",
            };
            format!("What limits it to {rate} {how} {}.", noun_of(*only, cause))
        }
        several => format!(
            "What limits it to {rate} is one of these, which cannot be distinguished from here: {}.",
            either(several)
        ),
    }
}

/// What speaks for the verdict.
pub(super) fn evidence(
    judged: &Analysis<'_>,
    limiter: &[Stage],
    ground: VerdictBasis,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let signs = judged.examination.signs.iter();
    let signs = signs.filter(|sign| limiter.contains(&sign.part));
    lines.extend(signs.map(|sign| sign.text.clone()));
    if limiter.contains(&Stage::Wire) && wire::is_full(judged.examination) {
        lines.extend(judged.examination.connect.map(|times| times.text()));
    }
    if let [only] = limiter
        && let Some(bound) = judged.bound_of(*only)
        && match ground {
            VerdictBasis::Bound | VerdictBasis::Nearest => true,
            VerdictBasis::Sign => judged.is_near(bound),
            VerdictBasis::Elimination | VerdictBasis::Undecided => false,
        }
    {
        lines.push(reached(judged.examination.rate, bound));
    }
    if [Stage::Disk, Stage::Flush]
        .iter()
        .any(|part| limiter.contains(part))
    {
        let served = judged.examination.served.as_ref();
        lines.extend(
            served
                .into_iter()
                .flat_map(|served| served_by(judged, served)),
        );
    }
    lines.extend(substitutions(judged, limiter));
    if matches!(ground, VerdictBasis::Elimination | VerdictBasis::Undecided) {
        lines.extend(ruled_out(judged, limiter));
    }
    lines.extend(judged.passed.iter().map(|bound| passed(bound)));
    lines
}

/// What the server reports of its disk: other clients, members that were waited for, disks of a stripe.
fn served_by(judged: &Analysis<'_>, served: &ServedUse) -> Vec<String> {
    let job = &judged.examination.job;
    let others = served.rivals(judged.examination.rate).into_iter();
    let others = others.map(|other| {
        let ClientUse { name, export, rate } = other;
        format!(
            "{name} moved {rate} of the export {export:?} meanwhile, which is on the same disk."
        )
    });
    let member = served.slow_member(job.direction).map(|slow| {
        format!(
            "Of the {} requests at once, {} were waiting for {} on average{}.",
            job.depth,
            crate::units::significant(slow.in_flight),
            slow.name,
            queueing(slow)
        )
    });
    let disk = served.slow_disk().map(|(slow, next)| {
        let count = served.stripe.len();
        let StripeMember { name, rate } = slow;
        format!(
            "Each of the {count} disks of the stripe gets the same part: {name} carries {rate}, and the next slowest {next}."
        )
    });
    let store = served.busy_store(job.direction);
    let store = store.map(|store| store.evidence(job));
    others.chain(member).chain(store).chain(disk).collect()
}

/// How long a request takes at a member, against one alone.
fn queueing(member: &MemberUse) -> String {
    match (member.latency, member.alone) {
        (Some(loaded), Some(alone)) => format!(", {loaded} each, and {alone} for one alone"),
        _ => String::new(),
    }
}

/// What a bound is worth that the target is beyond.
fn passed(bound: &Bound) -> String {
    let Bound { part, rate, .. } = bound;
    match part {
        // Nothing answers in place of a wire.
        Stage::Wire => format!(
            "The wire was held to carry {rate} and carried more, so that is no bound: {}.",
            reason(&bound.evidence)
        ),
        _ => format!(
            "The {part} was measured at {rate} and was passed: caches on the way answer in its place."
        ),
    }
}

/// How near the target is to a bound.
fn reached(rate: Rate, bound: &Bound) -> String {
    let percent = (rate.0 / bound.rate.0 * 100.0).min(100.0);
    match &bound.evidence {
        Evidence::Busy(cpu) => busy(cpu),
        evidence => format!(
            "The target reaches {percent:.0} % of the {} that the {} carries: {}.",
            bound.rate,
            bound.part,
            reason(evidence)
        ),
    }
}

fn busy(cpu: &CpuUse) -> String {
    let CpuUse { who, running, .. } = cpu;
    let wanted = (cpu.utilisation() * 100.0).min(100.0);
    let got = running * 100.0;
    if let Some(Cause::Quota(quota)) = Some(Cause::of_processor(cpu)) {
        return format!(
            "{} lets {who} have {:.2} cores, of which its busiest thread used {:.0} %, and stopped it in {:.0} % of its periods.",
            quota.file,
            quota.cores,
            cpu.used_of(&quota) * 100.0,
            quota.throttled * 100.0
        );
    }
    let mut text = format!("The busiest thread of {who} had work for {wanted:.0} % of the time");
    if cpu.waiting >= CROWDED {
        text.push_str(&format!(
            " and got a core for {got:.0} %: other programs, or other threads, had it"
        ));
        if let Some(pressure) = cpu.pressure.as_ref().filter(|found| found.part >= CROWDED) {
            text.push_str(&format!(
                " (tasks waited for a core in {:.0} % of the time, by {})",
                (pressure.part * 100.0).min(100.0),
                pressure.file
            ));
        }
    }
    if let Some(share) = cpu.cipher {
        text.push_str(&format!(", {:.0} % of it encryption", share * 100.0));
    }
    text.push('.');
    text
}

/// How a bound is known, for a table.
pub(super) fn reason(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Alone { how } | Evidence::AtLeast { how } => how.clone(),
        Evidence::Busy(cpu) => {
            let mut text = format!(
                "{} was busy for {:.0} % of the time",
                cpu.who,
                cpu.running * 100.0
            );
            if cpu.waiting >= CROWDED {
                text.push_str(&format!(
                    " and waited {:.0} % for a core",
                    cpu.waiting * 100.0
                ));
            }
            text
        }
        Evidence::InFlight { in_flight, latency } => {
            format!("{in_flight} at once, {latency} for one request alone")
        }
        Evidence::DeviceBusy { device, busy } => {
            let busy = busy * 100.0;
            format!("{device} of the server had something to do for {busy:.0} % of the time")
        }
        Evidence::Link { interface, speed } => {
            format!("{interface} is a link of {speed}, less what TCP and Ethernet add")
        }
    }
}

/// What came of replacing parts, where it concerns the limiter.
fn substitutions(judged: &Analysis<'_>, limiter: &[Stage]) -> Vec<String> {
    let rate = judged.examination.rate.0;
    let says = |sub: &Substitution| -> Option<String> {
        let concerns = sub.replaced.iter().any(|part| limiter.contains(part));
        let Substitution { by, rate: then, .. } = sub;
        let times = then.0 / rate;
        match Effect::of(judged.examination, sub) {
            Effect::Moved if concerns => Some(format!(
                "{}: {then}, {} times as fast.",
                upper(by),
                crate::units::significant(times)
            )),
            Effect::Still if !concerns && sub.sure => Some(format!(
                "{}: {then}, no faster, so it is not the {}.",
                upper(by),
                either(&sub.replaced)
            )),
            _ => None,
        }
    };
    let all = judged.examination.substitutions.iter();
    all.filter_map(says).collect()
}

/// What the others carry, where the limiter is what is left.
fn ruled_out(judged: &Analysis<'_>, limiter: &[Stage]) -> Vec<String> {
    let mut others: Vec<Stage> = judged.examination.way.clone();
    others.retain(|part| !limiter.contains(part) && !judged.ruled_out.contains(part));
    let far = others.into_iter().filter_map(|part| judged.bound_of(part));
    let far: Vec<String> = far
        .filter(|bound| !judged.is_near(bound))
        .map(|bound| format!("{} {}", bound.part, bound.rate))
        .collect();
    if far.is_empty() {
        return Vec::new();
    }
    vec![format!("The others carry far more: {}.", far.join(", "))]
}

/// What could not be measured.
pub(super) fn unknown(examination: &Examination) -> Vec<String> {
    let unmeasured = examination.unmeasured.iter();
    let lines = unmeasured.map(|unmeasured| format!("{}: {}", unmeasured.part, unmeasured.why));
    lines.collect()
}

/// What to do about it.
pub(super) fn advice(
    judged: &Analysis<'_>,
    limiter: &[Stage],
    cause: Option<&Cause>,
    next: Option<&NextBottleneck>,
) -> String {
    let [only] = limiter else {
        let way = &judged.examination.way;
        if !way.contains(&Stage::Server) && !way.contains(&Stage::Wire) {
            return "Measure again while nothing else runs here, and the disk below by itself: `outboard doctor` takes \
                    a device, too."
                .to_owned();
        }
        return undecided_advice(judged.examination);
    };
    let program = judged.program_of(*only).unwrap_or("the server");
    if let Some(advice) = cause.and_then(|cause| cause.advice(program)) {
        return advice;
    }
    match only {
        Stage::Generator => {
            "Ask in larger blocks, or from a faster machine: this way is faster than what asks."
                .to_owned()
        }
        Stage::Queue => queue_advice(judged, next),
        Stage::Cache => {
            "These are figures of memory: leave --buffered out, or use data that does not fit, to see \
             the disk."
                .to_owned()
        }
        Stage::Readahead => {
            let trials = judged.examination.readahead.as_ref();
            let advice = trials.and_then(|trials| trials.advice());
            advice.unwrap_or_else(|| "Have the kernel read more ahead.".to_owned())
        }
        Stage::Client => {
            "Give this end a faster core, larger requests, or fewer layers between the program and \
             the disk."
                .to_owned()
        }
        Stage::Server => {
            "Give the server a faster core, let it use more of them, or ask it in larger requests."
                .to_owned()
        }
        Stage::Cipher => {
            "Leave encryption to the network (a VPN in the kernel, a wire of your own), spread it over \
             more connections, or take a processor with AES instructions."
                .to_owned()
        }
        Stage::Protocol => {
            "Take a protocol that keeps more in flight and costs less for each request: NBD, or SMB and \
             NFS of the kernel."
                .to_owned()
        }
        Stage::Wire => {
            "Only a faster wire helps: look at docks, switches and cables on the way, too.".to_owned()
        }
        Stage::Disk => {
            "Only a faster disk helps, or a cache in front of it: nothing else on the way is near its \
             end."
                .to_owned()
        }
        Stage::Flush => flush_advice(judged.examination),
    }
}

/// What separates several parts of which one holds the target back.
fn undecided_advice(examination: &Examination) -> String {
    let Some(peer) = examination.peer else {
        return "Measure the disk below the server by itself: `outboard doctor` takes a file or a device, too. Measure \
                again while nothing else runs on this machine."
            .to_owned();
    };
    if let Some(agent) = &examination.agent {
        let wire = match examination.wire {
            Some(_) => "",
            None => " The agent measures the wire by itself if it is started with --allow-iperf3.",
        };
        return format!(
            "The agent at {agent} does not separate them: measure the disk of the server by itself, with `outboard \
             doctor` there, and this again with more --seconds while nothing else uses both machines.{wire}"
        );
    }
    let target = quoted(&examination.target);
    let place = match peer {
        IpAddr::V4(_) => format!("{peer}:{PORT}"),
        IpAddr::V6(_) => format!("[{peer}]:{PORT}"),
    };
    format!(
        "They cannot be separated from here. An agent on the server's machine separates them; there:\n    \
         outboard tls init tls --name {peer}\n    \
         outboard agent --listen {peer} --tls tls --token-file agent.token --allow-iperf3\n\
         and here, with tls/ca-cert.pem and agent.token of there:\n    \
         outboard doctor {target} --agent {place} --agent-tls tls --agent-token-file agent.token"
    )
}

/// The writes themselves are not slow, so that a faster disk for writes is no help.
fn flush_advice(examination: &Examination) -> String {
    let often = match examination.is_flushed {
        true => "Flush less often (several writes for each flush, or group commit)",
        false => {
            "Have writes flushed less often: look for `sync` and `dirsync` among the mount's options and for a server \
             or a disk without a write cache"
        }
    };
    format!(
        "{often}, or take a disk with a cache that survives a power cut. The writes are not slow by themselves."
    )
}

fn queue_advice(judged: &Analysis<'_>, next: Option<&NextBottleneck>) -> String {
    let job = &judged.examination.job;
    let again = next.is_some_and(|next| next.part == Some(Stage::Queue));
    let deeper = next.map(|next| (f64::from(job.depth) * next.times).ceil());
    match deeper.filter(|depth| *depth > f64::from(job.depth)) {
        Some(depth) if again => format!(
            "Ask for more at once: about {depth:.0} requests of {} carry that much, and met no other limit: more of them may \
             carry more; or bring the time of one request down.",
            job.block_size
        ),
        Some(depth) => format!(
            "Ask for more at once: about {depth:.0} requests of {} reach the next wall; or bring the \
             time of one request down.",
            job.block_size
        ),
        None => "Ask for more at once, or bring the time of one request down.".to_owned(),
    }
}

/// With a capital letter, for the start of a sentence.
fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
