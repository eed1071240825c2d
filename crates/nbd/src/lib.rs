//! NBD server and client.
