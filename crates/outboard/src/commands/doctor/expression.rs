//! A disk of this machine: a file, a device, or what an expression makes of some.

use lab::doctor::{Examination, Part, Substitution};

use super::export::{begun, generator, queue};
use super::far::{FarDisk, can_be_opened_twice};
use super::reading::{Measure, Opening, measure};
use super::remote::{busy, settle};
use super::session::Session;
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk};

/// The way within one machine.
const WAY: [Part; 4] = [Part::Generator, Part::Queue, Part::Client, Part::Disk];

/// Examines a disk by reading it.
pub(super) fn examine(session: &Session<'_>, named: &NamedDisk) -> Result<Examination, Failure> {
    let mut e = begun(session, "a disk of this machine".to_owned(), WAY.to_vec());
    let opening = Opening::Disk(Box::new(named.clone()));
    let how = |depth: u32| Measure {
        job: session.at_depth(depth),
        time: session.slice(),
        window: None,
        follow: Vec::new(),
        probe: None,
    };
    let depth = session.job.depth;
    forget(named);
    let first = measure(session, &opening, &how(depth))?;
    if first.window.0 == 0 {
        let what = format!(
            "{} is too small for requests of {}",
            named.text, session.job.block_size
        );
        return Err(Failure::new(what).next("give a smaller --block-size"));
    }
    queue(session, &mut e, |depth| {
        forget(named);
        Ok(measure(session, &opening, &how(depth))?.rate)
    })?;
    let again = || {
        forget(named);
        measure(session, &opening, &how(depth))
    };
    let second = again()?.rate;
    below(session, &mut e, named, &how(depth))?;
    settle(&mut e, &[first.rate, second, again()?.rate]);
    busy(
        &mut e,
        Part::Client,
        first.client,
        None,
        "this kernel does not tell",
    );
    generator(session, &mut e)?;
    if first.window.0 < first.read.0 {
        let times = first.read.0 / first.window.0.max(1);
        e.remarks.push(format!(
            "The disk is small: all of it was read about {times} times, so that memory answered most of it."
        ));
    }
    Ok(e)
}

fn forget(named: &NamedDisk) {
    for file in named.disk.files() {
        FarDisk::file(file.to_owned()).forget();
    }
}

/// The only disk below this one: what holds may be in the way between.
fn below(
    session: &Session<'_>,
    e: &mut Examination,
    named: &NamedDisk,
    how: &Measure,
) -> Result<(), Failure> {
    let [child] = named.disk.children() else {
        return Ok(());
    };
    let by = format!("what is below `{}`", node(&named.disk));
    if !can_be_opened_twice(child) || !session.has_time(e, Part::Disk, &by)? {
        return Ok(());
    }
    let inner = NamedDisk {
        disk: child.clone(),
        ..named.clone()
    };
    forget(&inner);
    let below = measure(session, &Opening::Disk(Box::new(inner)), how)?;
    e.substitutions.push(Substitution {
        replaced: vec![Part::Disk],
        by,
        rate: below.rate,
        // What is below may hold as well.
        sure: false,
    });
    Ok(())
}

/// A node's name in expressions.
fn node(disk: &Disk) -> &'static str {
    match disk {
        Disk::Throttle { .. } => "throttle",
        Disk::Delay { .. } => "delay",
        Disk::Fault { .. } => "fault",
        Disk::Partition { .. } => "partition",
        Disk::Blocks { .. } => "blocks",
        Disk::Overlay(_) => "overlay",
        Disk::Array(_) => "array",
        _ => "the disk",
    }
}
