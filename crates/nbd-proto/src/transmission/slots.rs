//! [`Slots`]: requests in flight, found by cookie without a search.
//!
//! A cookie is the slot's generation (upper half) and index (lower half). The generation changes
//! whenever a slot is freed, so a second reply to one request finds nothing.

use crate::errno::WireError;
use crate::transmission::coverage::Coverage;
use crate::transmission::{Expected, TooManyInFlight};
use crate::wire::index;

/// A request in flight.
#[derive(Debug)]
pub(super) struct PendingRequest<T> {
    pub(super) expected: Expected,
    pub(super) token: T,
    pub(super) error: Option<WireError>,
    pub(super) coverage: Coverage,
    /// Contexts with a status that is due, one bit for each place in the decoder's list.
    pub(super) contexts_due: u64,
}

impl<T> PendingRequest<T> {
    /// Whether `len` bytes at `offset` lie within the request.
    pub(super) fn contains(&self, offset: u64, len: u64) -> bool {
        let Some(at) = offset.checked_sub(self.expected.offset) else {
            return false;
        };
        at.checked_add(len)
            .is_some_and(|end| end <= self.expected.len)
    }
}

#[derive(Debug)]
struct PendingSlot<T> {
    generation: u32,
    pending: Option<PendingRequest<T>>,
}

/// At most `max` requests in flight.
#[derive(Debug)]
pub(super) struct Slots<T> {
    max: u32,
    slots: Vec<PendingSlot<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) const fn new(max: u32) -> Self {
        Self {
            max,
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= index(self.max)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, expected: Expected, token: T) -> Result<u64, TooManyInFlight> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.grow()?,
        };
        let slot = &mut self.slots[index(at)];
        slot.pending = Some(PendingRequest {
            expected,
            token,
            error: None,
            coverage: Coverage::default(),
            contexts_due: 0,
        });
        Ok(u64::from(slot.generation) << 32 | u64::from(at))
    }

    fn grow(&mut self) -> Result<u32, TooManyInFlight> {
        let full = TooManyInFlight(self.slots.len());
        let at = u32::try_from(self.slots.len()).map_err(|_| full)?;
        if at >= self.max {
            return Err(full);
        }
        self.slots.push(PendingSlot {
            generation: 0,
            pending: None,
        });
        Ok(at)
    }

    pub(super) fn find(&mut self, cookie: u64) -> Option<&mut PendingRequest<T>> {
        self.slot(cookie)?.pending.as_mut()
    }

    pub(super) fn remove(&mut self, cookie: u64) -> Option<PendingRequest<T>> {
        let slot = self.slot(cookie)?;
        let pending = slot.pending.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(low_half(cookie));
        Some(pending)
    }

    pub(super) fn drain(&mut self) -> Vec<T> {
        self.free.clear();
        let slots = std::mem::take(&mut self.slots).into_iter();
        slots
            .filter_map(|slot| slot.pending.map(|pending| pending.token))
            .collect()
    }

    fn slot(&mut self, cookie: u64) -> Option<&mut PendingSlot<T>> {
        let slot = self.slots.get_mut(index(low_half(cookie)))?;
        (u64::from(slot.generation) == cookie >> 32).then_some(slot)
    }
}

/// The slot's index in a cookie.
fn low_half(cookie: u64) -> u32 {
    u32::try_from(cookie & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
