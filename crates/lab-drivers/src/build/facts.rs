//! What this machine has that a target may need: filesystems, modules, programs, rights.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where programs are, even if the user's PATH leaves them out.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// What was found.
#[derive(Debug, Clone, Default)]
pub(super) struct MachineFacts {
    /// Filesystems that the kernel has now, or can load.
    pub(super) filesystems: BTreeSet<String>,
    /// Modules that are loaded, built in, or can be loaded; with `-`, never `_`.
    pub(super) modules: BTreeSet<String>,
    /// Folders in which programs are looked for.
    pub(super) folders: Vec<PathBuf>,
    /// Whether everything may be done.
    pub(super) root: bool,
    /// Whether `/dev/fuse` is there.
    pub(super) fuse: bool,
    /// Whether loop devices can be made.
    pub(super) loops: bool,
    /// Whether the kernel has an NBD client.
    pub(super) nbd: bool,
    /// Whether the kernel's NFS server runs.
    pub(super) nfs_server: bool,
}

impl MachineFacts {
    /// Looks.
    pub(super) fn of_this_machine() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        let tables = ["modules.dep", "modules.builtin"]
            .map(|name| read(&format!("/lib/modules/{release}/{name}")));
        let loaded = std::fs::read_dir("/sys/module");
        let loaded = loaded.into_iter().flatten().flatten();
        let loaded = loaded.map(|entry| plain(&entry.file_name().to_string_lossy()));
        let modules: BTreeSet<String> = loaded
            .chain(tables.iter().flat_map(|t| listed(t)))
            .collect();
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            filesystems: filesystems(&read("/proc/filesystems"), &modules),
            folders: std::env::split_paths(&path)
                .chain(SYSTEM_FOLDERS.map(PathBuf::from))
                .collect(),
            root: rustix::process::geteuid().is_root(),
            fuse: Path::new("/dev/fuse").exists(),
            loops: Path::new("/dev/loop-control").exists(),
            nbd: Path::new("/dev/nbd0").exists() || modules.contains("nbd"),
            nfs_server: has_threads(&read("/proc/fs/nfsd/threads")),
            modules,
        }
    }

    /// Where the program `name` is.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let mut places = self.folders.iter().map(|folder| folder.join(name));
        places.find(|place| place.is_file())
    }
}

/// `nodev TAB name` or `TAB name` a line (proc(5)); a module has its filesystem's name.
fn filesystems(table: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    const MODULES: [&str; 12] = [
        "btrfs", "cifs", "exfat", "ext4", "f2fs", "jfs", "nfs", "nilfs2", "ntfs3", "reiserfs",
        "vfat", "xfs",
    ];
    let known = table
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let loadable = MODULES.iter().filter(|name| modules.contains(**name));
    let mut all: BTreeSet<String> = known.chain(loadable.copied()).map(str::to_owned).collect();
    // One driver has all three.
    if all.contains("ext4") {
        all.extend(["ext2", "ext3"].map(str::to_owned));
    }
    all
}

/// `kernel/fs/jfs/jfs.ko.xz: …` or `kernel/fs/ext4/ext4.ko` a line (modules.dep(5)).
fn listed(table: &str) -> impl Iterator<Item = String> {
    let paths = table
        .lines()
        .map(|line| line.split(':').next().unwrap_or(line));
    paths.filter_map(|path| {
        let (name, _) = path.rsplit('/').next()?.split_once(".ko")?;
        Some(plain(name))
    })
}

/// How many threads serve, in words of nfsd(7); empty where there is no server.
fn has_threads(text: &str) -> bool {
    text.trim().parse().is_ok_and(|threads: u32| threads > 0)
}

/// Modules are written with either `-` or `_`.
fn plain(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read_from_the_kernels_own_lists() {
        let table = "kernel/fs/jfs/jfs.ko.xz: kernel/fs/nls/nls.ko\nkernel/drivers/md/dm-mod.ko:\n";
        let found: Vec<String> = listed(table).collect();
        assert_eq!(found, ["jfs", "dm-mod"]);
        assert_eq!(plain("dm_mod"), "dm-mod");
    }

    #[test]
    fn an_nfs_server_runs_if_it_has_threads() {
        assert!(has_threads("8\n"));
        assert!(!has_threads("0\n") && !has_threads(""));
    }

    #[test]
    fn a_filesystem_is_there_if_it_is_listed_or_can_be_loaded() {
        let modules = ["jfs".to_owned(), "loop".to_owned()].into();
        let found = filesystems("nodev\tproc\n\text4\n\txfs\n", &modules);
        for name in ["ext2", "ext3", "ext4", "jfs", "proc", "xfs"] {
            assert!(found.contains(name), "{name}");
        }
        assert!(!found.contains("loop") && !found.contains("f2fs"));
    }

    #[test]
    fn this_machine_has_a_proc_filesystem_and_a_shell() {
        let facts = MachineFacts::of_this_machine();
        assert!(facts.filesystems.contains("proc"));
        assert!(facts.program("sh").is_some() && facts.program("no-such-program").is_none());
    }
}
