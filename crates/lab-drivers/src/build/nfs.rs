//! NFS by the kernel's own server and client: a directory of ours is exported to loopback for the run.
//!
//! Invariant: only that export is made and taken back; the server is the system's, and is started and
//! not stopped here.

use std::path::Path;

use super::carry_out::TargetBuild;
use super::step::{NetworkShare, line};

/// The hosts that may mount it.
const CLIENT: &str = "127.0.0.1";
/// The server answers a write when it is stored, and takes root for root.
const EXPORT: &str = "rw,sync,no_root_squash,no_subtree_check,insecure";
/// The version that needs no further service of the system.
const VERSION: &str = "vers=4.2";

/// What is exported, and to which hosts.
fn place(exported: &Path) -> String {
    format!("{CLIENT}:{}", exported.display())
}

/// The two commands: the export, and the mount without its directory.
fn commands(share: &NetworkShare) -> (Vec<String>, Vec<String>) {
    let place = place(&share.exported);
    let mount_options = match &share.options {
        Some(more) => format!("{VERSION},{more}"),
        None => VERSION.to_owned(),
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    (
        words(&["exportfs", "-o", EXPORT, &place]),
        words(&["mount", "-t", "nfs", "-o", &mount_options, &place]),
    )
}

/// The same as they can be pasted into a shell.
pub(super) fn shown(share: &NetworkShare) -> Vec<String> {
    let (export, mut mount) = commands(share);
    mount.push(share.directory.to_string_lossy().into_owned());
    vec![line(&export), line(&mount)]
}

impl TargetBuild<'_> {
    /// Exports the directory and mounts it.
    pub(super) fn nfs(&mut self, share: &NetworkShare) -> Result<(), String> {
        let (export, mount) = commands(share);
        self.run_noted(&export)?;
        self.undo(&["exportfs", "-u", &place(&share.exported)]);
        self.mount(&mount, &share.directory)
    }
}

#[cfg(test)]
mod tests {
    use lab::plan::MountType;

    use super::*;

    #[test]
    fn a_directory_is_exported_to_this_machine_alone_and_mounted_by_the_version_without_helpers() {
        let lines = shown(&NetworkShare {
            client: MountType::Nfs,
            exported: "/a".into(),
            folder: "/".into(),
            directory: "/b".into(),
            options: Some("nconnect=2".into()),
        });
        assert_eq!(
            lines,
            [
                "exportfs -o rw,sync,no_root_squash,no_subtree_check,insecure '127.0.0.1:/a'",
                "mount -t nfs -o vers=4.2,nconnect=2 '127.0.0.1:/a' /b",
            ]
        );
    }
}
