//! The steps of a target, taken one after the other.
//!
//! Invariants: whatever was made by a step that failed, and by those before it, is taken down before
//! the failure is told ([`Standing`] does when it is dropped). Every command is noted.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::Cancel;
use lab::host::{Place, Role};
use lab::plan::{Transport, Via};
use lab::runner::{Built, LeftOut, TargetSpec};
use lab::tools::{self, Invocation};
use lab::units::Bytes;
use rustix::fs::FallocateFlags;

use super::foreign::Foreign;
use super::names::Names;
use super::standing::{Part, Standing};
use super::step::{Ends, Recipe, Step, line, listen, socket};
use crate::commands::attach as attachments;
use crate::commands::lab::behind;

/// How long a server may take until it listens.
pub(super) const START: Duration = Duration::from_secs(30);
/// How long one of the system's programs may take: a large `mkfs` on a slow disk.
const LIMIT: Duration = Duration::from_secs(300);
/// Between two looks.
pub(super) const POLL: Duration = Duration::from_millis(10);

/// Takes the steps of `recipe`.
pub(super) fn carry_out(
    recipe: Recipe,
    names: Names,
    foreign: Foreign<'_>,
    cancel: &Cancel,
) -> Result<Built, LeftOut> {
    let mut work = Work {
        foreign,
        names,
        cancel,
        standing: Standing::default(),
        commands: Vec::new(),
        servers: Vec::new(),
        clients: Vec::new(),
        device: None,
        export: None,
    };
    for step in &recipe.steps {
        if cancel.is_cancelled() {
            return Err(LeftOut("stopped".into()));
        }
        work.take(step).map_err(LeftOut)?;
    }
    work.built(recipe.place).map_err(LeftOut)
}

/// What is known while steps are taken.
pub(super) struct Work<'a> {
    foreign: Foreign<'a>,
    pub(super) names: Names,
    pub(super) cancel: &'a Cancel,
    pub(super) standing: Standing,
    pub(super) commands: Vec<String>,
    pub(super) servers: Vec<u32>,
    clients: Vec<u32>,
    /// Of the last attachment.
    pub(super) device: Option<PathBuf>,
    /// Of the last server.
    export: Option<String>,
}

impl Work<'_> {
    fn take(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Folder(path) => self.folder(path),
            Step::Image { name, path, size } => {
                image(path, *size)?;
                self.note(step);
                self.names.set_path(name, path);
                Ok(())
            }
            Step::Own(words) => {
                let words: Vec<String> = words.iter().map(|word| self.names.word(word)).collect();
                self.foreign.check_command(&words)?;
                self.note(step);
                let program = own_program()?;
                self.run(&program, &words).map(drop)
            }
            Step::Serve {
                name,
                disk,
                transport,
                folder,
            } => self.serve(name, disk, *transport, folder),
            Step::Attach {
                disk,
                via,
                mount,
                read_only,
            } => {
                self.note(step);
                self.attach(disk, *via, mount.as_ref(), *read_only)
            }
            Step::Loop {
                image,
                filesystem,
                directory,
            } => self.looped(image, filesystem, directory),
            Step::Sshfs {
                exported,
                folder,
                directory,
                options,
            } => self.sshfs(exported, folder, directory, options.as_deref()),
            Step::Nfs {
                exported,
                directory,
                options,
            } => self.nfs(exported, directory, options.as_deref()),
            Step::Smb {
                exported,
                folder,
                directory,
                options,
            } => self.smb(exported, folder, directory, options.as_deref()),
            Step::Kernel(step) => self.kernel(step),
        }
    }

    fn note(&mut self, step: &Step) {
        self.commands.extend(step.shown(&self.names));
    }

    pub(super) fn note_words(&mut self, program: &str, args: &[String]) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.commands.push(line(&[&[program], &args[..]].concat()));
    }

    fn folder(&mut self, path: &Path) -> Result<(), String> {
        std::fs::create_dir(path)
            .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        self.standing.add(Part::Folder(path.to_owned()));
        Ok(())
    }

    /// Runs a program to its end; what it printed.
    pub(super) fn run(&self, program: &Path, words: &[String]) -> Result<String, String> {
        let work = std::env::temp_dir();
        let folder = work.join(format!("outboard-lab-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let place = tools::Place {
            directory: &work,
            beside: &[],
            work: &folder,
            seed: 0,
        };
        let ran = Invocation::new(program, words)
            .run(&place, LIMIT, &mut |_| !self.cancel.is_cancelled())
            .map_err(|error| error.to_string());
        drop(std::fs::remove_dir_all(&folder));
        Ok(ran?.output)
    }

    pub(super) fn run_noted(&mut self, words: &[&str]) -> Result<String, String> {
        let (program, args) = words.split_first().ok_or("nothing to run")?;
        self.commands.push(line(words));
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        self.run(Path::new(program), &args)
    }

    fn serve(
        &mut self,
        name: &str,
        disk: &str,
        transport: Transport,
        folder: &Path,
    ) -> Result<(), String> {
        self.foreign.check(&self.names.expression(disk))?;
        let socket = socket(folder, name);
        let port = folder.join(format!("{name}.port"));
        let ready = match transport {
            Transport::Unix => &socket,
            Transport::Tcp => &port,
        };
        let mut args = vec![
            "serve".to_owned(),
            format!("{name}={}", self.names.expression(disk)),
            "--listen".to_owned(),
            listen(transport, folder, name),
            "--exit-with-parent".to_owned(),
        ];
        if transport == Transport::Tcp {
            args.extend(["--port-file".to_owned(), port.display().to_string()]);
        }
        self.note_words("outboard", &args);
        let said = folder.join(format!("{name}.log"));
        let child = self.start(&own_program()?, &args, &said)?;
        let pid = child.id();
        self.standing.add(Part::Process {
            name: format!("the server of {name}"),
            child,
        });
        self.wait_for(pid, ready, &said)?;
        let target = nbd::client::Target {
            address: match transport {
                Transport::Unix => nbd::client::Address::Unix(socket.clone()),
                Transport::Tcp => nbd::client::Address::Tcp {
                    host: "127.0.0.1".to_owned(),
                    port: number_in(&port)?,
                },
            },
            tls: None,
            export: name.to_owned(),
        };
        let uri = target.to_string();
        self.foreign.add_export(target);
        self.names.set(name, &uri);
        self.servers.push(pid);
        self.export = Some(uri);
        Ok(())
    }

    /// Starts a process that goes on while the target stands.
    pub(super) fn start(
        &self,
        program: &Path,
        args: &[String],
        said: &Path,
    ) -> Result<Child, String> {
        use std::os::unix::process::CommandExt;
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).append(true).open(said)
        };
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
        Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(open().map_err(failed)?)
            .stderr(open().map_err(failed)?)
            // Ctrl-C in a terminal reaches us; what stands is then taken down in its order.
            .process_group(0)
            .spawn()
            .map_err(failed)
    }

    /// Waits until `ready` is there; a process that ended before has said why.
    fn wait_for(&self, pid: u32, ready: &Path, said: &Path) -> Result<(), String> {
        let started = engine::clock::now();
        while !ready.exists() {
            if self.cancel.is_cancelled() {
                return Err("stopped".into());
            }
            let waited = engine::clock::now().duration_since(started);
            if !is_running(pid) || waited > START {
                let said = std::fs::read_to_string(said).unwrap_or_default();
                let why = said.lines().rfind(|line| !line.trim().is_empty());
                return Err(why
                    .unwrap_or("its server does not listen")
                    .trim()
                    .to_owned());
            }
            std::thread::sleep(POLL);
        }
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
            self.foreign.check(&disk)?;
        }
        let mut request = attachments::plain(&disk).map_err(|failure| failure.line())?;
        request.via = match via {
            Via::Auto | Via::Loop => attach::Via::Auto,
            Via::Fuse => attach::Via::Fuse,
            Via::Kernel => attach::Via::Kernel,
        };
        request.read_only = read_only;
        request.mount = mount.map(|(at, _)| at.clone());
        request.mkfs = mount.map(|(_, filesystem)| filesystem.clone());
        request.check().map_err(|error| error.to_string())?;
        let attached = attachments::attach(&request, 0).map_err(|error| error.to_string())?;
        let at = mount.map_or_else(|| attached.device.clone(), |(at, _)| at.clone());
        self.standing.add(Part::Attachment(at.clone()));
        if let Some(client) = behind::find(&at).client_pid {
            self.clients.push(client);
        }
        self.device = Some(attached.device);
        Ok(())
    }

    fn looped(&mut self, image: &str, filesystem: &str, directory: &Path) -> Result<(), String> {
        let image = self.names.word(&format!("{{{image}}}"));
        let directory_text = directory.to_string_lossy().into_owned();
        self.run_noted(&[&format!("mkfs.{filesystem}"), &image])?;
        let device = self.run_noted(&["losetup", "--direct-io=on", "--find", "--show", &image])?;
        let device = device.trim();
        let mounted = self.run_noted(&["mount", device, &directory_text]);
        if mounted.is_ok() {
            self.standing.add(Part::Mount(directory.to_owned()));
        }
        // In use it is only marked to go when it is unmounted, whoever does that.
        self.run_noted(&["losetup", "--detach", device])?;
        mounted.map(drop)
    }

    fn built(mut self, ends: Ends) -> Result<Built, String> {
        let lost = || "its last step made nothing".to_owned();
        let place = match ends {
            Ends::Directory(path) => Place::Directory(path),
            Ends::Device => Place::Device(self.device.take().ok_or_else(lost)?),
            Ends::Given(path) => Place::Device(path),
            Ends::Export => Place::Uri(self.export.take().ok_or_else(lost)?),
            Ends::Uri(uri) => Place::Uri(uri),
        };
        let mut spec = TargetSpec::at(place);
        if let Place::Uri(uri) = &spec.place {
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

/// The program that runs now.
fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))
}

/// Whether it is there and has not ended.
pub(super) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn number_in(path: &Path) -> Result<u16, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let number = text.trim().parse();
    number.map_err(|_| format!("{} has no port in it", path.display()))
}

/// The size of an export and whether it can only be read, asked of its server.
fn export_at(uri: &str) -> Result<(Bytes, bool), String> {
    let target: nbd::client::Target = uri
        .parse()
        .map_err(|error| format!("cannot use {uri}: {error}"))?;
    let timeout = nbd::client::ClientConfig::default().request_timeout;
    let described = crate::commands::inspect::on_the_engine(async || {
        let described = Box::pin(nbd::client::describe(&target, timeout)).await;
        described.map_err(|error| crate::failure::Failure::from_error(&error))
    });
    let export = described.map_err(|failure| failure.line())?.export;
    let mut flags = export.flags.iter_names();
    Ok((
        Bytes(export.size),
        flags.any(|(name, _)| name == "READ_ONLY"),
    ))
}
