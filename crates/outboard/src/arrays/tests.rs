//! Tests of array reports, and of the program that runs at events.

use std::time::Duration;

use block::Range;
use nodes::array::format::{Level, Version};
use nodes::array::{
    ArrayEvent, ArrayStatus, BitmapStatus, MemberIo, MemberState, MemberStatus, ReshapeLosses,
    ReshapePause, Scrubbed, SyncKind, SyncStatus, Takeover, UntrustedPlaces,
};

use super::hook::{Hook, HookEvent};
use super::report::ArrayReport;
use super::show;
use super::watch::ArrayWatch;

fn status() -> ArrayStatus {
    ArrayStatus {
        name: "nas:media".to_owned(),
        uuid: *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
        level: Level::Raid1,
        layout: 0,
        version: Version::V1_2,
        size: 4 << 30,
        chunk: 0,
        parts: 2,
        working: 2,
        read_only: false,
        clean: true,
        events: 17,
        bitmap: Some(BitmapStatus {
            chunk: 64 << 20,
            chunks: 64,
            dirty: 0,
        }),
        ppl: false,
        journal: false,
        members: vec![of("a.img", Some(0)), of("b.img", Some(1))],
        resync_pending: false,
        sync: None,
        reshape_pause: None,
        reshape_losses: ReshapeLosses::default(),
        untrusted: None,
        taken_over: None,
        scrubbed: None,
    }
}

fn of(name: &str, part: Option<u16>) -> MemberStatus {
    MemberStatus {
        name: name.to_owned(),
        part,
        state: MemberState::InSync,
        write_mostly: false,
        fail_fast: false,
        remote: false,
        corrected: 0,
        io: MemberIo::default(),
        why: None,
    }
}

/// The report of a mirror of `a.img` and `b.img`.
pub(crate) fn mirror() -> ArrayReport {
    ArrayReport::of(Some("films"), &status())
}

#[test]
fn a_healthy_array_is_shown_in_few_lines() {
    assert_eq!(
        show::tree(&mirror()),
        "media: raid1 of 2, 4.00 GiB, complete, clean\n\
         ├─0  a.img  in sync\n\
         └─1  b.img  in sync\n  \
           bitmap  0 of 64 chunks of 64.00 MiB dirty\n  \
           uuid    00112233:44556677:8899aabb:ccddeeff\n  \
           format  superblocks 1.2, 17 events\n  \
           export  films"
    );
    assert_eq!(
        show::line(&mirror()),
        "media: raid1 of 2, 4.00 GiB, complete, clean"
    );
}

#[test]
fn partial_parity_logs_are_shown_as_the_consistency_policy() {
    let mut status = status();
    (status.bitmap, status.ppl) = (None, true);
    let report = ArrayReport::of(None, &status);
    let text = show::tree(&report);
    assert!(text.contains("\n  consistency policy  ppl\n"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["ppl"], true);
}

#[test]
fn a_journal_is_shown_as_the_consistency_policy_and_as_a_member() {
    let mut status = status();
    (status.bitmap, status.journal) = (None, true);
    status.members.push(MemberStatus {
        state: MemberState::Journal,
        ..of("log.img", None)
    });
    let report = ArrayReport::of(None, &status);
    let text = show::tree(&report);
    assert!(text.contains("\n  consistency policy  journal\n"), "{text}");
    assert!(text.contains("log.img"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["journal"], true);
    assert_eq!(json["members"][2]["state"], "journal");
}

/// An array that was never resynced was reported as complete and in use, and its members as in sync.
#[test]
fn an_array_that_was_never_resynced_says_so() {
    let mut status = status();
    status.clean = false;
    status.resync_pending = true;
    let report = ArrayReport::of(None, &status);
    let text = show::tree(&report);
    let expected = "\
        media: raid1 of 2, 4.00 GiB, complete, resync pending\n\
        ├─0  a.img  in sync, resync pending\n\
        └─1  b.img  in sync, resync pending\n";
    assert!(text.starts_with(expected), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["resync_pending"], true);
}

#[test]
fn failures_and_the_running_sync_are_shown() {
    let mut status = status();
    status.working = 1;
    status.clean = false;
    status.members[1].state = MemberState::Failed;
    status.members[1].why = Some("it cannot be written: I/O error".to_owned());
    let mut spare = of("nbd://nas/c", Some(1));
    spare.state = MemberState::Rebuilding(1 << 30);
    spare.remote = true;
    status.members.insert(1, spare);
    status.sync = Some(SyncStatus {
        kind: SyncKind::Recovery,
        done: 1 << 30,
        of: 4 << 30,
        speed: 256 << 20,
        left: Some(Duration::from_secs(12)),
        mismatches: 0,
    });
    let report = ArrayReport::of(None, &status);
    assert_eq!(
        show::tree(&report),
        "media: raid1 of 2, 4.00 GiB, degraded: 1 of 2 parts work, in use\n\
         ├─0  a.img        in sync\n\
         ├─1  nbd://nas/c  rebuilding, remote\n\
         └─1  b.img        failed: it cannot be written: I/O error\n  \
           recovery  ━━━━━━──────────────────  25.0 %, 1.00 GiB of 4.00 GiB, 256.00 MiB/s, 12 s left\n  \
           bitmap    0 of 64 chunks of 64.00 MiB dirty\n  \
           uuid      00112233:44556677:8899aabb:ccddeeff\n  \
           format    superblocks 1.2, 17 events"
    );
    assert_eq!(
        show::line(&report),
        "media: raid1 of 2, 4.00 GiB, degraded: 1 of 2 parts work, in use; recovery 25.0 %, 1.00 GiB of 4.00 GiB, \
         256.00 MiB/s, 12 s left; b.img is failed"
    );
}

#[test]
fn a_scrub_shows_the_first_places_and_the_count() {
    let range = |n: u64| Range::new(n << 20, 4096);
    let scrubbed = |places: u64, repaired, finished| {
        let mut status = status();
        status.scrubbed = Some(Scrubbed {
            mismatches: places * 8,
            places: (0..places).map(range).collect(),
            repaired,
            rewritten: if repaired { places * 4096 } else { 0 },
            finished,
        });
        show::scrub(&ArrayReport::of(None, &status).scrubbed.unwrap())
    };
    assert_eq!(scrubbed(0, false, true), "all copies are identical");
    assert_eq!(
        scrubbed(0, false, false),
        "all copies are identical, ended before its end"
    );
    assert_eq!(
        scrubbed(2, true, true),
        "16 sectors of 512 bytes differed and were repaired, 8192 bytes of bad blocks were rewritten, at 0+4096, 1048576+4096"
    );
    let many = scrubbed(12, false, true);
    assert!(
        many.ends_with(" and 2 more places (--json lists them)"),
        "{many}"
    );
}

#[test]
fn a_report_survives_the_control_socket() {
    let report = mirror();
    let line = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<ArrayReport>(&line).unwrap(), report);
}

fn takeover() -> Takeover {
    Takeover {
        member: "b.img".to_owned(),
        why: "its superblock counts 14 events".to_owned(),
        at: Some(1_795_288_091),
        events: Some(14),
    }
}

#[test]
fn an_array_that_was_taken_over_says_by_which_host_and_when() {
    let status = ArrayStatus {
        taken_over: Some(takeover()),
        ..status()
    };
    let report = ArrayReport::of(None, &status);
    assert_eq!(show::health(&report), "stopped: another host took it over");
    let tree = show::tree(&report);
    let line = "b.img (2026-11-21 19:08:11 UTC): its superblock counts 14 events";
    assert!(tree.contains(line), "{tree}");
    let json = serde_json::to_value(&report).expect("plain data");
    assert_eq!(json["taken_over"]["events"], 14);
    assert_eq!(json["taken_over"]["at"], 1_795_288_091);
}

#[test]
fn a_reshape_that_waits_is_shown_with_the_place_and_why() {
    let status = ArrayStatus {
        reshape_pause: Some(ReshapePause {
            done: 1 << 30,
            of: 4 << 30,
            why: "reshape cannot go on: 4096+4096".to_owned(),
        }),
        reshape_losses: ReshapeLosses {
            places: 2,
            bytes: 12 << 10,
        },
        ..status()
    };
    let report = ArrayReport::of(None, &status);
    let tree = show::tree(&report);
    let line = "at 1.00 GiB of 4.00 GiB: reshape cannot go on: 4096+4096";
    assert!(
        tree.contains("reshape paused") && tree.contains(line),
        "{tree}"
    );
    let json = serde_json::to_value(&report).expect("plain data");
    assert_eq!(json["reshape_paused"]["done"], 1_u64 << 30);
    let line = "12.00 KiB in 2 places that no member can read";
    assert!(
        tree.contains("reshape lost") && tree.contains(line),
        "{tree}"
    );
    assert_eq!(json["reshape_lost"]["places"], 2);
    assert_eq!(json["reshape_lost"]["bytes"], 12 << 10);
    let healthy = serde_json::to_value(mirror()).expect("plain data");
    assert_eq!(healthy.get("reshape_lost"), None);
}

#[test]
fn places_that_may_be_wrong_are_listed_and_counted() {
    let status = ArrayStatus {
        untrusted: Some(UntrustedPlaces {
            places: (0..12).map(|n| Range::new(n << 20, 4096)).collect(),
            count: 15,
            bytes: 15 << 12,
            rest: Some(Range::new(1 << 30, 512)),
        }),
        ..status()
    };
    let report = ArrayReport::of(None, &status);
    let tree = show::tree(&report);
    assert!(tree.contains("15 places, 60.00 KiB, at 0+4096, "), "{tree}");
    assert!(
        tree.contains(" and 5 more places (--json lists them), and in 1073741824+512"),
        "{tree}"
    );
    let json = serde_json::to_value(&report).expect("plain data");
    assert_eq!(
        json["untrusted"]["places"].as_array().map(Vec::len),
        Some(12)
    );
    assert_eq!(json["untrusted"]["count"], 15);
    let back: ArrayReport = serde_json::from_value(json).expect("what a server sends is read");
    assert_eq!(back, report);
}

#[test]
fn events_have_mdadms_names() {
    let watched = ArrayWatch {
        array: "media".to_owned(),
        uuid: "0:0:0:0".to_owned(),
        export: "films".to_owned(),
    };
    let member = || "b.img".to_owned();
    let kind = SyncKind::Check;
    let events = [
        (
            ArrayEvent::Fail {
                member: member(),
                why: "gone".to_owned(),
            },
            "Fail",
            true,
        ),
        (
            ArrayEvent::SpareActive { member: member() },
            "SpareActive",
            true,
        ),
        (ArrayEvent::TakenOver(takeover()), "TakenOver", true),
        (ArrayEvent::DegradedArray, "DegradedArray", false),
        (ArrayEvent::RebuildStarted(kind), "RebuildStarted", false),
        (
            ArrayEvent::RebuildFinished {
                kind,
                mismatches: 8,
            },
            "RebuildFinished",
            false,
        ),
        (
            ArrayEvent::MemberBack { member: member() },
            "MemberBack",
            true,
        ),
        (
            ArrayEvent::BadBlocks {
                place: Range::new(8192, 4096),
            },
            "BadBlocks",
            false,
        ),
        (
            ArrayEvent::ReshapePaused {
                why: "no log".to_owned(),
            },
            "ReshapePaused",
            false,
        ),
    ];
    for (event, name, has_member) in events {
        let told = watched.hook_event(&event);
        assert_eq!((told.event, told.array.as_str()), (name, "media"));
        assert_eq!(told.member, has_member.then(member));
    }
    let told = watched.hook_event(&ArrayEvent::RebuildFinished {
        kind,
        mismatches: 8,
    });
    assert!(
        told.more.contains(&("OUTBOARD_MISMATCHES", "8".to_owned())),
        "{told:?}"
    );
}

fn sample_event(event: &'static str, member: Option<&str>) -> HookEvent {
    HookEvent {
        event,
        array: "media; rm -rf x".to_owned(),
        member: member.map(str::to_owned),
        more: vec![("OUTBOARD_TEXT", "b.img failed: gone".to_owned())],
    }
}

fn on_an_engine<F: Future>(main: impl FnOnce() -> F) -> F::Output {
    let config = engine::Config {
        cores: 1,
        ..engine::Config::default()
    };
    engine::run(&config, |_| main()).expect("the engine starts")
}

#[test]
fn the_program_gets_its_words_in_order_and_no_shell_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = "printf '[%s]' \"$@\" \"$OUTBOARD_EVENT\" \"$OUTBOARD_TEXT\" >> \"$0\"";
    let command = ["/bin/sh", "-c", script, out.to_str().unwrap(), "own"].map(str::to_owned);
    on_an_engine(async || {
        let hook = Hook::start(command.to_vec());
        hook.send(sample_event("Fail", Some("b.img")));
        hook.send(sample_event("DegradedArray", None));
        hook.finish().await;
        // After `finish` events are dropped, and a second `finish` returns at once.
        hook.send(sample_event("Fail", None));
        hook.finish().await;
    });
    assert_eq!(
        std::fs::read_to_string(out).unwrap(),
        "[own][Fail][media; rm -rf x][b.img][Fail][b.img failed: gone]\
         [own][DegradedArray][media; rm -rf x][DegradedArray][b.img failed: gone]"
    );
}

#[test]
fn a_program_that_is_not_there_or_fails_is_no_harm_to_the_next_event() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = "echo x >> \"$0\"; exit 3";
    let failing = ["/bin/sh", "-c", script, out.to_str().unwrap()].map(str::to_owned);
    for command in [failing.to_vec(), vec!["/nonexistent/program".to_owned()]] {
        on_an_engine(async || {
            let hook = Hook::start(command);
            hook.send(sample_event("Fail", None));
            hook.send(sample_event("Fail", None));
            hook.finish().await;
        });
    }
    assert_eq!(std::fs::read_to_string(out).unwrap(), "x\nx\n");
}

#[test]
fn added_members_are_named_for_the_next_start_and_others_are_not() {
    let before = mirror();
    assert_eq!(show::with_newcomers(&before, &before), None);
    let mut now = status();
    now.members[1].state = MemberState::Failed;
    let failed = ArrayReport::of(Some("films"), &now);
    assert_eq!(show::with_newcomers(&before, &failed), None);
    now.members.push(MemberStatus {
        state: MemberState::Rebuilding(4096),
        ..of("/srv/c.img", Some(1))
    });
    let added = ArrayReport::of(Some("films"), &now);
    let disk = show::with_newcomers(&failed, &added);
    assert_eq!(disk.as_deref(), Some("array(a.img, /srv/c.img)"));
}
