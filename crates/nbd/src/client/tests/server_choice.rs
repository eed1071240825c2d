//! Which of several servers may be used next, as [`ServerChoice`] has it, without connections.

use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;

use crate::client::session::server_choice::ServerChoice;
use crate::client::{ClientError, Target};

fn choice(text: &str) -> (ServerChoice, Vec<Target>) {
    let target: Target = text.parse().unwrap();
    let servers = target.servers();
    (ServerChoice::new(&target, &servers[0]), servers)
}

fn refusal(server: &Target) -> ClientError {
    ClientError::Connect {
        target: server.clone(),
        source: Arc::new(std::io::ErrorKind::ConnectionRefused.into()),
    }
}

#[test]
fn a_server_is_over_when_it_has_ended_each_connection_and_takes_none() {
    let now = engine::clock::now();
    let (mut choice, servers) = choice("nbd://a,b,c/x");
    assert_eq!(choice.candidates(true, now), servers);
    choice.changed();
    choice.lost(1, 0, now);
    for has_ended_all in [false, true] {
        assert_eq!(choice.candidates(has_ended_all, now), [servers[0].clone()]);
    }
    choice.attempt_failed(&refusal(&servers[0]));
    assert_eq!(choice.candidates(false, now), [servers[0].clone()]);
    assert_eq!(choice.candidates(true, now), servers);
    choice.connected(&servers[1]);
    // Lost before it was known whether it has the disk: it got no change.
    choice.lost(0, 3, now);
    assert_eq!(choice.candidates(false, now), servers);
    choice.connected(&servers[1]);
    assert!(choice.accept(false));
    choice.lost(0, 3, now);
    let [a, b, c] = [&servers[0], &servers[1], &servers[2]].map(Clone::clone);
    assert_eq!(
        choice.candidates(false, now),
        [b.clone(), c.clone(), a.clone()]
    );
    // One that is refused is left out until each was.
    choice.connected(&b);
    choice.refuse("another disk");
    assert_eq!(choice.candidates(false, now), [c.clone(), a.clone()]);
    choice.connected(&c);
    choice.refuse("another disk");
    choice.connected(&a);
    choice.refuse("another disk");
    assert_eq!(choice.candidates(false, now), [b, c, a]);
}

/// A server that is silent may still write; the next one fences it, if both declare that.
#[test]
fn a_server_whose_storage_fences_it_is_not_waited_for() {
    let now = engine::clock::now();
    let (mut choice, servers) = choice("nbd://a,b/x");
    assert!(!choice.accept(true));
    choice.changed();
    choice.lost(1, 3, now);
    assert_eq!(choice.candidates(false, now), servers);
    choice.connected(&servers[1]);
    assert!(!choice.lacks_fence(true));
    assert!(choice.lacks_fence(false), "nothing would end the first one");
    choice.refuse("it does not fence");
    // The same server was started again without: its end is known, since it answers.
    choice.connected(&servers[0]);
    assert!(!choice.lacks_fence(false));
    assert!(!choice.accept(false));
    choice.changed();
    choice.lost(1, 3, now);
    assert_eq!(choice.candidates(false, now), [servers[0].clone()]);
}

/// A reason is worth one line of the log, and one more once the disk was found meanwhile.
#[test]
fn a_reason_to_refuse_a_server_is_new_once() {
    let (mut choice, servers) = choice("nbd://a,b/x");
    for (at, why, is_new) in [
        (0, "smaller", true),
        (1, "smaller", true),
        (0, "smaller", false),
        (0, "another disk", true),
        (1, "smaller", false),
    ] {
        choice.connected(&servers[at]);
        assert_eq!(choice.refuse(why), is_new, "{at}, {why}");
        choice.attempt_failed(&refusal(&servers[at]));
        assert_eq!(choice.candidates(true, engine::clock::now()), servers);
    }
    choice.accept(false);
    choice.connected(&servers[0]);
    assert!(choice.refuse("another disk"));
}

proptest! {
    /// In every order of events, a server that may write is the only candidate.
    #[test]
    fn a_server_in_doubt_is_the_only_candidate(
        events in prop::collection::vec((0..6_u8, any::<bool>(), 0..3_usize), 0..30),
    ) {
        let now: Instant = engine::clock::now();
        let (mut choice, servers) = choice("nbd://a,b/x");
        // What is known without the choice's own account: the last server that got a change that may be carried out.
        let mut current = 0;
        let mut may_write = false;
        let mut has_changed = false;
        let mut is_refusing = false;
        for (event, has_ended_all, count) in events {
            match event {
                0 => { choice.changed(); has_changed = true; }
                1 => {
                    choice.lost(count, 0, now);
                    may_write |= count > 0;
                    is_refusing = false;
                }
                2 => {
                    choice.lost(0, count as u64, now);
                    may_write |= has_changed && count > 0;
                    is_refusing = false;
                }
                3 => {
                    choice.attempt_failed(&refusal(&servers[current]));
                    is_refusing = may_write;
                }
                4 => choice.attempt_failed(&ClientError::Closed { target: servers[current].clone() }),
                _ => {
                    let found = choice.candidates(has_ended_all, now);
                    if may_write && is_refusing && has_ended_all {
                        may_write = false;
                    }
                    match may_write {
                        true => prop_assert_eq!(&found, &[servers[current].clone()]),
                        false => prop_assert_eq!(found.len(), 2),
                    }
                    choice.connected(&found[count % found.len()]);
                    if choice.accept(false) {
                        current = 1 - current;
                        (has_changed, is_refusing) = (false, false);
                    }
                }
            }
        }
    }
}
