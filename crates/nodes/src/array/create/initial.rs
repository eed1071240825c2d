//! [`InitialState`]: how a new array begins, so that no parity is relied on before it was written. Pure.
//!
//! | level | members | begins |
//! |---|---|---|
//! | 1, 10 | all, or some missing | dirty: a resync makes the copies identical |
//! | 4, 5, 6 | all | dirty: a resync writes parity that fits what the disks hold |
//! | 4, 5, 6 | as many missing as a row has parities | clean: nothing is redundant, so nothing can disagree |
//! | 6 | one missing | as the row before: the last member that is there begins as a spare, and is rebuilt |
//! | 4, 5, 6 with `assume_clean` | all, or some missing | clean: parity fits already |
//! | 0, linear | all | clean |
//!
//! # Invariants
//!
//! * No new array with parity is both dirty and degraded: such an array is refused, here and by Linux.
//!
//! # Where it differs from mdadm
//!
//! mdadm begins a complete array of level 4 or 5 as if its last member were missing, with that disk as a spare, and
//! rebuilds it; with `--force` it begins as here. `docs/adr/0016-initial-resync.md` has the reasons.

use super::create_spec::CreateSpec;

/// How a new array begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InitialState {
    /// It is marked dirty: a resync is due.
    pub(super) dirty: bool,
    /// The part with a disk that begins as a spare, numbered behind all others.
    pub(super) rebuilt: Option<usize>,
}

impl InitialState {
    pub(super) fn of(spec: &CreateSpec<'_>) -> Self {
        let settled = Self {
            dirty: false,
            rebuilt: None,
        };
        if !spec.is_redundant() || spec.options.assume_clean {
            return settled;
        }
        let parts = &spec.disks[..spec.parts];
        let missing = parts.iter().filter(|disk| disk.size.is_none()).count();
        let parities = spec.options.level.parities();
        match missing {
            0 => {}
            _ if parities == 0 => {}
            missing if missing < parities => {
                let rebuilt = parts.iter().rposition(|disk| disk.size.is_some());
                return Self { rebuilt, ..settled };
            }
            _ => return settled,
        }
        Self {
            dirty: true,
            ..settled
        }
    }

    /// The number of the disk at this place among all.
    pub(super) fn number(&self, spec: &CreateSpec<'_>, index: usize) -> usize {
        match self.rebuilt == Some(index) {
            true => spec.disks.len(),
            false => index,
        }
    }

    /// How many numbers there are.
    pub(super) fn numbers(&self, spec: &CreateSpec<'_>) -> usize {
        spec.disks.len() + usize::from(self.rebuilt.is_some())
    }
}
