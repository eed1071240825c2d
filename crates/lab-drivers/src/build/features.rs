//! What a target needs of a machine, and what of it is lacking. Pure.
//!
//! A feature is written as in a plan: `root`, `fuse`, `loop`, `nbd`, `nfs-server`, `filesystem:NAME`, `module:NAME`,
//! `program:NAME`.

use std::fmt;

use lab::plan::{Image, Layer, MountType, Target, TargetKind, Via};
use lab::runner::LeftOut;

use super::facts::MachineFacts;

/// Something a machine has or lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Feature {
    /// The right to do everything.
    Root,
    /// A FUSE device.
    Fuse,
    /// Loop devices.
    Loop,
    /// The kernel's NBD client.
    Nbd,
    /// The kernel's NFS server, running.
    NfsServer,
    /// A filesystem of the kernel.
    Filesystem(String),
    /// A module of the kernel.
    Module(String),
    /// A program.
    Program(String),
}

/// Which Debian package has a program.
const PACKAGES: [(&str, &str); 23] = [
    ("dmsetup", "dmsetup"),
    ("exportfs", "nfs-kernel-server"),
    ("fio", "fio"),
    ("gvfsd-fuse", "gvfs-fuse"),
    ("losetup", "mount"),
    ("lvm", "lvm2"),
    ("mdadm", "mdadm"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext2", "e2fsprogs"),
    ("mkfs.ext3", "e2fsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.f2fs", "f2fs-tools"),
    ("mkfs.jfs", "jfsutils"),
    ("mkfs.nilfs2", "nilfs-tools"),
    ("mkfs.reiserfs", "reiserfsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mount.cifs", "cifs-utils"),
    ("mount.nfs", "nfs-common"),
    ("pdbedit", "samba"),
    ("smbd", "samba"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
    ("sshfs", "sshfs"),
];

impl Feature {
    fn parse(text: &str) -> Result<Self, LeftOut> {
        let name = |rest: &str| rest.trim().to_owned();
        match text.split_once(':') {
            Some(("filesystem", rest)) => Ok(Self::Filesystem(name(rest))),
            Some(("module", rest)) => Ok(Self::Module(name(rest).replace('_', "-"))),
            Some(("program", rest)) => Ok(Self::Program(name(rest))),
            None if text == "root" => Ok(Self::Root),
            None if text == "fuse" => Ok(Self::Fuse),
            None if text == "loop" => Ok(Self::Loop),
            None if text == "nbd" => Ok(Self::Nbd),
            None if text == "nfs-server" => Ok(Self::NfsServer),
            _ => Err(LeftOut(format!(
                "it needs {text:?}, which is none of root, fuse, loop, nbd, nfs-server, \
                 filesystem:NAME, module:NAME and program:NAME"
            ))),
        }
    }

    fn is_there(&self, facts: &MachineFacts) -> bool {
        match self {
            Self::Root => facts.root,
            Self::Fuse => facts.fuse,
            Self::Loop => facts.loops,
            Self::Nbd => facts.nbd,
            Self::NfsServer => facts.nfs_server,
            Self::Filesystem(name) => facts.filesystems.contains(name),
            Self::Module(name) => facts.modules.contains(name),
            Self::Program(name) => facts.program(name).is_some(),
        }
    }
}

impl fmt::Display for Feature {
    /// What lacks, as a sentence with what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("needs root: run it with sudo"),
            Self::Fuse => f.write_str("needs FUSE: there is no /dev/fuse"),
            Self::Loop => f.write_str("needs loop devices: there is no /dev/loop-control"),
            Self::Nbd => f.write_str("needs the kernel's nbd module, which this kernel lacks"),
            Self::NfsServer => {
                f.write_str("needs an NFS server that runs: systemctl start nfs-server")
            }
            Self::Filesystem(name) => write!(f, "this kernel has no {name}"),
            Self::Module(name) => write!(f, "this kernel has no module {name}"),
            Self::Program(name) => match PACKAGES.iter().find(|(known, _)| known == name) {
                Some((_, package)) => write!(f, "needs {name}: apt-get install {package}"),
                None => write!(f, "needs {name}, which is not installed"),
            },
        }
    }
}

/// Everything `target` needs, what its kind needs first.
fn needed(target: &Target) -> Result<Vec<Feature>, LeftOut> {
    let mut needed = of_kind(&target.kind);
    for text in &target.needs {
        needed.push(Feature::parse(text)?);
    }
    Ok(needed)
}

fn of_kind(kind: &TargetKind) -> Vec<Feature> {
    match kind {
        TargetKind::Directory { .. } => Vec::new(),
        TargetKind::Disk {
            filesystem, via, ..
        } => [attached(*via), made(filesystem)].concat(),
        TargetKind::Served {
            filesystem, via, ..
        } => match filesystem {
            Some(filesystem) => [attached(*via), made(filesystem)].concat(),
            None => Vec::new(),
        },
        TargetKind::Raw { disk, .. } => match disk {
            Some(_) => attached(Via::Auto),
            None => Vec::new(),
        },
        TargetKind::Kernel {
            images,
            layers,
            filesystem,
            ..
        } => [devices(images), of_layers(layers), made(filesystem)].concat(),
        TargetKind::Mount { client, .. } => of_client(*client),
    }
}

fn attached(via: Via) -> Vec<Feature> {
    let by_fuse = [Feature::Root, Feature::Fuse, Feature::Loop];
    match via {
        Via::Auto | Via::Fuse => by_fuse.into(),
        Via::Kernel => vec![Feature::Root, Feature::Nbd],
        Via::Loop => vec![
            Feature::Root,
            Feature::Loop,
            Feature::Program("losetup".into()),
        ],
    }
}

fn made(filesystem: &str) -> Vec<Feature> {
    vec![
        Feature::Filesystem(filesystem.to_owned()),
        Feature::Program(format!("mkfs.{filesystem}")),
    ]
}

/// What makes devices of images.
fn devices(images: &[Image]) -> Vec<Feature> {
    let via = |image: &Image| match image.served {
        Some(_) => Via::Kernel,
        None => Via::Loop,
    };
    let mut needed: Vec<Feature> = Vec::new();
    for feature in images.iter().flat_map(|image| attached(via(image))) {
        if !needed.contains(&feature) {
            needed.push(feature);
        }
    }
    needed
}

fn of_layers(layers: &[Layer]) -> Vec<Feature> {
    let by = |module: &str, program: &str| {
        [
            Feature::Module(module.to_owned()),
            Feature::Program(program.to_owned()),
        ]
    };
    let needed = layers.iter().flat_map(|layer| match layer {
        Layer::MdMirror => by("raid1", "mdadm"),
        Layer::MdStripe => by("raid0", "mdadm"),
        Layer::MdRaid5 | Layer::MdRaid6 => by("raid456", "mdadm"),
        Layer::DmLinear | Layer::DmStripe => by("dm-mod", "dmsetup"),
        Layer::Volume => by("dm-mod", "lvm"),
    });
    needed.collect()
}

fn of_client(client: MountType) -> Vec<Feature> {
    let program = |name: &str| Feature::Program(name.to_owned());
    let filesystem = |name: &str| Feature::Filesystem(name.to_owned());
    match client {
        MountType::Sshfs => vec![
            Feature::Root,
            Feature::Fuse,
            program("sshfs"),
            program("sshd"),
            program("ssh-keygen"),
        ],
        MountType::Nfs => vec![
            Feature::Root,
            filesystem("nfs"),
            program("mount.nfs"),
            program("exportfs"),
            Feature::NfsServer,
        ],
        MountType::Cifs => vec![
            Feature::Root,
            filesystem("cifs"),
            program("mount.cifs"),
            program("smbd"),
            program("pdbedit"),
        ],
        MountType::Gvfs => vec![Feature::Fuse, program("gvfsd-fuse")],
    }
}

/// The first thing that `facts` lack for `target`.
///
/// # Errors
/// [`LeftOut`] when the plan requests something that is no feature.
pub(super) fn lacking(target: &Target, facts: &MachineFacts) -> Result<Option<String>, LeftOut> {
    let needed = needed(target)?;
    let lacking = needed.iter().find(|feature| !feature.is_there(facts));
    Ok(lacking.map(ToString::to_string))
}
