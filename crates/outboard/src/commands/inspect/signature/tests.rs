//! Tests of reading what blkid says, and of asking it.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use nodes::{Blocks, Memory};
use testkit::{block_on, requires, single};

use super::answer::{BlkidResult, Pages};
use super::program::BlkidOutput;
use super::{ForeignImage, Probe, image_of};

fn said(status: i32, answer: &str, messages: &str) -> BlkidOutput {
    BlkidOutput {
        status: Some(status),
        answer: answer.to_owned(),
        messages: messages.to_owned(),
    }
}

#[test]
fn an_answer_says_what_was_found_and_where_it_was_looked_for() {
    let answer = "ID_FS_LABEL=a_b\nID_FS_LABEL_ENC=a\\x20b\\xc3\\xbc\nID_FS_TYPE=ext4\n\
                  ID_FS_USAGE=filesystem\nID_FS_UUID_ENC=8852\nID_PART_TABLE_TYPE=dos\n";
    let messages = "20809: libblkid: LOWPROBE: \tread: off=314507264 len=64\n\
                    20809: libblkid:   BUFFER: \treuse: off=0 len=512 (for off=0 len=6)\n\
                    20809: libblkid: LOWPROBE: \tread: off=0 len=256\nread: off=1 len=x\n";
    let read = BlkidResult::read(&said(0, answer, messages)).unwrap();
    assert_eq!(
        read.looked_at,
        [Range::new(314_507_264, 64), Range::new(0, 256)]
    );
    let found = read.signature.unwrap();
    assert_eq!(found.kind.as_deref(), Some("ext4"));
    assert_eq!(found.label.as_deref(), Some("a bü"));
    assert_eq!(found.table.as_deref(), Some("dos"));
    assert_eq!(found.in_words().as_deref(), Some("ext4 \"a bü\" 8852"));
}

#[test]
fn nothing_several_things_and_a_failure_are_distinguished() {
    let nothing = BlkidResult::read(&said(2, "", "")).unwrap();
    assert_eq!(nothing.signature, None);
    let several = "ID_FS_AMBIVALENT=other:swap:1 filesystem:btrfs\n";
    let several = BlkidResult::read(&said(8, several, ""))
        .unwrap()
        .signature
        .unwrap();
    assert_eq!(several.several, ["swap", "btrfs"]);
    let failed = BlkidResult::read(&said(4, "", "line\nblkid: error: x")).unwrap_err();
    assert_eq!(failed.to_string(), "it ended with 4: blkid: error: x");
}

#[test]
fn a_page_is_copied_once_and_none_is_behind_the_end() {
    let mut pages = Pages::new(10_000);
    let looked = [
        Range::new(100, 10),
        Range::new(4090, 10),
        Range::new(9999, 5000),
    ];
    assert_eq!(pages.add(&looked), [Range::new(0, 10_000)]);
    assert_eq!(pages.add(&looked), []);
    assert_eq!(pages.bytes(), 3 * 4096);
    let mut pages = Pages::new(1 << 60);
    let far = [
        Range::new(1 << 50, 1),
        Range::new(0, 1),
        Range::new(4096, 1),
    ];
    assert_eq!(
        pages.add(&far),
        [Range::new(0, 8192), Range::new(1 << 50, 4096)]
    );
    // More than may be copied is seen without a list of it all.
    pages.add(&[Range::new(1 << 51, 1 << 59)]);
    assert!(pages.bytes() > super::COPIED_MAX && pages.bytes() < 2 * super::COPIED_MAX);
}

#[test]
fn without_the_program_nothing_is_known_and_nothing_fails() {
    let probe = Probe {
        program: Err("it is gone".to_owned()),
    };
    let disk: Node = Arc::new(Memory::new(1 << 20));
    assert_eq!(block_on(probe.signature(&disk)).unwrap(), None);
    assert!(probe.program().is_err());
}

#[test]
fn an_image_is_known_by_its_beginning_and_a_text_is_none() {
    let packed = image_of(b"\xfd7zXZ\0\0\0\0").unwrap();
    assert_eq!((packed.format.as_str(), packed.compressed), ("XZ", true));
    let ForeignImage { compressed, .. } = image_of(b"QFI\xfb\0\0\0\x03").unwrap();
    assert!(!compressed);
    assert_eq!(image_of(b"#!/bin/sh\necho hello\n"), None);
    assert_eq!(image_of(b""), None);
}

/// A swap signature in the last bytes of the first page, on a disk in blocks of 4096 bytes.
#[test]
fn a_disk_that_is_no_file_is_probed_too() {
    if !requires::all(&[requires::command("blkid")]) {
        return;
    }
    let memory = Memory::new(64 << 20);
    let mut header = vec![0; 4096];
    header[1024] = 1;
    header[1028..1032].copy_from_slice(&16_383_u32.to_le_bytes());
    header[1036..1052].fill(7);
    header[4086..].copy_from_slice(b"SWAPSPACE2");
    let range = Range::new(0, 4096);
    block_on(memory.write(range, single(header), WriteFlags::empty())).unwrap();
    let disk: Node = Arc::new(Blocks::new(Arc::new(memory), 4096).unwrap());
    let config = engine::Config {
        backend: engine::BackendChoice::Auto,
        cores: 1,
    };
    let found = engine::run(&config, |_| async move {
        let probe = Probe::find().await;
        probe.signature(&disk).await
    });
    let found = found.unwrap().unwrap().unwrap();
    assert_eq!(found.kind.as_deref(), Some("swap"));
    assert_eq!(
        found.uuid.as_deref(),
        Some("07070707-0707-0707-0707-070707070707")
    );
}
