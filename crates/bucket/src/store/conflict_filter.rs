//! [`ConflictFilter`]: a create that an S3 server answers with 409 fails as in an outage, and is not reported as an object that is there.
//!
//! S3 has two answers to a `PutObject` with `If-None-Match: *` that it does not carry out ("How to prevent object overwrites with
//! conditional writes" in its user guide): 412 `PreconditionFailed`, the object is there; 409 `ConditionalRequestConflict`, another request
//! for the name is under way, nothing is known of the object, and the upload is to be retried. The client reports both as
//! [`Error::AlreadyExists`]. SlateDB takes that, for a log, as one of another writer: a writer with a slow first request would be fenced
//! by itself.
//!
//! # Invariants
//!
//! * `AlreadyExists` of a create is an object that the server has found.
//! * A conflict is retried by the same callers, and as long, as an outage: by [`retry`](super::retry()), and by SlateDB.
//!
//! # What this does not do
//!
//! `If-Match`: only SlateDB's collection of old manifests uses it, for one file, and reads that once more after either answer.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};

/// A client of an S3 server. Those of other stores report conflicts in other ways, and need no filter.
#[derive(Debug)]
pub(crate) struct ConflictFilter(pub(crate) Arc<dyn ObjectStore>);

/// An error that is retried, in place of a conflict.
fn retryable(error: Error) -> Error {
    match error {
        // The source is the client's own error for 412 and 304, and the answer of the server for 409.
        Error::AlreadyExists { path, source } if !source.is::<Error>() => Error::Generic {
            store: "S3",
            source: format!("a conflicting request for {path} is in flight: {source}").into(),
        },
        error => error,
    }
}

impl fmt::Display for ConflictFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for ConflictFilter {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let is_create = options.mode == PutMode::Create;
        let result = self.0.put_opts(location, payload, options).await;
        match is_create {
            true => result.map_err(retryable),
            false => result,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.rename_opts(from, to, options).await
    }
}
