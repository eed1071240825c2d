//! The steps in which a target is made, as plain data, and how they are shown. Pure.

use std::path::{Path, PathBuf};

use lab::fio::command::shown;
use lab::plan::{MountType, Transport, Via};
use lab::units::Bytes;

use super::kernel::KernelStep;
use super::names::Names;
use super::{nfs, smb, sshfs};

/// How a target is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Recipe {
    /// In this order.
    pub(super) steps: Vec<BuildStep>,
    /// Where it then is.
    pub(super) place: RecipeResult,
}

/// Where a target is once its steps are taken.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RecipeResult {
    /// A directory that is there, or was mounted.
    Directory(PathBuf),
    /// The device of the last attachment.
    Device,
    /// A device that is there.
    Given(PathBuf),
    /// The export of the last server.
    Export,
    /// An export of someone else.
    Uri(String),
}

/// One thing that is done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BuildStep {
    /// Makes a folder.
    Folder(PathBuf),
    /// Makes an image, with all of its space taken, which `name` refers to from then on.
    Image {
        /// Its name in expressions.
        name: String,
        /// The file.
        path: PathBuf,
        /// Its size.
        size: Bytes,
    },
    /// One of our own commands, in words with names in them.
    Own(Vec<String>),
    /// Our server, as a process; `name` refers to the export's URI from then on.
    Serve {
        /// The export.
        name: String,
        /// What it exports: an expression with names in it.
        disk: String,
        /// Where it listens.
        transport: Transport,
        /// For its socket, its port and what it prints.
        folder: PathBuf,
    },
    /// A disk becomes a device, and a directory if it is mounted.
    Attach {
        /// An expression with names in it.
        disk: String,
        /// How.
        via: Via,
        /// Where it is mounted, and with which new filesystem.
        mount: Option<(PathBuf, String)>,
        /// Nothing is ever written.
        read_only: bool,
    },
    /// The kernel's own loop device on an image, without us.
    Loop {
        /// The image's name.
        image: String,
        /// Made on it.
        filesystem: String,
        /// Where it is mounted.
        directory: PathBuf,
    },
    /// A directory through a server, a filesystem client and back.
    Network(NetworkShare),
    /// A device of the kernel's own.
    Kernel(KernelStep),
}

/// A directory that is exported to this machine, and mounted on it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NetworkShare {
    /// By this filesystem.
    pub(super) client: MountType,
    /// Which one.
    pub(super) exported: PathBuf,
    /// The target's folder, for keys and what servers print.
    pub(super) folder: PathBuf,
    /// Where it is mounted.
    pub(super) directory: PathBuf,
    /// More of the options of its mount.
    pub(super) options: Option<String>,
}

impl Recipe {
    /// After these steps a directory in `folder`, and the step that mounts a filesystem there: the target.
    pub(super) fn mounted(
        mut steps: Vec<BuildStep>,
        folder: &Path,
        mount: impl FnOnce(PathBuf) -> BuildStep,
    ) -> Self {
        let directory = folder.join("mounted");
        steps.push(BuildStep::Folder(directory.clone()));
        steps.push(mount(directory.clone()));
        Self {
            steps,
            place: RecipeResult::Directory(directory),
        }
    }

    /// The commands, as far as they are known before anything is done.
    pub(super) fn shown(&self, names: &Names) -> Vec<String> {
        let mut names = names.clone();
        let mut lines = Vec::new();
        for step in &self.steps {
            lines.extend(step.shown(&names));
            step.name(&mut names);
        }
        lines
    }
}

impl BuildStep {
    /// Notes what is known of its name before it is taken.
    fn name(&self, names: &mut Names) {
        match self {
            Self::Image { name, path, .. } => names.set_path(name, path),
            Self::Serve {
                name,
                transport: Transport::Tcp,
                ..
            } => names.set(name, &format!("nbd://127.0.0.1:PORT/{name}")),
            Self::Serve { name, folder, .. } => {
                let socket = socket(folder, name);
                names.set(
                    name,
                    &format!("nbd+unix:///{name}?socket={}", socket.display()),
                );
            }
            Self::Kernel(step) => step.name(names),
            _ => {}
        }
    }

    /// The commands that do the same by hand.
    pub(super) fn shown(&self, names: &Names) -> Vec<String> {
        match self {
            Self::Folder(path) => vec![line(&["mkdir", &path.to_string_lossy()])],
            Self::Image { path, size, .. } => {
                let (size, path) = (size.0.to_string(), path.to_string_lossy());
                vec![line(&["fallocate", "--length", &size, &path])]
            }
            Self::Own(words) => vec![program_line("outboard", &names.words(words))],
            Self::Serve {
                name,
                disk,
                transport,
                folder,
            } => {
                let disk = format!("{name}={}", names.expression(disk));
                let listen = listen(*transport, folder, name);
                vec![line(&["outboard", "serve", &disk, "--listen", &listen])]
            }
            Self::Attach {
                disk, via, mount, ..
            } => vec![attach_line(&names.expression(disk), *via, mount.as_ref())],
            Self::Loop {
                image,
                filesystem,
                directory,
            } => {
                let image = names.word(&format!("{{{image}}}"));
                vec![
                    line(&[&format!("mkfs.{filesystem}"), &image]),
                    line(&loop_words(&image)),
                    line(&["mount", "LOOP", &directory.to_string_lossy()]),
                ]
            }
            Self::Network(share) => match share.client {
                MountType::Nfs => nfs::shown(share),
                MountType::Cifs => smb::shown(share),
                MountType::Sshfs | MountType::Gvfs => sshfs::shown(share),
            },
            Self::Kernel(step) => step.shown(names),
        }
    }
}

/// Where a server listens.
pub(super) fn listen(transport: Transport, folder: &Path, name: &str) -> String {
    match transport {
        Transport::Tcp => "127.0.0.1:0".to_owned(),
        Transport::Unix => format!("unix:{}", socket(folder, name).display()),
    }
}

/// Its socket.
pub(super) fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

fn attach_line(disk: &str, via: Via, mount: Option<&(PathBuf, String)>) -> String {
    let mut words = vec!["outboard", "attach", disk];
    match via {
        Via::Fuse => words.extend(["--via", "fuse"]),
        Via::Kernel => words.extend(["--via", "kernel"]),
        Via::Auto | Via::Loop => {}
    }
    let at = mount.map(|(at, kind)| (at.to_string_lossy(), kind));
    if let Some((at, kind)) = &at {
        words.extend(["--mount", at, "--mkfs", kind]);
    }
    line(&words)
}

/// A loop device past the page cache below it.
pub(super) fn loop_words(image: &str) -> [&str; 5] {
    ["losetup", "--direct-io=on", "--find", "--show", image]
}

/// Words as they can be pasted into a shell.
pub(super) fn line(words: &[impl AsRef<str>]) -> String {
    let (program, args) = words
        .split_first()
        .map_or(("", words), |(first, args)| (first.as_ref(), args));
    program_line(program, args)
}

/// The same with the program apart.
pub(super) fn program_line(program: &str, args: &[impl AsRef<str>]) -> String {
    let args: Vec<_> = args.iter().map(|word| word.as_ref().into()).collect();
    shown(program, &args)
}
