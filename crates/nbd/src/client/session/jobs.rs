//! [`Jobs`]: requests of callers, their parts, and the callers that wait for them. Pure.
//!
//! A job is accepted, cut into parts as there is room for them, and answered when every part is
//! over. The first failure stops the cutting.

use std::collections::VecDeque;

use block::{Extent, IoError, Range};
use bytes::Bytes;
use nbd_proto::CommandFlags;
use slab::Slab;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::client::session::allocation::Allocation;
use crate::client::session::fill::ReadBuffer;
use crate::client::session::work::{
    Answer, Body, FlushMark, Owner, Part, PartLimits, Response, Submission, Work, take_front,
};

/// What one part brought.
#[derive(Debug)]
pub(crate) enum PartResponse {
    Nothing,
    Bytes(Bytes),
    Extents(Vec<Extent>),
}

/// One request of a caller.
#[derive(Debug)]
struct SessionJob {
    work: Work,
    range: Range,
    answer: Answer,
    number: u64,
    /// Bytes that were cut into parts.
    cut: u64,
    parts_out: usize,
    /// What was read, by part.
    read: SmallVec<[Bytes; 2]>,
    extents: Vec<Extent>,
    failure: Option<IoError>,
}

impl SessionJob {
    /// Whether all of it was cut. A flush has no bytes and one part.
    fn is_cut(&self) -> bool {
        self.failure.is_some() || (self.cut >= self.range.len && !self.read.is_empty())
    }
}

/// Requests that are not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: Slab<SessionJob>,
    /// Jobs with parts to cut, in order.
    waiting: VecDeque<usize>,
    next_number: u64,
    /// Callers that wait until every changing job below a number is over.
    settling: Vec<(u64, oneshot::Sender<()>)>,
}

impl Jobs {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// What callers want done.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Work> {
        self.jobs.iter().map(|(_, job)| &job.work)
    }

    pub(crate) fn accept(&mut self, submission: Submission) {
        let key = self.jobs.insert(SessionJob {
            work: submission.work,
            range: submission.range,
            answer: submission.answer,
            number: self.next_number,
            cut: 0,
            parts_out: 0,
            read: SmallVec::new(),
            extents: Vec::new(),
            failure: None,
        });
        self.next_number += 1;
        self.waiting.push_back(key);
    }

    /// Whether the next part changes the disk; `None` if there is none.
    pub(crate) fn next_changes(&self) -> Option<bool> {
        let key = self.waiting.front()?;
        Some(self.jobs[*key].work.changes())
    }

    /// Cuts the next part. `mark` is for a flush.
    pub(crate) fn next_part(&mut self, limits: &PartLimits, mark: FlushMark) -> Option<Part> {
        let key = *self.waiting.front()?;
        let job = &mut self.jobs[key];
        let len = (job.range.len - job.cut).min(limits.of(&job.work));
        let range = Range::new(job.range.offset + job.cut, len);
        let nth = job.read.len();
        let (body, flags) = match &mut job.work {
            Work::Read => (Body::Read(ReadBuffer::new(range)), CommandFlags::empty()),
            Work::Write { data, flags } => {
                (Body::Write(take_front(data, range.len_usize())), *flags)
            }
            Work::WriteZeroes { flags } => (Body::WriteZeroes, *flags),
            Work::Trim => (Body::Trim, CommandFlags::empty()),
            Work::Extents => {
                // One part: its answer may end early, and the next one would leave a gap.
                job.cut = job.range.len - len;
                let allocation = Allocation::new(range, limits.block_size);
                (Body::Extents(allocation), CommandFlags::empty())
            }
            Work::Flush => (Body::Flush { mark }, CommandFlags::empty()),
        };
        job.cut += len;
        job.parts_out += 1;
        job.read.push(Bytes::new());
        if job.is_cut() {
            self.waiting.pop_front();
        }
        Some(Part::new(Owner::Job { key, nth }, range, flags, body))
    }

    /// A part of job `key` is over.
    pub(crate) fn part_done(
        &mut self,
        key: usize,
        nth: usize,
        result: Result<PartResponse, IoError>,
    ) {
        let job = &mut self.jobs[key];
        job.parts_out -= 1;
        match result {
            Ok(PartResponse::Bytes(bytes)) => job.read[nth] = bytes,
            Ok(PartResponse::Extents(extents)) => job.extents = extents,
            Ok(PartResponse::Nothing) => {}
            Err(failure) => {
                if job.failure.is_none() && !job.is_cut() {
                    self.waiting.retain(|waiting| *waiting != key);
                }
                let job = &mut self.jobs[key];
                job.failure.get_or_insert(failure);
            }
        }
        let job = &self.jobs[key];
        if job.parts_out == 0 && job.is_cut() {
            self.answer(key);
        }
    }

    /// Fails every job. Parts that are still out must be dropped by the caller.
    pub(crate) fn fail_all(&mut self, mut why: impl FnMut(&Work, Range) -> IoError) {
        self.waiting.clear();
        for job in self.jobs.drain() {
            let failure = why(&job.work, job.range);
            deliver(job.answer, Err(failure));
        }
        self.settled();
    }

    /// Drops `done`, which is the answer, when everything that changes the disk and was accepted before is over.
    pub(crate) fn settle(&mut self, done: oneshot::Sender<()>) {
        self.settling.push((self.next_number, done));
        self.settled();
    }

    fn answer(&mut self, key: usize) {
        let job = self.jobs.remove(key);
        let changed = job.work.changes();
        let result = match (job.failure, job.work) {
            (Some(failure), _) => Err(failure),
            (None, Work::Read) => Ok(Response::Bytes(job.read)),
            (None, Work::Extents) => Ok(Response::Extents(job.extents)),
            (None, _) => Ok(Response::Nothing),
        };
        deliver(job.answer, result);
        if changed {
            self.settled();
        }
    }

    fn settled(&mut self) {
        if self.settling.is_empty() {
            return;
        }
        let changing = self.jobs.iter().filter(|(_, job)| job.work.changes());
        let oldest = changing.map(|(_, job)| job.number).min();
        let over = |until: u64| oldest.is_none_or(|oldest| oldest >= until);
        // Dropping the others is the answer to them.
        self.settling.retain(|(until, _)| !over(*until));
    }
}

/// A caller that no longer waits has dropped its future; its answer goes nowhere.
fn deliver(answer: Answer, result: Result<Response, IoError>) {
    drop(answer.send(result));
}
