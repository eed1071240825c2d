//! A volume on S3 servers of two makes on loopback, also behind a proxy that fails requests: what their conditions, lists and errors
//! are, a store in memory does not show.

use std::sync::Arc;

use block::BlockDevice as _;
use object_store::aws::AmazonS3Builder;
use object_store::{ClientOptions, RetryConfig};
use testkit::requires;
use testkit::s3::{BUCKET, FaultyProxy, KEY, RequestFaults, S3Make, S3Server, SECRET};

use super::volume::{create_on, open, tags, write};
use crate::admin::{
    CheckOptions, SnapshotOptions, check_on, create_clone_on, create_snapshot_on, delete_on,
    delete_snapshot_on, grow_on, status_on,
};
use crate::error::BucketError;
use crate::format::{BLOCK, RUN};
use crate::snapshot_name::SnapshotName;
use crate::store::{ConflictFilter, StoreAccess, install_tls};

const SIZE: u64 = 64 * RUN;

/// The bucket of a server, as `StoreAccess::connect` reaches it, but for the credentials, which are of this test.
fn access(port: u16) -> StoreAccess {
    install_tls();
    let retries = RetryConfig {
        max_retries: 2,
        ..RetryConfig::default()
    };
    let store = AmazonS3Builder::new()
        .with_bucket_name(BUCKET)
        .with_endpoint(format!("http://127.0.0.1:{port}"))
        .with_region("us-east-1")
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_retry(retries)
        .build();
    let store = Arc::new(store.expect("a complete configuration"));
    StoreAccess::new(
        "test:s3".to_owned(),
        "test:".to_owned(),
        Arc::new(ConflictFilter(store)),
        "lab/volume".to_owned(),
    )
}

/// From its creation to its end: commits of both kinds, servers that end without a close, a takeover, and each command.
async fn life_of_a_volume(port: u16) {
    create_on(access(port), SIZE).await.unwrap();
    let error = create_on(access(port), SIZE).await.unwrap_err();
    assert!(matches!(error, BucketError::Exists { .. }), "{error}");
    let mut volume = open(access(port)).await.unwrap();
    for round in 1..=4_u32 {
        let first = u64::from(round) * 200;
        write(&volume, first, 1, round).await.unwrap();
        volume.flush().await.unwrap();
        write(&volume, first + 1, 100, round).await.unwrap();
        volume.flush().await.unwrap();
        let second = open(access(port)).await.unwrap();
        let found = tags(&second, first, 102).await;
        assert_eq!(found[..101], [round; 101]);
        assert_eq!(found[101], 0);
        write(&second, 0, 1, round).await.unwrap();
        second.flush().await.unwrap();
        let lost = write(&volume, 0, 1, 99).await.is_err() || volume.flush().await.is_err();
        assert!(lost, "both flushed after the takeover");
        assert_eq!(tags(&second, 0, 1).await, [round]);
        volume = second;
    }
    volume.close().await.unwrap();
    Box::pin(clone_of_a_volume(port)).await;
    let grown = grow_on(&access(port), 2 * SIZE).await.unwrap();
    assert_eq!(grown.size, 2 * SIZE);
    let status = status_on(&access(port)).await.unwrap();
    assert_eq!((status.size, status.allocated), (2 * SIZE, 405 * BLOCK));
    let report = check_on(&access(port), CheckOptions { data: true })
        .await
        .unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    assert_eq!(report.blocks, 405);
    let deleted = delete_on(&access(port)).await.unwrap();
    assert_eq!(deleted.left, [""; 0]);
    let error = open(access(port)).await.unwrap_err();
    assert!(matches!(error, BucketError::NoVolume { .. }), "{error}");
}

/// Of a volume in which the blocks 200 to 300 are 1.
async fn clone_of_a_volume(port: u16) {
    let name: SnapshotName = "golden".parse().unwrap();
    let how = SnapshotOptions::default();
    create_snapshot_on(&access(port), &name, how).await.unwrap();
    create_clone_on(&access(port), &name, "lab/clone")
        .await
        .unwrap();
    let clone = access(port).at("lab/clone");
    let volume = open(clone.clone()).await.unwrap();
    assert_eq!(tags(&volume, 199, 3).await, [0, 1, 1]);
    write(&volume, 200, 1, 9).await.unwrap();
    volume.close().await.unwrap();
    let report = check_on(&clone, CheckOptions { data: true }).await.unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    let error = delete_snapshot_on(&access(port), &name).await.unwrap_err();
    assert!(matches!(error, BucketError::HasClones { .. }), "{error}");
    delete_on(&clone).await.unwrap();
    delete_snapshot_on(&access(port), &name).await.unwrap();
}

fn run_on(make: S3Make, faults: RequestFaults) {
    if !requires::all(&[make.is_there()]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(make, folder.path());
    let proxy = FaultyProxy::start(server.port(), faults, 1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(life_of_a_volume(proxy.port()));
    let has_faults = faults.refused + faults.unanswered + faults.conflicts > 0;
    assert_eq!(proxy.faults() > 0, has_faults, "as many as were wanted");
}

#[test]
fn a_volume_on_versitygw() {
    run_on(S3Make::Versity, RequestFaults::DELAYS);
}

#[test]
fn a_volume_on_seaweedfs() {
    run_on(S3Make::Seaweed, RequestFaults::DELAYS);
}

#[test]
fn a_volume_on_versitygw_of_which_one_request_in_ten_fails() {
    run_on(S3Make::Versity, RequestFaults::SOME);
}

#[test]
fn a_volume_on_seaweedfs_of_which_one_request_in_ten_fails() {
    run_on(S3Make::Seaweed, RequestFaults::SOME);
}
