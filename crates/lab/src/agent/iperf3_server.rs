//! iperf3 as a server, for what the wire carries by itself.
//!
//! It authenticates no client, and can do nothing but send and take bytes. So it is started on demand only,
//! on one address, and ended with the connection that started it.
//!
//! Invariant: it works in a folder that is removed afterwards.

use std::net::IpAddr;

use super::protocol::Iperf3Ready;
use crate::tools::iperf3::{Iperf3Process, PROGRAM, Tests};
use crate::tools::{ToolDirs, ToolError, find};

/// An iperf3 that takes tests, until this is dropped.
#[derive(Debug)]
pub struct Iperf3Server {
    server: Iperf3Process,
    ready: Iperf3Ready,
    /// What it prints; removed behind it.
    _folder: tempfile::TempDir,
}

impl Iperf3Server {
    /// Starts one at `address`, on a free port. Blocks until it listens.
    ///
    /// # Errors
    /// [`ToolError`]; nothing is left running then.
    pub fn start(address: IpAddr) -> Result<Self, ToolError> {
        let installed = find(PROGRAM)?;
        let folder = tempfile::tempdir()
            .map_err(|error| ToolError::system("make a temporary folder", error))?;
        let place = ToolDirs {
            directory: folder.path(),
            beside: &[],
            work: folder.path(),
            seed: 0,
        };
        let server = Iperf3Process::start(&installed, &place, address, Tests::Any, &mut |_| true)?;
        let ready = Iperf3Ready {
            version: installed.version,
            port: server.port(),
        };
        Ok(Self {
            server,
            ready,
            _folder: folder,
        })
    }

    /// Where it is, for the other side.
    #[must_use]
    pub const fn ready(&self) -> &Iperf3Ready {
        &self.ready
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_running()
    }
}
