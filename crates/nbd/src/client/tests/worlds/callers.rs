//! Callers of the client: concurrent requests that overlap or do not, some of them dropped.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Range, WriteFlags};
use engine::clock;
use testkit::{SECTOR, gather, single};
use tokio::task::JoinHandle;

use super::checker::{Checker, Op};
use super::disk::{index, pattern, sectors_of, zeroes};
use super::shape::Shape;
use crate::client::Client;

/// Sectors of one request, at most.
const SECTORS_MAX: u64 = 6;

/// One caller.
pub(super) struct Caller {
    pub(super) client: Arc<Client>,
    pub(super) checker: Arc<Checker>,
    pub(super) rng: fastrand::Rng,
    /// Sectors that it uses.
    pub(super) sectors: std::ops::Range<u64>,
    dropped: Vec<u64>,
    running: Vec<JoinHandle<()>>,
}

impl Caller {
    pub(super) fn new(
        client: Arc<Client>,
        checker: Arc<Checker>,
        seed: u64,
        sectors: std::ops::Range<u64>,
    ) -> Self {
        Self {
            client,
            checker,
            rng: fastrand::Rng::with_seed(seed),
            sectors,
            dropped: Vec::new(),
            running: Vec::new(),
        }
    }

    /// Makes its requests and waits for all of them.
    pub(super) async fn run(mut self, shape: Shape) {
        for _ in 0..shape.requests {
            let think = self.rng.u64(0..=shape.think_max);
            if think > 0 {
                clock::sleep(Duration::from_millis(think)).await;
            }
            let request = self.draw();
            let (number, task) = self.start(request);
            match self.rng.u8(0..10) {
                0 => {
                    clock::sleep(Duration::from_millis(self.rng.u64(0..40))).await;
                    task.abort();
                    self.checker.dropped(number);
                    self.dropped.push(number);
                }
                1..5 => self.running.push(task),
                _ => join(task).await,
            }
            if self.rng.u8(0..12) == 0 {
                self.settle().await;
            }
        }
        for task in std::mem::take(&mut self.running) {
            join(task).await;
        }
        self.settle().await;
    }

    /// Waits until what was dropped is over.
    async fn settle(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        let settled = self.client.settle().await;
        settled.expect("settling never fails");
        self.checker.settled(&dropped);
    }

    fn range(&mut self) -> Range {
        let len = self
            .rng
            .u64(1..=SECTORS_MAX.min(self.sectors.end - self.sectors.start));
        let at = self.rng.u64(self.sectors.start..=self.sectors.end - len);
        Range::new(at * SECTOR, len * SECTOR)
    }

    /// The next request.
    fn draw(&mut self) -> CallerRequest {
        let range = self.range();
        let flags = match self.rng.u8(0..5) {
            0 => WriteFlags::FUA,
            _ => WriteFlags::empty(),
        };
        match self.rng.u8(0..20) {
            0..10 => CallerRequest::Write(range, flags),
            10..12 => CallerRequest::Zeroes(range, flags),
            12 if self.client.geometry().trim.any() => CallerRequest::Trim(range),
            12..17 => CallerRequest::Flush,
            _ => CallerRequest::Read(range),
        }
    }

    /// Starts a request, as a task of its own that nothing but the answer wakes: callers learn of
    /// their answers in the order in which they are given.
    pub(super) fn start(&self, request: CallerRequest) -> (u64, JoinHandle<()>) {
        let number = self.checker.begin(|number| request.op(number));
        self.checker
            .record()
            .log(format_args!("{number}: {request:?}"));
        let (client, checker) = (Arc::clone(&self.client), Arc::clone(&self.checker));
        let task = engine::spawn(async move {
            let result = request.carry_out(&client, number).await;
            checker.ended(number, result);
        });
        (number, task)
    }
}

/// Waits for a task that was not aborted.
async fn join(task: JoinHandle<()>) {
    task.await.expect("a request does not panic");
}

/// A request of a caller.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallerRequest {
    Read(Range),
    Write(Range, WriteFlags),
    Zeroes(Range, WriteFlags),
    Trim(Range),
    Flush,
}

impl CallerRequest {
    fn op(self, number: u64) -> Op {
        let (range, content, flags, is_trim) = match self {
            Self::Read(range) => return Op::Read(range),
            Self::Flush => return Op::Flush,
            Self::Write(range, flags) => {
                let content = sectors_of(range).map(|sector| pattern(number, sector));
                (range, content.collect(), flags, false)
            }
            Self::Zeroes(range, flags) => {
                let count = index(range.len / SECTOR);
                (range, vec![zeroes(); count], flags, false)
            }
            Self::Trim(range) => {
                let count = index(range.len / SECTOR);
                (range, vec![zeroes(); count], WriteFlags::empty(), true)
            }
        };
        let fua = flags.contains(WriteFlags::FUA);
        Op::Change {
            range,
            content,
            fua,
            is_trim,
        }
    }

    async fn carry_out(self, client: &Client, number: u64) -> Result<Vec<u8>, block::IoError> {
        let done = match self {
            Self::Read(range) => return client.read(range).await.map(|read| gather(&read)),
            Self::Write(range, flags) => {
                let sectors = sectors_of(range).map(|sector| pattern(number, sector));
                let data = sectors.collect::<Vec<_>>().concat();
                client.write(range, single(data), flags).await
            }
            Self::Zeroes(range, flags) => client.write_zeroes(range, flags).await,
            Self::Trim(range) => client.trim(range).await,
            Self::Flush => client.flush().await,
        };
        done.map(|()| Vec::new())
    }
}
