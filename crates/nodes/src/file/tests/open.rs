//! Tests of opening: what is refused, and that a file is written by one only.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use engine::clock;
use testkit::proc::Process;
use testkit::{requires, single};

use super::{DIRECT, READ_ONLY, WRITABLE, image};
use crate::test_runtime::{is_ready, on_each_backend, timed};
use crate::{File, OpenError, lock_exclusive};

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
            let message = timed(File::open(&path, options)).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(message.contains(path.to_str().unwrap()), "{message}");
        }
    }
}

#[test]
fn a_file_is_open_for_writing_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    let writer = timed(File::open(&path, WRITABLE)).unwrap();
    for options in [WRITABLE, READ_ONLY] {
        let error = timed(File::open(&path, options)).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, OpenError::InUse { holder, .. } if holder.writes));
        assert!(
            message.contains("already open for writing by this process"),
            "{message}"
        );
    }
    drop(writer);
    timed(File::open(&path, WRITABLE)).unwrap();
}

#[test]
fn readers_share_a_file_and_keep_writers_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    let reader = timed(File::open(&path, READ_ONLY)).unwrap();
    let another = timed(File::open(&path, READ_ONLY)).unwrap();
    let error = timed(File::open(&path, WRITABLE)).unwrap_err();
    assert!(
        matches!(error, OpenError::InUse { holder, .. } if !holder.writes),
        "{error}"
    );
    drop((reader, another));
    timed(File::open(&path, WRITABLE)).unwrap();
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
    let message = timed(File::open(&path, WRITABLE)).unwrap_err().to_string();
    let named = format!("already open for writing by process {}", process.id());
    assert!(message.contains(&named), "{message}");
    // Ends the sleep too: its copy of the lock's descriptor outlives flock itself.
    drop(process);
}

/// After `kill -9` the kernel tears the io_uring down in the background, and a request of it keeps the file, and its
/// lock, open until then: a process that opened the image again at once got the error "already open" by a process that
/// was no more. Here a child of the process keeps the file for a while.
#[test]
fn a_lock_that_a_process_left_behind_is_waited_for() {
    if !requires::all(&[requires::command("flock")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    left_behind(&path);
    timed(File::open(&path, WRITABLE)).unwrap();
}

/// Locks a file for a second by the child of a process that has ended.
fn left_behind(path: &Path) {
    let mut flock = Command::new("flock")
        .arg(path)
        .args(["--command", "echo held; sleep 1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut message = BufReader::new(flock.stdout.take().unwrap());
    message.read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    // The shell below it has the file still.
    flock.kill().unwrap();
    flock.wait().unwrap();
}

/// The wait for a lock blocked its core: a server that opened an image again right after another process was killed did
/// nothing else for up to 5 s.
#[test]
fn the_wait_for_a_lock_does_not_block_other_tasks() {
    if !requires::all(&[requires::command("flock")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    left_behind(&path);
    timed(async {
        let mut open = pin!(File::open(&path, WRITABLE));
        let mut polls = 0;
        // Each round resolves after a millisecond unless the other future blocks the thread.
        while clock::timeout(Duration::from_millis(1), open.as_mut())
            .await
            .is_err()
        {
            polls += 1;
        }
        assert!(polls > 10, "other tasks ran {polls} times");
    });
    left_behind(&path);
    timed(async {
        let file = std::fs::OpenOptions::new().read(true).open(&path).unwrap();
        let mut lock = pin!(lock_exclusive(&file, &path));
        assert!(!is_ready(lock.as_mut()).await, "the lock is held");
        lock.await.unwrap();
    });
}

/// How often: it was met once in 199 times.
const KILLS: u32 = 200;
/// What the process does that [`an_image_is_opened_again_right_after_its_process_was_killed`] kills.
const KILLED: &str = "OUTBOARD_TEST_KILLED";

/// Writes and flushes an image on an io_uring for ever.
fn write_for_ever(path: &Path) {
    let config = engine::Config {
        backend: engine::BackendChoice::Uring,
        cores: 1,
    };
    engine::run(&config, |_| async {
        let disk = File::open(path, WRITABLE).await.unwrap();
        writeln!(std::io::stdout(), "ready").unwrap();
        let writer = |n: u64| {
            let disk = &disk;
            async move {
                loop {
                    let range = Range::new(n * (1 << 20), 1 << 20);
                    let data = single(vec![1; 1 << 20]);
                    disk.write(range, data, WriteFlags::FUA).await.unwrap();
                }
            }
        };
        futures_util::future::join_all((0..8).map(writer)).await;
    })
    .unwrap();
}

#[test]
fn an_image_is_opened_again_right_after_its_process_was_killed() {
    if let Some(path) = std::env::var_os(KILLED) {
        return write_for_ever(Path::new(&path));
    }
    if !requires::all(&[requires::io_uring()]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 8 << 20);
    let own = std::thread::current().name().unwrap().to_owned();
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", &own])
            .env(KILLED, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let message = BufReader::new(child.stdout.take().unwrap());
        let mut lines = message.lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.ends_with("ready")),
            "it opened the image"
        );
        child.kill().unwrap();
        // The killing process waits for its end, or does not.
        if round % 2 == 0 {
            child.wait().unwrap();
        }
        let opened = timed(File::open(&path, WRITABLE));
        opened.unwrap_or_else(|error| panic!("round {round}: {error}"));
        child.wait().unwrap();
    }
}

#[test]
fn every_byte_is_served_but_of_direct_io_whole_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 511, 512, 5_000] {
        let path = image(folder.path(), size);
        let disk = timed(File::open(&path, WRITABLE)).unwrap();
        assert_eq!(disk.geometry().size, size);
        assert_eq!(disk.geometry().block_size, 1);
        drop(disk);
        let disk = match timed(File::open(&path, DIRECT)) {
            Err(OpenError::NoDirect { .. }) => continue,
            opened => opened.unwrap(),
        };
        let block = u64::from(disk.geometry().block_size);
        assert_eq!(disk.geometry().size, size / block * block);
    }
}

#[test]
fn a_read_only_disk_refuses_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), 4096);
    on_each_backend(async || {
        let disk = File::open(&path, READ_ONLY).await.unwrap();
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
    let disk = match timed(File::open(&path, DIRECT)) {
        Ok(disk) => disk,
        // As on a filesystem without O_DIRECT: then this is the required error.
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
