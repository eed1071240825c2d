//! The disks of a stripe, each by itself: one that is slower than the others limits all of it.
//!
//! What their rates mean is in [`lab::doctor::ServedUse`].

use lab::doctor::{Bound, Examination, ServedUse, Stage, StripeMember};

use super::disk::StripedDisk;
use super::read_load::{Measure, Opening, measure};
use super::server::ServerDisk;
use super::session::DoctorSession;
use crate::DriverError;

/// Disks of one stripe that are measured; more take too long.
const DISKS_MAX: usize = 8;

/// Measures each of them as `how` says, and adds what the stripe carries then.
pub(super) fn each_alone(
    session: &DoctorSession<'_>,
    e: &mut Examination,
    disks: &[StripedDisk],
    how: &Measure,
) -> Result<(), DriverError> {
    if !(2..=DISKS_MAX).contains(&disks.len()) {
        return Ok(());
    }
    let count = u32::try_from(disks.len()).unwrap_or(u32::MAX);
    let how = Measure {
        time: how.time / 2,
        ..how.clone()
    };
    let what = "each disk of the stripe by itself";
    if !session.has_time_of(how.time * count, e, Stage::Disk, what)? {
        return Ok(());
    }
    let mut stripe = Vec::new();
    for StripedDisk { name, disk } in disks {
        for file in &disk.files {
            ServerDisk::file(file.clone()).forget();
        }
        match measure(session, &Opening::Disk(Box::new(disk.clone())), &how) {
            Ok(alone) => stripe.push(StripeMember {
                name: name.clone(),
                rate: alone.rate,
            }),
            Err(failure) => {
                session.go_on()?;
                e.note_unmeasured(Stage::Disk, format!("{name} by itself: {failure}"));
                return Ok(());
            }
        }
    }
    let served = ServedUse {
        stripe,
        ..e.served.take().unwrap_or_default()
    };
    if let Some(rate) = served.stripe_rate() {
        let how = format!("a stripe of {count} disks, each by itself");
        e.bounds.push(Bound::alone(Stage::Disk, rate, how));
    }
    e.served = Some(served);
    Ok(())
}
