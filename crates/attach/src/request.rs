//! The requests of `attach` and `detach`: plain data, validated before anything is touched.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nbd::client::Target;
use serde::{Deserialize, Serialize};

use crate::error::AttachError;

/// Connections to one export.
pub const CONNECTIONS_MAX: usize = 16;
/// The default number of connections: one carries little over a long way, more than a few
/// gain nothing over a short one.
pub const CONNECTIONS_DEFAULT: usize = 4;
/// The default for how long requests wait for an unreachable server before they fail.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// The longest such time; the kernel counts it in ticks.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// A server that has answered nothing for so long is away, although its connection stands; but for one
/// that a flush is waited for (not with the kernel's client, which knows no difference).
const SILENT_FOR: Duration = Duration::from_secs(15);
/// How long `detach` waits for a flush or an unmount to end before it cuts the disk off.
pub const DETACH_TIMEOUT: Duration = Duration::from_secs(30);

/// The disk to attach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A remote disk, by its URI.
    Remote(String),
    /// A disk expression, which the caller of [`run`](crate::daemon::run) opens.
    Local(String),
}

impl Source {
    /// Whether the way to it is hidden from others, which the kernel's client cannot do.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Remote(uri) if uri.starts_with("nbds"))
    }

    /// Whether several servers have it.
    #[must_use]
    pub fn has_several_servers(&self) -> bool {
        let Self::Remote(uri) = self else {
            return false;
        };
        uri.parse().is_ok_and(|target: Target| target.has_several())
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(text) | Self::Local(text) => f.write_str(text),
        }
    }
}

/// Which way to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The kernel's nbd client where there is one, else FUSE and loop.
    #[default]
    Auto,
    /// The kernel's nbd client.
    Kernel,
    /// A FUSE file under a loop device.
    Fuse,
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "kernel" => Ok(Self::Kernel),
            "fuse" => Ok(Self::Fuse),
            other => Err(format!("{other}: not auto, kernel or fuse")),
        }
    }
}

/// A disk to attach, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Which disk.
    pub source: Source,
    /// The URI of the export that a local disk is a cache of.
    pub cached: Option<String>,
    /// Where to mount it.
    pub mount: Option<PathBuf>,
    /// Which way to take.
    pub via: Via,
    /// Connections to the server, 1 to [`CONNECTIONS_MAX`]; fewer where the server allows one only.
    pub connections: usize,
    /// Refuse writes.
    pub read_only: bool,
    /// The filesystem to make first, on a disk that holds nothing known.
    pub mkfs: Option<String>,
    /// How long requests wait for a server that is away before they fail.
    pub timeout: Duration,
    /// How long to try for when the server cannot be reached at first; zero: once.
    pub wait: Duration,
    /// Whether others may write to the disk meanwhile: a cluster filesystem or an application coordinates.
    pub shared: bool,
    /// A name of its own, by which the device is found under any number.
    pub name: Option<String>,
    /// Whether the root filesystem will be on it: its process must outlive the initramfs and what
    /// ends processes at shutdown.
    pub for_root: bool,
}

impl AttachRequest {
    /// A request with defaults for all but the disk.
    #[must_use]
    pub const fn new(source: Source) -> Self {
        Self {
            source,
            cached: None,
            mount: None,
            via: Via::Auto,
            connections: CONNECTIONS_DEFAULT,
            read_only: false,
            mkfs: None,
            timeout: TIMEOUT,
            wait: Duration::ZERO,
            shared: false,
            name: None,
            for_root: false,
        }
    }

    /// After how long without an answer a server counts as away.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        self.timeout.min(SILENT_FOR)
    }

    /// Refuses contradictions, independent of the machine.
    ///
    /// # Errors
    /// [`AttachError::Request`].
    pub fn check(&self) -> Result<(), AttachError> {
        let refuse = |why: &str| Err(AttachError::Request(why.to_owned()));
        if self.read_only && self.mkfs.is_some() {
            return refuse("--mkfs writes and --read-only forbids it; leave one away");
        }
        if self.shared && self.cached.is_some() {
            return refuse(
                "a cache does not see what others write; leave --shared or the cache away",
            );
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return refuse("--connections takes a number from 1 to 16");
        }
        if self.via == Via::Kernel && matches!(self.source, Source::Local(_)) {
            return refuse(
                "the kernel's nbd takes a remote disk only; use --via fuse, or serve the disk and attach its URI",
            );
        }
        if self.via == Via::Kernel && self.source.is_tls() {
            return refuse("the kernel's nbd has no TLS; use --via fuse");
        }
        if self.via == Via::Kernel && self.source.has_several_servers() && !self.read_only {
            return refuse(
                "the kernel's nbd does not write again what a server lost, so that it takes several servers with --read-only only; use --via fuse",
            );
        }
        if !(1..=TIMEOUT_MAX.as_secs()).contains(&self.timeout.as_secs()) {
            return refuse("--timeout takes seconds, from 1 to 31536000 (a year)");
        }
        if let Some(name) = self.name.as_deref().filter(|name| !is_plain(name)) {
            let why = format!(
                "--name {name}: a name has letters, digits, `-`, `_` and `.`, 64 at most, and begins with none of the signs"
            );
            return Err(AttachError::Request(why));
        }
        Ok(())
    }
}

/// Whether a name can be a file's, a unit's and a word of a command line without any quotes.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = name.chars().next();
    first.is_some_and(|c| c.is_ascii_alphanumeric()) && name.len() <= 64 && name.chars().all(plain)
}

/// What to detach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetachTarget {
    /// Every attachment.
    All,
    /// The one with this device, mount point, or link to its device.
    Path(PathBuf),
    /// The one with this name of its own.
    Name(String),
}

/// How to detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetachOptions {
    /// How long a flush or an unmount may take before the disk is cut off.
    pub timeout: Duration,
    /// Detach also what is in use.
    pub force: bool,
}

impl Default for DetachOptions {
    fn default() -> Self {
        Self {
            timeout: DETACH_TIMEOUT,
            force: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused_before_anything_is_touched() {
        let good = AttachRequest::new(Source::Local("memory(1M)".into()));
        assert!(good.check().is_ok());
        let cases = [
            AttachRequest {
                read_only: true,
                mkfs: Some("ext4".into()),
                ..good.clone()
            },
            AttachRequest {
                connections: 0,
                ..good.clone()
            },
            AttachRequest {
                connections: CONNECTIONS_MAX + 1,
                ..good.clone()
            },
            AttachRequest {
                via: Via::Kernel,
                ..good.clone()
            },
            AttachRequest {
                timeout: Duration::ZERO,
                ..good.clone()
            },
            AttachRequest {
                via: Via::Kernel,
                ..AttachRequest::new(Source::Remote("nbds://h/x".into()))
            },
            AttachRequest {
                via: Via::Kernel,
                ..AttachRequest::new(Source::Remote("nbd://a,b/x".into()))
            },
            AttachRequest {
                name: Some("../media".into()),
                ..good.clone()
            },
            AttachRequest {
                name: Some(String::new()),
                ..good.clone()
            },
            AttachRequest {
                shared: true,
                cached: Some("nbd://h/x".into()),
                ..good.clone()
            },
            AttachRequest {
                timeout: TIMEOUT_MAX + Duration::from_secs(1),
                ..good
            },
        ];
        for case in cases {
            assert!(case.check().is_err(), "{case:?}");
        }
        let copies = AttachRequest {
            via: Via::Kernel,
            read_only: true,
            ..AttachRequest::new(Source::Remote("nbd://a,b/x".into()))
        };
        assert!(copies.check().is_ok());
    }

    #[test]
    fn a_server_counts_as_away_no_later_than_its_requests_would_fail() {
        let patient = AttachRequest::new(Source::Remote("nbd://h/x".into()));
        assert_eq!(patient.silent_for(), SILENT_FOR);
        let timeout = Duration::from_secs(4);
        let hasty = AttachRequest { timeout, ..patient };
        assert_eq!(hasty.silent_for(), timeout);
    }

    #[test]
    fn a_request_passes_to_the_background_process_whole() {
        let request = AttachRequest {
            mount: Some("/mnt/a b".into()),
            mkfs: Some("xfs".into()),
            ..AttachRequest::new(Source::Remote("nbd://h/x".into()))
        };
        let json = serde_json::to_string(&request).unwrap();
        assert_eq!(
            serde_json::from_str::<AttachRequest>(&json).unwrap(),
            request
        );
    }
}
