//! Tests of the guest's pure parts: modules, archive, and what scripts say.

use std::sync::Barrier;
use std::time::Duration;

use anyhow::bail;

use super::cpio::Archive;
use super::kernel::lz4_frame;
use super::modules::{closure, only};
use super::pool;
use super::script::{
    BinaryUse, DEFAULT_PROCESSORS, Disk, GuestCommand, Served, Wants, halves, parse_command, wants,
};

const DEP: &str = "kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/mbcache.ko\n\
                   kernel/lib/crc16.ko:\nkernel/fs/mbcache.ko:\nkernel/drivers/md/dm-mod.ko:\n";

#[test]
fn a_module_comes_with_all_it_depends_on() {
    let files = closure(DEP, "", &["ext4", "dm_mod"]).unwrap();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(
        files,
        [
            "kernel/drivers/md/dm-mod.ko",
            "kernel/fs/ext4/ext4.ko",
            "kernel/fs/mbcache.ko",
            "kernel/lib/crc16.ko"
        ]
    );
}

#[test]
fn a_module_that_is_built_in_needs_no_file_and_one_that_is_nowhere_is_named() {
    assert!(
        closure(DEP, "kernel/block/loop.ko", &["loop"])
            .unwrap()
            .is_empty()
    );
    let error = closure(DEP, "", &["loop"]).unwrap_err().to_string();
    assert_eq!(error, "the guest's kernel has no module loop");
}

#[test]
fn a_guest_lists_no_module_that_it_does_not_have() {
    let files = ["kernel/lib/crc16.ko", "kernel/fs/mbcache.ko"].map(str::to_owned);
    assert_eq!(
        only(DEP, &files.into()),
        "kernel/lib/crc16.ko:\nkernel/fs/mbcache.ko:\n"
    );
}

#[test]
fn the_payload_of_a_kernel_is_unpacked_where_it_is_lz4() {
    let mut image = vec![0; 2048];
    image[0x1f1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x248..0x250].copy_from_slice(&[16, 0, 0, 0, 11, 0, 0, 0]);
    image[1040..1051].copy_from_slice(b"\x02\x21\x4c\x18abcSIZE");
    assert_eq!(lz4_frame(&image), Some(&b"\x02\x21\x4c\x18abc"[..]));
    assert_eq!(lz4_frame(&image[..1046]), None, "cut off");
    image[1040] = 0xfd;
    assert_eq!(lz4_frame(&image), None, "packed in another way");
    image[0x202] = 0;
    assert_eq!(lz4_frame(&image), None, "no kernel");
    assert_eq!(lz4_frame(b""), None);
}

#[test]
fn an_archive_has_each_folder_once_and_ends_where_another_can_follow() {
    let mut archive = Archive::default();
    archive.file("a/b/one", b"12345").unwrap();
    archive.program("a/b/two", b"").unwrap();
    let bytes = archive.finish().unwrap();
    assert_eq!(bytes.len() % 512, 0);
    let count = |name: &[u8]| {
        bytes
            .windows(name.len())
            .filter(|window| *window == name)
            .count()
    };
    assert_eq!(count(b"070701"), 5, "two folders, two files, the trailer");
    assert_eq!(count(b"a/b\0"), 1);
    assert_eq!(count(b"TRAILER!!!\0"), 1);
}

#[test]
fn a_script_says_what_it_needs_in_its_comments() {
    let text = "#: serve DISK 512M\n#: root OTHER 1G\n#: disk A 24M\n#: timeout 60\n#: outboard host\n#: processors 1\n#: long\necho '#: not this'\n";
    assert_eq!(
        wants(text).unwrap(),
        Wants {
            servers: vec![
                Served {
                    name: "DISK".to_owned(),
                    size: 512 << 20,
                    is_root: false,
                },
                Served {
                    name: "OTHER".to_owned(),
                    size: 1 << 30,
                    is_root: true,
                },
            ],
            disks: vec![Disk {
                name: "A".to_owned(),
                size: 24 << 20,
            }],
            timeout_s: 60,
            outboard: BinaryUse::Host,
            processors: 1,
            is_long: true,
        }
    );
    assert_eq!(wants("#: outboard\n").unwrap().outboard, BinaryUse::Guest);
    let bare = wants("true\n").unwrap();
    assert_eq!((bare.processors, bare.is_long), (DEFAULT_PROCESSORS, false));
}

#[test]
fn an_unknown_directive_is_an_error() {
    for text in [
        "#: serve disk 1M",
        "#: disk a 1M",
        "#: serve DISK 1",
        "#: serve DISK xG",
        "#: server",
        "#: timeout soon",
        "#: processors 0",
        "#: outboard guest",
    ] {
        assert!(wants(text).is_err(), "{text}");
    }
}

#[test]
fn what_follows_the_word_host_is_not_the_guests() {
    let text = "#: disk A 24M\nhost one two\n#: host\n#: nonsense\necho $1\n";
    assert_eq!(
        halves(text),
        ("#: disk A 24M\nhost one two", "#: nonsense\necho $1\n")
    );
    assert_eq!(wants(text).unwrap().disks.len(), 1);
    assert_eq!(halves("echo\n"), ("echo\n", ""));
}

#[test]
fn only_whole_lines_of_the_console_speak_to_the_host() {
    assert_eq!(parse_command("@exit 3\r"), Some(GuestCommand::Exit(3)));
    assert_eq!(
        parse_command("@kill DISK"),
        Some(GuestCommand::Kill("DISK".to_owned()))
    );
    assert_eq!(
        parse_command("@start DISK"),
        Some(GuestCommand::Start("DISK".to_owned()))
    );
    let swapped = GuestCommand::Swap("DISK".to_owned(), "OTHER".to_owned());
    assert_eq!(parse_command("@swap DISK OTHER"), Some(swapped));
    let grown = GuestCommand::Grow("DISK".to_owned(), 96 << 20);
    assert_eq!(parse_command("@grow DISK 96M"), Some(grown));
    let proof = GuestCommand::Proof("DISK".to_owned(), "7f-3".to_owned());
    assert_eq!(parse_command("@proof DISK 7f-3\r"), Some(proof));
    assert_eq!(parse_command("@grow DISK much"), None);
    assert_eq!(parse_command("echo @exit 3"), None);
    let words = vec!["read".to_owned(), "1.2".to_owned()];
    assert_eq!(
        parse_command("@host read 1.2\r"),
        Some(GuestCommand::Host(words))
    );
    assert_eq!(parse_command("@host"), None);
    assert_eq!(parse_command("@exit"), None);
}

#[test]
fn a_failed_test_is_reported_by_its_name_and_all_others_are_run() {
    let tests = vec!["one", "two", "three", "four", "five"];
    let run = |name: &&str| match *name {
        "one" | "four" => bail!("{name} is broken"),
        _ => Ok(()),
    };
    let mut reported: Vec<(String, Option<String>)> = Vec::new();
    let report = |name: &&str, _: Duration, outcome: anyhow::Result<()>| {
        let error = outcome.err().map(|error| error.to_string());
        reported.push(((*name).to_owned(), error));
    };
    pool::run(tests, 2, run, report).unwrap();
    reported.sort();
    let failed = |name: &str| (name.to_owned(), Some(format!("{name} is broken")));
    let passed = |name: &str| (name.to_owned(), None);
    assert_eq!(
        reported,
        [
            passed("five"),
            failed("four"),
            failed("one"),
            passed("three"),
            passed("two")
        ]
    );
}

/// Each waits for another one, which must run beside it.
#[test]
fn tests_run_side_by_side() {
    let both = Barrier::new(2);
    let run = |_: &u32| {
        both.wait();
        Ok(())
    };
    let mut ended = 0;
    pool::run(vec![1, 2, 3, 4], 2, run, |_, _, _| ended += 1).unwrap();
    assert_eq!(ended, 4);
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn a_test_that_panics_is_no_success() {
    let run = |number: &u32| match number {
        2 => panic!("broken"),
        _ => Ok(()),
    };
    pool::run(vec![1, 2, 3], 2, run, |_, _, _| ()).unwrap();
}
