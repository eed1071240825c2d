//! [`WriteGate`]: whether a connection may write, as the connection knows it.

use std::fmt;

/// The check of a closed gate: whether it may open, or why not.
type ClaimCheck = Box<dyn FnMut() -> Result<(), String> + Send>;

/// Whether a connection may write. Once it is open it stays so: a connection that must not write any more
/// is ended.
pub(in crate::server) struct WriteGate(Option<ClaimCheck>);

impl WriteGate {
    /// For a connection that may write.
    pub(in crate::server) const fn open() -> Self {
        Self(None)
    }

    /// For one that claims when it first writes.
    pub(in crate::server) fn asking(
        ask: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Self {
        Self(Some(Box::new(ask)))
    }

    /// Whether the connection may write now, or why not.
    pub(in crate::server) fn pass(&mut self) -> Result<(), String> {
        if let Some(ask) = &mut self.0 {
            ask()?;
            self.0 = None;
        }
        Ok(())
    }
}

impl fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGate").field(&self.0.is_none()).finish()
    }
}
