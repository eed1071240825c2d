//! [`UnstableStore`]: a store in memory of which any request may fail, be late, or be carried out without an answer, and which
//! can be cut off from its client for good, at some moment or at the request with some number; and before that request others may do
//! something.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use engine::clock;
use fastrand::Rng;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};

/// How often what happens to a request, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// It fails, and nothing is done.
    pub(super) fails: u8,
    /// It is carried out, and fails.
    pub(super) unanswered: u8,
    /// It is late.
    pub(super) late: u8,
    /// A create is answered with 409, whether the object is there or not: S3 does that while another one is under way.
    pub(super) conflicts: u8,
    /// Conditions are ignored: an object that is there is overwritten.
    pub(super) ignores_conditions: bool,
}

/// A client's view of a store in memory.
#[derive(Debug)]
pub(super) struct UnstableStore {
    inner: Arc<InMemory>,
    faults: Mutex<Faults>,
    rng: Mutex<Rng>,
    connection: Arc<StoreConnection>,
    data_reads: AtomicU64,
}

/// The request at which a client is cut off.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestCut {
    /// Requests before it.
    pub(super) after: u64,
    /// Whether it is carried out; it is not answered.
    pub(super) is_carried_out: bool,
}

/// What others do before some request.
struct Meanwhile {
    /// Requests before it.
    after: u64,
    work: BoxFuture<'static, ()>,
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meanwhile").field(&self.after).finish()
    }
}

/// Whether a client reaches its store.
#[derive(Debug, Default)]
struct StoreConnection {
    is_cut: AtomicBool,
    cut: Mutex<Option<RequestCut>>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl StoreConnection {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    async fn while_connected(&self) {
        if self.is_cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Counts a request; `Some` if it is the one at which the client is cut off.
    fn count(&self) -> Option<RequestCut> {
        let mut cut = self.cut.lock().unwrap();
        let found = cut.as_mut()?;
        if found.after > 0 {
            found.after -= 1;
            return None;
        }
        self.cut();
        cut.take()
    }

    /// Counts a request; what is done before it.
    fn take_meanwhile(&self) -> Option<BoxFuture<'static, ()>> {
        let mut meanwhile = self.meanwhile.lock().unwrap();
        let found = meanwhile.as_mut()?;
        if found.after > 0 {
            found.after -= 1;
            return None;
        }
        meanwhile.take().map(|found| found.work)
    }

    /// Carries out a request, if the client is connected, and answers, if it still is.
    async fn carry_out<T>(&self, request: impl Future<Output = T>) -> T {
        self.while_connected().await;
        if let Some(work) = self.take_meanwhile() {
            work.await;
        }
        let cut = self.count();
        if cut.is_none_or(|cut| cut.is_carried_out) {
            let answer = request.await;
            self.while_connected().await;
            return answer;
        }
        std::future::pending().await
    }
}

impl UnstableStore {
    pub(super) fn new(inner: Arc<InMemory>, faults: Faults, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::new(faults),
            rng: Mutex::new(Rng::with_seed(seed)),
            connection: Arc::default(),
            data_reads: AtomicU64::new(0),
        })
    }

    /// No request is carried out or answered any more.
    pub(super) fn cut(&self) {
        self.connection.cut();
    }

    /// The same, from some request on.
    pub(super) fn cut_at(&self, cut: RequestCut) {
        *self.connection.cut.lock().unwrap() = Some(cut);
    }

    /// Before some request others do `work`.
    pub(super) fn before_request(
        &self,
        after: u64,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let work = Box::pin(work);
        *self.connection.meanwhile.lock().unwrap() = Some(Meanwhile { after, work });
    }

    /// Whether that request has not been made yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.connection.meanwhile.lock().unwrap().is_some()
    }

    /// Whether the client is cut off.
    pub(super) fn is_cut(&self) -> bool {
        self.connection.is_cut.load(Ordering::SeqCst)
    }

    /// Requests for data objects so far.
    pub(super) fn data_reads(&self) -> u64 {
        self.data_reads.load(Ordering::SeqCst)
    }

    pub(super) fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }

    /// Does `request`, or what the faults say.
    async fn carry_out<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let faults = *self.faults.lock().unwrap();
        let (roll, late, millis) = {
            let mut rng = self.rng.lock().unwrap();
            (rng.u8(0..100), rng.u8(0..100), rng.u64(1..400))
        };
        if late < faults.late {
            clock::sleep(Duration::from_millis(millis)).await;
        }
        self.connection.while_connected().await;
        if roll < faults.fails {
            return Err(failure("it was not carried out"));
        }
        let result = self.connection.carry_out(request).await;
        if late < faults.late {
            clock::sleep(Duration::from_millis(millis)).await;
        }
        self.connection.while_connected().await;
        if roll < faults.fails + faults.unanswered {
            return Err(failure("its answer was lost"));
        }
        result
    }
}

fn failure(why: &str) -> Error {
    Error::Generic {
        store: "unstable",
        source: why.into(),
    }
}

/// An object that is there, as the client of S3 reports 412.
fn as_precondition(error: Error) -> Error {
    match error {
        Error::AlreadyExists { path, source } => Error::AlreadyExists {
            path: path.clone(),
            source: Box::new(Error::Precondition { path, source }),
        },
        error => error,
    }
}

impl fmt::Display for UnstableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unstable")
    }
}

#[async_trait]
impl ObjectStore for UnstableStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        if self.faults.lock().unwrap().ignores_conditions {
            options.mode = PutMode::Overwrite;
        }
        let conflicts = self.faults.lock().unwrap().conflicts;
        if options.mode == PutMode::Create && self.rng.lock().unwrap().u8(0..100) < conflicts {
            return Err(Error::AlreadyExists {
                path: location.to_string(),
                source: "409 Conflict".into(),
            });
        }
        let put = self.inner.put_opts(location, payload, options);
        self.carry_out(put).await.map_err(as_precondition)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.carry_out(self.inner.put_multipart_opts(location, options))
            .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if location.as_ref().contains("/data/") {
            self.data_reads.fetch_add(1, Ordering::SeqCst);
        }
        self.carry_out(self.inner.get_opts(location, options)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, connection) = (self.inner.clone(), self.connection.clone());
        let deletes = locations.then(move |path| {
            let (inner, connection) = (inner.clone(), connection.clone());
            async move {
                let path = path?;
                connection.carry_out(inner.delete(&path)).await?;
                Ok(path)
            }
        });
        deletes.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // A list changes nothing: it is the same whether it was carried out.
        if self.is_cut() || self.connection.count().is_some() {
            return stream::pending().boxed();
        }
        let faults = *self.faults.lock().unwrap();
        if self.rng.lock().unwrap().u8(0..100) < faults.fails {
            return stream::iter([Err(failure("the list was not made"))]).boxed();
        }
        if let Some(work) = self.connection.take_meanwhile() {
            let (inner, prefix) = (self.inner.clone(), prefix.cloned());
            let list = async move {
                work.await;
                inner.list(prefix.as_ref()).collect::<Vec<_>>().await
            };
            return stream::once(list).flat_map(stream::iter).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.carry_out(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.carry_out(self.inner.copy_opts(from, to, options))
            .await
    }
}
