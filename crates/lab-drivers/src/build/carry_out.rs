//! The steps of a target, taken one after the other.
//!
//! Invariants: everything that was made by a step that failed, and by those before it, is taken down before
//! the failure is returned ([`Teardown`] does when it is dropped). Every command is recorded.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lab::Cancel;
use lab::host::{Role, TargetPlace};
use lab::plan::{MountType, Via};
use lab::runner::{Built, LeftOut, TargetSpec};
use lab::tools::{self, Invocation};
use lab::units::Bytes;
use rustix::fs::FallocateFlags;

use super::names::Names;
use super::process::own_program;
use super::serve::export_at;
use super::step::{BuildStep, Recipe, RecipeResult, line, loop_words, program_line};
use super::teardown::{Resource, Teardown};
use super::{DiskAccess, WriteRules};
use crate::attachment;

/// How long one of the system's programs may take: a large `mkfs` on a slow disk.
const LIMIT: Duration = Duration::from_secs(300);

/// What is known while steps are taken.
pub(super) struct TargetBuild<'a> {
    pub(super) rules: Box<dyn WriteRules + 'a>,
    disks: &'a dyn DiskAccess,
    pub(super) names: Names,
    pub(super) cancel: &'a Cancel,
    pub(super) standing: Teardown,
    pub(super) commands: Vec<String>,
    pub(super) servers: Vec<u32>,
    pub(super) clients: Vec<u32>,
    /// Of the last attachment.
    pub(super) device: Option<PathBuf>,
    /// Of the last server.
    pub(super) export: Option<String>,
}

impl<'a> TargetBuild<'a> {
    /// Before the first step.
    pub(super) fn new(
        names: Names,
        rules: Box<dyn WriteRules + 'a>,
        disks: &'a dyn DiskAccess,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            rules,
            disks,
            names,
            cancel,
            standing: Teardown::default(),
            commands: Vec::new(),
            servers: Vec::new(),
            clients: Vec::new(),
            device: None,
            export: None,
        }
    }

    /// Takes the steps of `recipe`, of a target that is the disk of this expression, if it is one.
    pub(super) fn carry_out(
        mut self,
        recipe: Recipe,
        disk: Option<&str>,
    ) -> Result<Built, LeftOut> {
        for step in &recipe.steps {
            if self.cancel.is_cancelled() {
                return Err(LeftOut("stopped".into()));
            }
            self.take(step).map_err(LeftOut)?;
        }
        let disk = disk.map(|disk| self.disks.facts(&self.names.expression(disk)));
        let mut built = self.built(recipe.place).map_err(LeftOut)?;
        built.spec.disk = disk.unwrap_or_default();
        Ok(built)
    }
}

impl TargetBuild<'_> {
    fn take(&mut self, step: &BuildStep) -> Result<(), String> {
        match step {
            BuildStep::Folder(path) => self.folder(path),
            BuildStep::Image { name, path, size } => {
                image(path, *size)?;
                self.note(step);
                self.names.set_path(name, path);
                Ok(())
            }
            BuildStep::Own(words) => {
                let words = self.names.words(words);
                self.rules.check_command(&words)?;
                self.note(step);
                let program = own_program()?;
                self.run(&program, &words).map(drop)
            }
            BuildStep::Serve {
                name,
                disk,
                transport,
                folder,
            } => self.serve(name, disk, *transport, folder),
            BuildStep::Attach {
                disk,
                via,
                mount,
                read_only,
            } => {
                self.note(step);
                self.attach(disk, *via, mount.as_ref(), *read_only)
            }
            BuildStep::Loop {
                image,
                filesystem,
                directory,
            } => self.looped(image, filesystem, directory),
            BuildStep::Network(share) => match share.client {
                MountType::Nfs => self.nfs(share),
                MountType::Cifs => self.smb(share),
                MountType::Sshfs | MountType::Gvfs => self.sshfs(share),
            },
            BuildStep::Kernel(step) => self.kernel(step),
        }
    }

    fn note(&mut self, step: &BuildStep) {
        self.commands.extend(step.shown(&self.names));
    }

    /// Notes a command that is run under a longer name than users have to write.
    pub(super) fn note_words(&mut self, program: &str, args: &[impl AsRef<str>]) {
        self.commands.push(program_line(program, args));
    }

    fn folder(&mut self, path: &Path) -> Result<(), String> {
        std::fs::create_dir(path)
            .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        self.standing.add(Resource::Folder(path.to_owned()));
        Ok(())
    }

    /// Runs a program to its end; what it printed.
    fn run(&self, program: &Path, words: &[impl AsRef<str>]) -> Result<String, String> {
        self.run_with(program, words, Stdio::null())
    }

    /// The same, with `input` as its standard input.
    pub(super) fn run_with(
        &self,
        program: &Path,
        words: &[impl AsRef<str>],
        input: Stdio,
    ) -> Result<String, String> {
        let work = std::env::temp_dir();
        let folder = work.join(format!("outboard-lab-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let place = tools::ToolDirs {
            directory: &work,
            beside: &[],
            work: &folder,
            seed: 0,
        };
        let ran = Invocation::new(program, words.iter().map(AsRef::as_ref))
            .start_with(&place, input)
            .and_then(|running| running.wait(LIMIT, &mut |_| !self.cancel.is_cancelled()))
            .map_err(|error| error.to_string());
        drop(std::fs::remove_dir_all(&folder));
        Ok(ran?.output)
    }

    /// The same, noted.
    pub(super) fn run_noted(&mut self, words: &[impl AsRef<str>]) -> Result<String, String> {
        let (program, args) = words.split_first().ok_or("nothing to run")?;
        self.commands.push(line(words));
        self.run(Path::new(program.as_ref()), args)
    }

    /// What takes away what was just made.
    pub(super) fn undo(&mut self, words: &[impl AsRef<str>]) {
        let words = words.iter().map(|word| word.as_ref().to_owned());
        self.standing.add(Resource::Made(words.collect()));
    }

    /// Mounts with `words` and the directory behind them.
    pub(super) fn mount(
        &mut self,
        words: &[impl AsRef<str>],
        directory: &Path,
    ) -> Result<(), String> {
        let at = directory.to_string_lossy();
        let mut words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        words.push(&at);
        self.run_noted(&words)?;
        self.standing.add(Resource::Mount(directory.to_owned()));
        Ok(())
    }

    pub(super) fn attach(
        &mut self,
        disk: &str,
        via: Via,
        mount: Option<&(PathBuf, String)>,
        read_only: bool,
    ) -> Result<(), String> {
        let disk = self.names.expression(disk);
        if !read_only {
            self.rules.check(&disk)?;
        }
        let mut request = self.disks.attach_request(&disk)?;
        request.via = match via {
            Via::Auto | Via::Loop => attach::Via::Auto,
            Via::Fuse => attach::Via::Fuse,
            Via::Kernel => attach::Via::Kernel,
        };
        request.read_only = read_only;
        request.mount = mount.map(|(at, _)| at.clone());
        request.mkfs = mount.map(|(_, filesystem)| filesystem.clone());
        request.check().map_err(|error| error.to_string())?;
        let attached = self
            .disks
            .attach(&request)
            .map_err(|error| error.to_string())?;
        let at = mount.map_or_else(|| attached.device.clone(), |(at, _)| at.clone());
        self.standing.add(Resource::Attachment(at.clone()));
        if let Some(client) = attachment::find(&at).client_pid {
            self.clients.push(client);
        }
        self.device = Some(attached.device);
        Ok(())
    }

    fn looped(&mut self, image: &str, filesystem: &str, directory: &Path) -> Result<(), String> {
        let image = self.names.word(&format!("{{{image}}}"));
        self.run_noted(&[&format!("mkfs.{filesystem}"), &image])?;
        let device = self.run_noted(&loop_words(&image))?;
        let device = device.trim();
        let mounted = self.mount(&["mount", device], directory);
        // In use it is only marked to be detached by the unmount.
        self.run_noted(&["losetup", "--detach", device])?;
        mounted
    }

    fn built(mut self, ends: RecipeResult) -> Result<Built, String> {
        let lost = || "its last step made nothing".to_owned();
        let place = match ends {
            RecipeResult::Directory(path) => TargetPlace::Directory(path),
            RecipeResult::Device => TargetPlace::Device(self.device.take().ok_or_else(lost)?),
            RecipeResult::Given(path) => TargetPlace::Device(path),
            RecipeResult::Export => TargetPlace::Uri(self.export.take().ok_or_else(lost)?),
            RecipeResult::Uri(uri) => TargetPlace::Uri(uri),
        };
        let mut spec = TargetSpec::at(place);
        if let TargetPlace::Uri(uri) = &spec.place {
            let (size, is_read_only) = export_at(uri)?;
            spec.size = Some(size);
            // What our own server exports was made for the run, but for disks that are only read.
            spec.read_only = self.servers.is_empty() || is_read_only;
        }
        for pid in &self.servers {
            spec = spec.with(Role::Server, *pid);
        }
        for pid in &self.clients {
            spec = spec.with(Role::Client, *pid);
        }
        Ok(Built {
            spec,
            commands: self.commands,
            guard: Box::new(self.standing),
        })
    }
}

/// A file with all of its space taken, or with holes where a filesystem cannot do that.
fn image(path: &Path, size: Bytes) -> Result<(), String> {
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::StorageFull => "; free some space, or use smaller images",
            _ => "",
        };
        format!("cannot make {} of {size}: {error}{hint}", path.display())
    };
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(failed)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size.0).map_err(failed),
        other => other.map_err(|error| failed(error.into())),
    }
}
