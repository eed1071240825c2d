//! Tests of opening: what is refused, and that a file is written by one only.

use std::process::Command;
use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use testkit::proc::Process;
use testkit::{requires, single};

use super::{DIRECT, READ_ONLY, WRITABLE, image};
use crate::timed::on_each_backend;
use crate::{File, OpenError};

#[test]
fn what_is_no_disk_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let fifo = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let cases = [
        (folder.path().to_owned(), "is a directory"),
        (folder.path().join("absent"), "does not exist"),
        (folder.path().join("absent/deeper"), "does not exist"),
        ("/dev/null".into(), "is a character device"),
        (socket, "is a socket"),
        (fifo, "is a FIFO"),
    ];
    for (path, part) in cases {
        for options in [WRITABLE, READ_ONLY, DIRECT] {
            let told = File::open(&path, options).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
            assert!(told.contains(path.to_str().unwrap()), "{told}");
        }
    }
}

#[test]
fn a_file_is_open_for_writing_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    let writer = File::open(&path, WRITABLE).unwrap();
    for options in [WRITABLE, READ_ONLY] {
        let error = File::open(&path, options).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, OpenError::InUse { holder, .. } if holder.writes));
        assert!(
            told.contains("already open for writing by this process"),
            "{told}"
        );
    }
    drop(writer);
    File::open(&path, WRITABLE).unwrap();
}

#[test]
fn readers_share_a_file_and_keep_writers_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    let reader = File::open(&path, READ_ONLY).unwrap();
    let another = File::open(&path, READ_ONLY).unwrap();
    let error = File::open(&path, WRITABLE).unwrap_err();
    assert!(
        matches!(error, OpenError::InUse { holder, .. } if !holder.writes),
        "{error}"
    );
    drop((reader, another));
    File::open(&path, WRITABLE).unwrap();
}

#[test]
fn another_process_that_holds_the_file_is_named() {
    if !requires::all(&[requires::command("flock")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    let script = "echo held; sleep 60";
    let mut command = Command::new("flock");
    command.arg(&path).args(["--command", script]);
    let mut process = Process::start(&mut command).unwrap();
    process
        .wait_for_line("held", Duration::from_secs(10))
        .unwrap();
    let told = File::open(&path, WRITABLE).unwrap_err().to_string();
    let named = format!("already open for writing by process {}", process.id());
    assert!(told.contains(&named), "{told}");
    // Ends the sleep too, whose copy of the lock's descriptor outlives flock itself.
    drop(process);
}

#[test]
fn the_odd_bytes_at_the_end_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    for (size, served) in [(0, 0), (511, 0), (512, 512), (5_000, 4_608)] {
        let path = image(folder.path(), size);
        let disk = File::open(&path, WRITABLE).unwrap();
        assert_eq!(disk.geometry().size, served);
        assert_eq!(disk.geometry().block_size, 1);
    }
}

#[test]
fn a_read_only_disk_refuses_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    on_each_backend(async || {
        let disk = File::open(&path, READ_ONLY).unwrap();
        let range = Range::new(0, 512);
        let refused = [
            disk.write(range, single(vec![1; 512]), WriteFlags::empty())
                .await,
            disk.write_zeroes(range, WriteFlags::empty()).await,
            disk.trim(range).await,
        ];
        for result in refused {
            assert_eq!(result.unwrap_err().errno, Errno::NotPermitted);
        }
        disk.flush().await.unwrap();
        assert!(!disk.geometry().trim.any());
    });
}

#[test]
fn a_direct_file_serves_blocks_that_the_device_can_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 65_536 + 512);
    let disk = match File::open(&path, DIRECT) {
        Ok(disk) => disk,
        // As on a filesystem without O_DIRECT: then this is what must be said.
        Err(error) => {
            assert!(matches!(error, OpenError::NoDirect { .. }), "{error}");
            return;
        }
    };
    let geometry = disk.geometry();
    assert!(geometry.block_size >= 512 && geometry.block_size.is_power_of_two());
    assert!(geometry.preferred_block_size >= geometry.block_size);
    assert!(geometry.size.is_multiple_of(geometry.block_size.into()));
    assert!(disk.file_region(Range::new(0, 4096)).is_none());
}
