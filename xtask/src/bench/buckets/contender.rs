//! [`Site`]: one contender with its place in the store, its proxy and its folder: started, filled and stopped as often as a row needs.

use std::fmt;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::ninep;
use super::probe::Probe;
use super::proxy::FaultyProxy;
use super::store::{BUCKET, KEY, ObjectStore, REGION, SECRET, bytes_below};
use crate::bench::fio::{self, Target, Until};
use crate::bench::rows::load;
use crate::bench::{DISK_SIZE, serve_command};
use crate::s3_servers::BenchPrograms;
use crate::servers::{Launcher, Server, Serving, free_port, listening_within};
use crate::shell::{self, Running};

/// When a server that starts, or one that ends, counts as stuck.
const LIMIT: Duration = Duration::from_secs(120);
/// What the disk of ZeroFS is called: a file in the folder of this name.
const DEVICES: &str = ".nbd";
const DEVICE: &str = "disk";
/// The snapshot that machines boot from.
const GOLDEN: &str = "golden";

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    /// Ours behind a cache.
    Cached,
    /// Ours without one.
    Uncached,
    /// Ours without a cache, with a local journal.
    Journaled,
    /// A file on the disk of the journal, served by ours.
    LocalFile,
    /// The peer.
    ZeroFs,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cached => "outboard",
            Self::Uncached => "outboard, no cache",
            Self::Journaled => "outboard, journal",
            Self::LocalFile => "local file",
            Self::ZeroFs => "ZeroFS",
        })
    }
}

impl Contender {
    /// What its objects have before their names.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Uncached => "uncached",
            Self::Journaled => "journaled",
            Self::LocalFile => "file",
            Self::ZeroFs => "zerofs",
        }
    }
}

/// One contender of a row.
#[derive(Debug)]
pub(super) struct Site {
    contender: Contender,
    /// What all its requests go through.
    pub(super) proxy: FaultyProxy,
    /// Its objects, as the store keeps them.
    objects: PathBuf,
    /// Of its cache and its logs.
    folder: PathBuf,
    /// Ours, and the words that set its environment.
    binary: PathBuf,
    environment: Vec<String>,
    zerofs: Option<PathBuf>,
}

impl Site {
    /// A new disk of [`DISK_SIZE`].
    pub(super) fn new(
        contender: Contender,
        store: &ObjectStore,
        (programs, binary): (&BenchPrograms, &Path),
        folder: &Path,
    ) -> Result<Self> {
        let proxy = store.proxy();
        let folder = folder.join(contender.prefix());
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let environment = [
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ENDPOINT_URL", endpoint(&proxy)),
        ];
        let environment = environment.map(|(name, value)| format!("{name}={value}"));
        let site = Self {
            contender,
            proxy,
            objects: store.folder(contender.prefix()),
            folder,
            binary: binary.to_owned(),
            environment: environment.to_vec(),
            zerofs: programs.zerofs.clone(),
        };
        site.create()?;
        Ok(site)
    }

    fn create(&self) -> Result<()> {
        if self.contender == Contender::LocalFile {
            let file = std::fs::File::create(self.local_file())?;
            return Ok(file.set_len(DISK_SIZE)?);
        }
        if self.contender != Contender::ZeroFs {
            let size = DISK_SIZE.to_string();
            let mut create = self.bucket_command(["create", &self.uri(), &size]);
            return shell::output(&mut create).map(drop);
        }
        let (serving, port) = self.start_zerofs()?;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        ninep::create_file(&mut stream, DEVICES, DEVICE, DISK_SIZE)?;
        drop(stream);
        Probe::connect(&serving)?.flush()?;
        serving.stop(LIMIT)
    }

    fn uri(&self) -> String {
        format!("s3://{BUCKET}/{}", self.contender.prefix())
    }

    /// A command of ours for volumes on object stores.
    fn bucket_command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new("env");
        command.args(&self.environment).arg(&self.binary);
        command.arg("bucket").args(words);
        command
    }

    /// Starts its server on the disk, with what the cache has.
    pub(super) fn start(&self) -> Result<Serving> {
        let disk = match self.contender {
            Contender::Uncached => self.uri(),
            Contender::Cached => {
                let size = DISK_SIZE * 5 / 4;
                let cache = self.cache();
                format!("cache({},{},size={size})", self.uri(), cache.display())
            }
            Contender::Journaled => {
                let journal = self.local_file();
                format!(
                    "bucket({},journal={},durability=local)",
                    self.uri(),
                    journal.display()
                )
            }
            Contender::LocalFile => self.local_file().display().to_string(),
            Contender::ZeroFs => return Ok(self.start_zerofs()?.0),
        };
        self.launch(&disk, &[])
    }

    /// Starts a server of ours that gives each client an overlay in `folder` over a snapshot of the volume, which is cached.
    pub(super) fn start_golden(&self, overlays: &Path) -> Result<Serving> {
        let cache = self.folder.join("golden");
        let disk = format!("cache({}@{GOLDEN},{})", self.uri(), cache.display());
        let overlays = overlays.display().to_string();
        self.launch(&disk, &["--overlay-per-client".to_owned(), overlays])
    }

    /// Makes the snapshot that machines boot from.
    pub(super) fn snapshot(&self) -> Result<()> {
        let mut create = self.bucket_command(["snapshot", "create", &self.uri(), GOLDEN]);
        shell::output(&mut create).map(drop)
    }

    fn launch(&self, disk: &str, options: &[String]) -> Result<Serving> {
        let command = ["env".to_owned()].into_iter();
        let launcher = Launcher {
            ours: command
                .chain(self.environment.iter().cloned())
                .chain(serve_command(&self.binary))
                .chain(options.iter().cloned())
                .collect(),
            before: None,
            folder: self.folder.clone(),
        };
        launcher.start(Server::Ours, disk)
    }

    /// The server of ZeroFS, and the port of its files.
    fn start_zerofs(&self) -> Result<(Serving, u16)> {
        let (files, port) = (free_port()?, free_port()?);
        let config = self.folder.join("zerofs.toml");
        let text = zerofs_config(&self.cache(), &endpoint(&self.proxy), (files, port));
        std::fs::write(&config, text)?;
        let log = self.folder.join("zerofs.log");
        let config = config.display().to_string();
        let program = self.zerofs.as_ref().context("there is no ZeroFS")?;
        let running = Running::start(program, ["run", "-c", &config], &log)?;
        let served = listening_within(LIMIT, running, files, DEVICE)
            .and_then(|serving| serving.also_listening(LIMIT, port))
            .with_context(|| {
                let logged = std::fs::read_to_string(&log).unwrap_or_default();
                format!("ZeroFS does not serve: {}", logged.trim())
            })?;
        Ok((served, files))
    }

    /// Of its files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The journal, or the disk.
    fn local_file(&self) -> PathBuf {
        self.folder.join("local")
    }

    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// The next server begins with an empty cache.
    pub(super) fn empty_cache(&self) {
        let cache = self.cache();
        std::fs::remove_file(&cache).ok();
        std::fs::remove_dir_all(&cache).ok();
    }

    /// Writes the first bytes of the disk in order, all of them durable, and ends the server.
    pub(super) fn fill(&self, bytes: u64) -> Result<()> {
        let serving = self.start()?;
        let all = Until::Once { size: bytes, bytes };
        let write = load("write", 1 << 20, 1, 16);
        fio::run(&write, Target::Export(&serving.uri()), all)?;
        Probe::connect(&serving)?.flush()?;
        serving.stop(LIMIT)
    }

    /// Bytes in the store. What a collection found unused does not count: it is deleted by the next one.
    pub(super) fn stored(&self) -> Result<u64> {
        let unused = match self.contender {
            Contender::ZeroFs => 0,
            _ => self.collect()?.0,
        };
        Ok(bytes_below(&self.objects)? - unused)
    }

    /// Has the server write the data of objects again of which little is used.
    pub(super) fn relocate(&self) -> Result<()> {
        if self.contender == Contender::ZeroFs {
            return Ok(());
        }
        let mut relocate = self.bucket_command(["gc", &self.uri(), "--relocate", "--json"]);
        shell::output(&mut relocate).map(drop)
    }

    /// Runs a collection: bytes that a later one deletes, and when.
    pub(super) fn collect(&self) -> Result<(u64, Duration)> {
        if self.contender == Contender::ZeroFs {
            return Ok((0, Duration::ZERO));
        }
        let printed = shell::output(&mut self.bucket_command(["gc", &self.uri(), "--json"]))?;
        waiting(&printed).with_context(|| format!("bucket gc printed {printed}"))
    }
}

/// What a collection leaves for a later one.
pub(super) fn waiting(printed: &str) -> Result<(u64, Duration)> {
    let report: serde_json::Value = serde_json::from_str(printed)?;
    let number = |name: &str| report[name].as_u64().with_context(|| format!("no {name}"));
    let wait = Duration::from_secs(number("wait_s")?);
    Ok((number("waiting_bytes")?, wait))
}

fn endpoint(proxy: &FaultyProxy) -> String {
    format!("http://127.0.0.1:{}", proxy.port())
}

/// What ZeroFS is given, besides ports, is what its own `init` writes.
fn zerofs_config(cache: &Path, endpoint: &str, (files, disks): (u16, u16)) -> String {
    format!(
        r#"[cache]
dir = "{}"
disk_size_gb = 10.0
memory_size_gb = 1.0
[storage]
url = "s3://{BUCKET}/{}"
encryption_password = "{SECRET}"
[servers.ninep]
addresses = ["127.0.0.1:{files}"]
[servers.nbd]
addresses = ["127.0.0.1:{disks}"]
[aws]
access_key_id = "{KEY}"
secret_access_key = "{SECRET}"
endpoint = "{endpoint}"
default_region = "{REGION}"
allow_http = "true"
"#,
        cache.display(),
        Contender::ZeroFs.prefix(),
    )
}
