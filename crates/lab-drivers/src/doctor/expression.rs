//! A disk of this machine: a file, a device, or what an expression makes of some.

use lab::doctor::{Examination, ServedUse, Stage, Substitution};

use super::disk::ExaminedDisk;
use super::export::{begun, busy, generator, queue, settle};
use super::pairs::measure_pairs;
use super::read_load::{Measure, Opening, measure};
use super::remote::DEPTH_FULL;
use super::server::ServerDisk;
use super::session::DoctorSession;
use super::stripe::each_alone;
use crate::DriverError;

/// The path within one machine.
const WAY: [Stage; 4] = [Stage::Generator, Stage::Queue, Stage::Client, Stage::Disk];

/// Examines a disk by reading it.
pub(super) fn examine(
    session: &DoctorSession<'_>,
    named: &ExaminedDisk,
) -> Result<Examination, DriverError> {
    let mut e = begun(session, "a disk of this machine".to_owned(), WAY.to_vec());
    let opening = Opening::Disk(Box::new(named.clone()));
    let how = |depth: u32| Measure::new(session.at_depth(depth), session.slice());
    let depth = session.job.depth;
    forget(named);
    let first = measure(session, &opening, &how(depth))?;
    first.check_window(session, &named.text)?;
    e.rate = first.rate;
    if !first.stores.is_empty() {
        e.served = Some(ServedUse {
            stores: first.stores.clone(),
            ..ServedUse::default()
        });
    }
    let deeper = queue(session, &mut e, |depth| {
        forget(named);
        Ok(measure(session, &opening, &how(depth))?.rate)
    })?;
    let again = || {
        forget(named);
        measure(session, &opening, &how(depth))
    };
    let second = again()?.rate;
    below(session, &mut e, named, &how(depth))?;
    each_alone(session, &mut e, &named.striped, &how(depth.max(DEPTH_FULL)))?;
    settle(&mut e, &[first.rate, second, again()?.rate]);
    busy(
        &mut e,
        Stage::Client,
        first.client,
        None,
        "this kernel does not report it",
    );
    generator(session, &mut e)?;
    let for_time = |time, depth| {
        forget(named);
        let how = Measure { time, ..how(depth) };
        Ok(measure(session, &opening, &how)?.rate)
    };
    let retrial = deeper.map(|deeper| deeper.retrial(move |time| for_time(time, deeper.depth)));
    let retrials: Vec<_> = retrial.into_iter().collect();
    measure_pairs(session, &mut e, &retrials, |time| for_time(time, depth))?;
    if first.window.0 < first.read.0 {
        let times = first.read.0 / first.window.0.max(1);
        e.remarks.push(format!(
            "The disk is small: all of it was read about {times} times, so that memory answered most of it."
        ));
    }
    Ok(e)
}

fn forget(named: &ExaminedDisk) {
    for file in &named.files {
        ServerDisk::file(file.clone()).forget();
    }
}

/// The only disk below this one: the bottleneck may be between them.
fn below(
    session: &DoctorSession<'_>,
    e: &mut Examination,
    named: &ExaminedDisk,
    how: &Measure,
) -> Result<(), DriverError> {
    let Some(below) = &named.below else {
        return Ok(());
    };
    let by = format!("what is below `{}`", named.node);
    if !below.can_be_opened_twice || !session.has_time(e, Stage::Disk, &by)? {
        return Ok(());
    }
    forget(below);
    let below = measure(session, &Opening::Disk(below.clone()), how)?;
    e.substitutions.push(Substitution {
        // What is below may hold as well.
        sure: false,
        ..Substitution::new(vec![Stage::Disk], by, below.rate)
    });
    Ok(())
}
