//! [`Job`]: a request that waits for its disk, and how it is carried out.

use std::sync::Arc;

use block::{Extent, IoBufs, IoError, Node, Operation, Range, WriteFlags};

use super::long::{self, CancelFlag};
use super::query_share::QueryShare;
use super::request_context::RequestContext;
use super::sparse;
use super::split_write::SplitWrite;
use super::status;
use crate::server::budget::Charge;
use crate::server::plan::{Ids, Status};

/// An operation on the disk.
#[derive(Debug)]
pub(super) enum Job {
    Read {
        range: Range,
        /// Look for holes first.
        sparse: bool,
    },
    Write {
        range: Range,
        data: IoBufs,
        flags: WriteFlags,
        /// The whole that it is a part of.
        split_write: Option<Arc<SplitWrite>>,
    },
    Flush,
    Trim {
        range: Range,
        fua: bool,
    },
    WriteZeroes(Range, WriteFlags),
    Cache(Range),
    Status(Status),
}

impl Job {
    /// Whether it changes the disk, so that it may not be forgotten halfway.
    pub(super) const fn changes(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Trim { .. } | Self::WriteZeroes(..) => true,
            Self::Read { .. } | Self::Flush | Self::Cache(_) | Self::Status(_) => false,
        }
    }

    /// Memory that it takes while it runs, besides what it was given.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Read { range, .. } => range.len_usize(),
            Self::Cache(range) => Range::new(0, range.len.min(long::CACHE_PIECE)).len_usize(),
            Self::Status(status) => status::memory(status.range),
            Self::Write { .. } | Self::Flush | Self::Trim { .. } | Self::WriteZeroes(..) => 0,
        }
    }
}

/// What a job brought.
#[derive(Debug)]
pub(super) enum JobOutput {
    /// It is done.
    Nothing,
    /// The bytes of a read.
    Read(Range, IoBufs),
    /// The same where holes were looked for.
    Sparse(Pieces),
    /// The extents of a run of bytes, one behind the other from its offset, and the contexts that
    /// report them.
    Status(Vec<Extent>, Ids),
}

/// A read in pieces: bytes, or none for a hole.
pub(super) type Pieces = Vec<(Range, Option<IoBufs>)>;

/// A finished job.
#[derive(Debug)]
pub(super) struct JobResult {
    pub(super) context: RequestContext,
    /// The whole that it was a part of.
    pub(super) split_write: Option<Arc<SplitWrite>>,
    /// Whether the job was one that changes the disk.
    pub(super) changed: bool,
    /// Memory that the job held.
    pub(super) bytes: usize,
    pub(super) result: Result<JobOutput, IoError>,
    /// The same memory as the process counts it, kept until the reply left.
    pub(super) charge: Charge,
}

/// What a job is carried out with.
#[derive(Debug)]
pub(super) struct JobContext {
    pub(super) disk: Node,
    pub(super) context: RequestContext,
    pub(super) bytes: usize,
    pub(super) charge: Charge,
    pub(super) cancel: CancelFlag,
    /// The connection's share of long queries.
    pub(super) queries: QueryShare,
}

/// Carries `job` out.
pub(super) async fn run(job_context: JobContext, job: Job) -> JobResult {
    let JobContext {
        disk,
        context,
        bytes,
        charge,
        cancel,
        queries,
    } = job_context;
    let mut of = None;
    let changed = job.changes();
    let nothing = |()| JobOutput::Nothing;
    // What is rare is boxed, so that it does not make every job's future larger.
    let result = match job {
        Job::Read {
            range,
            sparse: true,
        } => Box::pin(sparse::read(&disk, range)).await,
        Job::Read { range, .. } => {
            let read = disk.read(range).await;
            read.map(|data| JobOutput::Read(range, data))
        }
        Job::Write {
            range,
            data,
            flags,
            split_write,
        } => {
            of = split_write;
            disk.write(range, data, flags).await.map(nothing)
        }
        Job::Flush => disk.flush().await.map(nothing),
        Job::Trim { range, fua } => {
            let trim = long::trim(&disk, range, fua, &cancel);
            Box::pin(trim).await.map(nothing)
        }
        Job::WriteZeroes(range, flags) => {
            let zero = long::zero(&disk, range, flags, &cancel);
            Box::pin(zero).await.map(nothing)
        }
        Job::Cache(range) => {
            let cache = long::cache(&disk, range, &cancel);
            let cached = Box::pin(queries.run(cache, &cancel, (Operation::Read, range)));
            cached.await.map(nothing)
        }
        Job::Status(status) => {
            let query = status::collect(&disk, status.range, status.one);
            let extents =
                Box::pin(queries.run(query, &cancel, (Operation::Extents, status.range))).await;
            extents.map(|extents| JobOutput::Status(extents, status.ids))
        }
    };
    JobResult {
        context,
        split_write: of,
        changed,
        bytes,
        result,
        charge,
    }
}
