//! Disks and exports that are held by what is known of them.

use outboard_tests::image::{Folder, MIB};
use outboard_tests::server::{By, Server};

use super::{SECONDS, alone, doctor, names, runs_long_tests};

#[test]
fn a_throttled_disk_is_named_and_so_is_what_is_below_it() {
    let _alone = alone();
    let folder = Folder::new();
    let disk = "throttle(memory(64M), bytes=10M/s)";
    let told = names(&["disk"], |seconds| doctor(&folder, seconds, &[disk]));
    let rate = told["examination"]["rate"].as_f64().unwrap();
    assert!((8e6..13e6).contains(&rate), "{rate}");
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(evidence.contains("What is below `throttle`"), "{evidence}");
}

#[test]
fn a_throttled_disk_is_named_through_a_server() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let image = folder.at("a.img");
    std::fs::write(&image, vec![7; 32 << 20]).unwrap();
    let server = Server::start(&[&format!("slow=throttle({image}, bytes=10M/s)")]);
    for by in [By::Unix, By::Tcp] {
        let uri = server.uri_by(by, "slow");
        let told = names(&["disk"], |seconds| doctor(&folder, seconds, &[&uri]));
        // The server reports what the disk is made of, so it was measured by itself.
        let bounds = told["examination"]["bounds"].to_string();
        assert!(bounds.contains("by itself"), "{bounds}");
    }
}

#[test]
fn a_queue_that_is_too_short_is_named_and_the_depth_that_helps_is_reported() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&["late=delay(memory(64M), read=10ms)"]);
    let uri = server.uri_by(By::Unix, "late");
    for target in ["delay(memory(64M), read=10ms)", &uri] {
        let told = names(&["queue"], |seconds| {
            doctor(&folder, seconds, &[target, "--depth", "1"])
        });
        let advice = told["verdict"]["advice"].as_str().unwrap();
        assert!(advice.starts_with("Ask for more at once"), "{advice}");
    }
}

/// All 16 requests complete at once, every 170 ms: counted by the clock, a time of 450 ms has two or three of that, which is 9 or
/// 14 MB/s of 12.3.
#[test]
fn what_is_in_flight_when_counting_ends_is_no_part_of_the_rate() {
    let _alone = alone();
    let folder = Folder::new();
    let mut found = Vec::new();
    for _ in 0..super::TRIES {
        let verdict =
            super::diagnosis(&mut doctor(&folder, 9, &["delay(memory(64M), read=170ms)"]));
        let rate = verdict["examination"]["rate"].as_f64().unwrap();
        let best = verdict["examination"]["best"].as_f64().unwrap();
        found.push((rate, best));
        if (11.0e6..12.6e6).contains(&rate) && best < 12.6e6 {
            return;
        }
    }
    panic!("{found:?}");
}

#[test]
fn a_disk_that_is_read_is_not_changed() {
    let _alone = alone();
    let folder = Folder::new();
    let image = folder.at("a.img");
    let bytes: Vec<u8> = (0..16 * MIB).map(|at| (at % 251) as u8).collect();
    std::fs::write(&image, &bytes).unwrap();
    super::diagnosis(&mut doctor(&folder, SECONDS, &[&image]));
    assert!(std::fs::read(&image).unwrap() == bytes);
}
