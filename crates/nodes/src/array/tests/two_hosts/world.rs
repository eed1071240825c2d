//! [`World`]: two hosts, a backup, and what happens to them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoError, Node, Range, WriteFlags};
use engine::clock;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use testkit::{CrashDisk, MemDisk, Op, SECTOR, pattern, single};

use super::backup::{Backup, Host, Pause, RemoteHalf, in_array};
use super::halves::{LocalHalf, ReopenHalf};
use crate::array::redundant::tests::kit::{DISK, MEMBER, Recipe};
use crate::array::tests::worlds::expected_content::{Begun, Owed};
use crate::array::{Array, ArrayOptions, Candidate, MemberState, open};

/// Steps of a world, at most.
const STEPS_MAX: u32 = 60;
/// Requests of users under way at once, at most.
const AT_ONCE_MAX: usize = 3;
/// Longest request of a user, sectors.
const SECTORS_MAX: u64 = 8;
/// How long a step may take, milliseconds: now and then longer than a superblock is trusted.
const SHORT_MS: u64 = 300;
const LONG_MS: u64 = 12_000;

/// A program that has the array open.
pub(super) struct Program {
    pub(super) array: Arc<Array>,
    /// Number of its opening.
    pub(super) token: u64,
}

/// A host, and what runs there.
pub(super) struct Machine {
    pub(super) pause: Arc<Pause>,
    pub(super) program: Option<Program>,
}

/// A request of a user that has ended: of which opening, what it was, and how it ended.
type Ended = (u64, Begun, Result<Vec<u8>, IoError>);

/// One seed's world.
pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    pub(super) backup: Arc<Backup>,
    pub(super) local: Arc<CrashDisk>,
    pub(super) far: Arc<CrashDisk>,
    /// What the far half held at some time.
    copies: Vec<Vec<u8>>,
    pub(super) primary: Machine,
    pub(super) second: Machine,
    pub(super) owed: Owed,
    /// The opening with users that are owed something.
    pub(super) owner: u64,
    /// A member of another array.
    another: Vec<u8>,
    /// The far half had all that is owed when that was looked at last.
    far_is_current: bool,
    /// A takeover was ordered.
    pub(super) was_taken_over: bool,
    /// The newest opening is the second host's.
    owner_is_second: bool,
    tokens: u64,
    doing: FuturesUnordered<Pin<Box<dyn Future<Output = Ended>>>>,
    story: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64, fences: bool) -> Self {
        let machine = || Machine {
            pause: Arc::default(),
            program: None,
        };
        let far = Arc::new(CrashDisk::new(DISK));
        Self {
            rng: fastrand::Rng::with_seed(seed),
            backup: Backup::new(far.clone(), fences),
            local: Arc::new(CrashDisk::new(DISK)),
            far,
            copies: Vec::new(),
            another: Vec::new(),
            primary: machine(),
            second: machine(),
            owed: Owed::new(MEMBER, true),
            owner: 0,
            far_is_current: true,
            was_taken_over: false,
            owner_is_second: false,
            tokens: 0,
            doing: FuturesUnordered::new(),
            story: Vec::new(),
        }
    }

    pub(super) fn story(&self) -> String {
        self.story.join("\n  ")
    }

    pub(super) fn log(&mut self, what: impl Into<String>) {
        self.story.push(what.into());
    }

    pub(super) async fn run(&mut self) -> Result<(), String> {
        let mut recipe = Recipe::mirror(2);
        recipe.bitmap = self.rng.u8(0..4) > 0;
        recipe
            .make(&[self.local.clone() as Node, self.far.clone() as Node])
            .await;
        self.copies.push(self.far.live());
        self.another = another_array().await;
        self.start_primary().await;
        for _ in 0..self.rng.u32(1..STEPS_MAX) {
            self.step().await;
            let most = if self.rng.u8(0..4) == 0 {
                LONG_MS
            } else {
                SHORT_MS
            };
            let time = self.rng.u64(0..most);
            self.pass(Duration::from_millis(time)).await?;
        }
        self.end_well().await
    }

    /// Time passes; requests end.
    pub(super) async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let passed = clock::sleep(time);
        let mut passed = std::pin::pin!(passed);
        loop {
            tokio::select! {
                biased;
                () = &mut passed => break,
                Some(ended) = self.doing.next(), if !self.doing.is_empty() => self.ended(ended)?,
            }
        }
        self.look();
        match self.backup.wrong() {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    /// A request of a user has ended.
    fn ended(&mut self, (token, begun, answer): Ended) -> Result<(), String> {
        self.look();
        if token != self.owner {
            // A host that was taken over from owes nothing.
            return Ok(());
        }
        self.owed.end(&begun, answer.is_ok());
        match answer {
            Ok(data) => self.owed.check(&begun, &data),
            Err(error) => {
                self.log(format!("request of {token}: {error}"));
                Ok(())
            }
        }
    }

    /// Takes note of what an older opening overwrote, where the server lets it.
    fn look(&mut self) {
        for range in self.backup.take_overwritten() {
            if let Some(range) = in_array(range) {
                let range = Range::new(range.offset, range.len.min(MEMBER - range.offset));
                let trimmed = self.owed.begin(Op::Trim { range });
                self.owed.end(&trimmed, true);
            }
        }
        if let Some(program) = &self.primary.program
            && program.token == self.owner
        {
            let members = program.array.status().members;
            let far = members.iter().find(|member| member.name == "far");
            self.far_is_current = far.is_some_and(|far| far.state == MemberState::InSync);
        }
    }

    async fn step(&mut self) {
        match self.rng.u8(0..24) {
            0..12 => {
                let host = self.any_host();
                self.request(host);
            }
            12..14 => {
                let host = self.any_host();
                let machine = self.machine(host);
                let paused = !machine.pause.is_paused();
                machine.pause.set(paused);
                self.log(format!("{host:?} paused: {paused}"));
            }
            14..16 => {
                let (host, cut) = (self.any_host(), self.rng.bool());
                self.backup.cut(host, cut);
                self.log(format!("way of {host:?} cut: {cut}"));
            }
            16..18 => self.restart_backup(),
            18 => self.kill(Host::Primary),
            19 => self.return_primary().await,
            20..22 => self.take_over().await,
            22 => self.kill(Host::Second),
            _ => self.copies.push(self.far.live()),
        }
    }

    fn any_host(&mut self) -> Host {
        match self.rng.bool() {
            true => Host::Primary,
            false => Host::Second,
        }
    }

    pub(super) fn machine(&mut self, host: Host) -> &mut Machine {
        match host {
            Host::Primary => &mut self.primary,
            Host::Second => &mut self.second,
        }
    }

    fn request(&mut self, host: Host) {
        let sectors = self.rng.u64(1..SECTORS_MAX);
        let first = self.rng.u64(0..MEMBER / SECTOR - sectors);
        let range = Range::new(first * SECTOR, sectors * SECTOR);
        let fill = self.rng.u8(1..);
        let op = match self.rng.u8(0..8) {
            0..5 => Op::Write {
                range,
                fill,
                flags: WriteFlags::empty(),
                now: false,
            },
            5..7 => Op::Flush,
            _ => Op::Read { range },
        };
        let machine = self.machine(host);
        let Some(program) = machine
            .program
            .as_ref()
            .filter(|_| !machine.pause.is_paused())
        else {
            return;
        };
        let (array, token) = (program.array.clone(), program.token);
        if self.doing.len() >= AT_ONCE_MAX {
            return;
        }
        // What others do is not owed; it is carried out all the same.
        let begun = match token == self.owner {
            true => self.owed.begin(op),
            false => Owed::new(MEMBER, true).begin(op),
        };
        self.log(format!("{host:?} ({token}): {op:?}"));
        self.doing.push(Box::pin(async move {
            let answer = carry_out(&array, op).await;
            (token, begun, answer)
        }));
    }

    /// The backup's server ends, and is started again: mostly with its own disk.
    fn restart_backup(&mut self) {
        self.backup.stop();
        let other = match self.rng.u8(0..8) {
            0 => Some(vec![0; self.far.live().len()]),
            1 => Some(self.copies[self.rng.usize(0..self.copies.len())].clone()),
            2 => Some(self.another.clone()),
            _ => None,
        };
        let half = self.far.live();
        let other = other.filter(|image| !self.backup.is_as_known(image, &half));
        let is_other = other.is_some();
        let other = match other {
            Some(image) => Some((Arc::new(CrashDisk::from_bytes(image)), false)),
            None if !self.backup.is_ours() => Some((self.far.clone(), true)),
            None => None,
        };
        self.backup.start(other);
        self.log(format!("backup restarted, another disk: {is_other}"));
    }

    /// A host's program is killed.
    pub(super) fn kill(&mut self, host: Host) {
        self.look();
        let machine = self.machine(host);
        machine.pause.set(false);
        let Some(program) = machine.program.take() else {
            return;
        };
        let token = program.token;
        drop(program);
        // Its requests end with it.
        self.doing = FuturesUnordered::new();
        self.backup.left(token);
        self.owed.cut();
        self.log(format!("{host:?} ({token}) is killed"));
    }

    /// An opening counts from now on, which found `known` of what was owed.
    fn becomes_owner(&mut self, token: u64, known: bool) {
        self.owner = token;
        self.owed.cut();
        if !known {
            self.owed = Owed::new(MEMBER, false);
        }
    }

    fn candidates(&mut self, host: Host, token: u64) -> Vec<Candidate> {
        let pause = self.machine(host).pause.clone();
        let half = RemoteHalf::new(&self.backup, host, &pause, token);
        let far = Candidate {
            name: "far".to_owned(),
            disk: Some(half.clone()),
            remote: true,
            reopen: Some(ReopenHalf::of(&half)),
        };
        if host == Host::Second {
            return vec![far];
        }
        let local = LocalHalf {
            disk: self.local.clone(),
            pause,
        };
        vec![Candidate::local("local", Arc::new(local) as Node), far]
    }

    /// The primary starts with both halves, if no other host has the far one.
    async fn start_primary(&mut self) {
        self.tokens += 1;
        let token = self.tokens;
        let second_is_alive = self.second.program.is_some();
        let claimed = self
            .backup
            .claim(token, Host::Primary, false, second_is_alive);
        if let Err(why) = claimed {
            return self.log(format!("the primary does not start: {why}"));
        }
        let candidates = self.candidates(Host::Primary, token);
        match open(candidates, ArrayOptions::default()).await {
            Ok(array) => {
                self.log(format!("the primary starts ({token})"));
                self.primary.program = Some(Program { array, token });
                self.becomes_owner(token, true);
                self.owner_is_second = false;
            }
            Err(error) => self.log(format!("the primary does not start: {error}")),
        }
    }

    /// The primary is started again where no host has the half. Without a server that fences its administrator sees to that.
    async fn return_primary(&mut self) {
        let second_is_alive = self.second.program.is_some();
        let is_there = self.backup.is_ours() && !self.is_cut(Host::Primary);
        let may = !second_is_alive || self.backup.fences;
        if self.primary.program.is_some() || !is_there || !may {
            return;
        }
        self.primary.pause.set(false);
        self.start_primary().await;
    }

    fn is_cut(&self, host: Host) -> bool {
        self.backup.is_cut(host)
    }

    pub(super) const fn is_second_owner(&self) -> bool {
        self.owner_is_second
    }

    /// The second host is ordered to go on from the far half alone.
    async fn take_over(&mut self) {
        let is_there = self.backup.is_ours() && !self.is_cut(Host::Second);
        if self.second.program.is_some() || !is_there {
            return;
        }
        self.look();
        self.second.pause.set(false);
        self.tokens += 1;
        let token = self.tokens;
        let claimed = self.backup.claim(token, Host::Second, true, true);
        if let Err(why) = claimed {
            return self.log(format!("no takeover: {why}"));
        }
        let options = ArrayOptions {
            missing: 1,
            run: true,
            ..ArrayOptions::default()
        };
        let known = self.far_is_current;
        let candidates = self.candidates(Host::Second, token);
        match open(candidates, options).await {
            Ok(array) => {
                self.log(format!("the second host takes over ({token})"));
                self.second.program = Some(Program { array, token });
                self.becomes_owner(token, known);
                (self.was_taken_over, self.owner_is_second) = (true, true);
                self.far_is_current = true;
            }
            Err(error) => self.log(format!("no takeover: {error}")),
        }
    }
}

/// A member of another array, of the same form.
async fn another_array() -> Vec<u8> {
    let disks: Vec<Arc<MemDisk>> = (0..2).map(|_| Arc::new(MemDisk::new(DISK))).collect();
    let nodes: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
    Recipe::mirror(2).make_other(&nodes).await;
    disks[1].snapshot()
}

async fn carry_out(array: &Array, op: Op) -> Result<Vec<u8>, IoError> {
    match op {
        Op::Read { range } => Ok(array.read(range).await?.concat()),
        Op::Write {
            range, fill, flags, ..
        } => {
            let data = single(pattern(fill, range));
            array.write(range, data, flags).await?;
            Ok(Vec::new())
        }
        _ => {
            array.flush().await?;
            Ok(Vec::new())
        }
    }
}
