//! Arrays in expressions: what they are opened of, and what is refused before anything is written.

use std::fs;
use std::path::Path;

use nodes::array::format::{Level, Version};
use nodes::array::{ConsistencyChoice, CreateOptions, NewMember, create};

use super::{MIB, image, in_folder, marked, open, opened, read, refused, with_folder, write};
use crate::graph::builder::{BuildError, Builder};
use crate::graph::resolve;
use crate::graph::throttle_bounds::byte_rates;

/// Makes a RAID 0 of the files `a` and `b`.
async fn striped(folder: &Path) {
    made(folder, Level::Raid0, Some(65_536)).await;
}

/// Makes an array of the files `a` and `b`.
async fn made(folder: &Path, level: Level, chunk: Option<u64>) {
    let mut members = Vec::new();
    for name in ["a", "b"] {
        image(&folder.join(name), 16 * MIB, 7);
        let built = opened(folder, &format!("file(@{name})")).await;
        members.push(NewMember {
            name: name.to_owned(),
            disk: Some(built.disk().clone()),
            write_mostly: false,
            fail_fast: false,
        });
    }
    let options = CreateOptions {
        journal: None,
        level,
        layout: None,
        chunk,
        version: Version::V1_2,
        name: "nas:media".to_owned(),
        consistency: ConsistencyChoice::Resync,
        assume_clean: false,
        size: None,
    };
    let created = create(members, Vec::new(), options).await;
    created.expect("an array");
}

fn bytes(folder: &Path) -> [Vec<u8>; 2] {
    ["a", "b"].map(|name| fs::read(folder.join(name)).expect("readable"))
}

#[test]
fn an_array_is_opened_of_its_members_in_any_order() {
    with_folder(async |folder| {
        striped(folder).await;
        let mut builder = Builder::new(false);
        let built = open(&mut builder, folder, "array(@b, @a)").await;
        let built = built.expect("an array");
        assert_eq!(
            (built.name, built.about.as_str()),
            ("array", "raid0 nas:media")
        );
        assert_eq!(built.children.len(), 2);
        let [array] = builder.arrays() else {
            panic!("one array")
        };
        assert_eq!(array.status().working, 2);
        write(&**built.disk(), 65_536, 9).await;
        assert_eq!(read(built.disk(), 65_536, 4096).await, [9; 4096]);
        array.stop().await.expect("a flush");
        drop((built, builder));
        // The second chunk is the second member's first. One that is written leads no request to a member: its level may change.
        let mut builder = Builder::new(true);
        let built = open(&mut builder, folder, "array(@b, @a)").await;
        let built = built.expect("an array");
        let way = built.locate(65_536 + 512);
        let names: Vec<_> = way.iter().map(|step| step.built.about.clone()).collect();
        assert!(names[1].ends_with("/b"), "{names:?}");
    });
}

/// Reads of both are added up; of the level nothing is known before there are superblocks.
#[test]
fn a_throttled_mirror_writes_as_fast_as_its_slowest_member() {
    with_folder(async |folder| {
        let text = "array(throttle(@a,bytes=900/s),throttle(@b,bytes=200/s))";
        let rates = || {
            let named = resolve(&in_folder(folder, text)).expect("an expression");
            let found = byte_rates(&named.disk);
            (found.any, found.read, found.write)
        };
        assert_eq!(rates(), (Some(1100), Some(1100), Some(1100)));
        made(folder, Level::Raid1, None).await;
        assert_eq!(rates(), (Some(1100), Some(1100), Some(200)));
    });
}

#[test]
fn a_member_that_is_another_disk_or_named_twice_is_refused_and_nothing_is_written() {
    with_folder(async |folder| {
        striped(folder).await;
        let before = bytes(folder);
        let error = refused(folder, "array(@a, @b, @a)").await;
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        let mut builder = Builder::new(false);
        let held = open(&mut builder, folder, "file(@b)").await.expect("free");
        let error = open(&mut builder, folder, "array(@a, @b)").await;
        let error = error.expect_err("b is served already");
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        assert_eq!(marked(&error).len(), 2);
        drop((held, builder));
        // Read-only, the array reports the error instead.
        let text = in_folder(folder, "array(@a, @b, @a)");
        let named = resolve(&text).expect("an expression");
        let error = Builder::new(true).build(&named).await;
        let told = error.expect_err("it is there twice").to_string();
        assert!(told.ends_with("/a is named twice"), "{told}");
        assert!(bytes(folder) == before);
    });
}

#[test]
fn what_is_no_array_is_refused_at_its_place_with_what_to_do() {
    with_folder(async |folder| {
        striped(folder).await;
        let before = bytes(folder);
        let error = refused(folder, "linear(memory(1M), array(@a, run=true))").await;
        let told = error.to_string();
        assert!(
            told.contains("needs more than the 1 of its 2 members"),
            "{told}"
        );
        assert!(error.next().expect("a next step").contains("inspect"));
        let marks = marked(&error);
        assert!(
            marks[0].starts_with("array(") && marks[0].ends_with("run=true)"),
            "{marks:?}"
        );
        let error = refused(folder, "array(@a, memory(1M))").await;
        let told = error.to_string();
        assert!(
            told.starts_with("memory(1M) has no md superblock"),
            "{told}"
        );
        assert!(bytes(folder) == before);
    });
}

#[test]
fn a_member_that_cannot_be_reached_is_missed_only_where_it_is_needed() {
    with_folder(async |folder| {
        striped(folder).await;
        let far = "nbd+unix:///?socket=@nobody";
        let built = opened(folder, &format!("array(@a, @b, '{far}')")).await;
        assert_eq!(built.children.len(), 2);
        drop(built);
        let error = refused(folder, &format!("array(@a, '{far}')")).await;
        let told = error.to_string();
        assert!(told.contains("nobody cannot be reached"), "{told}");
        let error = refused(folder, &format!("array('{far}')")).await;
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    });
}
