//! nbdkit with filters that are slow, fail, or are particular about sizes.

use std::time::Duration;

use block::{BlockDevice, Errno, Range};
use testkit::{gather, requires};

use super::{SIZE, agrees_with_the_model, start_nbdkit};
use crate::client::tests::{in_engine, one_connection, short_limits};
use crate::client::{Client, ClientConfig, Target};

/// Runs `test` with nbdkit on these arguments, if there is one.
fn with_nbdkit<F: Future<Output = ()>>(arguments: &[&str], test: impl FnOnce(Target) -> F) {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_nbdkit, target) = start_nbdkit(folder.path(), arguments);
    in_engine(|| test(target));
}

#[test]
fn sizes_that_the_server_insists_on_are_kept() {
    let arguments = [
        "--filter=blocksize-policy",
        "memory",
        "8M",
        "blocksize-error-policy=error",
        "blocksize-minimum=4096",
        "blocksize-preferred=65536",
        "blocksize-maximum=131072",
    ];
    with_nbdkit(&arguments, |target| async {
        let client = Client::connect(target.clone(), one_connection())
            .await
            .unwrap();
        let geometry = client.geometry();
        assert_eq!(geometry.block_size, 4096);
        assert_eq!(geometry.preferred_block_size, 65_536);
        assert_eq!(client.export().block_size_max, 131_072);
        client.close().await;
        agrees_with_the_model(target).await;
    });
}

#[test]
fn a_slow_server_agrees_with_the_model() {
    let arguments = [
        "--filter=delay",
        "memory",
        "8M",
        "delay-read=5ms",
        "delay-write=5ms",
    ];
    with_nbdkit(&arguments, agrees_with_the_model);
}

#[test]
fn a_server_that_is_slower_than_allowed_fails_requests_with_the_reason() {
    let slow_at = |delay: &'static str| {
        // nbdkit 1.32 may crash when a connection ends while several of its threads are in a delay.
        ["--threads=1", "--filter=delay", "memory", "8M", delay]
    };
    with_nbdkit(&slow_at("delay-read=60"), |target| async {
        let error = Client::connect(target, short_limits()).await.unwrap_err();
        let error = error.to_string();
        let expected = "no byte moved for 1 s with requests outstanding, while reading what identifies the disk";
        assert!(error.contains(expected), "{error}");
    });
    with_nbdkit(&slow_at("delay-extents=60"), |target| async {
        let config = ClientConfig {
            reconnect_for: Duration::from_millis(1500),
            ..short_limits()
        };
        let client = Client::connect(target, config).await.unwrap();
        let error = client.extents(Range::new(0, 512)).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        assert!(
            error.to_string().contains("no byte moved for 1 s"),
            "{error}"
        );
        assert!(client.health().reconnects > 0);
    });
}

#[test]
fn errors_end_their_request_alone_and_never_bring_wrong_bytes() {
    let arguments = [
        "--filter=error",
        "pattern",
        "8M",
        "error-pread=ENOSPC",
        "error-pread-rate=50%",
    ];
    with_nbdkit(&arguments, |target| async {
        let client = Client::connect(target, one_connection()).await.unwrap();
        let reads = (0..256).map(|nth| {
            let range = Range::new(nth * 32_768, 4096);
            let read = client.read(range);
            async move { (range, read.await) }
        });
        let (mut right, mut refused) = (0, 0);
        for (range, result) in futures_util::future::join_all(reads).await {
            match result {
                Ok(bytes) => {
                    assert!(gather(&bytes) == words(range));
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error.errno, Errno::NoSpace);
                    assert_eq!(error.range, Some(range));
                    refused += 1;
                }
            }
        }
        assert!(right > 0 && refused > 0, "{right} right, {refused} refused");
        assert_eq!(client.health().reconnects, 0);
    });
}

/// What the pattern plugin has: each word of 8 bytes is its own offset.
fn words(range: Range) -> Vec<u8> {
    let offsets = (range.offset..range.end()).step_by(8);
    offsets.flat_map(u64::to_be_bytes).collect()
}

#[test]
fn a_pattern_is_read_whole_in_pieces_of_any_size() {
    with_nbdkit(&["pattern", "8M"], |target| async {
        let client = Client::connect(target, one_connection()).await.unwrap();
        let whole = gather(&client.read(Range::new(0, SIZE)).await.unwrap());
        assert!(whole == words(Range::new(0, SIZE)));
        for (offset, len) in [(1, 1), (7, 4097), (65_535, 100_001)] {
            let read = client.read(Range::new(offset, len)).await.unwrap();
            let from = usize::try_from(offset).unwrap();
            assert!(gather(&read)[..] == whole[from..][..usize::try_from(len).unwrap()]);
        }
        assert!(client.geometry().read_only);
    });
}
