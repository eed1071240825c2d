//! The machine of claims against every order of events, and its record against every byte.

use std::path::PathBuf;

use nbd_proto::{AccessMode, ClientToken, WriterPolicy};
use proptest::prelude::*;

use super::record::{Fence, Record};
use super::state::{Decision, FENCES_MAX, Writers};
use super::{ClaimRequest, Denied, WriterId, WriterRules, store};

use AccessMode::{Read, Resume, Shared, Takeover, Write};

fn rules(policy: WriterPolicy) -> WriterRules {
    WriterRules {
        policy,
        record: (policy == WriterPolicy::Fenced).then(|| PathBuf::from("disk.writer")),
    }
}

fn one() -> Writers {
    Writers::new(rules(WriterPolicy::One))
}

/// Connection `connection` of client number `client`.
fn asker(client: u8, connection: u64) -> ClaimRequest {
    ClaimRequest {
        connection,
        who: WriterId::Token(ClientToken::new([client; 16])),
        label: format!("client {client}"),
        now: 1000 + u64::from(client),
    }
}

/// The same without a token.
fn nameless(client: u8, connection: u64) -> ClaimRequest {
    ClaimRequest {
        who: WriterId::Address([10, 0, 0, client].into()),
        ..asker(client, connection)
    }
}

fn busy(client: u8) -> Decision {
    let ClaimRequest { label, now, .. } = asker(client, 0);
    Decision::Denied(Denied::Busy { label, since: now })
}

fn fenced(client: u8) -> Decision {
    let ClaimRequest { label, now, .. } = asker(client, 0);
    Decision::Denied(Denied::Fenced { label, since: now })
}

/// Carries out what is decided, as the shell does where nothing takes time.
fn ask(
    writers: &mut Writers,
    asker: &ClaimRequest,
    mode: AccessMode,
    disk: &mut Option<Record>,
) -> Decision {
    loop {
        match writers.request(asker, mode) {
            Decision::Load(path) => writers.loaded(&path, Ok(disk.clone())),
            Decision::Cut(connections) => connections.iter().for_each(|connection| {
                assert!(writers.is_cut(*connection));
                writers.release(*connection);
            }),
            Decision::Commit(path, record) => {
                if path.is_some() {
                    *disk = Some(record.clone());
                }
                writers.commit(asker, record);
                return Decision::Granted;
            }
            decided => return decided,
        }
    }
}

#[test]
fn a_claim_is_the_client_s_until_its_last_connection_is_over() {
    let mut writers = one();
    assert_eq!(writers.request(&asker(1, 1), Write), Decision::Granted);
    assert_eq!(writers.request(&asker(1, 2), Resume), Decision::Granted);
    assert_eq!(writers.request(&asker(2, 3), Write), busy(1));
    assert_eq!(writers.request(&asker(2, 3), Read), Decision::Granted);
    assert!(writers.release(1));
    assert_eq!(writers.request(&asker(2, 4), Write), busy(1));
    assert!(writers.release(2));
    assert!(!writers.release(2));
    assert_eq!(writers.request(&asker(2, 5), Write), Decision::Granted);
    assert_eq!(writers.figures().generation, 2);
}

#[test]
fn a_client_that_comes_back_is_refused_once_another_has_claimed() {
    let mut writers = one();
    // Nothing is known of before: the server may have been restarted.
    assert_eq!(writers.request(&asker(1, 1), Resume), Decision::Granted);
    writers.release(1);
    assert_eq!(writers.request(&asker(1, 2), Resume), Decision::Granted);
    writers.release(2);
    assert_eq!(writers.request(&asker(2, 3), Write), Decision::Granted);
    assert_eq!(writers.request(&asker(1, 4), Resume), fenced(2));
    writers.release(3);
    // Also when the other one is gone again.
    assert_eq!(writers.request(&asker(1, 5), Resume), fenced(2));
    assert_eq!(writers.request(&asker(2, 6), Resume), Decision::Granted);
}

#[test]
fn a_client_that_takes_over_is_granted_last_and_fences_the_other() {
    let mut writers = one();
    assert_eq!(writers.request(&asker(1, 1), Write), Decision::Granted);
    assert_eq!(writers.request(&asker(1, 2), Resume), Decision::Granted);
    let cut = writers.request(&asker(2, 3), Takeover);
    assert_eq!(cut, Decision::Cut(vec![1, 2]));
    // Other clients wait for it, the holder too.
    assert_eq!(writers.request(&asker(1, 4), Resume), Decision::Wait);
    assert_eq!(writers.request(&asker(3, 5), Takeover), Decision::Wait);
    writers.release(1);
    assert_eq!(
        writers.request(&asker(2, 3), Takeover),
        Decision::Cut(vec![2])
    );
    writers.release(2);
    let Decision::Commit(None, record) = writers.request(&asker(2, 3), Takeover) else {
        panic!("it is not the writer yet")
    };
    assert_eq!(writers.request(&asker(1, 6), Write), Decision::Wait);
    writers.commit(&asker(2, 3), record);
    for mode in [Resume, Write] {
        assert_eq!(writers.request(&asker(1, 7), mode), fenced(2));
        assert_eq!(
            writers.request(&asker(3, 8), mode),
            if mode == Resume { fenced(2) } else { busy(2) }
        );
    }
    // Until it takes over itself.
    let granted = ask(&mut writers, &asker(1, 9), Takeover, &mut None);
    assert_eq!(granted, Decision::Granted);
    assert_eq!(writers.request(&asker(2, 10), Resume), fenced(1));
}

#[test]
fn a_takeover_that_is_given_up_leaves_the_claim_where_it_was() {
    let mut writers = one();
    writers.request(&asker(1, 1), Write);
    writers.request(&asker(2, 2), Takeover);
    assert!(writers.is_cut(1));
    assert!(writers.release(2));
    assert!(!writers.is_cut(1));
    assert_eq!(writers.request(&asker(1, 3), Resume), Decision::Granted);
}

#[test]
fn clients_without_a_token_claim_at_their_first_write_and_are_grouped_by_machine() {
    let mut writers = one();
    assert_eq!(writers.write(&nameless(1, 1)), Ok(()));
    assert_eq!(writers.write(&nameless(1, 2)), Ok(()));
    assert!(matches!(
        writers.write(&nameless(2, 3)),
        Err(Denied::Busy { .. })
    ));
    assert_eq!(writers.request(&asker(1, 4), Write), busy(1));
    writers.release(1);
    writers.release(2);
    assert_eq!(writers.request(&asker(1, 4), Write), Decision::Granted);
    assert!(matches!(
        writers.write(&nameless(1, 5)),
        Err(Denied::Busy { .. })
    ));
    // Where the last writer is recorded, an identity is required.
    let mut writers = Writers::new(rules(WriterPolicy::Fenced));
    assert_eq!(writers.write(&nameless(1, 1)), Err(Denied::Nameless));
}

#[test]
fn one_of_many_is_refused_where_there_is_one_and_all_are_granted_where_there_are_many() {
    let mut writers = one();
    let refused = Decision::Denied(Denied::NotShared);
    assert_eq!(writers.request(&asker(1, 1), Shared), refused);
    let mut writers = Writers::new(rules(WriterPolicy::Many));
    for (client, mode) in [
        (1, Shared),
        (2, Write),
        (3, Takeover),
        (4, Resume),
        (5, Read),
    ] {
        let granted = writers.request(&asker(client, client.into()), mode);
        assert_eq!(granted, Decision::Granted);
    }
    assert_eq!(writers.write(&nameless(6, 6)), Ok(()));
}

#[test]
fn other_rules_end_what_they_do_not_allow() {
    let mut writers = one();
    writers.request(&asker(1, 1), Write);
    // To many: the writer continues.
    assert!(writers.change_rules(rules(WriterPolicy::Many)).is_empty());
    assert_eq!(writers.request(&asker(2, 2), Shared), Decision::Granted);
    assert_eq!(
        writers.change_rules(rules(WriterPolicy::Many)),
        Vec::<u64>::new()
    );
    // To one: clients that wrote together must claim again, and none may before all of them are gone.
    assert_eq!(writers.change_rules(rules(WriterPolicy::One)), [1, 2]);
    assert!(writers.is_cut(1) && writers.is_cut(2));
    assert_eq!(writers.request(&asker(1, 3), Resume), Decision::Wait);
    writers.release(1);
    assert_eq!(writers.request(&asker(1, 3), Resume), Decision::Wait);
    writers.release(2);
    assert_eq!(writers.request(&asker(1, 3), Resume), Decision::Granted);
    // To recorded: the one that is not recorded must claim again.
    assert_eq!(writers.change_rules(rules(WriterPolicy::Fenced)), [3]);
    writers.release(3);
    let mut disk = None;
    assert_eq!(
        ask(&mut writers, &asker(1, 4), Resume, &mut disk),
        Decision::Granted
    );
    assert_eq!(disk.unwrap().token, asker(1, 4).who.token());
}

#[test]
fn what_is_recorded_outlives_the_server() {
    let mut disk = None;
    let mut writers = Writers::new(rules(WriterPolicy::Fenced));
    assert_eq!(
        ask(&mut writers, &asker(1, 1), Write, &mut disk),
        Decision::Granted
    );
    let first = disk.clone().unwrap();
    // The same client again: nothing changes.
    assert_eq!(writers.request(&asker(1, 2), Resume), Decision::Granted);
    assert_eq!(
        ask(&mut writers, &asker(2, 3), Takeover, &mut disk),
        Decision::Granted
    );
    let second = disk.clone().unwrap();
    assert_eq!((first.generation, second.generation), (1, 2));

    let mut again = Writers::new(rules(WriterPolicy::Fenced));
    assert_eq!(ask(&mut again, &asker(1, 1), Resume, &mut disk), fenced(2));
    assert_eq!(ask(&mut again, &asker(1, 2), Write, &mut disk), fenced(2));
    assert_eq!(
        ask(&mut again, &asker(2, 3), Resume, &mut disk),
        Decision::Granted
    );
    assert_eq!(disk, Some(second));
}

#[test]
fn a_record_that_cannot_be_used_refuses_writers_and_no_readers() {
    let mut writers = Writers::new(rules(WriterPolicy::Fenced));
    let Decision::Load(path) = writers.request(&asker(1, 1), Write) else {
        panic!("the record comes first")
    };
    writers.loaded(&path, Err("it is damaged".to_owned()));
    let refused = Decision::Denied(Denied::Record("it is damaged".to_owned()));
    for mode in [Write, Resume, Takeover] {
        assert_eq!(writers.request(&asker(1, 1), mode), refused);
    }
    assert_eq!(writers.request(&asker(1, 1), Read), Decision::Granted);
    // The same where none has a place.
    let policy = WriterPolicy::Fenced;
    let mut writers = Writers::new(WriterRules {
        policy,
        record: None,
    });
    let decided = writers.request(&asker(1, 1), Write);
    assert!(matches!(decided, Decision::Denied(Denied::Record(_))));
}

fn record() -> impl Strategy<Value = Record> {
    let entry = (any::<[u8; 16]>(), any::<u64>(), "[ -~é]{0,40}");
    let fences = prop::collection::vec(entry, 0..FENCES_MAX);
    (any::<u64>(), entry, fences).prop_map(|(generation, (token, since, label), fences)| Record {
        generation,
        token: Some(ClientToken::new(token)),
        label,
        since,
        fences: fences
            .into_iter()
            .map(|(token, since, label)| Fence {
                token: ClientToken::new(token),
                label,
                since,
            })
            .collect(),
    })
}

proptest! {
    #[test]
    fn a_record_is_read_back_as_it_was_written(record in record()) {
        prop_assert_eq!(Record::decode(record.encode().as_bytes()), Ok(record));
    }

    #[test]
    fn a_record_of_which_a_byte_is_wrong_is_not_believed(
        record in record(), at in any::<prop::sample::Index>(), change in 1u8..,
    ) {
        let mut bytes = record.encode().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(Record::decode(&bytes).is_err());
        prop_assert!(Record::decode(&bytes[..at]).is_err());
    }

    #[test]
    fn no_bytes_panic_the_record(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _decoded = Record::decode(&bytes);
        let _decoded = Record::decode(&[b"outboard writer 1\n", &bytes[..]].concat());
    }

    /// For all requests in every order: never two holders, no client writes after it was taken over from,
    /// and the record names the holder.
    #[test]
    fn there_are_never_two_writers(
        is_recorded: bool,
        events in prop::collection::vec((0u8..4, 0u64..6, 0usize..8), 1..80),
    ) {
        let policy = if is_recorded { WriterPolicy::Fenced } else { WriterPolicy::One };
        let mut writers = Writers::new(rules(policy));
        let mut disk = None;
        // Connections that may write, with their clients; the client that was taken over from.
        let mut live: Vec<(u64, u8)> = Vec::new();
        let mut fenced: Vec<u8> = Vec::new();
        let mut next = 0;
        for (client, pick, event) in events {
            match event {
                0..4 => {
                    let mode = [Write, Resume, Takeover, Read][event];
                    next += 1;
                    let asker = asker(client, next);
                    let before = live.first().map(|(_, client)| *client);
                    match ask_cutting(&mut writers, &asker, mode, &mut disk, &mut live) {
                        Decision::Granted if mode == Read => {}
                        Decision::Granted => {
                            prop_assert!(mode == Takeover || !fenced.contains(&client));
                            fenced.retain(|other| *other != client);
                            if let Some(other) = before.filter(|b| *b != client && mode == Takeover) {
                                fenced.push(other);
                            }
                            live.push((next, client));
                        }
                        _ => { writers.release(next); }
                    }
                }
                4 if !is_recorded => {
                    next += 1;
                    // A client without a token is another one than all with one.
                    if writers.write(&nameless(client, next)).is_ok() {
                        live.push((next, client + 100));
                    }
                }
                5 => {
                    // The server is restarted: connections are over, and what is durable counts.
                    writers = Writers::new(rules(policy));
                    live.clear();
                    if !is_recorded { fenced.clear(); }
                }
                _ => {
                    let at = usize::try_from(pick).unwrap();
                    if at < live.len() {
                        writers.release(live.remove(at).0);
                    }
                }
            }
            prop_assert!(live.iter().all(|(_, client)| *client == live[0].1), "{live:?}");
            if is_recorded && let Some((_, client)) = live.first() {
                prop_assert_eq!(disk.as_ref().and_then(|d| d.token), asker(*client, 0).who.token());
            }
        }
    }
}

/// As [`ask`], where connections that are cut are not alive any more.
fn ask_cutting(
    writers: &mut Writers,
    asker: &ClaimRequest,
    mode: AccessMode,
    disk: &mut Option<Record>,
    live: &mut Vec<(u64, u8)>,
) -> Decision {
    let decided = ask(writers, asker, mode, disk);
    if decided == Decision::Granted && mode == Takeover {
        live.retain(|(connection, _)| !writers.is_over(*connection));
    }
    decided
}

#[test]
fn a_record_on_disk_is_replaced_whole_and_what_a_crash_left_is_not_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img.writer");
    assert_eq!(store::load(&path), Ok(None));
    std::fs::write(folder.path().join("disk.img.writer.new"), "half a rec").unwrap();
    let mut record = Record {
        generation: 7,
        token: Some(ClientToken::new([1; 16])),
        label: "10.0.0.1:4711\n".to_owned(),
        since: 1_790_000_000,
        fences: Vec::new(),
    };
    store::save(&path, &record).unwrap();
    record.label = "10.0.0.1:4711?".to_owned();
    assert_eq!(store::load(&path), Ok(Some(record)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace("outboard writer 1", "outboard writer 2");
    for (bytes, said) in [
        (newer, "it is of version 2"),
        (
            text.replace("generation=7", "generation=9"),
            "its checksum does not match",
        ),
        (text[..40].to_owned(), "it is damaged"),
        ("x".repeat(70_000), "it is too long"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let why = store::load(&path).unwrap_err();
        assert!(
            why.contains("disk.img.writer: ") && why.contains(said),
            "{why}"
        );
    }
    let lost = folder.path().join("gone").join("disk.writer");
    assert!(
        store::save(
            &lost,
            &Record {
                generation: 1,
                token: None,
                label: String::new(),
                since: 0,
                fences: Vec::new()
            }
        )
        .is_err()
    );
}
