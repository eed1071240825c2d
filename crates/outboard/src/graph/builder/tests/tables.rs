//! Disks that device-mapper tables name.

use std::fs;

use super::{MIB, image, in_folder, marked, open, opened, read, refused, with_folder, write};
use crate::graph::builder::{BuildError, Builder};

#[test]
fn tables_that_name_different_parts_of_a_file_share_it() {
    with_folder(async |folder| {
        image(&folder.join("disk"), 4 * MIB, 1);
        let table = |name: &str, start: u64| {
            let line = in_folder(folder, &format!("0 2048 linear @disk {start}\n"));
            fs::write(folder.join(name), line).expect("a table");
        };
        table("one", 0);
        table("two", 2048);
        table("three", 1024);
        let mut builder = Builder::new(false);
        let one = open(&mut builder, folder, "dm(@one)").await.expect("free");
        let two = open(&mut builder, folder, "dm(@two)").await.expect("free");
        let error = open(&mut builder, folder, "dm(@three)").await;
        let error = error.expect_err("it has bytes of both");
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
        write(&**one.disk(), 4096, 7).await;
        write(&**two.disk(), 0, 8).await;
        let disk = fs::read(folder.join("disk")).expect("it is there");
        assert_eq!(disk[4096..8192], [7; 4096]);
        assert_eq!(disk[1 << 20..][..4096], [8; 4096]);
        let way = two.locate(5);
        let steps: Vec<_> = way
            .iter()
            .map(|step| (step.built.name, step.offset))
            .collect();
        assert_eq!(steps, [("dm", 5), ("file", MIB + 5)]);
    });
}

#[test]
fn a_device_of_a_table_may_be_an_expression() {
    with_folder(async |folder| {
        image(&folder.join("a"), MIB, 1);
        let table = in_folder(
            folder,
            "0 2048 linear file(@a,read-only=true) 0\n2048 2048 linear memory(1M) 0\n4096 8 zero\n",
        );
        fs::write(folder.join("t"), table).expect("a table");
        let built = opened(folder, "dm(@t)").await;
        let node = built.disk();
        assert_eq!(node.geometry().size, 2 * MIB + 4096);
        assert_eq!(read(node, 2 * MIB, 4096).await, [0; 4096]);
        assert_eq!(built.children.len(), 2);
        let way = built.locate(2 * MIB);
        assert_eq!(way.len(), 1, "zeroes are on no disk");
    });
}

#[test]
fn a_table_that_leads_back_to_itself_is_refused() {
    with_folder(async |folder| {
        let table = |name: &str, text: &str| {
            fs::write(folder.join(name), in_folder(folder, text)).expect("a table");
        };
        table("own", "0 8 linear dm(@own) 0\n");
        table("there", "0 8 linear dm(@back) 0\n");
        table("back", "0 8 linear memory(1M) 0\n8 8 linear dm(@there) 0\n");
        for text in ["dm(@own)", "dm(@there)", "linear(memory(1M), dm(@back))"] {
            let error = refused(folder, text).await;
            let told = error.to_string();
            assert!(told.contains("leads back to itself"), "{told}");
            assert!(told.contains(", line "), "{told}");
        }
        table("disk", "0 8 linear @disk 0\n");
        let padding = "#".repeat(8 * 512);
        let text = in_folder(folder, &format!("0 8 linear @disk 0\n{padding}\n"));
        fs::write(folder.join("disk"), text).expect("a table");
        let error = refused(folder, "dm(@disk)").await;
        assert!(matches!(error, BuildError::Twice { .. }), "{error}");
    });
}

#[test]
fn tables_of_tables_have_a_bound() {
    with_folder(async |folder| {
        for number in 0..12 {
            let text = in_folder(folder, &format!("0 8 linear dm(@{}) 0\n", number + 1));
            fs::write(folder.join(number.to_string()), text).expect("a table");
        }
        let told = refused(folder, "dm(@0)").await.to_string();
        assert!(told.contains("8 deep at most"), "{told}");
    });
}

#[test]
fn what_is_wrong_in_a_table_is_named_with_file_and_line() {
    with_folder(async |folder| {
        let cases = [
            (
                "0 8 linear @none 0\n",
                ["t, line 1: ", "none does not exist"],
            ),
            (
                "0 8 zero\n8 8 linear memry(1M) 0\n",
                ["t, line 2: ", "did you mean memory?"],
            ),
            ("0 8 zero\n8 8 crypt x\n", ["t: line 2", "crypt"]),
            (
                "0 8 linear memory(512) 0\n",
                ["t: line 1", "memory(512) has 1 sectors"],
            ),
        ];
        for (text, expected) in cases {
            fs::write(folder.join("t"), in_folder(folder, text)).expect("a table");
            let error = refused(folder, "dm(@t)").await;
            for part in expected {
                assert!(error.to_string().contains(part), "{text}: {error}");
            }
        }
        fs::remove_file(folder.join("t")).expect("it was there");
        let error = refused(folder, "dm(@t)").await;
        assert!(marked(&error)[0].ends_with("/t"), "{error}");
    });
}

#[test]
fn a_snapshot_of_a_table_leaves_its_origin_alone() {
    with_folder(async |folder| {
        image(&folder.join("origin"), MIB, 1);
        // A store that is all zeroes is a new one, as for dmsetup.
        let store = fs::File::create(folder.join("store")).expect("a new file");
        store.set_len(MIB).expect("a size");
        let before = fs::read(folder.join("origin")).expect("it is there");
        let table = in_folder(folder, "0 2048 snapshot @origin @store P 8\n");
        fs::write(folder.join("t"), table).expect("a table");
        let built = opened(folder, "dm(@t)").await;
        write(&**built.disk(), 4096, 7).await;
        assert_eq!(read(built.disk(), 4096, 4096).await, [7; 4096]);
        assert_eq!(
            fs::read(folder.join("origin")).expect("it is there"),
            before
        );
    });
}
