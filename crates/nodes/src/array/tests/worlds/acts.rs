//! What happens while an array of a world is open: users, time, people, and disks that break.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, IoError, Range, TryIo, WriteFlags};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use testkit::{Op, SECTOR, moments, pattern, single};

use super::disks::{Mode, Power};
use super::expected_content::Begun;
use super::world::{End, Life, World, Wrong, candidate, in_sync};
use crate::array::{AddOptions, Array, ArrayError, MemberState, SyncKind};

/// Things that are begun in one life, at most.
const ACTIONS_MAX: usize = 40;
/// Things that are under way at once, at most.
const AT_ONCE_MAX: usize = 4;
/// Longest request of a user, sectors.
const SECTORS_MAX: u64 = 24;

/// Why a member is not used of which the place was taken.
pub(super) const TAKEN: &str = "took its place";

/// What ended of what was under way.
pub(super) enum Ended {
    /// A request of a user.
    Request(Begun, Result<Vec<u8>, IoError>),
    /// One with a user that had gone, and the array has settled since.
    Dropped(Begun),
    /// The array has so many parts, or does not.
    Grown(u32, Result<(), ArrayError>),
    /// Something else, by its name.
    Other(String, Result<(), ArrayError>),
}

pub(super) type Doing = FuturesUnordered<Pin<Box<dyn Future<Output = Ended>>>>;

/// Carries out a request that is dropped when it was polled so often, and waits then until nothing of it can land any
/// more. `None`: it was dropped.
async fn impatiently(array: Arc<Array>, op: Op, polls: u8) -> Option<Result<Vec<u8>, IoError>> {
    let answer = {
        let mut asked = pin!(request(array.clone(), op));
        let mut left = polls;
        poll_fn(|context| match asked.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => {
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await
    };
    if answer.is_none() {
        // What cannot be settled has failed a member.
        drop(array.settle().await);
    }
    answer
}

/// An error of a step in the background.
pub(super) fn described(error: IoError) -> ArrayError {
    ArrayError::Read {
        member: "the array".to_owned(),
        source: error,
    }
}

/// Carries out a request.
pub(super) async fn request(array: Arc<Array>, op: Op) -> Result<Vec<u8>, IoError> {
    match op {
        Op::Read { range } => Ok(array.read(range).await?.concat()),
        Op::Write {
            range,
            fill,
            flags,
            now,
        } => {
            let data = pattern(fill, range);
            if now && flags.is_empty() && array.try_write(range, &data) == TryIo::Done {
                return Ok(Vec::new());
            }
            array.write(range, single(data), flags).await?;
            Ok(Vec::new())
        }
        Op::WriteZeroes { range, flags } => {
            array.write_zeroes(range, flags).await?;
            Ok(Vec::new())
        }
        Op::Trim { range } => {
            array.trim(range).await?;
            Ok(Vec::new())
        }
        Op::Flush => {
            array.flush().await?;
            Ok(Vec::new())
        }
    }
}

impl World {
    /// Uses an open array until the power goes out, or nothing more is to be done.
    pub(super) async fn act(&mut self, life: &mut Life) -> Result<End, Wrong> {
        let mut doing = Doing::new();
        let mut left = self.rng.usize(0..ACTIONS_MAX);
        // What it holds, twice: it must be the same.
        for _ in 0..2 {
            let range = Range::new(0, self.owed.size());
            self.user(life, &mut doing, Op::Read { range }, None);
        }
        let power = life.power.clone();
        while left > 0 || !doing.is_empty() {
            if left > 0 && doing.len() < AT_ONCE_MAX {
                left -= 1;
                self.begin(life, &mut doing).await;
            }
            if doing.is_empty() {
                continue;
            }
            let until = if left > 0 {
                self.rng.u8(0..30)
            } else {
                u8::MAX
            };
            tokio::select! {
                biased;
                () = power.gone() => return Ok(self.cut(life)),
                Some(ended) = doing.next() => self.ended(life, ended)?,
                // A hung request must not be kept from its end by one that does nothing.
                () = moments(until), if left > 0 && doing.len() < AT_ONCE_MAX => {}
            }
        }
        tokio::select! {
            biased;
            () = power.gone() => return Ok(self.cut(life)),
            checked = self.check_written(life) => checked?,
        }
        self.leave(life, &power).await
    }

    fn cut(&mut self, life: &Life) -> End {
        let in_sync = in_sync(&life.array).join(" ");
        self.log(format!("cut; in sync: {in_sync}"));
        End::Cut
    }

    /// Nothing is under way: the array is stopped, or just left.
    async fn leave(&mut self, life: &mut Life, power: &Power) -> Result<End, Wrong> {
        self.log("nothing is under way");
        match self.rng.u8(0..4) {
            0 => Ok(self.cut(life)),
            1 => {
                self.log("killed");
                Ok(End::Killed)
            }
            _ => tokio::select! {
                biased;
                () = power.gone() => Ok(self.cut(life)),
                stopped = life.array.stop() => {
                    self.log(format!("stopped: {stopped:?}"));
                    match stopped {
                        Err(error) if !life.broken => Err(format!("it cannot be stopped: {error}")),
                        _ => Ok(End::Stopped),
                    }
                }
            },
        }
    }

    /// A user sends a request, and leaves after so many polls if that is given.
    fn user(&mut self, life: &mut Life, doing: &mut Doing, op: Op, polls: Option<u8>) {
        let begun = self.owed.begin(op);
        life.written.begin(&op);
        self.log(format!(
            "{} {op:?}, dropped after {polls:?}",
            begun.number()
        ));
        let array = life.array.clone();
        doing.push(Box::pin(async move {
            let answer = match polls {
                None => Some(request(array, op).await),
                Some(polls) => impatiently(array, op, polls).await,
            };
            match answer {
                Some(answer) => Ended::Request(begun, answer),
                None => Ended::Dropped(begun),
            }
        }));
    }

    pub(super) fn other(
        &mut self,
        doing: &Doing,
        name: impl Into<String>,
        what: impl Future<Output = Result<(), ArrayError>> + 'static,
    ) {
        let name = name.into();
        self.log(name.clone());
        doing.push(Box::pin(async move { Ended::Other(name, what.await) }));
    }

    fn range(&mut self) -> Range {
        let sectors = self.owed.size() / SECTOR;
        let start = self.rng.u64(0..sectors);
        let len = self.rng.u64(1..=SECTORS_MAX).min(sectors - start);
        Range::new(start * SECTOR, len * SECTOR)
    }

    fn op(&mut self) -> Op {
        let range = self.range();
        let flags = if self.rng.u8(0..5) == 0 {
            WriteFlags::FUA
        } else {
            WriteFlags::empty()
        };
        match self.rng.u8(0..16) {
            0..8 => Op::Write {
                range,
                fill: self.rng.u8(..),
                flags,
                now: self.rng.bool(),
            },
            8..11 => Op::Read { range },
            11 => Op::WriteZeroes { range, flags },
            12 if self.shape.ppl.or(self.shape.journal).is_none() => Op::Trim { range },
            _ => Op::Flush,
        }
    }

    /// Begins something.
    async fn begin(&mut self, life: &mut Life, doing: &mut Doing) {
        let array = life.array.clone();
        match self.rng.u8(0..50) {
            0..24 => {
                let op = self.op();
                let leaves = self.rng.u8(0..8) == 0;
                let polls = leaves.then(|| self.rng.u8(0..12));
                self.user(life, doing, op, polls);
            }
            24..27 => self.other(doing, "mark clean", async move {
                let clean = array.by_hand().array.mark_clean().await;
                clean.map(drop).map_err(described)
            }),
            27..30 => self.other(doing, "sweep", async move {
                let swept = array.by_hand().array.sweep().await;
                swept.map(drop).map_err(described)
            }),
            30..34 => self.other(doing, "work", async move { array.by_hand().work().await }),
            34 => {
                let kind = [SyncKind::Check, SyncKind::Repair][self.rng.usize(0..2)];
                self.other(doing, format!("{kind:?}"), async move { array.scrub(kind) });
            }
            35 => self.other(doing, "probe", async move {
                array.by_hand().probe(true).await;
                Ok(())
            }),
            36 | 37 => self.break_one(life, doing),
            38 | 39 => self.mend_one(life, doing).await,
            40 | 41 => self.grow(life, doing),
            42..46 => self.lose_before_resync(life),
            46 | 47 => self.replace_one(life, doing),
            _ => self.take_newcomer(life, doing),
        }
    }

    /// The disk with the journal breaks: nothing is written any more, and what was is there.
    fn break_journal(&mut self, life: &mut Life) {
        let journal = self.disks.iter().find(|disk| disk.is_journal);
        let name = journal.expect("the shape has one").name.clone();
        self.log(format!("{name}, the journal, is gone"));
        (life.broken, self.journal_broke) = (true, true);
        life.wires[&name].set(Mode::Gone);
    }

    /// One member more than is needed breaks in one way or another.
    fn break_one(&mut self, life: &mut Life, doing: &Doing) {
        if self.shape.journal.is_some() && !self.journal_broke && self.rng.u8(0..8) == 0 {
            return self.break_journal(life);
        }
        if life.damaged || self.rng.u8(0..4) > 0 && life.broken {
            // What one member lacks must not be lost on another one.
            return;
        }
        // What parity does not fit yet cannot be computed.
        if self.shape.parities() > 0 && life.array.by_hand().array.needed(0).is_some() {
            return;
        }
        let Some(name) = self.one_to_spare(life) else {
            return;
        };
        let wire = life.wires[&name].clone();
        life.broken = true;
        self.owed.trust_no_member();
        match self.rng.u8(0..4) {
            0 => {
                life.failing.push(name.clone());
                let array = life.array.clone();
                let what = format!("fail {name}");
                self.other(doing, what, async move { array.fail(&name).await });
            }
            1 => {
                self.log(format!("{name} is gone"));
                wire.set(Mode::Gone);
            }
            2 => {
                self.log(format!("{name} hangs"));
                wire.set(Mode::Hung);
            }
            _ => {
                let places = self.shape.places();
                let at = places.data + self.rng.u64(0..super::shape::DATA / SECTOR) * SECTOR;
                let forever = self.rng.bool();
                self.log(format!("{name} is damaged at {at}, forever: {forever}"));
                life.damaged = true;
                wire.damage(Range::new(at, SECTOR), forever);
            }
        }
    }

    /// A member that works, if one can be spared.
    pub(super) fn one_to_spare(&mut self, life: &Life) -> Option<String> {
        let works: Vec<String> = in_sync(&life.array)
            .into_iter()
            .filter(|name| self.is_sound(name) && !life.failing.contains(name))
            .filter(|name| {
                life.wires
                    .get(name)
                    .is_some_and(|wire| wire.mode() == Mode::Fine)
            })
            .collect();
        let can_spare = self.can_spare(works.len());
        can_spare.then(|| works[self.rng.usize(0..works.len())].clone())
    }

    fn is_journal(&self, name: &str) -> bool {
        let mut disks = self.disks.iter();
        disks.any(|disk| disk.is_journal && disk.name == *name)
    }

    /// Members of which the place was taken.
    fn log_replaced(&mut self, array: &Array) {
        for member in array.status().members {
            if member.why.is_some_and(|why| why.ends_with(TAKEN)) {
                self.log(format!("{}: {TAKEN}", member.name));
            }
        }
    }

    /// A spare is to take the place of a member, if there is one.
    fn replace_one(&mut self, life: &Life, doing: &Doing) {
        let works = in_sync(&life.array);
        if works.is_empty() {
            return;
        }
        let name = works[self.rng.usize(0..works.len())].clone();
        let array = life.array.clone();
        self.other(doing, format!("replace {name}"), async move {
            array.replace(&name, None).await
        });
    }

    /// A disk works again, and comes back; or a new one is given.
    async fn mend_one(&mut self, life: &mut Life, doing: &Doing) {
        let status = life.array.status();
        let is_out = |name: &String| {
            let of = |state| matches!(state, MemberState::Failed | MemberState::Stale);
            let mut members = status.members.iter();
            members.any(|member| member.name == *name && of(member.state))
        };
        let out: Vec<String> = life
            .wires
            .keys()
            .filter(|name| is_out(name) && !self.is_journal(name))
            .cloned()
            .collect();
        if out.is_empty() {
            return;
        }
        let name = out[self.rng.usize(0..out.len())].clone();
        let wire = life.wires[&name].clone();
        wire.mend().await;
        life.failing.retain(|other| *other != name);
        let array = life.array.clone();
        let disk = candidate(&name, &wire);
        if self.rng.bool() {
            let what = format!("re-add {name}");
            self.other(doing, what, async move { array.re_add(disk).await });
        } else {
            self.other(doing, format!("remove and add {name}"), async move {
                array.remove(&name).await?;
                array.add(disk, AddOptions::default()).await
            });
        }
    }

    fn ended(&mut self, life: &mut Life, ended: Ended) -> Result<(), Wrong> {
        match ended {
            Ended::Request(begun, answer) => {
                self.log(format!("{} ended", begun.number()));
                self.owed.end(&begun, answer.is_ok());
                life.written.end(begun.op(), answer.is_ok());
                match answer {
                    Ok(data) => self.owed.check(&begun, &data)?,
                    // Both copies of a sector may be lost.
                    Err(error)
                        if life.damaged
                            || self.may_be_lost(&error)
                            || self.may_lack_parity(life, begun.op())
                            || self.journal_broke =>
                    {
                        self.log(format!("failed: {error}"));
                    }
                    Err(error) => return Err(format!("a request failed: {error}")),
                }
            }
            Ended::Dropped(begun) => {
                self.log(format!("{} was dropped", begun.number()));
                self.owed.end(&begun, false);
                life.written.end(begun.op(), false);
            }
            Ended::Grown(parts, grown) => self.grown(parts, grown),
            Ended::Other(name, Err(error)) => self.log(format!("{name}: {error}")),
            Ended::Other(name, Ok(())) => {
                self.log(format!("{name}: done"));
                self.log_replaced(&life.array);
            }
        }
        Ok(())
    }
}
