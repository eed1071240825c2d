//! Servers as real processes on a port of the loopback: ours, and the peers it is compared with.
//!
//! A server that was started is ended when its handle is dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock;
use crate::shell::{self, Running};

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);

/// One server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// Ours.
    Ours,
    /// Ours with blocking threads instead of io_uring.
    OursThreads,
    /// An earlier binary of ours.
    Before,
    /// nbdkit's file plugin.
    Nbdkit,
    /// The same under its filter for copy-on-write, with its own or another size of a block.
    NbdkitCow(Option<u32>),
    /// nbdkit's plugin for remote disks; the disk is a URI.
    NbdkitNbd,
    /// The reference implementation.
    Reference,
    /// QEMU's.
    Qemu,
    /// QEMU's past the page cache, with io_uring.
    QemuDirect,
    /// The least that a server can do: the bench's own.
    Bare,
    /// QEMU's on a disk made of others; the disk is what QEMU calls image options.
    QemuQuorum,
    /// QEMU's on an overlay of its own format.
    QemuOverlay,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours => "outboard",
            Self::OursThreads => "outboard, threads",
            Self::Before => "outboard before",
            Self::Nbdkit => "nbdkit",
            Self::NbdkitCow(None) => "nbdkit cow",
            Self::NbdkitCow(Some(size)) => return f.pad(&format!("nbdkit cow {size}")),
            Self::NbdkitNbd => "nbdkit nbd",
            Self::Reference => "nbd-server",
            Self::Qemu => "qemu-nbd",
            Self::QemuDirect => "qemu-nbd direct",
            Self::Bare => "bare loop",
            Self::QemuQuorum => "qemu quorum",
            Self::QemuOverlay => "qemu-nbd qcow2",
        })
    }
}

/// Starts servers: our command and the folder for their logs and files.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Our command; `{disk}`, `{port}` and `{port_file}` are filled in.
    pub(crate) ours: Vec<String>,
    /// The same of an earlier binary, where there is one to compare with.
    pub(crate) before: Option<Vec<String>>,
    /// A folder of this run.
    pub(crate) folder: PathBuf,
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Serving {
    running: Option<Running>,
    id: u32,
    port: u16,
    export: &'static str,
}

impl Serving {
    /// The process that time and memory are read of.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The port on the loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The export's URI.
    pub(crate) fn uri(&self) -> String {
        format!("nbd://127.0.0.1:{}/{}", self.port, self.export)
    }

    /// Ends the server at once, without a word to it.
    pub(crate) fn kill(mut self) {
        if let Some(running) = &mut self.running {
            running.kill();
        }
    }

    /// The same server on another of its ports, once it takes connections there.
    pub(crate) fn also_listening(mut self, limit: Duration, port: u16) -> Result<Self> {
        wait_for_port(port, limit)?;
        self.port = port;
        Ok(self)
    }

    /// Ends the server in order, within `limit`.
    pub(crate) fn stop(mut self, limit: Duration) -> Result<()> {
        match &mut self.running {
            Some(running) => running.terminate(limit).map(drop),
            None => Ok(()),
        }
    }

    /// The export's name.
    pub(crate) fn export(&self) -> &'static str {
        self.export
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.running.take().is_none() {
            shell::terminate(self.id);
        }
    }
}

fn start_qemu(how: &[&str], disk: &str, port: u16, log: &Path) -> Result<Serving> {
    let port_text = port.to_string();
    let mut args = vec!["-t", "-e", "10000", "-b", "127.0.0.1", "-p", &port_text];
    args.extend_from_slice(how);
    args.push(disk);
    listening(Running::start("qemu-nbd", args, log)?, port)
}

impl Launcher {
    /// Starts ours and nbdkit on `disk`, both of which insist on TLS with the certificates in `certificates`.
    pub(crate) fn start_tls(&self, disk: &str, certificates: &Path) -> Result<[Serving; 2]> {
        let folder = certificates.to_string_lossy();
        let with_tls = Self {
            ours: [
                &self.ours[..],
                &["--tls".to_owned(), folder.clone().into_owned()],
            ]
            .concat(),
            before: None,
            folder: self.folder.clone(),
        };
        let ours = with_tls.start(Server::Ours, disk)?;
        let port = free_port()?;
        let certificates = format!("--tls-certificates={folder}");
        let words = ["--tls=require", &certificates, "file", disk];
        let log = self.folder.join(format!("nbdkit.tls.{port}.log"));
        let theirs = self.start_nbdkit(&words, port, &log)?;
        Ok([ours, theirs])
    }

    /// Starts `server` on `disk`: a path, or for ours any disk expression.
    pub(crate) fn start(&self, server: Server, disk: &str) -> Result<Serving> {
        self.start_at(server, disk, free_port()?)
    }

    /// The same on a port that is known to be free; ours may pick another one.
    pub(crate) fn start_at(&self, server: Server, disk: &str, port: u16) -> Result<Serving> {
        let log = self.folder.join(format!("{server}.{port}.log"));
        self.start_logged(server, disk, port, &log)
            .with_context(|| {
                let logged = std::fs::read_to_string(&log).unwrap_or_default();
                format!("{server} does not serve {disk}: {}", logged.trim())
            })
    }

    fn start_logged(&self, server: Server, disk: &str, port: u16, log: &Path) -> Result<Serving> {
        match server {
            Server::Ours => self.start_ours(&self.ours, disk, port, log),
            Server::OursThreads => {
                let command = [&self.ours[..], &["--engine=threads".to_owned()]].concat();
                self.start_ours(&command, disk, port, log)
            }
            Server::Before => {
                let command = self.before.as_ref();
                let command = command.context("no earlier binary was given")?;
                self.start_ours(command, disk, port, log)
            }
            Server::Nbdkit => self.start_nbdkit(&["file", disk], port, log),
            Server::NbdkitCow(block) => {
                let block = block.map(|size| format!("cow-block-size={size}"));
                let words = ["--filter=cow", "file", disk].into_iter();
                let words: Vec<&str> = words.chain(block.as_deref()).collect();
                self.start_nbdkit(&words, port, log)
            }
            Server::NbdkitNbd => self.start_nbdkit(&["nbd", &format!("uri={disk}")], port, log),
            Server::Qemu => start_qemu(&["-f", "raw"], disk, port, log),
            Server::QemuDirect => {
                let how = ["--cache=none", "--aio=io_uring", "-f", "raw"];
                start_qemu(&how, disk, port, log)
            }
            Server::Bare => {
                let program = std::env::current_exe()?;
                let args = ["bare", disk, &port.to_string()];
                listening(Running::start(program, args, log)?, port)
            }
            Server::QemuQuorum => start_qemu(&["--image-opts"], disk, port, log),
            Server::QemuOverlay => start_qemu(&["-f", "qcow2"], disk, port, log),
            Server::Reference => self.start_nbd_server(disk, port, log),
        }
    }

    /// What nbdkit keeps in a temporary file is kept in the folder of this run.
    fn start_nbdkit(&self, words: &[&str], port: u16, log: &Path) -> Result<Serving> {
        let folder = format!("TMPDIR={}", self.folder.display());
        let port_text = port.to_string();
        let mut args = vec![&folder, "nbdkit", "-f", "-i", "127.0.0.1", "-p", &port_text];
        args.extend_from_slice(words);
        listening(Running::start("env", args, log)?, port)
    }

    fn start_ours(&self, command: &[String], disk: &str, port: u16, log: &Path) -> Result<Serving> {
        let port_file = self.folder.join("port");
        std::fs::remove_file(&port_file).ok();
        let tells_port = command.iter().any(|word| word.contains("{port_file}"));
        let mut words = command.iter().map(|word| {
            word.replace("{disk}", disk)
                .replace("{port_file}", &port_file.to_string_lossy())
                .replace("{port}", &port.to_string())
        });
        let program = words.next().context("--ours names no program")?;
        let mut running = Running::start(program, words, log)?;
        if !tells_port {
            return listening(running, port);
        }
        let port = clock::poll(START_LIMIT, || {
            let ended = running.still_runs().is_err();
            let told = std::fs::read_to_string(&port_file).ok()?;
            match told.trim().parse::<u16>() {
                Ok(port) => Some(Some(port)),
                Err(_) if ended => Some(None),
                Err(_) => None,
            }
        });
        running.still_runs()?;
        let port = port.flatten().context("it wrote no port file")?;
        listening(running, port)
    }

    /// The reference server goes to the background by itself and forks for each client, so its id comes
    /// from its own file and its children count once they were waited for.
    fn start_nbd_server(&self, disk: &str, port: u16, log: &Path) -> Result<Serving> {
        let config = self.folder.join("nbd-server.conf");
        let id_file = self.folder.join(format!("nbd-server.{port}.pid"));
        std::fs::write(
            &config,
            format!(
                "[generic]\nlistenaddr = 127.0.0.1\nport = {port}\n[disk]\nexportname = {disk}\n"
            ),
        )?;
        let args = [
            "-C".as_ref(),
            config.as_os_str(),
            "-p".as_ref(),
            id_file.as_os_str(),
        ];
        let mut starter = Running::start("nbd-server", args, log)?;
        starter.wait(START_LIMIT);
        let id = clock::poll(START_LIMIT, || {
            std::fs::read_to_string(&id_file).ok()?.trim().parse().ok()
        });
        let id = id.context("it wrote no process id")?;
        let serving = Serving {
            running: None,
            id,
            port,
            export: "disk",
        };
        wait_for_port(port, START_LIMIT)?;
        Ok(serving)
    }
}

fn listening(running: Running, port: u16) -> Result<Serving> {
    listening_within(START_LIMIT, running, port, "")
}

/// The server of `export` that is `running`, once it takes connections.
pub(crate) fn listening_within(
    limit: Duration,
    mut running: Running,
    port: u16,
    export: &'static str,
) -> Result<Serving> {
    let connected = wait_for_port(port, limit);
    running.still_runs()?;
    connected?;
    Ok(Serving {
        id: running.id(),
        running: Some(running),
        port,
        export,
    })
}

fn wait_for_port(port: u16, limit: Duration) -> Result<()> {
    let connected = clock::poll(limit, || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
    });
    if connected.is_none() {
        bail!("nothing listens on port {port}");
    }
    Ok(())
}

/// Ports that were given out: a server that is restarted finds its port free, also where others start at the same time.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that was free a moment ago, and that no other caller in this process gets.
pub(crate) fn free_port() -> Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if given.insert(port) {
            return Ok(port);
        }
    }
}
