//! [`Backup`]: a server of one half, as two hosts see it, and [`RemoteHalf`]: one host's client of it.
//!
//! The server may fence, as ours does with `single-writer`, or know nothing of writers, as those of others. It is restarted
//! with its own disk or another one; the way of each host to it is cut; hosts are paused between any two steps.
//!
//! # Invariants that are checked here
//!
//! * Nothing is written to a disk that is not the array's.
//! * Once a newer opening of the half has written its superblock, nothing of an older one lands. Where the server does not fence
//!   that is so for requests that were sent later than [`VALID_FOR`] after it; what lands until then is noted
//!   ([`Backup::take_overwritten`]).

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use block::{
    BlockDevice, Errno, Extent, Fenced, Geometry, Identity, IoBufs, IoError, IoFuture, Operation,
    Range, WriteFlags,
};
use engine::clock;
use testkit::CrashDisk;
use tokio::sync::Notify;

use crate::array::VALID_FOR;
use crate::array::redundant::tests::kit::{DATA, SUPERBLOCK};

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum Host {
    Primary,
    Second,
}

/// A host that can be paused.
#[derive(Debug, Default)]
pub(in crate::array) struct Pause {
    paused: AtomicBool,
    woken: Notify,
}

impl Pause {
    pub(in crate::array) fn set(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        self.woken.notify_waiters();
    }

    pub(in crate::array) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Resolves while it runs.
    pub(in crate::array) async fn runs(&self) {
        loop {
            let woken = self.woken.notified();
            let mut woken = pin!(woken);
            woken.as_mut().enable();
            if !self.is_paused() {
                return;
            }
            woken.await;
        }
    }
}

struct State {
    disk: Arc<CrashDisk>,
    /// It is the array's half.
    is_ours: bool,
    up: bool,
    cut: [bool; 2],
    /// Goes up with each loss of all connections.
    epoch: u64,
    /// Goes up with each disk.
    disk_number: u64,
    /// The opening that may write, and its host.
    holder: Option<(u64, Host)>,
    /// The newest opening that wrote the superblock, and when it did so first.
    owner: Option<(u64, Instant)>,
    /// The superblock that each opening knows.
    known: BTreeMap<u64, Vec<u8>>,
    /// What an older opening wrote since.
    overwritten: Vec<Range>,
    wrong: Vec<String>,
    /// Reads of the superblock.
    looks: usize,
}

/// The server of a half.
pub(in crate::array) struct Backup {
    pub(in crate::array) fences: bool,
    state: Mutex<State>,
    changed: Notify,
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup").finish_non_exhaustive()
    }
}

impl Backup {
    pub(in crate::array) fn new(disk: Arc<CrashDisk>, fences: bool) -> Arc<Self> {
        Arc::new(Self {
            fences,
            state: Mutex::new(State {
                disk,
                is_ours: true,
                up: true,
                cut: [false; 2],
                epoch: 1,
                disk_number: 0,
                holder: None,
                owner: None,
                known: BTreeMap::new(),
                overwritten: Vec::new(),
                wrong: Vec::new(),
                looks: 0,
            }),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk that it serves.
    pub(in crate::array) fn disk(&self) -> Arc<CrashDisk> {
        self.state().disk.clone()
    }

    pub(in crate::array) fn is_ours(&self) -> bool {
        self.state().is_ours
    }

    pub(in crate::array) fn is_cut(&self, host: Host) -> bool {
        let state = self.state();
        !state.up || state.cut[host as usize]
    }

    /// Cuts the way of a host, or mends it.
    pub(in crate::array) fn cut(&self, host: Host, cut: bool) {
        self.state().cut[host as usize] = cut;
        self.changed.notify_waiters();
    }

    /// Ends the server: all connections are lost.
    pub(in crate::array) fn stop(&self) {
        let mut state = self.state();
        state.up = false;
        state.epoch += 1;
    }

    /// Starts it again, with another disk if there is one. A server that fences knows its last writer.
    pub(in crate::array) fn start(&self, other: Option<(Arc<CrashDisk>, bool)>) {
        let mut state = self.state();
        state.up = true;
        state.epoch += 1;
        if let Some((disk, is_ours)) = other {
            state.disk = disk;
            state.is_ours = is_ours;
            state.disk_number += 1;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// How often a superblock was read.
    pub(in crate::array) fn looks(&self) -> usize {
        self.state().looks
    }

    /// Whether a client of this host and opening would be admitted again; whether it is fenced, if not.
    pub(in crate::array) fn admits(&self, host: Host, token: u64) -> Result<(), bool> {
        let state = self.state();
        if !state.up || state.cut[host as usize] {
            return Err(false);
        }
        match self.is_fenced(&state, token) {
            true => Err(true),
            false => Ok(()),
        }
    }

    /// Whether an image has the superblock of the half, or that which an opening wrote last: they cannot be distinguished.
    pub(in crate::array) fn is_as_known(&self, image: &[u8], half: &[u8]) -> bool {
        let found = superblock_of(image);
        let mut known = self.state().known.clone().into_values();
        found == superblock_of(half) || known.any(|known| known == found)
    }

    /// What is wrong with what has landed.
    pub(in crate::array) fn wrong(&self) -> Option<String> {
        self.state().wrong.first().cloned()
    }

    /// What older openings wrote, as they may where the server does not fence, since the last call.
    pub(in crate::array) fn take_overwritten(&self) -> Vec<Range> {
        std::mem::take(&mut self.state().overwritten)
    }

    /// A host's program has ended.
    pub(in crate::array) fn left(&self, token: u64) {
        let mut state = self.state();
        state.known.remove(&token);
        // The last writer stays known to one that fences.
        if !self.fences && state.holder.is_some_and(|(held, _)| held == token) {
            state.holder = None;
        }
    }

    /// Claims the half for an opening. `others_alive`: the current writer would be cut off.
    pub(in crate::array) fn claim(
        &self,
        token: u64,
        host: Host,
        takeover: bool,
        others_alive: bool,
    ) -> Result<(), String> {
        let mut state = self.state();
        if !state.up || state.cut[host as usize] {
            return Err("connection refused".to_owned());
        }
        let is_other = state.holder.is_some_and(|(held, _)| held != token);
        if self.fences && is_other && others_alive && !takeover {
            return Err("already attached for writing".to_owned());
        }
        state.holder = Some((token, host));
        Ok(())
    }

    fn is_fenced(&self, state: &State, token: u64) -> bool {
        self.fences && state.holder.is_some_and(|(held, _)| held > token)
    }
}

/// One host's client of a half.
#[derive(Debug)]
pub(in crate::array) struct RemoteHalf {
    backup: Arc<Backup>,
    host: Host,
    pause: Arc<Pause>,
    /// Number of the opening: a later one is larger.
    token: u64,
    geometry: Geometry,
    /// The loss of connections that it knows of last, and the disk that it found then.
    epoch: AtomicU64,
    disk_number: AtomicU64,
    severed: AtomicBool,
}

impl RemoteHalf {
    pub(in crate::array) fn new(
        backup: &Arc<Backup>,
        host: Host,
        pause: &Arc<Pause>,
        token: u64,
    ) -> Arc<Self> {
        let (epoch, disk_number) = {
            let mut state = backup.state();
            let found = superblock_of(&state.disk.live());
            state.known.insert(token, found);
            (state.epoch, state.disk_number)
        };
        Arc::new(Self {
            geometry: backup.disk().geometry().clone(),
            backup: backup.clone(),
            host,
            pause: pause.clone(),
            token,
            epoch: AtomicU64::new(epoch),
            disk_number: AtomicU64::new(disk_number),
            severed: AtomicBool::new(false),
        })
    }

    /// Connects again where the connections were lost, if that can be; what it knows of them then.
    fn connect(&self) -> (u64, u64) {
        let state = self.backup.state();
        if state.up && !state.cut[self.host as usize] {
            self.epoch.store(state.epoch, Ordering::Relaxed);
            self.disk_number.store(state.disk_number, Ordering::Relaxed);
        }
        drop(state);
        let known = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (known(&self.epoch), known(&self.disk_number))
    }

    /// Ends it: nothing more is sent, a request that waits gets an error.
    pub(in crate::array) fn sever(&self) {
        self.severed.store(true, Ordering::Relaxed);
        self.backup.changed.notify_waiters();
    }

    /// Another client of the same opening, once the server admits it; whether it is fenced, if not.
    pub(in crate::array) async fn again(&self) -> Result<Arc<Self>, bool> {
        self.pause.runs().await;
        self.backup.admits(self.host, self.token)?;
        Ok(Self::new(&self.backup, self.host, &self.pause, self.token))
    }

    /// Waits until the server can be reached; its disk. A client that connects again with a request under way sees that it is
    /// another one.
    async fn reach(
        &self,
        operation: Operation,
        range: Option<Range>,
    ) -> Result<Arc<CrashDisk>, IoError> {
        let (_, begun) = self.connect();
        let failed = || IoError::new(Errno::Io, operation, range);
        loop {
            self.pause.runs().await;
            let changed = self.backup.changed.notified();
            let mut changed = pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.backup.state();
                if self.severed.load(Ordering::Relaxed) {
                    return Err(failed().because("it was severed"));
                }
                if state.up && !state.cut[self.host as usize] {
                    if self.backup.is_fenced(&state, self.token) {
                        let who = "fenced: another host took over writing".to_owned();
                        return Err(failed().because(Fenced(who)));
                    }
                    if state.disk_number != begun {
                        return Err(failed().because("the export is another disk"));
                    }
                    return Ok(state.disk.clone());
                }
            }
            changed.await;
        }
    }

    /// A change lands that was sent at `asked`.
    fn note(&self, asked: Instant, range: Range) {
        let mut guarded = self.backup.state();
        let state = &mut *guarded;
        let (host, token) = (self.host, self.token);
        if !state.is_ours {
            let what = format!("{host:?} ({token}) wrote {range} to another disk");
            state.wrong.push(what);
        }
        let (owner, since) = state.owner.unwrap_or((0, asked));
        let is_superblock = range.offset == SUPERBLOCK;
        if token > owner && is_superblock {
            state.owner = Some((token, clock::now()));
        } else if token < owner {
            if self.backup.fences || asked > since + VALID_FOR {
                let late = asked.saturating_duration_since(since);
                let what = format!(
                    "{host:?} ({token}) wrote {range}, asked {late:?} after opening {owner} had"
                );
                state.wrong.push(what);
            }
            state.overwritten.push(range);
        }
    }

    async fn change(
        &self,
        operation: Operation,
        range: Range,
        carry_out: impl AsyncFnOnce(&CrashDisk) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let asked = clock::now();
        let disk = self.reach(operation, Some(range)).await?;
        self.note(asked, range);
        let answer = carry_out(&disk).await;
        if range.offset == SUPERBLOCK {
            let found = superblock_of(&disk.live());
            self.backup.state().known.insert(self.token, found);
        }
        self.pause.runs().await;
        answer
    }
}

/// The bytes of the superblock of a half.
fn superblock_of(image: &[u8]) -> Vec<u8> {
    let at = usize::try_from(SUPERBLOCK).expect("small");
    image[at..at + 4096].to_vec()
}

impl BlockDevice for RemoteHalf {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            let disk = self.reach(Operation::Read, Some(range)).await?;
            self.backup.state().looks += usize::from(range.offset == SUPERBLOCK);
            let answer = disk.read(range).await;
            self.pause.runs().await;
            answer
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(
            self.change(Operation::Write, range, async move |disk: &CrashDisk| {
                disk.write(range, data, flags).await
            }),
        )
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let disk = self.reach(Operation::Flush, None).await?;
            let answer = disk.flush().await;
            self.pause.runs().await;
            answer
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        let zero = async move |disk: &CrashDisk| disk.write_zeroes(range, flags).await;
        Box::pin(self.change(Operation::WriteZeroes, range, zero))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        let trim = async move |disk: &CrashDisk| disk.trim(range).await;
        Box::pin(self.change(Operation::Trim, range, trim))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            let disk = self.reach(Operation::Extents, Some(range)).await?;
            disk.extents(range).await
        })
    }

    fn identity(&self) -> Option<Identity> {
        None
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        // What is dropped before it landed never does.
        Box::pin(async { Ok(()) })
    }

    fn connection_epoch(&self) -> u64 {
        self.connect().0
    }
}

/// Whether a range lies in the data of a member; where it is in the array then.
pub(in crate::array) const fn in_array(range: Range) -> Option<Range> {
    match range.offset.checked_sub(DATA) {
        Some(at) => Some(Range::new(at, range.len)),
        None => None,
    }
}
