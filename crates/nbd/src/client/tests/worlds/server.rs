//! [`Process`]: a run of a simulated server, from its start to its end, on one disk.
//!
//! It speaks the protocol by `nbd_proto` and carries out the requests of a connection at once, in
//! any order. It goes on with what it has received of a connection that its client gave up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::Range;
use engine::clock;
use nbd_proto::{
    ChunkFlags, ChunkRange, Command, CommandFlags, Extent, Framing, Negotiated, ReplyTo, Request,
    TransmissionFlags, WireError,
};
use testkit::SECTOR;
use tokio::sync::Notify;

use super::checker::Checker;
use super::disk::{Change, Sector, ServerDisk, index, sectors_of, zeroes};
use super::fence::Fence;
use super::network::Link;
use super::pipe::Ending;
use super::record::{Record, lock};

/// What a server offers.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) framing: Framing,
    pub(super) flags: TransmissionFlags,
    pub(super) allocation: bool,
    /// It says which disk it has.
    pub(super) names_disks: bool,
    /// The disk's storage fences its servers.
    pub(super) fence: Option<Fence>,
    /// Milliseconds before and behind the execution of a request, at most.
    pub(super) delay_max: u64,
}

/// Faults of a server that may come and go.
#[derive(Debug, Default)]
struct Faults {
    /// So many flushes fail.
    flushes: u32,
    /// So many changes fail.
    changes: u32,
    /// So many requests are never answered.
    answers: u32,
    /// So many requests are answered with `SHUTDOWN`.
    shutdowns: u32,
    /// Each flush takes so long.
    flush_takes: Duration,
}

/// A server that runs.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: u64,
    pub(super) disk: Arc<ServerDisk>,
    pub(super) offer: Offer,
    pub(super) checker: Arc<Checker>,
    pub(super) record: Arc<Record>,
    alive: AtomicBool,
    /// Nothing is carried out meanwhile.
    paused: AtomicBool,
    resumed: Notify,
    faults: Mutex<Faults>,
    pub(super) rng: Mutex<fastrand::Rng>,
    /// Links that came over its life, and the requests of each that are not over.
    pub(super) links: Mutex<Vec<Arc<Link>>>,
    in_flight: Mutex<HashMap<u64, usize>>,
    own: std::sync::Weak<Self>,
}

impl Process {
    pub(super) fn start(
        number: u64,
        disk: Arc<ServerDisk>,
        offer: Offer,
        checker: Arc<Checker>,
        seed: u64,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            number,
            disk,
            offer,
            record: checker.record(),
            checker,
            alive: AtomicBool::new(true),
            paused: AtomicBool::new(false),
            resumed: Notify::new(),
            faults: Mutex::default(),
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            links: Mutex::default(),
            in_flight: Mutex::default(),
            own: own.clone(),
        })
    }

    pub(super) fn name(&self) -> String {
        format!("server {} of disk {}", self.number, self.disk.number)
    }

    /// Takes a connection.
    pub(super) fn accept(&self, link: Arc<Link>) {
        lock(&self.links).push(Arc::clone(&link));
        let Some(own) = self.own.upgrade() else {
            return;
        };
        drop(engine::spawn(async move {
            if let Err(ending) = own.serve(&link).await {
                own.record
                    .log(format_args!("connection {}: {ending:?}", link.number));
            }
            link.hang_up();
        }));
    }

    /// Whether connections came to it on this host.
    pub(super) fn is_at(&self, place: usize) -> bool {
        lock(&self.links).iter().any(|link| link.place == place)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Another client takes the disk over: connections of the one before are cut, what is in flight on
    /// them is not carried out, and from now on it is refused, by every server of the disk.
    pub(super) fn take_over(&self) {
        self.disk.fence();
        for link in lock(&self.links).drain(..) {
            link.fence();
        }
    }

    /// `kill -9`: the page cache stays.
    pub(super) fn kill(&self) {
        self.alive.store(false, Ordering::Relaxed);
        for link in lock(&self.links).iter() {
            link.server_killed();
        }
    }

    /// It ends in good order: each connection is closed when what was received of it is over. The caller lets no further ones come.
    pub(super) fn stop(&self) {
        let Some(own) = self.own.upgrade() else {
            return;
        };
        drop(engine::spawn(async move {
            let links = lock(&own.links).clone();
            for link in links {
                while own.is_alive()
                    && lock(&own.in_flight)
                        .get(&link.number)
                        .is_some_and(|n| *n > 0)
                {
                    clock::sleep(Duration::from_millis(1)).await;
                }
                link.hang_up();
            }
            own.kill();
        }));
    }

    /// The machine loses power; the caller cuts the disk's.
    pub(super) fn lose_power(&self) {
        self.alive.store(false, Ordering::Relaxed);
        for link in lock(&self.links).iter() {
            link.server_lost_power();
        }
    }

    /// The machine is back: it knows none of the connections.
    pub(super) fn machine_is_back(&self) {
        for link in lock(&self.links).iter() {
            link.machine_is_back();
        }
    }

    /// The same of the connections that led to one host.
    pub(super) fn machine_is_back_at(&self, place: usize) {
        let links = lock(&self.links);
        let of_host = links.iter().filter(|link| link.place == place);
        of_host.for_each(|link| link.machine_is_back());
    }

    pub(super) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        if !paused {
            self.resumed.notify_waiters();
        }
    }

    pub(super) fn fail_flushes(&self, count: u32) {
        lock(&self.faults).flushes = count;
    }

    pub(super) fn fail_changes(&self, count: u32) {
        lock(&self.faults).changes = count;
    }

    pub(super) fn lose_answers(&self, count: u32) {
        lock(&self.faults).answers = count;
    }

    pub(super) fn shut_down_requests(&self, count: u32) {
        lock(&self.faults).shutdowns = count;
    }

    pub(super) fn slow_flushes(&self, each: Duration) {
        lock(&self.faults).flush_takes = each;
    }

    /// No fault any more.
    pub(super) fn heal(&self) {
        *lock(&self.faults) = Faults::default();
        self.pause(false);
    }

    pub(super) fn delay(&self) -> Duration {
        let mut rng = lock(&self.rng);
        let max = match rng.u8(0..8) {
            0 => self.offer.delay_max,
            1 => self.offer.delay_max / 4,
            _ => 0,
        };
        Duration::from_millis(rng.u64(0..=max))
    }

    /// Waits for the execution of a request; false if the process died meanwhile.
    pub(super) async fn wait(&self, time: Duration) -> bool {
        if !time.is_zero() {
            clock::sleep(time).await;
        }
        while self.is_alive() && self.paused.load(Ordering::Relaxed) {
            self.resumed.notified().await;
        }
        self.is_alive()
    }

    async fn serve(self: &Arc<Self>, link: &Arc<Link>) -> Result<(), Ending> {
        let Some(negotiated) = self.negotiate(link).await? else {
            return Ok(());
        };
        let negotiated = Arc::new(negotiated);
        loop {
            let framing = negotiated.framing;
            let (header, mut sent) = link.receive(framing.request_len()).await?;
            let request = Request::decode_as(framing, &header);
            let request = request.expect("a request has its magic");
            let request = request.expect("a header is whole");
            let mut payload = Vec::new();
            let len = request.payload_len(framing);
            if len > 0 {
                let len = usize::try_from(len).expect("payloads are small");
                let taken;
                (payload, taken) = link.receive(len).await?;
                sent.stamp = taken.stamp;
                sent.is_stale |= taken.is_stale;
            }
            let is_over = !self.is_alive() || link.is_fenced();
            if is_over || request.command == Command::Disconnect {
                return Ok(());
            }
            let received = Received::new(request, &payload);
            self.log(link, &received);
            self.checker
                .received((link.place, self.disk.number), &received, sent);
            *lock(&self.in_flight).entry(link.number).or_default() += 1;
            let (own, link) = (Arc::clone(self), Arc::clone(link));
            let negotiated = Arc::clone(&negotiated);
            drop(engine::spawn(async move {
                own.carry_out(&link, &negotiated, received).await;
                *lock(&own.in_flight).entry(link.number).or_default() -= 1;
            }));
        }
    }

    fn log(&self, link: &Link, received: &Received) {
        let request = &received.request;
        let (command, flags) = (request.command, request.flags);
        let (at, count) = (request.offset / SECTOR, request.len / SECTOR);
        let (number, disk) = (link.number, self.disk.number);
        let writer = received
            .content
            .first()
            .and_then(|first| super::disk::writer_of(first, at));
        let writer = writer.map_or(String::new(), |serial| format!(" of {serial}"));
        self.record.log(format_args!(
            "connection {number}: disk {disk} gets {command:?} {at}+{count} {flags:?}{writer}"
        ));
    }

    async fn carry_out(&self, link: &Arc<Link>, negotiated: &Negotiated, received: Received) {
        if !self.wait(self.delay()).await || link.is_fenced() {
            return;
        }
        let request = received.request;
        let takes = match request.command {
            Command::Flush => lock(&self.faults).flush_takes,
            _ => Duration::ZERO,
        };
        let late = !takes.is_zero() && lock(&self.rng).bool();
        if late && (!self.wait(takes).await || link.is_fenced()) {
            return;
        }
        if self.refuses_as_fenced(link, &received) {
            return;
        }
        let error = self.fault(link, &request);
        let mut reply = match error {
            Some(error) => {
                if request.command == Command::Flush && error != WireError::Shutdown {
                    self.disk.forget_dirty();
                }
                self.record
                    .log(format_args!("connection {}: {error:?}", link.number));
                let text = "a fault of the world";
                negotiated.framing.error(to(&request), error, text, None)
            }
            None => {
                self.execute(link, &received);
                self.answer(link, negotiated, &request)
            }
        };
        let rest = if late { Duration::ZERO } else { takes };
        // Errors take longer: others that are carried out behind them are answered before.
        let more = match error {
            Some(_) => Duration::from_millis(lock(&self.rng).u64(0..500)),
            None => Duration::ZERO,
        };
        if self.wait(rest + more + self.delay()).await {
            let mut faults = lock(&self.faults);
            if faults.answers > 0 {
                faults.answers -= 1;
                reply.clear();
            }
            drop(faults);
            if !reply.is_empty() {
                link.reply(reply);
            }
        }
    }

    /// Which fault a request meets.
    fn fault(&self, link: &Arc<Link>, request: &Request) -> Option<WireError> {
        if request.offset + request.len > self.disk.sectors() * SECTOR {
            return Some(WireError::Invalid);
        }
        let mut faults = lock(&self.faults);
        if faults.shutdowns > 0 {
            faults.shutdowns -= 1;
            return Some(WireError::Shutdown);
        }
        match request.command {
            // Its client would never know.
            Command::Flush if link.is_abandoned() => None,
            Command::Flush if faults.flushes > 0 => {
                faults.flushes -= 1;
                Some(WireError::Io)
            }
            Command::Write | Command::WriteZeroes if faults.changes > 0 => {
                faults.changes -= 1;
                Some(WireError::NoSpace)
            }
            _ => None,
        }
    }

    fn execute(&self, link: &Link, received: &Received) {
        let request = &received.request;
        if self.disk.is_stale(link.number) {
            self.disk.change_stale(link.number, received);
            return;
        }
        match request.command {
            Command::Write | Command::WriteZeroes | Command::Trim => {
                if self.offer.fence.is_none() {
                    self.checker.executed(link.place, self.disk.number);
                }
                let mut content = received.content.clone();
                if request.command == Command::Trim {
                    self.keep_some(received.range(), &mut content);
                }
                if link.is_abandoned() {
                    self.record.log(format_args!(
                        "connection {} was given up: {:?} is carried out late",
                        link.number, request.command
                    ));
                    self.checker
                        .executed_late(self.disk.number, received.range(), &content);
                }
                self.disk.change(Change {
                    range: received.range(),
                    content,
                    fua: request.flags.contains(CommandFlags::FUA),
                    connection: link.number,
                });
            }
            Command::Flush => {
                let all = TransmissionFlags::CAN_MULTI_CONN;
                let only = (!self.offer.flags.contains(all)).then_some(link.number);
                self.disk.flush(only);
            }
            _ => {}
        }
    }

    /// A trim is a hint: some sectors stay as they are.
    fn keep_some(&self, range: Range, content: &mut [Sector]) {
        let live = self.disk.live();
        for (sector, content) in sectors_of(range).zip(content) {
            if lock(&self.rng).bool() {
                *content = live[index(sector)].clone();
            }
        }
    }

    fn answer(&self, link: &Link, negotiated: &Negotiated, request: &Request) -> Vec<u8> {
        let (framing, to) = (negotiated.framing, to(request));
        match request.command {
            Command::Read => self.read(link, framing, request),
            Command::BlockStatus => {
                let extents = [Extent {
                    len: request.len,
                    flags: 0,
                }];
                let id = negotiated.contexts.first().map_or(0, |context| context.id);
                framing.block_status(to, ChunkFlags::DONE, id, &extents)
            }
            _ => framing.success(to).to_vec(),
        }
    }

    fn read(&self, link: &Link, framing: Framing, request: &Request) -> Vec<u8> {
        let range = Range::new(request.offset, request.len);
        let bytes = self.disk.read_over(link.number, range);
        let parts = if framing.is_chunked() {
            lock(&self.rng).usize(1..3)
        } else {
            1
        };
        let sector = index(SECTOR);
        let step = (bytes.len() / sector).div_ceil(parts).max(1) * sector;
        let mut reply = Vec::new();
        for (nth, bytes) in bytes.chunks(step).enumerate() {
            let piece = ChunkRange {
                offset: request.offset + (nth * step) as u64,
                len: u32::try_from(bytes.len()).expect("reads are short"),
            };
            let more = ChunkFlags::empty();
            if framing.is_chunked() && bytes.iter().all(|byte| *byte == 0) {
                reply.extend_from_slice(&framing.read_hole(to(request), more, piece));
                continue;
            }
            reply.extend_from_slice(&framing.read_data(to(request), more, piece));
            reply.extend_from_slice(bytes);
        }
        if framing.is_chunked() {
            reply.extend_from_slice(&framing.end(to(request)));
        }
        reply
    }
}

const fn to(request: &Request) -> ReplyTo {
    ReplyTo {
        cookie: request.cookie,
        offset: request.offset,
    }
}

/// A request that a server received, and what it is to leave in each sector.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) request: Request,
    pub(super) content: Vec<Sector>,
}

impl Received {
    fn new(request: Request, payload: &[u8]) -> Self {
        let content = match request.command {
            Command::Write => {
                let sectors = payload.chunks(index(SECTOR));
                sectors.map(Sector::copy_from_slice).collect()
            }
            Command::WriteZeroes | Command::Trim => vec![zeroes(); index(request.len / SECTOR)],
            _ => Vec::new(),
        };
        Self { request, content }
    }

    pub(super) const fn range(&self) -> Range {
        Range::new(self.request.offset, self.request.len)
    }
}
