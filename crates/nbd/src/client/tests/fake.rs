//! [`Fake`]: an NBD server in memory that follows a script, request by request.
//!
//! It keeps two images: `live` is what reads see, `durable` what a power cut leaves.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use nbd_proto::{
    ChunkFlags, ChunkKind, Command, CommandFlags, ExportInfo, Framing, HandshakeEvent, Negotiated,
    REQUEST_LEN, Refusal, Request, ServerHandshake, ServerHandshakeConfig, TransmissionFlags,
    WireError, chunk_header, error_chunk, offset_data_header, offset_hole_chunk, simple_reply,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};

use crate::client::{Address, Target};

/// What the server does with one request.
pub(super) enum Act {
    /// What it asks for.
    Serve,
    /// An error with a text.
    Refuse(WireError, &'static str),
    /// These bytes, whatever was asked.
    Raw(Vec<u8>),
    /// Nothing, ever.
    Silence,
    /// Closes the connection.
    Hangup,
    /// What it asks for, when told so.
    After(Arc<Notify>),
    /// What it asks for, but only behind the next request that is served.
    Hold,
}

type Script = Box<dyn FnMut(usize, &Request) -> Act + Send>;

/// The server's state, shared with the test.
pub(super) struct World {
    pub(super) export: ExportInfo,
    /// What it says when asked for its exports; it has none but the one above.
    pub(super) listed: Vec<(String, String)>,
    pub(super) structured: bool,
    /// Reads are answered in several chunks, last one first, zeroes as holes.
    pub(super) scattered: bool,
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Requests, in the order they came, without goodbyes.
    pub(super) log: Vec<Request>,
    pub(super) goodbyes: usize,
    /// Connections that came to transmission.
    pub(super) connections: usize,
    /// What to do with a request on connection number so and so, counted from 1.
    pub(super) script: Script,
}

impl World {
    pub(super) fn commands(&self) -> Vec<Command> {
        self.log.iter().map(|request| request.command).collect()
    }

    fn apply(&mut self, request: &Request, payload: &[u8]) {
        let place = span(request);
        match request.command {
            Command::Write => self.live[place.clone()].copy_from_slice(payload),
            Command::WriteZeroes => self.live[place.clone()].fill(0),
            Command::Flush => self.durable.clone_from(&self.live),
            _ => {}
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
    /// A server of `size` zero bytes that can do everything and serves what it is asked.
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
                structured: true,
                scattered: false,
                live: bytes.clone(),
                durable: bytes,
                log: Vec::new(),
                goodbyes: 0,
                connections: 0,
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
        Target {
            address: Address::Unix(self.socket()),
            export: String::new(),
        }
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
        engine::clock::sleep(std::time::Duration::from_millis(20)).await;
    }

    /// Another size; connections that are there do not learn of it.
    pub(super) fn resize(&self, size: u64) {
        let mut world = self.world();
        world.export.size = size;
        let len = usize::try_from(size).unwrap();
        world.live.resize(len, 0);
        world.durable.resize(len, 0);
    }

    /// Loses power: what was not flushed is gone, and the server with it.
    pub(super) async fn lose_power(&self) {
        self.stop().await;
        let mut world = self.world();
        world.live = world.durable.clone();
    }
}

fn span(request: &Request) -> std::ops::Range<usize> {
    let start = usize::try_from(request.offset).unwrap();
    start..start + usize::try_from(request.len).unwrap()
}

async fn serve(mut stream: UnixStream, world: Arc<Mutex<World>>) -> io::Result<()> {
    let Some(negotiated) = negotiate(&mut stream, &world).await? else {
        return Ok(());
    };
    let nth = {
        let mut world = world.lock().unwrap();
        world.connections += 1;
        world.connections
    };
    let mut held: Vec<(Request, Vec<u8>)> = Vec::new();
    loop {
        let mut header = [0; REQUEST_LEN];
        stream.read_exact(&mut header).await?;
        let request = Request::decode(&header).unwrap();
        let mut payload = Vec::new();
        if request.command == Command::Write {
            payload.resize(usize::try_from(request.len).unwrap(), 0);
            stream.read_exact(&mut payload).await?;
        }
        if request.command == Command::Disconnect {
            world.lock().unwrap().goodbyes += 1;
            return Ok(());
        }
        let act = {
            let mut world = world.lock().unwrap();
            world.log.push(request);
            (world.script)(nth, &request)
        };
        match act {
            Act::Serve => {}
            Act::After(told) => told.notified().await,
            Act::Refuse(error, text) => {
                let chunk = error_chunk(request.cookie, ChunkFlags::DONE, error, text, None);
                stream.write_all(&chunk).await?;
                continue;
            }
            Act::Raw(bytes) => {
                stream.write_all(&bytes).await?;
                continue;
            }
            Act::Silence => continue,
            Act::Hangup => return Ok(()),
            Act::Hold => {
                held.push((request, payload));
                continue;
            }
        }
        let mut replies = Vec::new();
        for (request, payload) in std::iter::once((request, payload)).chain(held.drain(..)) {
            let mut world = world.lock().unwrap();
            world.apply(&request, &payload);
            replies.extend(reply(&world, &negotiated, &request));
        }
        stream.write_all(&replies).await?;
    }
}

fn reply(world: &World, negotiated: &Negotiated, request: &Request) -> Vec<u8> {
    let mut out = simple_reply(request.cookie, None).to_vec();
    if request.command != Command::Read {
        return out;
    }
    let bytes = &world.live[span(request)];
    if !negotiated.framing.is_chunked() {
        out.extend(bytes);
        return out;
    }
    let step = if world.scattered {
        bytes.len().div_ceil(3)
    } else {
        bytes.len()
    };
    let pieces = bytes.chunks(step).enumerate();
    let mut chunks: Vec<Vec<u8>> = pieces
        .map(|(nth, piece)| {
            let offset = request.offset + (nth * step) as u64;
            chunk(request.cookie, offset, piece, world.scattered)
        })
        .collect();
    chunks.reverse();
    let done = chunk_header(request.cookie, ChunkFlags::DONE, ChunkKind::None, 0);
    chunks.push(done.to_vec());
    chunks.concat()
}

fn chunk(cookie: u64, offset: u64, piece: &[u8], holes: bool) -> Vec<u8> {
    let len = u32::try_from(piece.len()).unwrap();
    if holes && piece.iter().all(|byte| *byte == 0) {
        return offset_hole_chunk(cookie, ChunkFlags::empty(), offset, len).to_vec();
    }
    let mut chunk = offset_data_header(cookie, ChunkFlags::empty(), offset, len).to_vec();
    chunk.extend(piece);
    chunk
}

async fn negotiate(
    stream: &mut UnixStream,
    world: &Mutex<World>,
) -> io::Result<Option<Negotiated>> {
    let (export, listed, framing) = {
        let world = world.lock().unwrap();
        let framing = match world.structured {
            true => Framing::Structured,
            false => Framing::Simple,
        };
        (world.export.clone(), world.listed.clone(), framing)
    };
    let mut handshake = ServerHandshake::new(ServerHandshakeConfig {
        framing,
        ..ServerHandshakeConfig::default()
    });
    stream.write_all(&handshake.greeting()).await?;
    loop {
        // One byte at a time: nothing of the transmission is taken.
        let byte = stream.read_u8().await?;
        handshake.receive(&[byte]);
        loop {
            match handshake.next_event() {
                None => break,
                Some(HandshakeEvent::Send(bytes)) => stream.write_all(&bytes).await?,
                Some(HandshakeEvent::FindExport { name, .. }) => {
                    let known = (name == export.name).then(|| export.clone());
                    handshake.answer_export(known.ok_or(Refusal::Unknown));
                }
                Some(HandshakeEvent::FindContexts { .. }) => handshake.answer_contexts(Ok(&[])),
                // TLS is off.
                Some(HandshakeEvent::StartTls) => return Ok(None),
                Some(HandshakeEvent::List) => handshake.answer_list(&listed),
                Some(HandshakeEvent::Finished(negotiated)) => return Ok(Some(*negotiated)),
                Some(HandshakeEvent::Close(_)) => return Ok(None),
            }
            handshake.receive(&[]);
        }
    }
}
