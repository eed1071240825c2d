//! A cache file in front of a volume that other machines write, too.

use rustix::process::Signal;

use super::*;

/// Bytes that the store had for the volumes of the server that runs.
fn received(place: &Place<'_>) -> u64 {
    let received = &place.servers()[0]["bucket_volumes"][0]["received"];
    received.as_u64().expect("a number")
}

#[test]
fn a_cache_of_a_volume_that_another_server_had_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    let cached = format!("cache({volume}, box1.cache)");
    let stop = |mut server: Process| {
        server.signal(Signal::TERM).expect("it runs");
        assert!(server.wait(LIMIT).expect("it ends").success());
    };
    write_image(folder.path());
    place.done(&["bucket", "create", &volume, "8M"]);
    let (server, export) = place.serve(&cached, "first");
    place.done(&["copy", "image", &export, "--force"]);
    stop(server);

    let (server, export) = place.serve(&cached, "again");
    place.done(&["copy", &export, "copy", "--force"]);
    assert!(is_image(folder.path(), "copy"));
    let from_store = received(&place);
    assert!(from_store < 1 << 20, "{from_store} bytes: 5 MiB are cached");
    stop(server);

    // Another machine changes one block: the blocks that are compared with the disk are others.
    let mut image = std::fs::read(folder.path().join("image")).expect("a file");
    image[5 << 20..][..4096].fill(7);
    std::fs::write(folder.path().join("image"), image).expect("it is written");
    place.done(&["copy", "image", &volume, "--force"]);
    let (mut server, export) = place.serve(&cached, "behind");
    place.done(&["copy", &export, "copy", "--force"]);
    assert!(is_image(folder.path(), "copy"), "an old block");
    server
        .wait_for_line("the disk was opened without it since", LIMIT)
        .expect("it is in the log");
    stop(server);
}
