//! [`CommitLedger`]: which changes of the array's metadata all members have durably, and which a commit still has to write. Pure.
//!
//! It knows numbers and phases, no format: what a commit writes is encoded by the owner of the metadata (md superblocks and bitmaps in
//! [`plan`](super::plan)).
//!
//! ```text
//! change(urgent) ─► changed  ──begin──► CommitScope ──end────► recorded
//!                                            └───────abort──► written again by the next commit
//! ```
//!
//! # Invariants
//!
//! * `events` goes up by one with each commit of superblocks, and only once that is durable on all members.
//! * An aborted commit leaves its events to be used again, and a flush that it owed is owed by the next one.
//! * Nothing is acknowledged while an urgent change is not durable ([`is_recorded`](CommitLedger::is_recorded)).
//! * A member that is away when the array is opened may have seen one commit more than all that are here: the first commit is
//!   then followed by another one. Two members that count the same events saw the same commits.

use super::phase::Phase;

/// What is durable, and what is to become so.
#[derive(Debug)]
pub(super) struct CommitLedger {
    /// Events that all members count.
    events: u64,
    /// Events of the last commit that all members saw: a member that counts fewer may lack more than the bitmap holds.
    events_cleared: u64,
    /// Whether members know that writes are under way.
    dirty: Phase,
    /// Members were marked dirty when the array was opened, and nothing was written to them since.
    found_dirty: bool,
    /// An absent member may have seen the next commit: another one follows it.
    lead: bool,
    /// Something was changed since the array was opened: bits of the bitmap may be written, too.
    awake: bool,
    /// Changes of what superblocks say, and how many of those are durable.
    changed: u64,
    recorded: u64,
    /// Changes that must be durable before anything is acknowledged.
    must_record: u64,
    /// Commits that began, and the last one of them that is durable.
    commits_begun: u64,
    commits_durable: u64,
    /// Members are flushed before the next commit.
    flush_first: bool,
}

/// What one commit covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommitScope {
    changed: u64,
    /// Events that its superblocks count; `None`: it writes none.
    pub(super) events: Option<u64>,
    /// Events up to which all members have everything.
    pub(super) events_cleared: u64,
    /// Members are flushed before anything is written.
    pub(super) flush_first: bool,
}

impl CommitLedger {
    /// That of an array with members that count `events`. `lead`: one that is away may count one more.
    pub(super) const fn new(events: u64, lead: bool) -> Self {
        Self {
            events,
            events_cleared: 0,
            dirty: Phase::Clear,
            found_dirty: false,
            lead,
            awake: false,
            changed: 0,
            recorded: 0,
            must_record: 0,
            commits_begun: 0,
            commits_durable: 0,
            flush_first: false,
        }
    }

    /// A member leaves with the next commit, while bits of the bitmap are cleared as before: another commit follows that one, so
    /// that the member counts fewer events than those up to which all members have everything. No commit may be under way.
    pub(super) const fn lead(&mut self) {
        self.lead = true;
    }

    /// Whether a member that is away may count as many events as those that are here, or one more: no commit says yet that it is missing.
    pub(super) const fn leads(&self) -> bool {
        self.lead
    }

    /// Members were marked dirty when the array was opened.
    pub(super) const fn set_found_dirty(&mut self, found_dirty: bool) {
        self.found_dirty = found_dirty;
    }

    /// What the bitmap says that all members have seen.
    pub(super) const fn set_events_cleared(&mut self, events: u64) {
        self.events_cleared = events;
    }

    /// Events that all members count.
    pub(super) const fn events(&self) -> u64 {
        self.events
    }

    /// A change of what superblocks say. `urgent`: nothing is acknowledged before all members have it.
    pub(super) const fn change(&mut self, urgent: bool) {
        self.changed += 1;
        self.awake = true;
        if urgent {
            self.must_record = self.changed;
        }
    }

    /// A change of what superblocks say of data: members are flushed before it is written.
    pub(super) const fn change_flushed(&mut self, urgent: bool) {
        self.flush_first = true;
        self.change(urgent);
    }

    /// A write begins: members must know that the array is dirty.
    #[inline]
    pub(super) const fn begin_write(&mut self) {
        self.awake = true;
        self.dirty.want();
    }

    /// No write is under way. `resynced`: copies do not differ anywhere. Whether a commit can mark the array clean.
    pub(super) fn release_dirty(&mut self, resynced: bool) -> bool {
        if self.found_dirty && self.dirty == Phase::Clear && resynced {
            self.found_dirty = false;
            self.change_flushed(false);
            return true;
        }
        self.dirty.let_go();
        self.dirty == Phase::Clearing
    }

    /// Whether all members know durably that writes are under way.
    #[inline]
    pub(super) const fn is_dirty(&self) -> bool {
        self.dirty.is_set()
    }

    /// Whether no member counts on a write that is under way.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty == Phase::Clear
    }

    /// Whether superblocks of the commit that was begun last say that writes are under way.
    pub(super) const fn writes_dirty(&self) -> bool {
        self.dirty.is_wanted()
    }

    /// Whether all members know what they must before anything is acknowledged.
    #[inline]
    pub(super) const fn is_recorded(&self) -> bool {
        self.must_record <= self.recorded
    }

    /// Whether superblocks have something to say that members do not know.
    pub(super) const fn is_pending(&self) -> bool {
        matches!(self.dirty, Phase::Setting | Phase::Clearing) || self.changed > self.recorded
    }

    /// Whether anything was changed since the array was opened.
    pub(super) const fn is_awake(&self) -> bool {
        self.awake
    }

    /// How many commits began.
    pub(super) const fn commits_begun(&self) -> u64 {
        self.commits_begun
    }

    /// Whether a commit is durable that began after `begun` others.
    pub(super) const fn is_durable_since(&self, begun: u64) -> bool {
        self.commits_durable > begun
    }

    /// A commit begins. `degraded`: a part has no member in sync. `clears_bits`: the commit clears bits of the bitmap.
    pub(super) fn begin(&mut self, degraded: bool, clears_bits: bool) -> CommitScope {
        self.commits_begun += 1;
        let flush_first =
            std::mem::take(&mut self.flush_first) || self.dirty == Phase::Clearing || clears_bits;
        let changes_dirty = self.dirty.begin().is_some();
        let writes_superblocks = changes_dirty || self.changed > self.recorded;
        CommitScope {
            changed: self.changed,
            events: writes_superblocks.then_some(self.events + 1),
            events_cleared: if degraded {
                self.events_cleared
            } else {
                // All members have these, so none that leaves from now on can be older.
                self.events.max(self.events_cleared)
            },
            flush_first,
        }
    }

    /// The commit is durable on all members that have not failed.
    pub(super) fn end(&mut self, scope: &CommitScope) {
        self.dirty.end();
        // There is one commit at a time: the last one that began.
        self.commits_durable = self.commits_begun;
        if let Some(events) = scope.events {
            self.events = events;
            self.found_dirty = false;
            self.events_cleared = scope.events_cleared;
            self.recorded = self.recorded.max(scope.changed);
            if std::mem::take(&mut self.lead) {
                self.change(true);
            }
        }
    }

    /// The commit failed, or wrote nothing: which member says what is not known.
    pub(super) const fn abort(&mut self, scope: &CommitScope) {
        self.dirty.undo();
        self.flush_first |= scope.flush_first;
    }
}

#[cfg(test)]
mod tests {
    use super::CommitLedger;

    #[test]
    fn events_go_up_by_one_with_each_durable_commit_of_superblocks() {
        let mut ledger = CommitLedger::new(7, false);
        assert!(!ledger.is_pending());
        ledger.begin_write();
        assert!(ledger.is_pending() && !ledger.is_dirty());
        let scope = ledger.begin(false, false);
        assert_eq!((scope.events, scope.events_cleared), (Some(8), 7));
        assert!(ledger.writes_dirty() && !ledger.is_dirty());
        assert_eq!(ledger.events(), 7, "it is not durable yet");
        ledger.end(&scope);
        assert!(ledger.is_dirty() && !ledger.is_pending());
        assert_eq!(ledger.events(), 8);
        // A commit of the bitmap alone counts no event.
        let scope = ledger.begin(false, true);
        assert_eq!((scope.events, scope.flush_first), (None, true));
        ledger.end(&scope);
        assert_eq!(ledger.events(), 8);
    }

    #[test]
    fn an_aborted_commit_leaves_its_events_and_its_flush_to_the_next_one() {
        let mut ledger = CommitLedger::new(7, false);
        ledger.change_flushed(true);
        assert!(!ledger.is_recorded());
        let scope = ledger.begin(false, false);
        assert!(scope.flush_first);
        ledger.abort(&scope);
        assert!(!ledger.is_recorded() && ledger.is_pending());
        let again = ledger.begin(false, false);
        assert_eq!((again.events, again.flush_first), (Some(8), true));
        ledger.end(&again);
        assert!(ledger.is_recorded() && !ledger.is_pending());
        assert!(!ledger.begin(false, false).flush_first, "it was flushed");
    }

    #[test]
    fn a_change_during_a_commit_is_recorded_by_the_next_one() {
        let mut ledger = CommitLedger::new(0, false);
        ledger.change(true);
        let scope = ledger.begin(false, false);
        ledger.change(true);
        ledger.end(&scope);
        assert!(!ledger.is_recorded(), "it was not in that commit");
        let begun = ledger.commits_begun();
        assert!(!ledger.is_durable_since(begun));
        let scope = ledger.begin(false, false);
        ledger.end(&scope);
        assert!(ledger.is_recorded() && ledger.is_durable_since(begun));
    }

    #[test]
    fn events_cleared_stays_while_the_array_is_degraded() {
        let mut ledger = CommitLedger::new(9, false);
        ledger.set_events_cleared(5);
        ledger.change(false);
        let scope = ledger.begin(true, false);
        assert_eq!(scope.events_cleared, 5);
        ledger.end(&scope);
        ledger.change(false);
        assert_eq!(ledger.begin(false, false).events_cleared, 10);
    }

    #[test]
    fn where_a_member_may_be_one_commit_ahead_the_first_commit_is_followed_by_another() {
        let mut ledger = CommitLedger::new(3, true);
        ledger.change(true);
        let scope = ledger.begin(true, false);
        ledger.end(&scope);
        assert!(!ledger.is_recorded(), "the absent member may count 4, too");
        let scope = ledger.begin(true, false);
        ledger.end(&scope);
        assert!(ledger.is_recorded());
        assert_eq!(ledger.events(), 5);
    }

    #[test]
    fn an_array_that_was_found_dirty_is_marked_clean_once_it_is_resynced() {
        let mut ledger = CommitLedger::new(1, false);
        ledger.set_found_dirty(true);
        assert!(!ledger.release_dirty(false));
        assert!(ledger.release_dirty(true) && ledger.is_pending());
        let scope = ledger.begin(false, false);
        assert!(scope.flush_first);
        ledger.end(&scope);
        assert!(!ledger.release_dirty(true), "it is clean");
    }
}
