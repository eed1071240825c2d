//! Targets of a plan: where it measures, as plain data. The caller that runs the plan builds them.
//!
//! Invariants: names are unique in a plan, and what a target is `on` comes before it, so that
//! targets can be built in their order and taken down in the reverse one.
//!
//! What it deliberately does not do: it does not know how a disk is attached or a server is started;
//! see [`crate::runner::Builder`].

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Layer, kernel, size};
use crate::units::Bytes;

/// The most targets of one plan.
pub(crate) const TARGETS_MAX: usize = 32;

/// A place to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Short, unique in its plan: letters, digits and dashes.
    pub name: String,
    /// For people; the name when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Features it needs beyond those of its kind: `root`, `module:dm-mod`, `filesystem:jfs`,
    /// `program:sshfs`. Without one of them it is left out, and the run says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What it is.
    #[serde(flatten)]
    pub kind: TargetKind,
}

/// What a target is and how it is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TargetKind {
    /// A directory that is there.
    Directory {
        /// Relative to the run's directory.
        path: PathBuf,
    },
    /// A disk that is attached and mounted while it is measured.
    Disk {
        /// An expression; `{NAME}` is replaced by the path of an image, or of another target's device.
        disk: String,
        /// Files made for it, in our directory.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// Commands of ours that are run before, of those that make arrays: `array create --level 1 {a} {b}`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        setup: Vec<String>,
        /// Made on it before it is mounted: `ext4`.
        filesystem: String,
        /// The target with the directory that the images are made in: how loops are nested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<String>,
        /// How it is attached.
        #[serde(default)]
        via: Via,
    },
    /// A disk that our own server exports, and that is attached and mounted from there.
    Served {
        /// As for a disk.
        disk: String,
        /// As for a disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// As for a disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        setup: Vec<String>,
        /// As for a disk; without one the export is measured itself, with fio's own client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filesystem: Option<String>,
        /// As for a disk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<String>,
        /// What is between the two.
        #[serde(default)]
        transport: Transport,
        /// How it is attached.
        #[serde(default)]
        via: Via,
    },
    /// A disk that the kernel makes of images, mounted: no request passes through anything of ours but
    /// the server of an image that is behind one.
    Kernel {
        /// Each becomes a loop device; one that is served, a device of the kernel's NBD client.
        images: Vec<Image>,
        /// What is made of them, the lowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        layers: Vec<Layer>,
        /// As for a disk.
        filesystem: String,
        /// As for a disk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<String>,
    },
    /// A directory of this machine through a filesystem client and a server on loopback.
    Mount {
        /// Which one.
        #[serde(rename = "type")]
        client: MountType,
        /// The target whose directory is exported; our own directory when there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<String>,
        /// For `mount -o`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<String>,
    },
    /// A disk without a filesystem. It is only read, unless writes are allowed.
    Raw {
        /// An expression, attached and not mounted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<String>,
        /// A block device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<PathBuf>,
        /// An export, measured with fio's own client: `nbd://host/name`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
        /// As for a disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// As for a disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        setup: Vec<String>,
        /// Whether what is on it may be overwritten.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        writes: bool,
    },
}

impl TargetKind {
    /// The expression of the disk that it is.
    #[must_use]
    pub fn expression(&self) -> Option<&str> {
        match self {
            Self::Disk { disk, .. } | Self::Served { disk, .. } => Some(disk),
            Self::Raw { disk, .. } => disk.as_deref(),
            Self::Directory { .. } | Self::Kernel { .. } | Self::Mount { .. } => None,
        }
    }
}

/// A file made for a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Its name in the expression: letters, digits and dashes.
    pub name: String,
    /// Its size.
    #[serde(with = "size")]
    pub size: Bytes,
    /// Behind a server of ours of its own: then its name is replaced by a URI, and it is a remote half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Transport>,
}

/// How a disk becomes a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The best that there is here.
    #[default]
    Auto,
    /// A file by FUSE and a loop device on it.
    Fuse,
    /// The kernel's NBD client.
    Kernel,
    /// The kernel's loop device on the image itself, without us.
    Loop,
}

/// What is between a server and its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A Unix socket.
    #[default]
    Unix,
    /// TCP over loopback.
    Tcp,
}

/// A filesystem client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountType {
    /// The kernel's NFS.
    Nfs,
    /// The kernel's SMB.
    Cifs,
    /// Files over SSH, by FUSE.
    Sshfs,
    /// SMB by GNOME's library, by FUSE.
    Gvfs,
}

impl Target {
    /// What it is called in reports.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The target that must be there first.
    #[must_use]
    pub fn on(&self) -> Option<&str> {
        match &self.kind {
            TargetKind::Disk { on, .. }
            | TargetKind::Served { on, .. }
            | TargetKind::Kernel { on, .. }
            | TargetKind::Mount { on, .. } => on.as_deref(),
            TargetKind::Directory { .. } | TargetKind::Raw { .. } => None,
        }
    }

    /// The files made for it.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        match &self.kind {
            TargetKind::Disk { images, .. }
            | TargetKind::Served { images, .. }
            | TargetKind::Kernel { images, .. }
            | TargetKind::Raw { images, .. } => images,
            TargetKind::Directory { .. } | TargetKind::Mount { .. } => &[],
        }
    }

    /// Whether its files, if any, may be written.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        matches!(self.kind, TargetKind::Raw { writes: false, .. })
    }
}

/// Whether `name` can be a target, a workload or an image.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !name.is_empty() && name.chars().all(plain)
}

/// The first thing about the targets that makes no sense.
pub(super) fn check(targets: &[Target], baseline: Option<&str>) -> Result<(), String> {
    if targets.len() > TARGETS_MAX {
        return Err(format!(
            "{} targets; at most {TARGETS_MAX} are measured",
            targets.len()
        ));
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for target in targets {
        check_one(target, &names).map_err(|why| format!("target {:?}: {why}", target.name))?;
        names.insert(&target.name);
    }
    match baseline {
        Some(name) if !names.contains(name) => Err(format!(
            "the baseline {name:?} is none of the plan's targets"
        )),
        _ => Ok(()),
    }
}

fn check_one(target: &Target, before: &BTreeSet<&str>) -> Result<(), String> {
    if !is_name(&target.name) {
        return Err("the name may have letters, digits and dashes only".into());
    }
    if before.contains(target.name.as_str()) {
        return Err("another target has the same name".into());
    }
    if let Some(on) = target.on()
        && !before.contains(on)
    {
        return Err(format!("it stands on {on:?}, which is no target before it"));
    }
    let mut images: BTreeSet<&str> = BTreeSet::new();
    for image in target.images() {
        if !is_name(&image.name) || !images.insert(&image.name) {
            return Err(format!(
                "an image is named {:?}; names are unique and have letters, digits and dashes only",
                image.name
            ));
        }
        if image.size.0 == 0 {
            return Err(format!("the image {:?} has no size", image.name));
        }
    }
    if let TargetKind::Kernel { images, layers, .. } = &target.kind {
        kernel::check(images.len(), layers)?;
    }
    if let TargetKind::Raw {
        disk, device, uri, ..
    } = &target.kind
        && [disk.is_some(), device.is_some(), uri.is_some()]
            .iter()
            .filter(|given| **given)
            .count()
            != 1
    {
        return Err("a raw target has one of disk, device and uri".into());
    }
    Ok(())
}
