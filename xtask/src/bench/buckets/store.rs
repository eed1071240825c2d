//! [`ObjectStore`]: versitygw on a folder, and the proxy before it that delays and counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::proxy::{FaultyProxy, RequestFaults};
use crate::servers::{Serving, free_port, listening_within};
use crate::shell::Running;

pub(super) const KEY: &str = "bench-key";
pub(super) const SECRET: &str = "bench-secret-0815";
pub(super) const REGION: &str = "us-east-1";
/// The only bucket.
pub(super) const BUCKET: &str = "disks";

/// When a server that was started counts as stuck.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running store.
#[derive(Debug)]
pub(super) struct ObjectStore {
    serving: Serving,
    data: PathBuf,
}

impl ObjectStore {
    /// Starts it with its data below `folder`.
    pub(super) fn start(versitygw: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("store");
        let bucket = data.join(BUCKET);
        std::fs::create_dir_all(&bucket)
            .with_context(|| format!("cannot make {}", bucket.display()))?;
        let port = free_port()?;
        let keys = [
            format!("ROOT_ACCESS_KEY={KEY}"),
            format!("ROOT_SECRET_KEY={SECRET}"),
            // It has a heap of a few MiB, which Go would otherwise collect after each few requests: a quarter of its time.
            "GOGC=2000".to_owned(),
        ];
        let [program, path] = [versitygw, &data].map(|path| path.display().to_string());
        let address = format!("127.0.0.1:{port}");
        // Stores keep connections; this one does if it is set to.
        let words = [
            &program,
            "--port",
            &address,
            "--keep-alive",
            "--quiet",
            "posix",
            &path,
        ];
        let words = words.map(str::to_owned);
        let log = folder.join("versitygw.log");
        let running = Running::start("env", keys.into_iter().chain(words), &log)?;
        Ok(Self {
            serving: listening_within(START_LIMIT, running, port, "")?,
            data,
        })
    }

    /// A proxy before it, with the delays of a store on the Internet.
    pub(super) fn proxy(&self) -> FaultyProxy {
        FaultyProxy::start(self.serving.port(), RequestFaults::DELAYS, 1)
    }

    /// The folder of what has this prefix.
    pub(super) fn folder(&self, prefix: &str) -> PathBuf {
        self.data.join(BUCKET).join(prefix)
    }
}

/// Bytes of all files below a folder.
pub(super) fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => bytes += entry.metadata()?.len(),
            }
        }
    }
    Ok(bytes)
}
