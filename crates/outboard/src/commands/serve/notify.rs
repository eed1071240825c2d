//! Tells the service manager how the server is (sd_notify(3)): one datagram to `NOTIFY_SOCKET`.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// What is told while the configuration is read again. Since systemd 253 it wants to know when.
pub(super) fn reloading() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    format!("RELOADING=1\nMONOTONIC_USEC={micros}")
}

/// Tells `state`, if anybody wants to know. A manager that does not listen is no failure.
pub(super) fn tell(state: &str) {
    if let Err(e) = send(state) {
        tracing::warn!("the service manager could not be told {state:?}: {e}");
    }
}

fn send(state: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
