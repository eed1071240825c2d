//! Servers, mounts and other processes of a rigged system, which end with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::LIMIT;
use testkit::proc::Process;

use super::super::around;
use super::super::files::fill;
use super::super::network::Network;
use super::super::processors::{hog, pinned};
use super::super::servers::QuotaGroup;
use super::systems::{Program, RiggedSystem};

/// MiB of images, and of files that are read.
const FILM_MIB: usize = 64;
/// MiB of images that are mounted and written.
const WRITTEN_MIB: u64 = 192;
/// How often a disk is detached that is in use.
const DETACH_TRIES: u32 = 20;

/// A server that listens.
pub(super) struct StartedServer {
    mounts: Vec<MountedDisk>,
    process: Option<Process>,
    /// The URI of its export, the disk, or the directory.
    pub(super) target: String,
    _hog: Option<Process>,
    /// Removed after the process has ended.
    _group: Option<QuotaGroup>,
}

/// A disk that is attached by FUSE and mounted.
struct MountedDisk {
    world: World,
    point: String,
    /// Whether the image of a server is on it.
    is_below: bool,
}

impl MountedDisk {
    /// Mounts `disk`; none where this machine cannot.
    fn new(disk: &str) -> Option<Self> {
        let world = World::new()?;
        let point = world.mount_point();
        world.attachment(disk).on(&point).ext4().device();
        let is_below = false;
        Some(Self {
            world,
            point,
            is_below,
        })
    }

    fn end(self) {
        // Other programs of the machine look at new block devices, and hold them for a moment.
        let mut detached = (0..DETACH_TRIES).map(|_| {
            std::thread::sleep(Duration::from_millis(200));
            self.world.run(&["detach", &self.point])
        });
        let last = detached.find(|detach| detach.code == Some(0));
        if last.is_none() {
            eprintln!(
                "{} stays attached: another mount namespace has a copy of it",
                self.point
            );
        }
    }
}

impl StartedServer {
    fn new(target: String) -> Self {
        Self {
            mounts: Vec::new(),
            process: None,
            target,
            _hog: None,
            _group: None,
        }
    }

    /// Where the doctor finds the attachments.
    pub(super) fn runtime(&self) -> Option<PathBuf> {
        self.mounts.last().map(|mounted| mounted.world.runtime())
    }

    /// Ends it, the mounts before what they are of.
    pub(super) fn end(mut self) {
        let (below, above): (Vec<_>, Vec<_>) = self.mounts.drain(..).partition(|one| one.is_below);
        above.into_iter().for_each(MountedDisk::end);
        if let Some(process) = &mut self.process {
            drop(process.signal(rustix::process::Signal::TERM));
            drop(process.wait(LIMIT));
        }
        below.into_iter().for_each(MountedDisk::end);
    }
}

/// nbd-server serves nothing in the foreground (`-d`), so it goes to the background and ends with this shell.
const IN_FRONT: &str = r#"nbd-server -C "$0" -p "$1" || exit 1
trap 'kill "$(cat "$1")"; exit' TERM
while :; do sleep 0.2; done"#;

/// The command line of a system's server, on a socket or on an address.
fn command_line(system: &RiggedSystem, args: &[String], socket: &str, host: &str) -> Vec<String> {
    let listen: Vec<String> = match (system.program, system.is_far) {
        (Program::Outboard, is_far) => {
            let program = said::outboard(&[]);
            let program = program.get_program().to_string_lossy().into_owned();
            let listen = match is_far {
                true => vec!["--insecure".to_owned(), format!("--listen={host}:0")],
                false => vec![format!("--listen=unix:{socket}")],
            };
            [vec![program, "serve".to_owned()], listen].concat()
        }
        (Program::Nbdkit, true) => ["nbdkit", "-f", "-i", host, "-p", "10809"]
            .map(str::to_owned)
            .to_vec(),
        (Program::Nbdkit, false) => ["nbdkit", "-f", "-U", socket].map(str::to_owned).to_vec(),
        (Program::NbdServer, _) => {
            let config = ["[generic]", &format!("unixsock = {socket}"), "[d]"];
            let image = socket.replace("socket", "a.img");
            let lines = [config.join("\n"), format!("exportname = {image}\n")].join("\n");
            let path = socket.replace("socket", "config");
            std::fs::write(&path, lines).expect("a configuration");
            let pid = socket.replace("socket", "pid");
            let words = ["sh", "-c", IN_FRONT, &path, &pid];
            words.map(str::to_owned).to_vec()
        }
        (Program::QemuNbd, _) => {
            let mut words = vec!["qemu-nbd", "-t", "-e", "8", "-k", socket];
            words.extend(system.is_read().then_some("-r"));
            words.into_iter().map(str::to_owned).collect()
        }
        // They have no server, or that of another system.
        _ => Vec::new(),
    };
    [&listen, args].concat()
}

/// A file in `directory`, of which all can be dropped from memory.
fn film(directory: &str) {
    let path = Path::new(directory).join("film");
    fill(&path, FILM_MIB);
    let file = std::fs::File::open(&path).expect("a file");
    file.sync_all().expect("it is written out");
}

/// Starts the system; none where this machine cannot.
pub(super) fn start(
    system: &RiggedSystem,
    folder: &Folder,
    network: &Network,
) -> Option<StartedServer> {
    match system.program {
        Program::Local => Some(StartedServer::new(system.args.concat())),
        Program::Mounted => {
            let mounted = MountedDisk::new(&system.args.concat())?;
            film(&mounted.point);
            let mut started = StartedServer::new(mounted.point.clone());
            started.mounts.push(mounted);
            Some(started)
        }
        program if program.mounted_server().is_some() => {
            let program = program.mounted_server()?;
            let server = RiggedSystem {
                program,
                ..system.clone()
            };
            let mut started = start_server(&server, folder, network)?;
            let mounted = MountedDisk::new(&started.target)?;
            film(&mounted.point);
            started.target.clone_from(&mounted.point);
            started.mounts.push(mounted);
            Some(started)
        }
        _ => start_server(system, folder, network),
    }
}

fn start_server(
    system: &RiggedSystem,
    folder: &Folder,
    network: &Network,
) -> Option<StartedServer> {
    let lower = match system.image_on {
        Some(disk) => Some(MountedDisk {
            is_below: true,
            ..MountedDisk::new(disk)?
        }),
        None => None,
    };
    let at = lower.as_ref().map(|lower| format!("{}/a.img", lower.point));
    let image = at.unwrap_or_else(|| folder.at("a.img"));
    match system.is_read() {
        true => {
            fill(Path::new(&image), FILM_MIB);
            let written = std::fs::File::open(&image).expect("an image");
            written.sync_all().expect("it is written out");
        }
        // It gets a filesystem, with a film on it.
        false => {
            let file = std::fs::File::create(&image).expect("an image");
            file.set_len(WRITTEN_MIB << 20).expect("its size");
        }
    }
    let args = system.args.iter();
    let args: Vec<String> = args.map(|word| word.replace("IMAGE", &image)).collect();
    let (socket, host) = (folder.at("socket"), format!("{}.2", network.subnet));
    let words = command_line(system, &args, &socket, &host);
    let mut command = match system.is_far {
        true => network.inside(&words.iter().map(String::as_str).collect::<Vec<_>>()),
        false => {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        }
    };
    let port_file = folder.path().join("port");
    if system.is_far && system.program == Program::Outboard {
        command.arg("--port-file").arg(&port_file);
    }
    let group = system.quota.and_then(QuotaGroup::new);
    if let Some(group) = &group {
        command = group.inside(&command);
    }
    let hog = system.is_starved.then(|| hog("1"));
    if system.is_starved {
        let mut nice = Command::new("nice");
        nice.args(["-n", "9"]);
        command = pinned("1", &around(nice, &command));
    }
    let mut process = Process::start(&mut command).expect("a server");
    let target = listening(system, &mut process, &host, (&socket, &port_file));
    let mut started = StartedServer::new(target);
    started.mounts.extend(lower);
    (started.process, started._hog, started._group) = (Some(process), hog, group);
    Some(started)
}

/// Waits until the server listens, and returns the URI of its export.
fn listening(
    system: &RiggedSystem,
    process: &mut Process,
    host: &str,
    (socket, port_file): (&str, &Path),
) -> String {
    match (system.is_far, system.program) {
        (true, Program::Outboard) => {
            let port = process.wait_for_file(port_file, LIMIT).expect("it listens");
            format!("nbd://{host}:{port}/d")
        }
        (true, _) => {
            std::thread::sleep(Duration::from_secs(1));
            format!("nbd://{host}:10809/")
        }
        (false, program) => {
            let socket = Path::new(socket);
            process.wait_for_socket(socket, LIMIT).expect("it listens");
            let export = match program {
                Program::Outboard | Program::NbdServer => "d",
                _ => "",
            };
            format!("nbd+unix:///{export}?socket={}", socket.display())
        }
    }
}
