//! NFS by the kernel's own server and client: a directory of ours is exported to loopback for the run.
//!
//! Invariant: only that export is made and taken back; the server is the system's, and is started and
//! not stopped here.

use std::path::Path;

use super::carry_out::TargetBuild;
use super::step::line;

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
fn commands(exported: &Path, options: Option<&str>) -> (Vec<String>, Vec<String>) {
    let place = place(exported);
    let mount_options = match options {
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
pub(super) fn shown(exported: &Path, directory: &Path, options: Option<&str>) -> Vec<String> {
    let (export, mut mount) = commands(exported, options);
    mount.push(directory.to_string_lossy().into_owned());
    vec![line(&export), line(&mount)]
}

impl TargetBuild<'_> {
    /// Exports `exported` and mounts it.
    pub(super) fn nfs(
        &mut self,
        exported: &Path,
        directory: &Path,
        options: Option<&str>,
    ) -> Result<(), String> {
        let (export, mount) = commands(exported, options);
        self.run_noted(&export)?;
        self.undo(&["exportfs", "-u", &place(exported)]);
        self.mount(&mount, directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_exported_to_this_machine_alone_and_mounted_by_the_version_without_helpers() {
        let lines = shown(Path::new("/a"), Path::new("/b"), Some("nconnect=2"));
        assert_eq!(
            lines,
            [
                "exportfs -o rw,sync,no_root_squash,no_subtree_check,insecure '127.0.0.1:/a'",
                "mount -t nfs -o vers=4.2,nconnect=2 '127.0.0.1:/a' /b",
            ]
        );
    }
}
