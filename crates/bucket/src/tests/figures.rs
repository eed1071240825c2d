//! Requests to the store are counted: by kind, with their bytes, and what the store did not carry out.

use std::sync::Arc;

use block::BlockDevice as _;
use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, UpdateVersion,
};

use super::unstable_store::{Faults, UnstableStore};
use super::volume::{new_volume, open_for_reading, run, stable, tags, write};
use crate::figures::{StoreOperation, VolumeFigures};
use crate::format::{BLOCK, RUN};
use crate::store::{RequestCounts, RequestMeter};

fn meter(store: Arc<dyn ObjectStore>) -> (RequestMeter, Arc<RequestCounts>) {
    let counts = Arc::new(RequestCounts::default());
    (RequestMeter::new(store, counts.clone()), counts)
}

/// Requests and failures of each kind.
fn counted(counts: &RequestCounts) -> Vec<(&'static str, u64, u64)> {
    let figures = counts.figures().into_iter();
    figures
        .map(|one| (one.operation.name(), one.requests, one.failures))
        .collect()
}

#[test]
fn each_kind_of_request_is_counted_with_its_bytes_and_an_answer_is_no_failure() {
    run(async {
        let (store, counts) = meter(Arc::new(InMemory::new()));
        let (one, other) = (Path::from("a/one"), Path::from("a/other"));
        store
            .put(&one, PutPayload::from_static(b"12345"))
            .await
            .unwrap();
        store
            .put(&other, PutPayload::from_static(b"123"))
            .await
            .unwrap();
        let create = PutOptions::from(PutMode::Create);
        let again = store
            .put_opts(&one, PutPayload::from_static(b"9"), create)
            .await;
        assert!(matches!(again, Err(Error::AlreadyExists { .. })));
        store.get(&one).await.unwrap();
        store.get_range(&one, 1..3).await.unwrap();
        store.get_ranges(&one, &[0..1, 4..5]).await.unwrap();
        store.head(&other).await.unwrap();
        let missing = store
            .get_opts(&Path::from("b"), GetOptions::default())
            .await;
        assert!(matches!(missing, Err(Error::NotFound { .. })));
        let prefix = Path::from("a");
        let listed: Vec<_> = store.list(Some(&prefix)).try_collect().await.unwrap();
        assert_eq!(listed.len(), 2);
        store.list_with_delimiter(None).await.unwrap();
        store.delete(&one).await.unwrap();
        let expected = [
            ("get", 5, 0),
            ("put", 3, 0),
            ("list", 2, 0),
            ("delete", 1, 0),
        ];
        assert_eq!(counted(&counts), expected);
        assert_eq!(counts.bytes(), (5 + 2 + 2, 5 + 3 + 1));
        let answered: Vec<u64> = counts.figures().iter().map(|one| one.answered).collect();
        assert_eq!(answered, [5, 3, 1, 0], "streams have no time");

        let mut upload = store
            .put_multipart_opts(&other, PutMultipartOptions::default())
            .await
            .unwrap();
        upload
            .put_part(PutPayload::from_static(b"1234567"))
            .await
            .unwrap();
        upload.complete().await.unwrap();
        assert_eq!(counted(&counts)[1], ("put", 6, 0));
        assert_eq!(counts.bytes().1, 5 + 3 + 1 + 7);
    });
}

#[test]
fn a_list_counts_its_pages() {
    run(async {
        let inner = Arc::new(InMemory::new());
        for number in 0..2001 {
            let name = Path::from(format!("a/{number}"));
            inner.put(&name, PutPayload::new()).await.unwrap();
        }
        let (store, counts) = meter(inner.clone());
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!((listed.len(), counted(&counts)[2].1), (2001, 3));
        inner.delete(&Path::from("a/0")).await.unwrap();
        let (store, counts) = meter(inner);
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!((listed.len(), counted(&counts)[2].1), (2000, 2));
    });
}

#[test]
fn what_a_store_does_not_carry_out_is_a_failure() {
    run(async {
        let faults = Faults {
            fails: 100,
            ..Faults::default()
        };
        let (store, counts) = meter(UnstableStore::new(Arc::new(InMemory::new()), faults, 1));
        store.get(&Path::from("a")).await.unwrap_err();
        store
            .put(&Path::from("a"), PutPayload::from_static(b"1"))
            .await
            .unwrap_err();
        assert_eq!(counted(&counts)[..2], [("get", 1, 1), ("put", 1, 1)]);
    });
}

/// SlateDB tries such a request for each of its old manifests.
#[test]
fn what_a_store_cannot_do_is_no_failure_of_it() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let local = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let (store, counts) = meter(Arc::new(local));
        let version = UpdateVersion {
            e_tag: Some("1".to_owned()),
            version: None,
        };
        let update = PutOptions::from(PutMode::Update(version));
        let (name, data) = (Path::from("a"), PutPayload::from_static(b"1"));
        let error = store.put_opts(&name, data, update).await.unwrap_err();
        assert!(matches!(error, Error::NotImplemented { .. }), "{error}");
        assert_eq!(counted(&counts)[1], ("put", 1, 0));
    });
}

#[test]
fn a_volume_has_its_requests_and_what_is_not_in_the_store() {
    run(async {
        let (inner, volume) = new_volume().await;
        let put = |figures: &VolumeFigures| figures.requests(StoreOperation::Put);
        let opened = volume.figures();
        assert!(opened.is_writer && put(&opened) > 0 && opened.unwritten == 0);
        // More than the index takes by itself.
        let count = 4 * RUN / BLOCK;
        write(&volume, 0, count, 1).await.unwrap();
        assert!(volume.figures().unwritten >= count * BLOCK);
        volume.flush().await.unwrap();
        let flushed = volume.figures();
        assert_eq!(flushed.unwritten, 0);
        assert!(put(&flushed) > put(&opened) && flushed.sent > opened.sent);
        let reader = open_for_reading(stable(&inner)).await.unwrap();
        let before = reader.figures();
        assert!(!before.is_writer);
        assert_eq!(tags(&reader, 0, 1).await, [1]);
        let after = reader.figures();
        assert!(after.received >= before.received + BLOCK);
        assert!(after.requests(StoreOperation::Get) > before.requests(StoreOperation::Get));
        volume.close().await.unwrap();
    });
}
