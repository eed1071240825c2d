//! Targets of which the bytes may come from several places: several servers, a cache file. The doctor measures one and names it.

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB, pattern};
use outboard_tests::server::{Server, free_port};
use serde_json::Value;
use testkit::requires;

use super::{SECONDS, alone, diagnosis, doctor, doctor_in};

/// The first port of a disk on two servers, where nothing listens, and the disk.
fn on_the_second(server: &Server) -> String {
    let (first, second) = (free_port(), server.port());
    format!("nbd://127.0.0.1:{first},127.0.0.1:{second}/")
}

fn has_stage(diagnosis: &Value, stage: &str) -> bool {
    let way = diagnosis["examination"]["way"].as_array();
    way.expect("a way").iter().any(|part| part == stage)
}

#[track_caller]
fn assert_remark(diagnosis: &Value, words: &[&str]) {
    let remarks = &diagnosis["examination"]["remarks"];
    let mut remarks = remarks.as_array().expect("remarks").iter();
    let has_all = |remark: &Value| {
        let text = remark.as_str().unwrap_or_default();
        words.iter().all(|word| text.contains(word))
    };
    assert!(remarks.any(has_all), "{words:?}: {diagnosis:#}");
}

/// The process, the disk and the wire were those of the first address, while the second one was measured.
#[test]
fn of_several_servers_the_one_that_answers_is_examined_and_named() {
    let _alone = alone();
    let folder = Folder::new();
    let mut server = Server::start(&["memory(64M)"]);
    let disk = on_the_second(&server);
    let found = diagnosis(&mut doctor(&folder, SECONDS, &[&disk]));
    let examination = &found["examination"];
    assert_eq!(examination["server"], server.uri(""), "{found:#}");
    let about = examination["about"].as_str().expect("a text");
    let process = format!("process {} of this machine", server.process().id());
    assert!(about.contains(&process), "{about}");
    assert!(about.contains(&server.uri("")), "{about}");
}

#[test]
fn a_mount_of_several_servers_is_examined_with_the_one_in_use() {
    let Some(world) = World::new() else { return };
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&["memory(128M)"]);
    let (disk, mount) = (on_the_second(&server), world.mount_point());
    world.attachment(&disk).ext4().on(&mount).device();
    std::fs::write(format!("{mount}/film"), pattern(16 * MIB, 5)).expect("a file");
    let found = diagnosis(&mut doctor_in(&world, &folder, SECONDS, &[&mount]));
    let examination = &found["examination"];
    assert_eq!(examination["server"], server.uri(""), "{found:#}");
    let about = examination["about"].as_str().expect("a text");
    let used = format!("of which {} is used", server.uri(""));
    assert!(about.contains(&used), "{about}");
    world.run(&["detach", &mount]).ok();
    drop(server);
}

/// A mount through a cache file was examined as a disk of this machine, wherever its bytes came from.
#[test]
fn a_mount_with_a_cache_file_is_examined_by_what_answers() {
    let Some(world) = World::new() else { return };
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&[&folder.empty("root.img", 128 * MIB)]);
    let (uri, mount) = (server.uri(""), world.mount_point());
    // Of the first file all that is read fits, of the second next to nothing.
    for (name, size, origin, stage) in [
        ("large", "512M", "is that file", "disk"),
        ("small", "4M", "behind it.", "server"),
    ] {
        let cache = folder.at(name);
        let options = ["--cache", cache.as_str(), "--cache-size", size];
        let attachment = world.attachment(&uri).with(&options).on(&mount);
        let attachment = match name {
            "large" => attachment.ext4(),
            _ => attachment,
        };
        attachment.device();
        let file = format!("{mount}/film");
        if name == "large" {
            std::fs::write(&file, pattern(48 * MIB, 5)).expect("a file");
        }
        let examine = || diagnosis(&mut doctor_in(&world, &folder, SECONDS, &[&mount]));
        let mut found = examine();
        // The first pass reads from the server, and is most of what a busy machine reads in this time.
        if name == "large" && has_stage(&found, "server") {
            found = examine();
        }
        let used = &found["examination"]["cache"];
        assert_eq!(used["file"], cache, "{found:#}");
        assert_eq!(used["disk"], uri, "{found:#}");
        assert!(has_stage(&found, stage), "{found:#}");
        assert_eq!(has_stage(&found, "server"), name == "small", "{found:#}");
        assert_remark(&found, &[&cache, origin]);
        world.run(&["detach", &mount]).ok();
    }
    drop(server);
}

#[test]
fn what_is_behind_the_cache_file_of_an_expression_is_examined_as_an_export() {
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&["memory(64M)"]);
    let cache = folder.at("cache");
    let disk = format!("cache({}, {cache})", server.uri(""));
    let found = diagnosis(&mut doctor(&folder, SECONDS, &[&disk]));
    assert!(has_stage(&found, "wire"), "{found:#}");
    let measured = format!("what was measured is {}", server.uri(""));
    assert_remark(&found, &[&cache, "was not opened", &measured]);
    assert!(!std::path::Path::new(&cache).exists());
}
