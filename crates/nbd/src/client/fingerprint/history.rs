//! [`History`]: every value that a site may have after a power cut. Pure.

use crate::client::fingerprint::signature::Value;

/// Values kept for one site; beyond, any value will do until a flush.
const VALUES_MAX: usize = 64;

/// What was there since the last flush that covered it, in order. `None`: nothing.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// With the number of the change that made it.
    values: Vec<(u64, Option<Value>)>,
    /// What is there is not known for sure, even after a flush: a change failed, or left it undefined.
    pub(super) is_uncertain: bool,
    /// Values were dropped by this change; they may be there all the same.
    dropped_at: Option<u64>,
}

impl History {
    pub(super) fn new(value: Option<Value>) -> Self {
        Self {
            values: vec![(0, value)],
            is_uncertain: false,
            dropped_at: None,
        }
    }

    /// Change number `change` makes it `value`.
    pub(super) fn push(&mut self, change: u64, value: Option<Value>) {
        if *self.last() == value {
            return;
        }
        if self.values.len() >= VALUES_MAX {
            self.values.clear();
            self.dropped_at = Some(change);
        }
        self.values.push((change, value));
    }

    /// What is there if nothing was lost.
    pub(super) fn last(&self) -> &Option<Value> {
        let last = self.values.last();
        &last.expect("there is always a value").1
    }

    pub(super) fn may_be(&self, value: Option<&Value>) -> bool {
        let is_known = || self.values.iter().any(|(_, one)| one.as_ref() == value);
        self.dropped_at.is_some() || is_known()
    }

    /// All that was there before change number `change` has been overwritten for good.
    pub(super) fn forget_before(&mut self, change: u64) {
        if self.is_uncertain {
            return;
        }
        if self.dropped_at.is_some_and(|dropped| dropped <= change) {
            self.dropped_at = None;
        }
        let later = self.values.iter().skip(1);
        let over = later.take_while(|(at, _)| *at <= change).count();
        self.values.drain(..over);
    }
}
