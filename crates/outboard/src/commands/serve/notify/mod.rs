//! Notifies the service manager of the server's state (sd_notify(3)): one datagram to `NOTIFY_SOCKET`.

mod watchdog;

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The state during a reload of the configuration, with the time that systemd 253 and later require.
pub(super) fn reloading() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    format!("RELOADING=1\nMONOTONIC_USEC={micros}")
}

/// Clients can connect. From here on the watchdog gets its reports.
pub(super) fn ready(handle: &engine::Handle) {
    send("READY=1");
    watchdog::start(handle);
}

/// Sends `state` if `NOTIFY_SOCKET` is set. An unreachable service manager is logged, and no failure.
pub(super) fn send(state: &str) {
    if let Err(e) = send_datagram(state) {
        tracing::warn!("the service manager could not be notified of {state:?}: {e}");
    }
}

fn send_datagram(state: &str) -> io::Result<()> {
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
