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

use super::{ArrayError, ArrayEvent};

/// Events that a listener may be behind before it misses some.
const EVENTS_MAX: usize = 256;

/// What callers of an array see of it.
#[derive(Debug, Clone)]
pub(super) struct ArrayInterface {
    pub(super) geometry: Arc<GrowingGeometry>,
    pub(super) events: broadcast::Sender<ArrayEvent>,
}

impl ArrayInterface {
    /// That of an array which is being opened by an engine of this geometry. `before`: it takes over from another one.
    ///
    /// # Errors
    /// It is another disk than callers know.
    pub(super) fn of(geometry: Geometry, before: Option<&Self>) -> Result<Self, ArrayError> {
        let Some(before) = before else {
            return Ok(Self {
                geometry: Arc::new(GrowingGeometry::new(geometry)),
                events: broadcast::Sender::new(EVENTS_MAX),
            });
        };
        let known = before.geometry.now();
        let fits = geometry.size == known.size
            && geometry.block_size <= known.block_size
            && geometry.read_only == known.read_only;
        if fits {
            return Ok(before.clone());
        }
        Err(ArrayError::refused(
            format!(
                "the array would have {} bytes in blocks of {}, and has {} in blocks of {}",
                geometry.size, geometry.block_size, known.size, known.block_size
            ),
            "stop it, and open it again",
        ))
    }
}
