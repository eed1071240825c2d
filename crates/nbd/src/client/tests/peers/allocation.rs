//! Extents, as the servers that are installed report them.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use block::{BlockDevice, Extent, ExtentKind, Range, WriteFlags};
use testkit::{gather, requires, single};

use super::{SIZE, empty_image, start_nbdkit, start_qemu_nbd};
use crate::client::tests::{in_engine, one_connection};
use crate::client::{Client, Target, describe, list};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Data at 1 MiB and at 3 MiB, and nothing else.
const DATA: [Range; 2] = [Range::new(MIB, 64 * KIB), Range::new(3 * MIB, 128 * KIB)];

async fn extents(target: Target) -> (Vec<Extent>, std::sync::Arc<Client>) {
    let client = Client::connect(target, one_connection()).await.unwrap();
    assert!(client.knows_extents());
    let extents = client.extents(Range::new(0, SIZE)).await.unwrap();
    assert_eq!(extents.first().unwrap().range.offset, 0);
    assert_eq!(extents.last().unwrap().range.end(), SIZE);
    let mut neighbours = extents.windows(2);
    assert!(neighbours.all(|two| two[0].range.end() == two[1].range.offset));
    (extents, client)
}

/// Where there is data, and nowhere else; what is not data reads as zeroes.
async fn finds(data: &[Range], target: Target) {
    let (extents, client) = extents(target).await;
    let found = extents.iter().filter(|one| one.kind == ExtentKind::Data);
    let found: Vec<Range> = found.map(|one| one.range).collect();
    assert_eq!(found, data);
    for extent in extents.iter().filter(|one| one.kind != ExtentKind::Data) {
        let bytes = gather(&client.read(extent.range).await.unwrap());
        assert!(bytes.iter().all(|byte| *byte == 0), "{extent:?}");
    }
    client.close().await;
}

fn sparse_image(folder: &Path) -> std::path::PathBuf {
    let image = empty_image(folder);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&image)
        .unwrap();
    for range in DATA {
        let bytes = vec![7; range.len_usize()];
        file.write_all_at(&bytes, range.offset).unwrap();
    }
    file.sync_all().unwrap();
    image
}

#[test]
fn the_holes_of_a_file_are_found_through_nbdkit() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = sparse_image(folder.path());
    let (_nbdkit, target) = start_nbdkit(folder.path(), &["file", image.to_str().unwrap()]);
    in_engine(|| finds(&DATA, target));
}

#[test]
fn the_holes_of_a_file_are_found_through_qemu_nbd() {
    if !requires::all(&[requires::command("qemu-nbd")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = sparse_image(folder.path());
    let (_qemu, target) = start_qemu_nbd(folder.path(), "raw", &image);
    in_engine(|| finds(&DATA, target));
}

#[test]
fn clusters_that_a_qcow2_image_lacks_are_holes() {
    let needs = ["qemu-nbd", "qemu-img", "qemu-io"].map(requires::command);
    if !requires::all(&needs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image.qcow2");
    let mut create = Command::new("qemu-img");
    create
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&image)
        .arg("8M");
    assert!(create.status().unwrap().success());
    let mut write = Command::new("qemu-io");
    write.args(["-f", "qcow2"]);
    for range in DATA {
        write.args([
            "-c",
            &format!("write -q -P 7 {} {}", range.offset, range.len),
        ]);
    }
    // Zeroed on purpose, which is not the same as never written, and no data either.
    write.args(["-c", "write -q -P 7 5M 64k", "-c", "write -q -z 5M 64k"]);
    assert!(write.arg(&image).status().unwrap().success());
    let (_qemu, target) = start_qemu_nbd(folder.path(), "qcow2", &image);
    in_engine(|| finds(&DATA, target));
}

#[test]
fn memory_that_was_never_written_is_a_hole_and_what_was_is_data() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_nbdkit, target) = start_nbdkit(folder.path(), &["memory", "8M"]);
    in_engine(|| async {
        let (before, client) = extents(target.clone()).await;
        assert_eq!(before.len(), 1);
        assert_eq!(before[0].kind, ExtentKind::Hole);
        for range in DATA {
            let data = single(vec![7; range.len_usize()]);
            client
                .write(range, data, WriteFlags::empty())
                .await
                .unwrap();
        }
        finds(&DATA, target).await;
        let zeroed = client.write_zeroes(DATA[0], WriteFlags::empty());
        zeroed.await.unwrap();
        let extents = client.extents(DATA[0]).await.unwrap();
        assert!(
            extents.iter().all(|one| one.kind != ExtentKind::Data),
            "{extents:?}"
        );
    });
}

/// Random runs of data, the same for one seed: what is reported must be what is read.
#[test]
fn random_holes_are_found_and_read_as_zeroes() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "sparse-random",
        "8M",
        "seed=5",
        "percent=30",
        "runlength=65536",
    ];
    let (_nbdkit, target) = start_nbdkit(folder.path(), &arguments);
    in_engine(|| async {
        let (extents, client) = extents(target).await;
        let kinds = |kind| extents.iter().filter(move |one| one.kind == kind).count();
        assert!(kinds(ExtentKind::Data) > 3 && kinds(ExtentKind::Data) + 3 < 2 * extents.len());
        for extent in &extents {
            let bytes = gather(&client.read(extent.range).await.unwrap());
            let zero = bytes.iter().all(|byte| *byte == 0);
            assert_eq!(zero, extent.kind != ExtentKind::Data, "{extent:?}");
        }
    });
}

#[test]
fn qemu_nbd_is_listed_and_described() {
    if !requires::all(&[requires::command("qemu-nbd")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = empty_image(folder.path());
    let (_qemu, target) = start_qemu_nbd(folder.path(), "raw", &image);
    in_engine(|| async {
        let soon = Duration::from_secs(10);
        let listed = list(&target, soon).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (&*listed[0].name, &*listed[0].description),
            ("disk", "some words")
        );
        let description = describe(&target, soon).await.unwrap();
        assert_eq!(description.export.size, SIZE);
        assert_eq!(description.export.description, "some words");
        assert!(description.structured);
        assert!(
            description
                .contexts
                .contains(&nbd_proto::BASE_ALLOCATION.to_owned())
        );
    });
}
