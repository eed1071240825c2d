//! [`RequestMeter`]: counts the requests to a store, their bytes, their failures and the time they take.
//!
//! # Invariants
//!
//! * A request is counted when it is sent, also if its caller drops it; its time and its outcome when it is answered.
//! * Nothing is changed: each request has the outcome that the store gives it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use engine::clock;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

use crate::figures::{OperationFigures, StoreOperation};

/// Names in one answer to a list ("ListObjectsV2" in the API reference of S3).
const LIST_PAGE: u64 = 1000;

/// Requests of one kind.
#[derive(Debug, Default)]
struct OperationCounts {
    requests: AtomicU64,
    failures: AtomicU64,
    nanos: AtomicU64,
    answered: AtomicU64,
}

/// What was requested of a store.
#[derive(Debug)]
pub(crate) struct RequestCounts {
    since: Instant,
    get: OperationCounts,
    put: OperationCounts,
    list: OperationCounts,
    delete: OperationCounts,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Default for RequestCounts {
    fn default() -> Self {
        Self {
            since: clock::now(),
            get: OperationCounts::default(),
            put: OperationCounts::default(),
            list: OperationCounts::default(),
            delete: OperationCounts::default(),
            received: AtomicU64::default(),
            sent: AtomicU64::default(),
        }
    }
}

impl RequestCounts {
    /// Time since they began, milliseconds.
    pub(crate) fn open_ms(&self) -> u64 {
        let open = clock::now().saturating_duration_since(self.since);
        u64::try_from(open.as_millis()).unwrap_or(u64::MAX)
    }

    const fn of(&self, operation: StoreOperation) -> &OperationCounts {
        match operation {
            StoreOperation::Get => &self.get,
            StoreOperation::Put => &self.put,
            StoreOperation::List => &self.list,
            StoreOperation::Delete => &self.delete,
        }
    }

    /// Bytes of data from the store, and to it.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (value(&self.received), value(&self.sent))
    }

    /// The requests of each kind.
    pub(crate) fn figures(&self) -> Vec<OperationFigures> {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = |operation: StoreOperation| {
            let counts = self.of(operation);
            OperationFigures {
                operation,
                requests: value(&counts.requests),
                failures: value(&counts.failures),
                nanos: value(&counts.nanos),
                answered: value(&counts.answered),
            }
        };
        StoreOperation::ALL.map(figures).to_vec()
    }

    fn count(&self, operation: StoreOperation) {
        add(&self.of(operation).requests, 1);
    }

    fn count_failure<T>(&self, operation: StoreOperation, outcome: &Result<T>) {
        if outcome.as_ref().is_err_and(is_failure) {
            add(&self.of(operation).failures, 1);
        }
    }

    /// Counts one request.
    async fn metered<T>(
        &self,
        operation: StoreOperation,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.count(operation);
        let begin = clock::now();
        let outcome = work.await;
        let nanos = clock::now().saturating_duration_since(begin).as_nanos();
        let counts = self.of(operation);
        add(&counts.nanos, u64::try_from(nanos).unwrap_or(u64::MAX));
        add(&counts.answered, 1);
        self.count_failure(operation, &outcome);
        outcome
    }
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

/// Whether the store did not carry a request out, and not because of what it has. A kind of request that it does not know is not sent
/// at all: folders have no `If-Match`.
const fn is_failure(error: &Error) -> bool {
    !matches!(
        error,
        Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Precondition { .. }
            | Error::NotModified { .. }
            | Error::NotImplemented { .. }
            | Error::NotSupported { .. }
    )
}

/// A store, the requests to which are counted.
#[derive(Debug)]
pub(crate) struct RequestMeter {
    store: Arc<dyn ObjectStore>,
    counts: Arc<RequestCounts>,
}

impl RequestMeter {
    /// Counts the requests to `store` in `counts`.
    pub(crate) const fn new(store: Arc<dyn ObjectStore>, counts: Arc<RequestCounts>) -> Self {
        Self { store, counts }
    }

    /// Counts a list, a request for each of its pages.
    fn listed(
        &self,
        list: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let counts = self.counts.clone();
        counts.count(StoreOperation::List);
        let mut names: u64 = 0;
        let count = move |found: &Result<ObjectMeta>| {
            counts.count_failure(StoreOperation::List, found);
            // One more shows that there is another page.
            if names > 0 && names.is_multiple_of(LIST_PAGE) {
                counts.count(StoreOperation::List);
            }
            names += u64::from(found.is_ok());
        };
        list.inspect(count).boxed()
    }
}

impl fmt::Display for RequestMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for RequestMeter {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        add(&self.counts.sent, payload.content_length() as u64);
        let work = self.store.put_opts(location, payload, options);
        self.counts.metered(StoreOperation::Put, work).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let work = self.store.put_multipart_opts(location, options);
        let upload = self.counts.metered(StoreOperation::Put, work).await?;
        let counts = self.counts.clone();
        Ok(Box::new(MeteredUpload { upload, counts }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let has_data = !options.head;
        let work = self.store.get_opts(location, options);
        let found = self.counts.metered(StoreOperation::Get, work).await?;
        if has_data {
            let range = &found.range;
            add(&self.counts.received, range.end.saturating_sub(range.start));
        }
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // One: the store's client joins neighbours.
        let work = self.store.get_ranges(location, ranges);
        let found = self.counts.metered(StoreOperation::Get, work).await?;
        let lengths = found.iter().map(|bytes| bytes.len() as u64);
        add(&self.counts.received, lengths.sum());
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let counts = self.counts.clone();
        let deleted = move |outcome: &Result<Path>| {
            counts.count(StoreOperation::Delete);
            counts.count_failure(StoreOperation::Delete, outcome);
        };
        self.store.delete_stream(locations).inspect(deleted).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let work = self.store.list_with_delimiter(prefix);
        self.counts.metered(StoreOperation::List, work).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let work = self.store.copy_opts(from, to, options);
        self.counts.metered(StoreOperation::Put, work).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let work = self.store.rename_opts(from, to, options);
        self.counts.metered(StoreOperation::Put, work).await
    }
}

/// An object that is sent in parts.
#[derive(Debug)]
struct MeteredUpload {
    upload: Box<dyn MultipartUpload>,
    counts: Arc<RequestCounts>,
}

#[async_trait]
impl MultipartUpload for MeteredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let counts = self.counts.clone();
        add(&counts.sent, data.content_length() as u64);
        let part = self.upload.put_part(data);
        Box::pin(async move { counts.metered(StoreOperation::Put, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let work = self.upload.complete();
        self.counts.metered(StoreOperation::Put, work).await
    }

    async fn abort(&mut self) -> Result<()> {
        let work = self.upload.abort();
        self.counts.metered(StoreOperation::Delete, work).await
    }
}
