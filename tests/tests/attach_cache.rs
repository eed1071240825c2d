//! Attachments with a local cache: what was read once is not requested of the server again, also after a restart; what is
//! written is on the server.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB, bytes_at};
use outboard_tests::metrics;
use outboard_tests::server::{Server, free_port};

const SIZE: u64 = 32 * MIB;

/// What a client reads to recognize the disk (82 KiB), the sample that is compared with it (32 blocks), and nothing else.
const OPEN_MAX: u64 = 82 * 1024 + 32 * 4096;

/// A server of `image` as the export `root`, its URI, and the port of its metrics.
#[track_caller]
fn served(image: &str) -> (Server, String, u16) {
    let port = free_port();
    let (root, metrics) = (
        format!("root={image}"),
        format!("--metrics=127.0.0.1:{port}"),
    );
    let server = Server::start(&[&root, &metrics]);
    let uri = server.uri("root");
    (server, uri, port)
}

/// Bytes that the server of these metrics has read for clients.
#[track_caller]
fn bytes_read(port: u16) -> u64 {
    let series = "outboard_request_bytes_total{export=\"root\",command=\"read\"}";
    metrics::value(port, series).unwrap_or(0)
}

/// Reads the device past the page cache of this attachment: each one is a new device.
#[track_caller]
fn read(device: &str) -> Vec<u8> {
    bytes_at(device, 0, usize::try_from(SIZE).expect("it fits"))
}

#[test]
fn what_was_read_once_is_not_read_from_the_server_after_a_restart() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("root.img", SIZE, 3);
    let (_server, uri, port) = served(&image);
    let cache = folder.at("root.cache");
    let options = ["--cache", cache.as_str(), "--cache-size", "64M"];
    let device = world.attachment(&uri).with(&options).device();
    assert!(read(&device) == bytes_at(&image, 0, read(&device).len()));
    let cold = bytes_read(port);
    assert!(cold >= SIZE, "{cold}");
    let change = vec![b'w'; 8192];
    let disk = std::fs::OpenOptions::new()
        .write(true)
        .open(&device)
        .expect("the device");
    disk.write_all_at(&change, 5 * MIB).expect("it is written");
    disk.sync_all().expect("it is flushed");
    drop(disk);
    assert_eq!(
        bytes_at(&image, 5 * MIB, 8192),
        change,
        "a flush is the server's"
    );
    world.run(&["detach", &device]).ok();
    world.assert_clean();

    let before = bytes_read(port);
    let device = world.attachment(&uri).with(&options).device();
    let expected = bytes_at(&image, 0, usize::try_from(SIZE).expect("it fits"));
    assert!(read(&device) == expected);
    let after = bytes_read(port) - before;
    assert!(after <= OPEN_MAX, "{after} bytes were read again");
    world.run(&["detach", &device]).ok();
    world.assert_clean();
    let printed = world.run(&["inspect", &cache]).ok();
    assert!(printed.contains("cache of a disk of 32"), "{printed}");
}

/// The disk was dropped before its cache was closed: what was written last, here all of the disk, was read again.
#[test]
fn what_was_read_is_not_read_again_after_a_forced_detach() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("root.img", SIZE, 3);
    let (_server, uri, port) = served(&image);
    let cache = folder.at("root.cache");
    let options = ["--cache", cache.as_str(), "--cache-size", "64M"];
    let device = world.attachment(&uri).with(&options).device();
    read(&device);
    let disk = std::fs::OpenOptions::new()
        .write(true)
        .open(&device)
        .expect("the device");
    let refused = world.run(&["detach", &device]).complaint(1);
    assert!(refused.contains("detach with --force"), "{refused}");
    // Until the device fails: a region that nothing is written to for a while needs no close.
    let write = move |byte: u8| {
        let written = disk.write_all_at(&[byte; 8192], 5 * MIB);
        written.and_then(|()| disk.sync_all()).is_ok()
    };
    let (forced, writes) = std::thread::scope(|scope| {
        let writer =
            scope.spawn(move || (0..u8::MAX).cycle().take_while(|byte| write(*byte)).count());
        let forced = world.run(&["detach", &device, "--force"]);
        (forced, writer.join().expect("a writer"))
    });
    assert!(matches!(forced.code, Some(0 | 1)), "{forced:?}");
    assert!(writes > 0);
    world.assert_clean();
    let before = bytes_read(port);
    let device = world.attachment(&uri).with(&options).device();
    let expected = bytes_at(&image, 0, usize::try_from(SIZE).expect("it fits"));
    assert!(read(&device) == expected);
    let after = bytes_read(port) - before;
    // The write that was cut off is not in the cache: its granule of 128 KiB is read again.
    let most = OPEN_MAX + 128 * 1024;
    assert!(after <= most, "{after} bytes were read again");
    world.run(&["detach", &device]).ok();
    world.assert_clean();
}

#[test]
fn a_file_that_is_no_cache_is_refused_and_left_as_it_is() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("root.img", MIB, 3);
    let notes = folder.filled("notes", MIB, 4);
    let before = bytes_at(&notes, 0, 1 << 20);
    let server = Server::start(&[&image]);
    let uri = server.uri("");
    let complaint = world
        .attachment(&uri)
        .with(&["--cache", &notes])
        .run()
        .complaint(1);
    assert!(complaint.contains("is no cache file"), "{complaint}");
    assert!(bytes_at(&notes, 0, 1 << 20) == before);
    world.assert_clean();
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for_behind_a_cache_too() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("root.img", MIB, 3);
    let server = Server::start(&[&image]);
    let (port, uri) = (server.port(), server.uri(""));
    server.kill();
    let cache = folder.at("root.cache");
    let attachment = world
        .attachment(&uri)
        .with(&["--cache", &cache, "--wait", "60"]);
    let mut child = attachment.command().spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().expect("a child").is_none(), "it waits");
    let _server = Server::start_on(port, &[&image]);
    assert!(child.wait().expect("a child").success());
    world.run(&["detach", "--all"]).ok();
    world.assert_clean();
}

/// Where a machine reads while it starts.
const PLACES: u64 = 20;

#[track_caller]
fn starts(device: &str, image: &str) {
    for place in 0..PLACES {
        let at = place * 7 % PLACES * (SIZE / PLACES / 4096 * 4096);
        assert_eq!(bytes_at(device, at, 4096), bytes_at(image, at, 4096));
    }
}

/// Waits until that much was read of the server, and then nothing more for a while.
#[track_caller]
fn quiet_after(port: u16, least: u64) -> u64 {
    let mut last = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300));
        let now = bytes_read(port);
        if now >= least && now == last {
            return now;
        }
        last = now;
    }
    panic!("{last} bytes were read, and not {least}");
}

#[test]
fn what_a_first_start_read_is_read_ahead_of_the_next_one_with_an_empty_cache() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("root.img", SIZE, 4);
    let (_server, uri, port) = served(&image);
    let (cache, profile) = (folder.at("root.cache"), folder.at("boot.profile"));
    let options = [
        "--cache",
        cache.as_str(),
        "--cache-profile",
        profile.as_str(),
    ];
    let device = world.attachment(&uri).with(&options).device();
    starts(&device, &image);
    world.run(&["detach", &device]).ok();
    let recorded = std::fs::read_to_string(&profile).expect("it was recorded");
    let lines = recorded.lines().count() as u64;
    assert!(lines >= PLACES, "{recorded}");

    // Another machine, with the same profile and nothing in its cache.
    std::fs::remove_file(&cache).expect("a file");
    let before = bytes_read(port);
    let device = world.attachment(&uri).with(&options).device();
    let quiet = quiet_after(port, before + PLACES * 128 * 1024);
    starts(&device, &image);
    assert_eq!(bytes_read(port) - quiet, 0, "the start waits for nothing");
    world.run(&["detach", &device]).ok();
    let unchanged = std::fs::read_to_string(&profile).expect("it is there");
    assert_eq!(unchanged, recorded);
    world.assert_clean();
}

#[test]
fn a_file_that_is_no_boot_profile_is_refused_before_a_cache_is_made() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("root.img", MIB, 3);
    let server = Server::start(&[&format!("root={image}")]);
    let uri = server.uri("root");
    let (cache, notes) = (folder.at("root.cache"), folder.at("notes.txt"));
    std::fs::write(&notes, "not a profile\n").expect("a file");
    for (profile, expected) in [
        (notes.as_str(), "it is no boot profile"),
        (&folder.at("lacks/boot"), "there is no such folder"),
    ] {
        let mut words = vec!["attach", uri.as_str(), "--cache", &cache];
        words.extend(["--cache-profile", profile]);
        let refused = world.run(&words).complaint(1);
        assert!(refused.contains(expected), "{refused}");
        assert!(!std::path::Path::new(&cache).exists());
    }
    let kept = std::fs::read_to_string(&notes).expect("it is there");
    assert_eq!(kept, "not a profile\n");
    world.assert_clean();
}
