//! The guest of the lab: its kernel is Debian's; its first filesystem is the guest's base, and behind it our binary and the
//! programs, servers and modules that plans need.
//!
//! Programs that this machine has are taken from it with their libraries; servers that would begin to
//! work here when they are installed ([`SERVERS`]) are downloaded and unpacked, never installed.

mod check;
mod doctor;
mod run;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cpio::Archive;
use super::image::{self, Image};
use super::modules;
use crate::{packages, shell};

pub(crate) use run::{Console, LabScript, run, script};

/// Modules besides those of every guest. What a module requests while it works is named too.
const MODULES: &[&str] = &[
    "btrfs",
    "blake2b_generic",
    "xxhash_generic",
    "nfsd",
    "nfsv4",
    "nls_utf8",
    "ccm",
    "cmac",
    "ctr",
    "ecb",
    "gcm",
    "ghash-generic",
    "seqiv",
    "sha512_generic",
    "sch_netem",
    "sch_tbf",
    "veth",
];

/// Programs of this machine besides those of every guest.
const PROGRAMS: &[&str] = &[
    "bonnie++",
    "dbench",
    "fio",
    "fusermount3",
    "ip",
    "iperf3",
    "mkfs.btrfs",
    "mkfs.ext2",
    "mkfs.ext3",
    "mount",
    "ssh",
    "ssh-keygen",
    "sshd",
    "sshfs",
    "stdbuf",
    "stress-ng",
    "tar",
    "tc",
    "umount",
];

/// Files of this machine that programs read.
const FILES: &[&str] = &[
    "/etc/os-release",
    "/etc/protocols",
    "/etc/services",
    // What stdbuf puts into the program that it starts.
    "/usr/libexec/coreutils/libstdbuf.so",
    "/usr/share/dbench/client.txt",
];

/// Folders of this machine with files that are the source tree of tar and its like.
const TREES: &[&str] = &["/usr/include/linux"];

/// Packages of servers and what mounts from them; the libraries they need come along.
const SERVERS: &[&str] = &[
    "cifs-utils",
    "nfs-common",
    "nfs-kernel-server",
    "samba",
    "samba-libs",
];

/// What is used of them.
const SERVER_PROGRAMS: &[&str] = &[
    "exportfs",
    "mount.cifs",
    "mount.nfs",
    "pdbedit",
    "rpc.mountd",
    "rpc.nfsd",
    "smbd",
];

/// Files of theirs that they read.
const SERVER_FILES: &[&str] = &["etc/netconfig"];

/// Text files of the guest's own: users, and where names are looked up.
const TEXTS: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
    ("etc/exports", ""),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost guest\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\n",
    ),
    ("etc/shells", "/bin/sh\n"),
];

/// A test in this guest, and with which name it is chosen.
#[derive(Debug)]
pub(super) struct LabTest {
    pub(super) name: &'static str,
    /// A guest that does not end is aborted after so many seconds.
    pub(super) limit_s: u32,
    /// Whether the checks of every change have it.
    pub(super) is_brief: bool,
    /// What is kept of it is below the folder.
    pub(super) run: fn(&Guest, &Path) -> Result<()>,
}

/// All of them.
pub(super) static LAB_TESTS: [LabTest; 2] = [check::TEST, doctor::TEST];
/// The name of the doctor's.
pub(crate) const DOCTOR: &str = doctor::TEST.name;

/// What a machine of the lab is started from.
#[derive(Debug)]
pub(crate) struct Guest {
    kernel: PathBuf,
    initrd: PathBuf,
    /// Ours, which is in it.
    binary: PathBuf,
}

/// Builds the guest below `folder`, with `binary` in it.
pub(crate) fn build(folder: &Path, binary: &Path) -> Result<Guest> {
    packages::ensure(&[packages::GUEST, packages::GUEST_LAB])?;
    let image = image::build(folder)?;
    let servers = unpacked(folder)?;
    let mut initrd = std::fs::read(&image.base)?;
    initrd.extend(archive(&image, &servers)?);
    initrd.extend(image::overlay(include_str!("script.sh"), Some(binary))?);
    let path = folder.join("lab-initrd");
    std::fs::write(&path, initrd)?;
    Ok(Guest {
        kernel: image.kernel,
        initrd: path,
        binary: binary.to_owned(),
    })
}

/// All that comes behind the base.
fn archive(image: &Image, servers: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    add_modules(&mut archive, image)?;
    for tree in TREES {
        add_tree(&mut archive, Path::new(tree))?;
    }
    let mut needed: BTreeSet<PathBuf> = FILES.iter().map(PathBuf::from).collect();
    for name in PROGRAMS {
        let program = image::find_program(name)?;
        needed.extend(image::libraries(&program)?);
        archive.program(&format!("usr/bin/{name}"), &std::fs::read(&program)?)?;
    }
    for path in needed {
        archive.copy(&path)?;
    }
    add_servers(&mut archive, servers)?;
    for (path, text) in TEXTS {
        archive.file(path, text.as_bytes())?;
    }
    archive.finish()
}

/// The files below `folder`, under their own paths; no links.
fn add_tree(archive: &mut Archive, folder: &Path) -> Result<()> {
    let read = || format!("cannot read {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(read)?;
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
    // The same files give the same bytes.
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            add_tree(archive, &path)?;
        } else if kind.is_file() {
            archive.file(&path.to_string_lossy(), &std::fs::read(&path)?)?;
        }
    }
    Ok(())
}

/// The modules, and lists of those alone that are in the guest: a query for what can be loaded gets the truth.
fn add_modules(archive: &mut Archive, image: &Image) -> Result<()> {
    let read = |name: &str| -> Result<String> {
        let path = image.modules.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (dep, builtin) = (read("modules.dep")?, read("modules.builtin")?);
    let inside = format!("lib/modules/{}", image.version);
    let base = modules::closure(&dep, &builtin, image::MODULES)?;
    let own = modules::closure(&dep, &builtin, MODULES)?;
    for file in own.difference(&base) {
        let data = std::fs::read(image.modules.join(file))?;
        archive.file(&format!("{inside}/{file}"), &data)?;
    }
    let there: BTreeSet<String> = base.union(&own).cloned().collect();
    let dep = modules::only(&dep, &there);
    archive.file(&format!("{inside}/modules.dep"), dep.as_bytes())
}

/// Programs of the unpacked packages, with libraries from there or from this machine.
fn add_servers(archive: &mut Archive, servers: &Path) -> Result<()> {
    let places = ["usr/sbin", "sbin", "usr/bin"];
    let mut needed: BTreeSet<PathBuf> = BTreeSet::new();
    for name in SERVER_PROGRAMS {
        let mut found = places.iter().map(|place| servers.join(place).join(name));
        let program = found
            .find(|path| path.exists())
            .with_context(|| format!("no package of {} has {name}", SERVERS.join(", ")))?;
        needed.extend(libraries(&program, servers)?);
        // mount looks for its helpers here.
        archive.program(&format!("sbin/{name}"), &std::fs::read(&program)?)?;
    }
    for library in needed {
        let inside = library.strip_prefix(servers).unwrap_or(&library);
        archive.program(&inside.to_string_lossy(), &std::fs::read(&library)?)?;
    }
    for file in SERVER_FILES {
        // It belongs to a library that this machine may have.
        let here = Path::new("/").join(file);
        let data = std::fs::read(servers.join(file)).or_else(|_| std::fs::read(here));
        let data = data.with_context(|| format!("there is no /{file}"))?;
        archive.file(file, &data)?;
    }
    Ok(())
}

/// The libraries of a program that may have some of its own next to it.
fn libraries(program: &Path, tree: &Path) -> Result<Vec<PathBuf>> {
    let folders = [
        "usr/lib/x86_64-linux-gnu",
        "lib/x86_64-linux-gnu",
        "usr/lib/x86_64-linux-gnu/samba",
    ];
    let folders = folders.map(|folder| tree.join(folder).to_string_lossy().into_owned());
    let mut ldd = Command::new("ldd");
    ldd.arg(program).env("LD_LIBRARY_PATH", folders.join(":"));
    let printed = shell::output(&mut ldd)?;
    let lacks = printed.lines().find(|line| line.contains("not found"));
    ensure!(
        lacks.is_none(),
        "{} lacks a library: {}",
        program.display(),
        lacks.unwrap_or_default().trim()
    );
    let words = printed.lines().flat_map(str::split_whitespace);
    let paths = words.filter(|word| word.starts_with('/') && !word.ends_with(':'));
    Ok(paths.map(PathBuf::from).collect())
}

/// The folder that the servers' packages are unpacked in, downloaded once.
fn unpacked(folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("servers");
    let key_file = folder.join("servers.key");
    let names = with_libraries(SERVERS)?;
    let key = names.iter().cloned().collect::<Vec<_>>().join("\n");
    if std::fs::read_to_string(&key_file).is_ok_and(|kept| kept == key) && tree.exists() {
        return Ok(tree);
    }
    println!("guest: downloading {}", key.replace('\n', ", "));
    std::fs::remove_dir_all(&tree).ok();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    packages::unpack(folder, &names, &tree, &[])?;
    std::fs::write(&key_file, key)?;
    Ok(tree)
}

/// The packages with the libraries below them that this machine lacks.
fn with_libraries(packages: &[&str]) -> Result<BTreeSet<String>> {
    let installed = packages::installed()?;
    let mut all: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = packages.iter().map(|&name| name.to_owned()).collect();
    while let Some(name) = open.pop() {
        let told =
            shell::output(Command::new("apt-cache").args(["depends", "--important", &name]))?;
        let depends = told
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .filter(|name| name.starts_with("lib") && !installed.contains(*name));
        open.extend(
            depends
                .filter(|name| !all.contains(*name))
                .map(str::to_owned),
        );
        all.insert(name);
    }
    Ok(all)
}
