//! [`Fake`]: an NBD server in memory that follows a script, request by request.
//!
//! It keeps two images: `live` is what reads see, `durable` what a power cut leaves.

mod serve;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use block::{BlockDevice, IoError, Range, WriteFlags};
use futures_util::FutureExt;
use nbd_proto::{
    Command, CommandFlags, DiskIdentity, ExportInfo, Extent, Framing, Refusal, Request,
    TransmissionFlags, WireError, WriterAccess,
};
use testkit::{CrashDisk, single};
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};

use crate::client::fingerprint::regions;
use crate::client::session::work::PartLimits;
use crate::client::{Address, Target};
use serve::serve;

/// What the server does with one request.
pub(super) enum Act {
    /// Serves it.
    Serve,
    /// An error with a text.
    Refuse(WireError, &'static str),
    /// These bytes, for any request.
    Raw(Vec<u8>),
    /// Nothing, ever.
    Silence,
    /// Closes the connection.
    Hangup,
    /// Serves it after a notification.
    After(Arc<Notify>),
    /// Serves it behind the next request that is served.
    Hold,
}

type Script = Box<dyn FnMut(usize, &Request) -> Act + Send>;

/// The server's state, shared with the test.
pub(super) struct World {
    pub(super) export: ExportInfo,
    /// The reply to LIST; it has no export but the one above.
    pub(super) listed: Vec<(String, String)>,
    /// The best it has to offer.
    pub(super) framing: Framing,
    /// Which disk it says that it is.
    pub(super) disk: DiskIdentity,
    /// Why it refuses every client that wants to use the export.
    pub(super) refuses: Option<Refusal>,
    /// The clients that wanted to use it, in order.
    pub(super) writers: Vec<Option<WriterAccess>>,
    /// Metadata contexts of the export.
    pub(super) contexts: Vec<&'static str>,
    /// Length and status of the extents, from the export's beginning on; behind them all is data.
    pub(super) extents: Vec<Extent>,
    /// Extents reported at once.
    pub(super) extents_max: usize,
    /// Reads are answered in several chunks, last one first, zeroes as holes.
    pub(super) scattered: bool,
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// The same disk where a power cut keeps what it likes of the rest.
    crash: Option<CrashDisk>,
    /// Where a client looks what disk it is, cut as it cuts; taken when the first one connects.
    pub(super) regions: Vec<Range>,
    /// Connections on which that was looked at.
    pub(super) verified_on: usize,
    /// Requests, in the order they came, without goodbyes and without those looks.
    pub(super) log: Vec<Request>,
    pub(super) goodbyes: usize,
    /// So long after a goodbye it ends the connection.
    pub(super) ends_after: Duration,
    /// Connections that it ended after a goodbye.
    pub(super) ended: usize,
    /// Connections that came to transmission.
    pub(super) connections: usize,
    /// More connections than these are not greeted.
    pub(super) greeted_max: usize,
    /// It speaks the oldstyle handshake.
    pub(super) oldstyle: bool,
    /// The answer to `INFO` has no size.
    pub(super) hides_size: bool,
    /// What to do with a request on connection number so and so, counted from 1.
    pub(super) script: Script,
}

impl World {
    /// From now on a power cut loses what was not flushed sector by sector.
    pub(super) fn lose_sectors(&mut self) {
        self.crash = Some(CrashDisk::from_bytes(self.durable.clone()));
    }

    /// What a client reads first on a connection.
    pub(super) fn looks(&mut self) -> VecDeque<Range> {
        if self.regions.is_empty() {
            let block = self.export.block_size_min;
            let size = block::whole_blocks(self.export.size, block);
            let step = PartLimits::new(block, self.export.block_size_max, false).payload;
            let starts = |region: Range| {
                (region.offset..region.end()).step_by(Range::new(0, step).len_usize())
            };
            let cut = |region: Range| {
                starts(region).map(move |at| Range::new(at, step.min(region.end() - at)))
            };
            self.regions = regions(size, block).into_iter().flat_map(cut).collect();
        }
        self.regions.iter().copied().collect()
    }

    pub(super) fn commands(&self) -> Vec<Command> {
        self.log.iter().map(|request| request.command).collect()
    }

    /// The bytes of a request, as far as there is memory behind the export.
    fn span(&self, request: &Request) -> std::ops::Range<usize> {
        let end = request.offset.saturating_add(request.len);
        let place =
            |at: u64| usize::try_from(at).map_or(self.live.len(), |at| at.min(self.live.len()));
        place(request.offset)..place(end)
    }

    fn apply(&mut self, request: &Request, payload: &[u8]) {
        let place = self.span(request);
        match request.command {
            Command::Write => self.live[place.clone()].copy_from_slice(payload),
            Command::WriteZeroes => self.live[place.clone()].fill(0),
            Command::Flush => self.durable.clone_from(&self.live),
            _ => {}
        }
        if let Some(disk) = &self.crash {
            // The disk is in memory: nothing of it waits.
            let done = mirror(disk, request, payload).now_or_never();
            done.unwrap().unwrap();
        }
        if request.flags.contains(CommandFlags::FUA) {
            self.durable[place.clone()].copy_from_slice(&self.live[place]);
        }
    }
}

/// A fake server on a Unix socket. It ends with the engine.
pub(super) struct Fake {
    world: Arc<Mutex<World>>,
    folder: tempfile::TempDir,
    /// Changes whenever every connection and the listener are to be closed.
    stop: watch::Sender<u64>,
}

impl Fake {
    /// A server of `size` zero bytes that can do everything and serves every request.
    pub(super) fn start(size: u64) -> Self {
        let flags = TransmissionFlags::HAS_FLAGS
            | TransmissionFlags::SEND_FLUSH
            | TransmissionFlags::SEND_FUA
            | TransmissionFlags::SEND_TRIM
            | TransmissionFlags::SEND_WRITE_ZEROES
            | TransmissionFlags::SEND_FAST_ZERO
            | TransmissionFlags::CAN_MULTI_CONN;
        let bytes = vec![0; usize::try_from(size).unwrap()];
        let fake = Self {
            world: Arc::new(Mutex::new(World {
                export: ExportInfo::new("", size, flags),
                listed: Vec::new(),
                framing: Framing::Structured,
                disk: DiskIdentity {
                    identity: "fake:1".parse().ok(),
                    ..DiskIdentity::default()
                },
                refuses: None,
                writers: Vec::new(),
                contexts: Vec::new(),
                extents: Vec::new(),
                extents_max: usize::MAX,
                scattered: false,
                live: bytes.clone(),
                durable: bytes,
                crash: None,
                regions: Vec::new(),
                verified_on: 0,
                log: Vec::new(),
                goodbyes: 0,
                ends_after: Duration::ZERO,
                ended: 0,
                connections: 0,
                greeted_max: usize::MAX,
                oldstyle: false,
                hides_size: false,
                script: Box::new(|_, _| Act::Serve),
            })),
            folder: tempfile::tempdir().unwrap(),
            stop: watch::channel(0).0,
        };
        fake.listen();
        fake
    }

    /// The same, with a script.
    pub(super) fn scripted(
        size: u64,
        script: impl FnMut(usize, &Request) -> Act + Send + 'static,
    ) -> Self {
        let fake = Self::start(size);
        fake.world().script = Box::new(script);
        fake
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(super) fn target(&self) -> Target {
        Target::new(Address::Unix(self.socket()), String::new())
    }

    /// Takes connections.
    pub(super) fn listen(&self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let world = Arc::clone(&self.world);
        let stop = self.stop.subscribe();
        let mut stopped = stop.clone();
        drop(engine::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = stopped.changed() => return,
                };
                let (stream, _) = accepted.unwrap();
                let (world, mut stopped) = (Arc::clone(&world), stop.clone());
                drop(engine::spawn(async move {
                    tokio::select! {
                        ended = serve(stream, world) => drop(ended),
                        _ = stopped.changed() => {}
                    }
                }));
            }
        }));
    }

    /// Is away: no connection lives, none is taken.
    pub(super) async fn stop(&self) {
        self.stop.send_modify(|generation| *generation += 1);
        std::fs::remove_file(self.socket()).unwrap();
        // Lets the tasks see it, before the world is changed.
        engine::clock::sleep(Duration::from_millis(20)).await;
    }

    /// Loses power, and of what was not flushed what `seed` says.
    pub(super) async fn cut_power(&self, seed: u64) {
        self.stop().await;
        let mut world = self.world();
        let left = world.crash.as_ref().expect("a disk that loses sectors");
        world.live = left.crash(seed);
        world.durable = world.live.clone();
        world.lose_sectors();
    }

    /// Another size; connections that are there do not learn of it.
    pub(super) fn resize(&self, size: u64) {
        let mut world = self.world();
        world.export.size = size;
        let len = usize::try_from(size).unwrap();
        world.live.resize(len, 0);
        world.durable.resize(len, 0);
    }

    /// The superblock of an ext4 with such a UUID is on its disk.
    pub(super) fn put_ext(&self, uuid: u8) {
        let mut world = self.world();
        let World { live, durable, .. } = &mut *world;
        for bytes in [live, durable] {
            bytes[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
            bytes[1024 + 104..1024 + 120].fill(uuid);
        }
    }

    /// Loses power: what was not flushed is gone, and the server with it.
    pub(super) async fn lose_power(&self) {
        self.stop().await;
        let mut world = self.world();
        world.live = world.durable.clone();
    }
}

/// Carries a request out on `disk`.
async fn mirror(disk: &CrashDisk, request: &Request, payload: &[u8]) -> Result<(), IoError> {
    let range = Range::new(request.offset, request.len);
    let mut flags = WriteFlags::empty();
    flags.set(WriteFlags::FUA, request.flags.contains(CommandFlags::FUA));
    match request.command {
        Command::Write => disk.write(range, single(payload.to_vec()), flags).await,
        Command::WriteZeroes => disk.write_zeroes(range, flags).await,
        Command::Flush => disk.flush().await,
        _ => Ok(()),
    }
}
