//! [`Absences`]: members that are away, and when it is looked whether they are back. Pure.
//!
//! # Invariants
//!
//! * A member that an administrator declared failed, or that may not come back by the bitmap, is not probed.
//! * A member that is away for long, or leaves again soon after it came back, is probed less and less often.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::options::Reopen;

/// How soon it is looked for a member again, first and at most.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);
/// A member that stayed for so long is a good one again.
const STAYED: Duration = Duration::from_secs(600);

/// How a member can be opened again.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) remote: bool,
    pub(super) reopen: Arc<dyn Reopen>,
}

#[derive(Debug)]
struct Absence {
    way: Way,
    /// It is not looked for.
    refused: bool,
    next: Duration,
    wait: Duration,
    /// When it came back the last time.
    back: Option<Duration>,
    /// It is away, as far as is known.
    away: bool,
}

/// Members that can be opened again, by their names.
#[derive(Debug, Default)]
pub(in crate::array) struct Absences(BTreeMap<String, Absence>);

impl Absences {
    /// A member that can be opened again if it leaves.
    pub(super) fn know(&mut self, name: &str, way: Way) {
        let absence = Absence {
            way,
            refused: false,
            next: Duration::ZERO,
            wait: FIRST,
            back: None,
            away: false,
        };
        self.0.insert(name.to_owned(), absence);
    }

    /// It is not wanted any more; how it was opened.
    pub(super) fn forget(&mut self, name: &str) -> Option<Way> {
        self.0.remove(name).map(|absence| absence.way)
    }

    /// How a member is opened again.
    pub(super) fn way(&self, name: &str) -> Option<&Way> {
        self.0.get(name).map(|absence| &absence.way)
    }

    /// How a member of this name was opened, if that was in another way than `reopen`.
    pub(super) fn other_way(&self, name: &str, reopen: Option<&Arc<dyn Reopen>>) -> Option<Way> {
        let way = &self.0.get(name)?.way;
        let same = reopen.is_some_and(|reopen| Arc::ptr_eq(reopen, &way.reopen));
        (!same).then(|| way.clone())
    }

    /// It is not to be probed until it is added by command.
    pub(super) fn refuse(&mut self, name: &str) {
        if let Some(absence) = self.0.get_mut(name) {
            absence.refused = true;
        }
    }

    /// Whether no member can be opened again.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Members of these names are away at `now`: which are to be probed, and how; `all` of them, if that is requested.
    pub(super) fn due(&mut self, now: Duration, away: &[String], all: bool) -> Vec<(String, Way)> {
        let mut due = Vec::new();
        for (name, absence) in &mut self.0 {
            let was = std::mem::replace(&mut absence.away, away.contains(name));
            if !absence.away || absence.refused {
                continue;
            }
            if !was {
                let stayed = absence
                    .back
                    .is_none_or(|back| now.saturating_sub(back) > STAYED);
                absence.wait = if stayed { FIRST } else { absence.wait };
                absence.next = now + absence.wait;
            }
            if all || now >= absence.next {
                absence.wait = (absence.wait * 2).min(MOST);
                absence.next = now + absence.wait;
                due.push((name.clone(), absence.way.clone()));
            }
        }
        due
    }

    /// It is back.
    pub(super) fn came_back(&mut self, name: &str, now: Duration) {
        if let Some(absence) = self.0.get_mut(name) {
            absence.back = Some(now);
            absence.away = false;
        }
    }

    /// All members that can be opened again.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// When the next probe is due; `None`: no member is away.
    pub(super) fn next(&self) -> Option<Duration> {
        let away = self
            .0
            .values()
            .filter(|absence| absence.away && !absence.refused);
        away.map(|absence| absence.next).min()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use block::Node;

    use super::{Absences, Way};
    use crate::array::{Reopen, ReopenError};

    #[derive(Debug)]
    struct Never;

    impl Reopen for Never {
        fn reopen(&self) -> Pin<Box<dyn Future<Output = Result<Node, ReopenError>> + Send + '_>> {
            Box::pin(async { Err(ReopenError::Unreachable("never".to_owned())) })
        }
    }

    fn known(names: &[&str]) -> Absences {
        let mut absences = Absences::default();
        for name in names {
            let reopen = Arc::new(Never);
            absences.know(
                name,
                Way {
                    remote: true,
                    reopen,
                },
            );
        }
        absences
    }

    /// Seconds at which `a` is looked for, while it is away from second 0 to `until`.
    fn looked_for(absences: &mut Absences, from: u64, until: u64) -> Vec<u64> {
        let away = ["a".to_owned()];
        let at = |second| Duration::from_secs(second);
        let seconds = from..until;
        seconds
            .filter(|second| !absences.due(at(*second), &away, false).is_empty())
            .collect()
    }

    #[test]
    fn who_is_away_for_long_is_looked_for_less_and_less_often() {
        let mut absences = known(&["a", "b"]);
        assert_eq!(
            looked_for(&mut absences, 0, 200),
            [1, 3, 7, 15, 31, 63, 123, 183]
        );
    }

    #[test]
    fn who_leaves_again_soon_is_not_looked_for_at_once() {
        let mut absences = known(&["a"]);
        assert_eq!(looked_for(&mut absences, 0, 16), [1, 3, 7, 15]);
        absences.came_back("a", Duration::from_secs(16));
        assert_eq!(absences.due(Duration::from_secs(17), &[], true).len(), 0);
        assert_eq!(looked_for(&mut absences, 20, 100), [36, 68]);
        absences.came_back("a", Duration::from_secs(100));
        assert_eq!(looked_for(&mut absences, 1000, 1003), [1001]);
    }

    #[test]
    fn who_was_declared_failed_is_not_looked_for() {
        let mut absences = known(&["a"]);
        absences.refuse("a");
        assert_eq!(
            absences.due(Duration::ZERO, &["a".to_owned()], true).len(),
            0
        );
        assert_eq!(looked_for(&mut absences, 0, 100), [0_u64; 0]);
        assert_eq!(absences.next(), None);
        assert!(absences.forget("a").is_some());
        assert_eq!(looked_for(&mut absences, 0, 100), [0_u64; 0]);
    }
}
