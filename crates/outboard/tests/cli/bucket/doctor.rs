//! `outboard doctor` of volumes: the store is a part with its own times, and it is the limit where the reads wait for it.
//!
//! The store is versitygw behind a proxy that delays reads by more than a machine that does much else takes for them.

use std::time::Duration;

use testkit::s3::RequestFaults;

use super::{Place, on_s3_with};

/// What the proxy waits before each GET.
const READ_DELAY: Duration = Duration::from_millis(150);

/// Small reads at random, four at once, for about as short a time as the doctor takes.
const JOB: [&str; 7] = [
    "--random",
    "--block-size",
    "4K",
    "--depth",
    "4",
    "--seconds",
    "6",
];

/// Of a store that the reads wait for.
fn names_the_store(place: &Place<'_>, target: &str, volume: &str) {
    let found = place.json(&[&["--json", "doctor", target][..], &JOB].concat());
    let (verdict, examination) = (&found[0]["verdict"], &found[0]["examination"]);
    let cause = &verdict["cause"];
    assert_eq!(cause["kind"], "store", "{found:#}");
    let store = &examination["served"]["stores"][0];
    assert_eq!(&cause["store"], store, "{found:#}");
    assert_eq!(store["volume"], volume);
    assert!(store["get"]["requests"].as_u64() > Some(0), "{store}");
    assert!(store["get"]["in_flight"].as_f64() > Some(2.0), "{store}");
    let latency = store["get"]["latency"].as_u64().map(Duration::from_nanos);
    assert!(latency >= Some(READ_DELAY), "{store}");
    assert!(store["cached"].is_null(), "{store}");
    let sentence = verdict["sentence"].as_str().expect("a text");
    let named = format!("is the store of {volume}, where a GET takes ");
    assert!(sentence.contains(&named), "{sentence}");
    let advice = verdict["advice"].as_str().expect("a text");
    assert!(
        advice.contains("Put a cache in front of the volume"),
        "{advice}"
    );
}

#[test]
fn the_doctor_names_the_store_of_a_volume_and_a_cache_that_answers_in_its_place() {
    let faults = RequestFaults {
        read_delay: READ_DELAY,
        ..RequestFaults::DELAYS
    };
    on_s3_with(faults, |place| names_the_store_and_a_cache(&place));
}

fn names_the_store_and_a_cache(place: &Place<'_>) {
    let volume = format!("{}/lab/root", place.prefix);
    let data: Vec<u8> = (0..2_u32 << 20).flat_map(u32::to_le_bytes).collect();
    std::fs::write(place.folder.join("full"), data).expect("it is written");
    place.done(&["bucket", "create", &volume, "8M"]);
    place.done(&["copy", "full", &volume, "--force"]);
    {
        let (_server, export) = place.serve(&volume, "plain");
        names_the_store(place, &export, &volume);
        let text = place.done(&[&["doctor", &export][..], &JOB].concat());
        assert!(text.contains("\n> store "), "{text}");
    }
    // By the doctor itself, without a server.
    names_the_store(place, &volume, &volume);

    let cached = format!(
        "cache({volume}, {}/cache, size=64M)",
        place.folder.display()
    );
    let (_server, export) = place.serve(&cached, "cached");
    place.done(&["copy", &export, "copy"]);
    let found = place.json(&[&["--json", "doctor", &export][..], &JOB].concat());
    let store = &found[0]["examination"]["served"]["stores"][0];
    assert_eq!(store["volume"], volume, "{found:#}");
    assert_eq!(store["cached"], 1.0, "{found:#}");
    assert_ne!(found[0]["verdict"]["cause"]["kind"], "store", "{found:#}");
}
