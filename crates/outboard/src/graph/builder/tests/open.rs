//! Which disks may be open at once, and what they are made of.

use super::{MIB, image, marked, open, opened, read, refused, with_folder, write};
use crate::graph::builder::{BuildError, Builder};

#[test]
fn a_file_that_two_disks_would_write_is_refused_at_both_places() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        std::fs::hard_link(folder.join("a"), folder.join("b")).expect("a link");
        let mut builder = Builder::new(false);
        let _first = open(&mut builder, folder, "file(@a)").await.expect("free");
        let error = open(&mut builder, folder, "linear(memory(1M), @b)").await;
        let error = error.expect_err("it is written already");
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        assert!(
            error
                .to_string()
                .ends_with("b would be written by two disks at once")
        );
        assert!(error.is_own_conflict());
        let marks = marked(&error);
        assert!(
            marks[0].ends_with("/a") && marks[1].ends_with("/b"),
            "{marks:?}"
        );
    });
}

#[test]
fn one_disk_cannot_have_the_same_bytes_twice_unless_it_only_reads_them() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        let error = refused(folder, "linear(@a, @a)").await;
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        let kept = "file(@a, read-only=true)";
        let built = opened(folder, &format!("linear({kept}, {kept})")).await;
        let node = built.disk();
        assert_eq!(node.geometry().size, 2 * MIB);
        assert!(node.geometry().read_only && built.read_only);
        assert_eq!(read(node, MIB, 4096).await, read(node, 0, 4096).await);
    });
}

#[test]
fn a_file_is_not_open_in_two_ways() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        let error = refused(folder, "linear(file(@a, read-only=true), @a)").await;
        let told = error.to_string();
        assert!(
            told.ends_with("a would be read by one disk and written by another at once"),
            "{told}"
        );
        assert_eq!(marked(&error).len(), 2);
        // O_DIRECT may not be had on the filesystem of the tests; then that is the message.
        let error = refused(folder, "linear(@a, file(@a, direct=true))").await;
        assert!(
            matches!(error, BuildError::Unlike { .. } | BuildError::File { .. }),
            "{error}"
        );
    });
}

#[test]
fn many_overlays_share_their_base() {
    with_folder(async |folder| {
        image(&folder.join("golden"), MIB, 1);
        let mut builder = Builder::new(false);
        let one = open(&mut builder, folder, "overlay(@golden, @one)").await;
        let two = open(&mut builder, folder, "overlay(@golden, @two)").await;
        let (one, two) = (one.expect("free"), two.expect("free"));
        let bases = [&one, &two].map(|built| built.children[0].disk().clone());
        assert!(std::ptr::addr_eq(
            std::sync::Arc::as_ptr(&bases[0]),
            std::sync::Arc::as_ptr(&bases[1])
        ));
        write(&**one.disk(), 0, 7).await;
        assert_eq!(read(one.disk(), 0, 4096).await, [7; 4096]);
        assert_ne!(read(two.disk(), 0, 4096).await, [7; 4096]);
        let error = open(&mut builder, folder, "@golden")
            .await
            .expect_err("its bytes are kept");
        assert!(error.is_own_conflict(), "{error}");
    });
}

#[test]
fn an_overlay_is_never_written_to_its_own_base() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        image(&folder.join("b"), MIB, 2);
        std::os::unix::fs::symlink(folder.join("b"), folder.join("c")).expect("a link");
        let before = std::fs::read(folder.join("b")).expect("it is there");
        for text in ["overlay(@b, @b)", "overlay(linear(@a, @b), @c)"] {
            let error = refused(folder, text).await;
            assert!(matches!(error, BuildError::OwnBase { .. }), "{error}");
        }
        assert_eq!(
            std::fs::read(folder.join("b")).expect("it is there"),
            before
        );
    });
}

#[test]
fn two_overlays_do_not_share_a_top() {
    with_folder(async |folder| {
        image(&folder.join("golden"), MIB, 1);
        let mut builder = Builder::new(false);
        let first = open(&mut builder, folder, "overlay(@golden, @top)").await;
        let _first = first.expect("free");
        let error = open(&mut builder, folder, "overlay(@golden, @top)").await;
        let error = error.expect_err("it has a disk");
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
    });
}

#[test]
fn a_disk_that_is_gone_leaves_its_file_free() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        let mut builder = Builder::new(false);
        let first = open(&mut builder, folder, "@a").await.expect("free");
        let claims = builder.claims();
        drop(first);
        let _again = opened(folder, "@a").await;
        drop(claims);
    });
}

#[test]
fn a_byte_is_found_through_every_layer() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        image(&folder.join("b"), MIB, 2);
        let text = "delay(blocks(stripe(linear(memory(1M), @a), linear(@b, memory(1M)), chunk=64K), size=512), read=0s)";
        let built = opened(folder, text).await;
        let way = |offset: u64| -> Vec<(String, u64)> {
            let steps = built.locate(offset).into_iter();
            steps
                .map(|step| (step.built.name.to_owned(), step.offset))
                .collect()
        };
        let place = |node: &str, offset: u64| (node.to_owned(), offset);
        // Chunk 1 is the first of the second member.
        let offset = (64 << 10) + 5;
        let expected = [
            place("delay", offset),
            place("blocks", offset),
            place("stripe", offset),
            place("linear", 5),
            place("file", 5),
        ];
        assert_eq!(way(offset), expected);
        let offset = 2 * MIB + 7;
        let found = way(offset);
        assert_eq!(found[3..], [place("linear", MIB + 7), place("file", 7)]);
        let file = built.locate(offset).pop().expect("a last step").built;
        assert!(file.about.ends_with("/a"), "{}", file.about);
    });
}

#[test]
fn what_an_overlay_changed_is_found_in_its_top() {
    with_folder(async |folder| {
        image(&folder.join("golden"), MIB, 1);
        let built = opened(folder, "overlay(@golden, @top)").await;
        write(&**built.disk(), 8192, 9).await;
        built.disk().flush().await.expect("a flush");
        drop(built);
        // A writable overlay does not expose its base, which a caller could write through `remap`.
        let read = open(&mut Builder::new(true), folder, "overlay(@golden, @top)").await;
        let built = read.expect("free again");
        let last = |offset: u64| {
            let step = built.locate(offset).pop().expect("a last step");
            (step.built.about.clone(), step.offset)
        };
        let (file, at) = last(4096);
        assert!(file.ends_with("/golden") && at == 4096, "{file} {at}");
        let (file, at) = last(8192 + 100);
        assert!(file.ends_with("/top"), "{file}");
        let store = std::fs::read(folder.join("top")).expect("it is there");
        let at = usize::try_from(at).expect("a small file");
        assert_eq!(store[at], 9);
    });
}

#[test]
fn disks_that_do_not_fit_each_other_are_refused_with_what_to_do() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        image(&folder.join("b"), 2 * MIB, 2);
        let error = refused(folder, "stripe(@a, @b)").await;
        assert!(
            error.to_string().contains("member 2 has 2097152 bytes"),
            "{error}"
        );
        let next = error.next().expect("there is a way");
        assert!(next.starts_with("trim=true"), "{next}");
        let built = opened(folder, "stripe(@a, @b, trim=true)").await;
        assert_eq!(built.disk().geometry().size, 2 * MIB);
        drop(built);
        let odd = "linear(memory(512), blocks(memory(1M), size=4K))";
        let error = refused(folder, odd).await;
        assert!(
            error.to_string().contains("whole blocks of 4096"),
            "{error}"
        );
        assert_eq!(marked(&error), [odd]);
    });
}

#[test]
fn a_cache_is_no_file_of_its_disk_and_of_one_disk_only() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        let mut builder = Builder::new(false);
        let error = open(&mut builder, folder, "cache(@a, @a)").await;
        let error = error.expect_err("it would be its own cache");
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        let bytes = std::fs::read(folder.join("a")).expect("an image");
        assert_eq!(bytes.len() as u64, MIB, "it was not changed");
        let cached = open(&mut builder, folder, "cache(@a, @c, size=8M)").await;
        let cached = cached.expect("a new cache");
        assert!(read(cached.disk(), 0, 4096).await == bytes[..4096]);
        image(&folder.join("b"), MIB, 2);
        let error = open(&mut builder, folder, "cache(@b, @c)").await;
        let error = error.expect_err("another disk has it");
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        // What is only inspected leaves the cache alone.
        let inspected = open(&mut Builder::looking(), folder, "cache(@a, @c)").await;
        assert!(read(inspected.expect("a disk").disk(), 0, 4096).await == bytes[..4096]);
    });
}
