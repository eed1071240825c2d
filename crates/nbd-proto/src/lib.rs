//! The NBD protocol as bytes and events.
