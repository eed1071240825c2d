//! [`ArrayInterface`]: what callers of an array see, and keep while another engine takes over: its geometry, and its events.
//!
//! # Invariants
//!
//! * Nothing of a geometry that callers saw changes, but for a size that grows: an engine that would need smaller requests, another size
//!   or a read-only disk does not take over.
//!
//! # What it does not do
//!
//! It does not say what members can do: an engine carries out what the geometry promises, natively or not.

use std::sync::Arc;

use block::{Geometry, GrowingGeometry};
use tokio::sync::broadcast;

use super::ArrayEvent;

/// Events that a listener may be behind before it misses some.
const EVENTS_MAX: usize = 256;

/// What callers of an array see of it.
#[derive(Debug, Clone)]
pub(super) struct ArrayInterface {
    pub(super) geometry: Arc<GrowingGeometry>,
    pub(super) events: broadcast::Sender<ArrayEvent>,
}

impl ArrayInterface {
    /// That of an array which is being opened.
    pub(super) fn new(geometry: Geometry) -> Self {
        Self {
            geometry: Arc::new(GrowingGeometry::new(geometry)),
            events: broadcast::Sender::new(EVENTS_MAX),
        }
    }
}
