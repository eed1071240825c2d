//! Tests of overlays of clients in their folder: what is made, what is refused, what is removed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use block::{IoBufs, Range, WriteFlags};
use nbd::server::NamedBy;

use super::*;
use crate::config::OverlayPlace;
use crate::graph::builder::Builder;
use crate::graph::resolve;

const SIZE: usize = 1 << 20;

struct PerClientFixture {
    folder: tempfile::TempDir,
}

impl PerClientFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("golden.img"), vec![7; SIZE]).expect("an image");
        Self { folder }
    }

    fn overlays(&self) -> std::path::PathBuf {
        self.folder.path().join("overlays")
    }

    fn golden(&self) -> std::path::PathBuf {
        self.folder.path().join("golden.img")
    }

    /// The overlays of the export `root` over the image as it is.
    async fn open(&self, overlays_max: usize) -> PerClient {
        let disk = resolve(self.golden().to_str().expect("UTF-8")).expect("a path");
        let base = Box::pin(Builder::new(true).build(&disk))
            .await
            .expect("it is there");
        let plan = OverlayPlan {
            place: OverlayPlace::Folder(self.overlays()),
            named_by: NamedBy::Address,
            quota: 8 << 20,
            overlays_max,
        };
        let export = ExportPlan {
            name: "root".to_owned(),
            description: String::new(),
            disk,
            read_only: false,
            rules: nbd::server::Rules::default(),
            overlay: Some(plan.clone()),
            is_standby: false,
            is_added: false,
        };
        Box::pin(PerClient::open(&export, &plan, &self.overlays(), base))
            .await
            .expect("a folder")
    }

    /// Every file below the overlays' folder, by its path there.
    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        collect(&self.overlays(), &self.overlays(), &mut files);
        files.sort();
        files
    }
}

fn collect(root: &Path, folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, into);
        } else {
            let below = path.strip_prefix(root).expect("below it");
            into.push(below.to_string_lossy().into_owned());
        }
    }
}

fn client(host: u8) -> ClientName {
    ClientName::Address([10, 0, 0, host].into())
}

fn on_the_engine<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let config = engine::Config {
        cores: 1,
        ..engine::Config::default()
    };
    engine::run(&config, |_| body()).expect("the engine starts");
}

async fn write(disk: &Node, byte: u8) {
    let data = IoBufs::from_iter([vec![byte; 4096].into()]);
    let written = disk
        .write(Range::new(8192, 4096), data, WriteFlags::FUA)
        .await;
    written.expect("there is room");
}

async fn byte(disk: &Node) -> u8 {
    let data = disk.read(Range::new(8192, 512)).await.expect("it reads");
    data[0][0]
}

#[test]
fn an_overlay_is_stored_next_to_its_record_and_found_again() {
    let stage = PerClientFixture::new();
    on_the_engine(|| async {
        let source = stage.open(8).await;
        assert!(stage.files().is_empty(), "no client came yet");
        let disk = source.open(&client(1)).await.expect("it is made");
        assert_eq!(
            disk.geometry(),
            source.geometry(),
            "a query and an open get the same error"
        );
        assert_eq!(byte(&disk).await, 7);
        write(&disk, 1).await;
        drop(disk);
        source.closed(&client(1)).await;
        let place = format!("export-root/{}/addr-10.0.0.1", source.image());
        assert_eq!(
            stage.files(),
            [format!("{place}.cow"), format!("{place}.json")]
        );
        let mode = std::fs::metadata(stage.overlays())
            .expect("a folder")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(source);
        // Written through, and the image was the record.
        let unfinished = stage.overlays().join(&place).with_extension("0.1.new");
        std::os::unix::fs::symlink(stage.golden(), unfinished).expect("a link");
        let source = stage.open(8).await;
        let disk = source.open(&client(1)).await.expect("it is there");
        assert_eq!(byte(&disk).await, 1);
        let listed = source.list();
        assert_eq!(listed.len(), 1);
        assert_eq!((&listed[0].name, listed[0].is_older), (&client(1), false));
        assert!(listed[0].bytes >= Some(4096) && listed[0].last_seen.is_some());
        let other = source.open(&client(2)).await.expect("it is made");
        assert_eq!(byte(&other).await, 7);
    });
    assert!(
        std::fs::read(stage.golden())
            .expect("the image")
            .iter()
            .all(|&b| b == 7)
    );
}

#[test]
fn overlays_of_a_replaced_image_are_kept_apart_and_removed_by_its_number() {
    let stage = PerClientFixture::new();
    on_the_engine(|| async {
        let old = stage.open(8).await;
        write(&old.open(&client(1)).await.expect("made"), 1).await;
        let replacement = stage.folder.path().join("replacement");
        std::fs::write(&replacement, vec![9; SIZE]).expect("an image");
        std::fs::rename(&replacement, stage.golden()).expect("replaced");
        assert!(old.image.is_unchanged(), "what it has open is as it was");
        let new = stage.open(8).await;
        assert_ne!(old.image(), new.image());
        let disk = new.open(&client(1)).await.expect("made");
        assert_eq!(byte(&disk).await, 9);
        let listed: Vec<bool> = new.list().iter().map(|found| found.is_older).collect();
        assert_eq!(listed.iter().filter(|&&older| older).count(), 1);
        new.remove(&client(1), old.image())
            .await
            .expect("no client has it");
        assert_eq!(new.list().len(), 1);
        let held = new.remove(&client(1), new.image()).await;
        assert!(held.expect_err("it is open").contains("in use"));
        drop(disk);
        new.remove(&client(1), new.image())
            .await
            .expect("no client has it");
        assert!(stage.files().is_empty());
    });
}

/// The bytes below an overlay must be those that it was made over.
#[test]
fn an_image_that_is_changed_while_it_is_served_gets_no_overlays_any_more() {
    let stage = PerClientFixture::new();
    on_the_engine(|| async {
        let source = stage.open(8).await;
        drop(source.open(&client(1)).await.expect("made"));
        std::fs::write(stage.golden(), vec![8; SIZE]).expect("changed in place");
        let refused = source.open(&client(1)).await.expect_err("it changed");
        assert!(
            refused.to_string().contains("golden.img was changed"),
            "{refused}"
        );
        assert!(
            !refused.client_message.contains('/'),
            "{}",
            refused.client_message
        );
        assert_ne!(stage.open(8).await.image(), source.image());
    });
}

#[test]
fn an_overlay_without_its_record_or_with_that_of_another_is_refused() {
    let stage = PerClientFixture::new();
    on_the_engine(|| async {
        let source = stage.open(8).await;
        drop(source.open(&client(1)).await.expect("made"));
        drop(source.open(&client(2)).await.expect("made"));
        let place = stage.overlays().join("export-root").join(source.image());
        let record = |host: u8| place.join(format!("addr-10.0.0.{host}.json"));
        std::fs::rename(record(2), record(1)).expect("moved");
        let other = source.open(&client(1)).await.expect_err("another's");
        assert!(other.to_string().contains("10.0.0.2"), "{other}");
        let lost = source.open(&client(2)).await.expect_err("no record");
        assert!(lost.to_string().contains("put it back"), "{lost}");
        let text = std::fs::read_to_string(record(1)).expect("a record");
        std::fs::write(record(1), text.replace("\"version\":1", "\"version\":9")).expect("it");
        let newer = source.open(&client(1)).await.expect_err("newer");
        assert!(newer.to_string().contains("version 9"), "{newer}");
    });
}

#[test]
fn there_are_no_more_overlays_than_there_may_be_and_a_removed_one_makes_room() {
    let stage = PerClientFixture::new();
    on_the_engine(|| async {
        let source = stage.open(2).await;
        for host in [1, 2, 1] {
            drop(source.open(&client(host)).await.expect("there is room"));
        }
        let full = source.open(&client(3)).await.expect_err("no room");
        assert!(full.to_string().contains("overlays_max"), "{full}");
        assert_eq!(source.list().len(), 2);
        source
            .remove(&client(1), source.image())
            .await
            .expect("no client has it");
        drop(source.open(&client(3)).await.expect("there is room"));
    });
}
