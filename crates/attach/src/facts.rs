//! The state of an attachment, gathered once before a teardown is planned.

use std::path::Path;
use std::time::Duration;

use crate::mount;
use crate::state::Record;
use crate::sysfs;
use crate::teardown::TeardownFacts;
use crate::users;

/// How long programs that only look at the device (udev, blkid) are waited for.
const LOOKERS_FOR: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The facts of the attachment in `record` on `device`, which was checked to be its own.
pub(crate) async fn gather(
    record: &Record,
    device: Option<&Path>,
    unreachable: Option<String>,
    force: bool,
) -> TeardownFacts {
    let place = record.mount.as_ref();
    let mut elsewhere = device
        .and_then(|device| mount::mounted_at(&sysfs::numbers(device)).ok())
        .unwrap_or_default();
    let mounted = place
        .and_then(|place| elsewhere.iter().position(|dir| *dir == place.dir))
        .map(|at| elsewhere.remove(at));
    TeardownFacts {
        mounted,
        elsewhere,
        holders: device.map(users::all_holders).unwrap_or_default(),
        programs: match device {
            Some(device) => programs(device, force || unreachable.is_some()).await,
            None => Vec::new(),
        },
        device: device.is_some(),
        created: place.filter(|p| p.created).map(|p| p.dir.clone()),
        unreachable,
        cut: None,
        read_only: record.read_only,
        force,
    }
}

/// Programs that have the device open. Unless `at_once` is set, those that close it soon are waited for.
async fn programs(device: &Path, at_once: bool) -> Vec<String> {
    let started = engine::clock::now();
    loop {
        let path = device.to_owned();
        let found = engine::blocking(move || users::programs(&path)).await;
        let waited = engine::clock::now().duration_since(started);
        if found.is_empty() || at_once || waited >= LOOKERS_FOR {
            return found;
        }
        engine::clock::sleep(LOOK_EVERY).await;
    }
}
