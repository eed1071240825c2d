//! [`S3Server`]: an S3 server of one of two makes on loopback, with one bucket, ended with the test.
//!
//! A program is found on the path, or in `tools/bin` of the target folder, where `cargo xtask ci bucket` installs it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::{BUCKET, KEY, LIMIT, SECRET};
use crate::proc::{Process, WaitError};
use crate::requires::Missing;

/// How often a server is started that ends at once.
const STARTS_MAX: usize = 5;

/// Who made a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum S3Make {
    /// versitygw, on a folder.
    Versity,
    /// SeaweedFS, with its own volumes.
    Seaweed,
}

impl S3Make {
    const fn program(self) -> &'static str {
        match self {
            Self::Versity => "versitygw",
            Self::Seaweed => "weed",
        }
    }

    fn find(self) -> Option<PathBuf> {
        // A relative path is one of the workspace, as for `cargo xtask`.
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let tools = std::iter::once(workspace.join(target).join("tools/bin"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path).chain(tools);
        folders.find_map(|folder| Some(folder.join(self.program())).filter(|path| path.is_file()))
    }

    /// Whether the program is on this machine.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn is_there(self) -> Result<(), Missing> {
        let missing = || {
            let what = format!("no program {}", self.program());
            Missing::new(what, "`cargo xtask ci bucket` installs it")
        };
        self.find().map(drop).ok_or_else(missing)
    }
}

/// A running server.
#[derive(Debug)]
pub struct S3Server {
    process: Process,
    command: Command,
    port: u16,
}

impl S3Server {
    /// Starts it with its data in a folder of its own below `folder`.
    ///
    /// # Panics
    /// If [`S3Make::is_there`] fails, or the server is not ready in time.
    #[must_use]
    pub fn start(make: S3Make, folder: &Path) -> Self {
        let program = make.find().expect("the caller required it");
        let data = folder.join("store");
        std::fs::create_dir_all(&data).expect("a folder");
        if make == S3Make::Versity {
            std::fs::create_dir(data.join(BUCKET)).expect("a bucket is a folder");
        }
        for _ in 0..STARTS_MAX {
            let started = match make {
                S3Make::Versity => Self::start_versity(&program, &data),
                S3Make::Seaweed => Self::start_seaweed(&program, &data),
            };
            match started {
                Ok(server) => return server,
                // Another program took one of its ports meanwhile.
                Err(WaitError::Ended { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("{program:?} ended {STARTS_MAX} times before it was ready");
    }

    fn start_versity(program: &Path, data: &Path) -> Result<Self, WaitError> {
        let port = free_port();
        let mut command = Command::new(program);
        command
            .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
            .arg(data)
            .env("ROOT_ACCESS_KEY", KEY)
            .env("ROOT_SECRET_KEY", SECRET);
        Self::wait(command, port)
    }

    fn start_seaweed(program: &Path, data: &Path) -> Result<Self, WaitError> {
        let keys = format!(
            r#"{{"identities": [{{
                "name": "test",
                "credentials": [{{"accessKey": "{KEY}", "secretKey": "{SECRET}"}}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"]
            }}]}}"#
        );
        let config = data.join("keys.json");
        std::fs::write(&config, keys).expect("it is written");
        let [master, volume, filer, port] = [(); 4].map(|()| free_port());
        let mut command = Command::new(program);
        command.args([
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
        ]);
        command.args(["-volume.max=20", "-master.volumeSizeLimitMB=64"]);
        // Other interfaces to tables in its buckets, on ports that are always the same.
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        for (name, port) in [
            ("master", master),
            ("volume", volume),
            ("filer", filer),
            ("s3", port),
        ] {
            command.arg(format!("-{name}.port={port}"));
            command.arg(format!("-{name}.port.grpc={}", free_port()));
        }
        command.arg(format!("-s3.config={}", config.display()));
        command.arg(format!("-dir={}", data.display()));
        let mut server = Self::wait(command, port)?;
        server
            .process
            .wait_until("bucket", LIMIT, |_| create_bucket(filer))?;
        Ok(server)
    }

    fn wait(mut command: Command, port: u16) -> Result<Self, WaitError> {
        let process = start_listening(&mut command, port)?;
        Ok(Self {
            process,
            command,
            port,
        })
    }

    /// Kills it by `SIGKILL`; what it wrote is left, and in the cache of the kernel.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn kill(&mut self) {
        let killed = self.process.signal(Signal::KILL);
        killed.expect("a server runs until it is killed");
        self.process.wait(LIMIT).expect("it was killed");
    }

    /// Starts it again, where it was, with the data that is there.
    ///
    /// # Panics
    /// If it is not ready in time.
    pub fn restart(&mut self) {
        for _ in 0..STARTS_MAX {
            match start_listening(&mut self.command, self.port) {
                Ok(process) => {
                    self.process = process;
                    return;
                }
                // A connection of another program has its port for a moment.
                Err(WaitError::Ended { .. }) => std::thread::sleep(Duration::from_secs(1)),
                Err(error) => panic!("{error}"),
            }
        }
        panic!(
            "{:?} ended {STARTS_MAX} times before it was ready",
            self.command
        );
    }

    /// Where it answers on this machine.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

/// Starts a program and waits until it takes connections.
fn start_listening(command: &mut Command, port: u16) -> Result<Process, WaitError> {
    let mut process = Process::start(command)?;
    let connects = |_: &Process| TcpStream::connect(("127.0.0.1", port)).ok();
    process.wait_until("port", LIMIT, connects)?;
    Ok(process)
}

/// Makes the bucket of SeaweedFS, which is a folder of its filer, if that is ready.
fn create_bucket(filer: u16) -> Option<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", filer)).ok()?;
    let head = format!("POST /buckets/{BUCKET}/ HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.starts_with('2').then_some(())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").port()
}
