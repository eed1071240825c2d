//! Encrypted and compressed volumes: what their store shows, what is found that was changed there, which keys are refused, and what
//! compression saves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, Errno, Range, WriteFlags};
use fastrand::Rng;
use futures_util::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use testkit::{gather, single};

use super::clones::{CLONE, at, clone};
use super::collection::{collect_at, collect_twice};
use super::encoding::{self, TestEncoding};
use super::snapshots::{COUNT, name, open_snapshot, snapshot};
use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    SIZE, access, bytes_of, create_on, data_object, new_volume, open, run, stable, tags, write,
};
use crate::admin::{
    CheckOptions, RelocateOptions, SnapshotOptions, change_key_on, check_on, create_clone_on,
    create_snapshot_on, delete_on, delete_snapshot_on, discard_journal_on, ensure_clone_on,
    grow_on, list_snapshots_on, relocate_on, status_on,
};
use crate::error::BucketError;
use crate::format::{BLOCK, BLOCK_LEN, Compression, SEAL_LEN};
use crate::seal::VolumeKey;
use crate::store::StoreAccess;
use crate::volume::BucketVolume;

/// What the blocks of a volume have, and no object may.
const SECRET: &[u8] = b"a secret of sixteen-byte pieces!";

/// Everything in a store.
async fn objects(inner: &InMemory) -> BTreeMap<Path, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut listed = inner.list(None);
    while let Some(object) = listed.next().await {
        let path = object.unwrap().location;
        let bytes = bytes_of(inner, &path).await;
        found.insert(path, bytes);
    }
    found
}

async fn put(inner: &InMemory, path: &Path, bytes: Vec<u8>) {
    inner.put(path, bytes.into()).await.unwrap();
}

/// Blocks with the secret, and a number each so that none is another.
async fn write_secret(volume: &BucketVolume, first: u64, count: u64) {
    let mut data = SECRET.repeat(BLOCK_LEN / SECRET.len() * usize::try_from(count).unwrap());
    for (block, number) in data.chunks_mut(BLOCK_LEN).zip(first..) {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    let range = Range::new(first * BLOCK, count * BLOCK);
    let written = volume.write(range, single(data), WriteFlags::empty()).await;
    written.unwrap();
    volume.flush().await.unwrap();
}

/// Small and large flushes, snapshots, a clone that is written, relocation and collection.
async fn play_everything() -> Arc<InMemory> {
    let (inner, volume) = new_volume().await;
    write_secret(&volume, 3, 1).await;
    write_secret(&volume, 0, 150).await;
    write_secret(&volume, 9, 2).await;
    volume.close().await.unwrap();
    snapshot(&stable(&inner), "a").await.unwrap();
    clone(&stable(&inner), "a", CLONE).await.unwrap();
    let copy = open(at(&inner, CLONE)).await.unwrap();
    write_secret(&copy, 20, 1).await;
    write_secret(&copy, 30, 100).await;
    copy.close().await.unwrap();
    grow_on(&stable(&inner), 2 * SIZE).await.unwrap();
    let volume = open(stable(&inner)).await.unwrap();
    for first in [0, 40, 5] {
        write_secret(&volume, first, 90).await;
    }
    volume.close().await.unwrap();
    let how = RelocateOptions {
        take_over: true,
        ..RelocateOptions::default()
    };
    Box::pin(relocate_on(&stable(&inner), how)).await.unwrap();
    collect_twice(&stable(&inner)).await;
    // Logs that are in no table.
    let volume = open(stable(&inner)).await.unwrap();
    write_secret(&volume, 7, 3).await;
    inner
}

fn has_secret(bytes: &[u8]) -> bool {
    bytes.windows(16).any(|piece| piece == &SECRET[16..])
}

#[test]
fn no_object_of_an_encrypted_volume_has_what_was_written() {
    for encoding in [TestEncoding::sealed(), TestEncoding::of_seed(3)] {
        encoding::with(encoding, || {
            run(async {
                let inner = play_everything().await;
                let found = objects(&inner).await;
                assert!(found.len() > 20, "{} objects", found.len());
                for (path, bytes) in found {
                    assert!(!has_secret(&bytes), "{path}");
                }
                for folder in [stable(&inner), at(&inner, CLONE)] {
                    let report = check_on(&folder, CheckOptions { data: true }).await;
                    let report = report.unwrap();
                    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
                }
                let kept = open_snapshot(&inner, "a").await.unwrap();
                let bytes = gather(&kept.read(Range::new(3 * BLOCK, BLOCK)).await.unwrap());
                assert!(has_secret(&bytes));
            });
        });
    }
    // The search finds what is there to be found, in data and in the index.
    run(async {
        let found = objects(&*play_everything().await).await;
        for folder in ["/data/", "/index/"] {
            let mut found = found.iter();
            let is_found =
                found.any(|(path, bytes)| path.as_ref().contains(folder) && has_secret(bytes));
            assert!(is_found, "{folder}");
        }
    });
}

/// If any bit of data, tables or logs is changed, a check finds it, or the volume is not opened, or it is in no use.
#[test]
fn a_changed_bit_is_found_and_no_wrong_data_is_read() {
    for seed in 2..4 {
        encoding::with(TestEncoding::of_seed(seed), || {
            run(async {
                let (inner, volume) = new_volume().await;
                write(&volume, 0, 100, 7).await.unwrap();
                volume.close().await.unwrap();
                let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
                let volume = open(access(store.clone())).await.unwrap();
                write(&volume, 20, 2, 8).await.unwrap();
                volume.flush().await.unwrap();
                // In a log that is in no table.
                store.cut();
                let mut rng = Rng::with_seed(seed);
                let is_data = |path: &Path| path.as_ref().contains("/data/");
                let mut found = objects(&inner).await;
                // Manifests are in clear text, and have no data.
                let is_clear = |path: &Path| {
                    let mut clear = ["/manifest/", "/compactions/"].into_iter();
                    clear.any(|folder| path.as_ref().contains(folder))
                };
                found.retain(|path, bytes| !is_clear(path) && !bytes.is_empty());
                let mut refused = [0, 0];
                for round in 0..300 {
                    let chosen = found
                        .iter()
                        .filter(|(path, _)| (round % 4 == 0) == is_data(path));
                    let chosen: Vec<_> = chosen.collect();
                    let (path, bytes) = rng.choice(chosen).unwrap();
                    let at = rng.usize(..bytes.len());
                    // Two of its 100 blocks were overwritten, and are in no use.
                    if is_data(path) && (20..22).contains(&(at / (bytes.len() / 100))) {
                        continue;
                    }
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << rng.u8(..8);
                    put(&inner, path, changed).await;
                    let is_data = is_data(path);
                    let is_refused = is_refused(&inner).await;
                    assert!(is_refused || !is_data, "{path}");
                    refused[usize::from(is_data)] += u32::from(is_refused);
                    put(&inner, path, bytes.clone()).await;
                }
                assert!(refused[0] > 20 && refused[1] > 20, "{refused:?}");
                assert!(!is_refused(&inner).await);
            });
        });
    }
}

/// Whether a check finds a problem. What is read without one is what was written.
async fn is_refused(inner: &Arc<InMemory>) -> bool {
    let Ok(report) = check_on(&stable(inner), CheckOptions { data: true }).await else {
        return true;
    };
    if report.problem_count > 0 {
        return true;
    }
    let volume = super::volume::open_for_reading(stable(inner))
        .await
        .unwrap();
    let found = tags(&volume, 0, COUNT).await;
    let wanted = (0..COUNT).map(|block| match block {
        20..22 => 8,
        0..100 => 7,
        _ => 0,
    });
    assert_eq!(found, wanted.collect::<Vec<_>>());
    volume.close().await.unwrap();
    false
}

#[test]
fn a_block_that_a_store_moved_is_an_error_that_names_it() {
    encoding::with(TestEncoding::sealed(), || {
        run(async {
            let (inner, volume) = new_volume().await;
            write(&volume, 0, 100, 7).await.unwrap();
            volume.flush().await.unwrap();
            write(&volume, 90, 70, 7).await.unwrap();
            volume.flush().await.unwrap();
            let first = data_object(&inner, 0).await;
            let bytes = bytes_of(&inner, &first).await;
            let len = BLOCK_LEN + SEAL_LEN as usize;
            assert_eq!(bytes.len(), 100 * len);
            // Two blocks with the same content: only their seals differ.
            let mut swapped = bytes.clone();
            swapped[..len].copy_from_slice(&bytes[len..2 * len]);
            swapped[len..2 * len].copy_from_slice(&bytes[..len]);
            put(&inner, &first, swapped).await;
            let error = volume.read(Range::new(BLOCK, BLOCK)).await.unwrap_err();
            assert_eq!(error.errno, Errno::Io);
            let text = error.to_string();
            let offset = format!("offset {len} of the object");
            assert!(
                text.contains(&offset) && text.contains(first.as_ref()),
                "{text}"
            );
            let report = check_on(&stable(&inner), CheckOptions { data: true }).await;
            assert_eq!(report.unwrap().problem_count, 2);
            assert_eq!(tags(&volume, 2, 88).await, [7; 88]);
            // The same of an object in the place of another one.
            let second = data_object(&inner, 1).await;
            put(&inner, &first, bytes_of(&inner, &second).await).await;
            assert!(volume.read(Range::new(0, BLOCK)).await.is_err());
            put(&inner, &first, bytes).await;
            assert_eq!(tags(&volume, 0, 160).await, [7; 160]);
        });
    });
}

/// Every command that reads or writes the volume in `access`, but those that need no key.
async fn every_command(access: &StoreAccess) -> Vec<Result<(), BucketError>> {
    let how = RelocateOptions {
        take_over: true,
        ..RelocateOptions::default()
    };
    let taking_over = SnapshotOptions { take_over: true };
    let data = CheckOptions { data: true };
    vec![
        open(access.clone()).await.map(drop),
        super::volume::open_for_reading(access.clone())
            .await
            .map(drop),
        status_on(access).await.map(drop),
        check_on(access, data).await.map(drop),
        grow_on(access, 4 * SIZE).await.map(drop),
        Box::pin(relocate_on(access, how)).await.map(drop),
        Box::pin(collect_at(access, Duration::ZERO, false))
            .await
            .map(drop),
        create_snapshot_on(access, &name("b"), taking_over)
            .await
            .map(drop),
        create_clone_on(access, &name("a"), "lab/other")
            .await
            .map(drop),
        ensure_clone_on(access, &name("a"), "lab/other").await,
        discard_journal_on(access).await.map(drop),
        delete_on(access).await.map(drop),
    ]
}

#[test]
fn a_key_that_is_not_the_volumes_is_refused_and_nothing_is_changed() {
    let sealed = TestEncoding::sealed();
    for (made, given) in [
        (sealed.clone(), None),
        (sealed.clone(), Some(VolumeKey::random())),
        (TestEncoding::default(), Some(VolumeKey::random())),
    ] {
        let is_expected = |error: &BucketError| match (&made.key, &given) {
            (Some(_), None) => matches!(error, BucketError::NoKey { .. }),
            (Some(_), Some(_)) => matches!(error, BucketError::WrongKey { .. }),
            (None, _) => matches!(error, BucketError::NotEncrypted { .. }),
        };
        encoding::with(made.clone(), || {
            run(async {
                let (inner, volume) = new_volume().await;
                write(&volume, 0, 100, 7).await.unwrap();
                volume.close().await.unwrap();
                snapshot(&stable(&inner), "a").await.unwrap();
                let volume = open(stable(&inner)).await.unwrap();
                let before = objects(&inner).await;
                let other = stable(&inner).with_key(given.clone());
                for (nth, refused) in every_command(&other).await.into_iter().enumerate() {
                    let error = refused.expect_err(&format!("command {nth}"));
                    assert!(is_expected(&error), "command {nth}: {error}");
                }
                if given.is_some() {
                    assert!(is_expected(&list_snapshots_on(&other).await.unwrap_err()));
                    let deleted = delete_snapshot_on(&other, &name("a")).await;
                    assert!(is_expected(&deleted.unwrap_err()));
                }
                assert!(objects(&inner).await == before);
                // The server that has it open was not fenced.
                write(&volume, 0, 1, 8).await.unwrap();
                volume.flush().await.unwrap();
                volume.close().await.unwrap();
            });
        });
    }
}

/// What the manifest has needs no key; a clone has the key of its origin.
#[test]
fn snapshots_are_listed_without_a_key_and_clones_have_that_of_their_origin() {
    let sealed = TestEncoding::of_seed(3);
    encoding::with(sealed, || {
        run(async {
            let (inner, volume) = new_volume().await;
            write(&volume, 0, 100, 7).await.unwrap();
            volume.close().await.unwrap();
            snapshot(&stable(&inner), "a").await.unwrap();
            let without = stable(&inner).with_key(None);
            assert_eq!(list_snapshots_on(&without).await.unwrap().len(), 1);
            clone(&stable(&inner), "a", CLONE).await.unwrap();
            let status = status_on(&at(&inner, CLONE)).await.unwrap();
            assert_eq!(status.encryption, Some("aes-256-gcm"));
            assert_eq!(status.compression, Some(Compression::Lz4));
            let copy = open(at(&inner, CLONE)).await.unwrap();
            assert_eq!(tags(&copy, 0, 101).await[98..], [7, 7, 0]);
            copy.close().await.unwrap();
            let error = open(without.at(CLONE)).await.unwrap_err();
            assert!(matches!(error, BucketError::NoKey { .. }), "{error}");
            assert!(error.next().unwrap().contains("--key"));
            delete_on(&at(&inner, CLONE)).await.unwrap();
            delete_snapshot_on(&without, &name("a")).await.unwrap();
            delete_on(&stable(&inner)).await.unwrap();
            assert!(objects(&inner).await.is_empty());
        });
    });
}

#[test]
fn a_key_is_changed_and_no_version_of_the_header_opens_with_the_old_one() {
    encoding::with(TestEncoding::sealed(), || {
        run(async {
            let (inner, volume) = new_volume().await;
            write(&volume, 0, 100, 7).await.unwrap();
            volume.flush().await.unwrap();
            grow_on(&stable(&inner), 2 * SIZE).await.unwrap();
            let before = objects(&inner).await;
            let key = VolumeKey::random();
            let error = change_key_on(&with_key(&inner, &key), key.clone()).await;
            assert!(
                matches!(error, Err(BucketError::WrongKey { .. })),
                "{error:?}"
            );
            assert!(objects(&inner).await == before);
            change_key_on(&stable(&inner), key.clone()).await.unwrap();
            let after = objects(&inner).await;
            let headers = after
                .iter()
                .filter(|(path, _)| path.as_ref().contains("/volume/000"));
            let headers: Vec<_> = headers.map(|(_, bytes)| bytes).collect();
            assert_eq!(headers.len(), 3);
            assert!(headers.iter().all(|header| *header == headers[2]));
            let is_data = |(path, _): &(&Path, &Vec<u8>)| !path.as_ref().contains("/volume/");
            assert!(
                before
                    .iter()
                    .filter(is_data)
                    .eq(after.iter().filter(is_data))
            );
            // The server that has it open is not disturbed.
            write(&volume, 100, 60, 8).await.unwrap();
            volume.close().await.unwrap();
            let error = open(stable(&inner)).await.unwrap_err();
            assert!(matches!(error, BucketError::WrongKey { .. }), "{error}");
            let volume = open(with_key(&inner, &key)).await.unwrap();
            assert_eq!(tags(&volume, 99, 3).await, [7, 8, 8]);
            volume.close().await.unwrap();
        });
    });
    run(async {
        let (inner, _volume) = new_volume().await;
        let changed = change_key_on(&stable(&inner), VolumeKey::random()).await;
        assert!(
            matches!(changed, Err(BucketError::NotEncrypted { .. })),
            "{changed:?}"
        );
    });
}

fn with_key(inner: &Arc<InMemory>, key: &VolumeKey) -> StoreAccess {
    stable(inner).with_key(Some(key.clone()))
}

/// Bytes in the store of a volume with these blocks, and what its status has.
async fn stored_bytes(data: Vec<u8>) -> u64 {
    let inner = Arc::new(InMemory::new());
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    create_on(access(store.clone()), 4 << 20).await.unwrap();
    let volume = open(access(store)).await.unwrap();
    let range = Range::new(0, data.len() as u64);
    let written = volume.write(range, single(data.clone()), WriteFlags::empty());
    written.await.unwrap();
    volume.close().await.unwrap();
    let again = open(stable(&inner)).await.unwrap();
    assert!(gather(&again.read(range).await.unwrap()) == data);
    again.close().await.unwrap();
    let status = status_on(&stable(&inner)).await.unwrap();
    assert_eq!(status.allocated, data.len() as u64);
    status.data_bytes + status.index_bytes
}

#[test]
fn text_takes_less_than_half_and_noise_hardly_more() {
    let mut rng = Rng::with_seed(1);
    let mut text = String::new();
    while text.len() < 2 << 20 {
        let [minute, second, client] = [0; 3].map(|_| rng.u8(10..60));
        let verb = ["connected", "flushed", "disconnected", "was refused"][rng.usize(0..4)];
        let line = format!(
            "2026-11-28T20:{minute}:{second}Z box1 outboard: client 192.0.2.{client} {verb}\n"
        );
        text.push_str(&line);
    }
    let text = text.into_bytes()[..2 << 20].to_vec();
    let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..))
        .take(2 << 20)
        .collect();
    let whole = 2.0 * f64::from(1 << 20);
    for seed in [1, 3] {
        encoding::with(TestEncoding::of_seed(seed), || {
            run(async {
                #[expect(clippy::cast_precision_loss, reason = "few bytes")]
                let part = |bytes: u64| bytes as f64 / whole;
                let (text, noise) = (text.clone(), noise.clone());
                let of_text = part(stored_bytes(text).await);
                let of_noise = part(stored_bytes(noise).await);
                assert!(of_text < 0.5, "{of_text} of the text");
                assert!(of_noise < 1.03, "{of_noise} of the noise");
            });
        });
    }
}

/// The unit is the block: random writes of one upload what they have, and a read of one fetches it alone.
#[test]
fn random_writes_upload_little_more_than_their_data_and_a_read_fetches_one_block() {
    const WRITES: u64 = 2000;
    encoding::with(TestEncoding::of_seed(3), || {
        run(async {
            let inner = Arc::new(InMemory::new());
            create_on(stable(&inner), 256 << 20).await.unwrap();
            let access = stable(&inner);
            let requests = access.requests.clone();
            let volume = open(access).await.unwrap();
            let before = requests.bytes().1;
            let mut rng = Rng::with_seed(1);
            let mut last = 0;
            for _ in 0..WRITES {
                last = rng.u64(0..(256 << 20) / BLOCK) * BLOCK;
                let noise = std::iter::repeat_with(|| rng.u8(..));
                let data = single(noise.take(BLOCK_LEN).collect::<Vec<u8>>());
                let range = Range::new(last, BLOCK);
                let written = volume.write(range, data, WriteFlags::empty());
                written.await.unwrap();
            }
            volume.flush().await.unwrap();
            let (received, sent) = requests.bytes();
            let (sent, data) = (sent - before, WRITES * BLOCK);
            assert!(sent >= data / 2, "{sent}");
            assert!(sent * 100 < data * 105, "{sent} bytes for {data}");
            volume.read(Range::new(last, BLOCK)).await.unwrap();
            let fetched = requests.bytes().0 - received;
            assert_eq!(fetched, BLOCK + u64::from(SEAL_LEN));
            volume.close().await.unwrap();
        });
    });
}
