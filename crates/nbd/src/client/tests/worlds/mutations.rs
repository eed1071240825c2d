//! Each fault of the client that a [`Mutation`] turns on is found by the worlds that CI plays.

use super::record::Invariant::{self, *};
use super::{Kind, WORLDS, play, play_with};
use crate::client::session::mutation::Mutation;

/// Plays worlds with `mutation` until one violates an invariant, which has to be one of `expected`.
#[track_caller]
fn is_found(mutation: Mutation, expected: &[Invariant]) {
    is_found_in(Kind::OneHost, mutation, expected);
}

#[track_caller]
fn is_found_in(kind: Kind, mutation: Mutation, expected: &[Invariant]) {
    let mut worlds = (0..WORLDS).map(|seed| (seed, play_with(Some(mutation), kind, seed)));
    let found = worlds.find_map(|(seed, played)| Some((seed, played.violation?)));
    let Some((seed, violation)) = found else {
        panic!("no world finds {mutation:?}");
    };
    let is_expected = expected.contains(&violation.invariant);
    assert!(is_expected, "world {seed}, {mutation:?}: {violation}");
}

#[test]
fn worlds_find_a_client_that_goes_on_with_another_disk() {
    let expected = [OnlyTheAttachedDiskIsWritten, AcknowledgedWritesAreReadBack];
    is_found(Mutation::AnyDisk, &expected);
}

#[test]
fn worlds_find_a_client_that_takes_requests_before_it_knows_its_disk() {
    let expected = [OnlyTheAttachedDiskIsWritten, AcknowledgedWritesAreReadBack];
    is_found(Mutation::OpenBeforeVerification, &expected);
}

#[test]
fn worlds_find_a_client_that_keeps_the_past_after_a_timeout() {
    let expected = [FailedRequestsAreNotSent, NoFlushSucceedsAfterAFailure];
    is_found(Mutation::TimeoutKeepsThePast, &expected);
}

#[test]
fn worlds_find_a_client_whose_flush_succeeds_after_one_failed() {
    let expected = [FailedRequestsAreNotSent, NoFlushSucceedsAfterAFailure];
    is_found(Mutation::FailedFlushIsForgotten, &expected);
}

#[test]
fn worlds_find_a_flush_that_succeeds_while_another_one_takes_its_error() {
    is_found(Mutation::FlushesInAnyOrder, &[FlushedDataSurvive]);
}

#[test]
fn worlds_find_a_journal_that_is_written_again_in_another_order() {
    let expected = [AcknowledgedWritesAreReadBack, FlushedDataSurvive];
    is_found(Mutation::ReplayBackwards, &expected);
}

#[test]
fn worlds_find_new_requests_that_are_sent_before_the_journal_was() {
    let expected = [
        AcknowledgedWritesAreReadBack,
        FlushedDataSurvive,
        // It does not wait for the verification either.
        OnlyTheAttachedDiskIsWritten,
        // It also confuses the session, which then ends.
        FailuresHaveAReason,
    ];
    is_found(Mutation::NewBeforeReplay, &expected);
}

#[test]
fn worlds_find_a_journal_that_undoes_durable_writes() {
    is_found(Mutation::OlderWritesAreReplayed, &[FlushedDataSurvive]);
}

#[test]
fn worlds_find_a_client_that_uses_a_server_that_refuses_the_journal() {
    let expected = [AcknowledgedWritesAreReadBack, FlushedDataSurvive];
    is_found(Mutation::RefusedReplayIsIgnored, &expected);
}

#[test]
fn worlds_find_a_journal_that_keeps_too_little() {
    let expected = [AcknowledgedWritesAreReadBack, FlushedDataSurvive];
    is_found(Mutation::NoJournal, &expected);
    is_found(Mutation::JournalWithoutDurableWrites, &expected);
    is_found(Mutation::JournalWithoutZeroes, &expected);
    is_found(Mutation::FlushCoversLaterWrites, &expected);
}

#[test]
fn worlds_find_bytes_that_are_sent_after_their_connection_was_given_up() {
    is_found(Mutation::AbandonedBytesAreSent, &[FailedRequestsAreNotSent]);
}

#[test]
fn worlds_find_requests_that_never_end() {
    is_found(Mutation::NoTimeLimits, &[EveryRequestEnds]);
    is_found(Mutation::FencedIsUnreachable, &[EveryRequestEnds]);
}

#[test]
fn worlds_find_a_client_that_uses_another_server_before_the_one_before_has_ended() {
    let expected = [OneServerAtATime];
    is_found_in(Kind::TwoHosts, Mutation::ServersAreNotDoubted, &expected);
    is_found_in(Kind::TwoHosts, Mutation::RefusalIsTheEnd, &expected);
}

#[test]
fn worlds_find_a_client_whose_connections_lead_to_several_servers() {
    let expected = [OneServerAtATime];
    is_found_in(Kind::TwoHosts, Mutation::ConnectionsAnywhere, &expected);
}

#[test]
fn worlds_of_two_standbys_find_a_client_without_a_journal() {
    let expected = [AcknowledgedWritesAreReadBack, FlushedDataSurvive];
    is_found_in(Kind::TwoStandbys, Mutation::NoJournal, &expected);
    is_found_in(Kind::TwoStandbys, Mutation::ReplayBackwards, &expected);
}

/// The fault is the servers'.
#[test]
fn worlds_find_servers_that_do_not_know_that_they_were_fenced() {
    let mut worlds = (0..WORLDS).map(|seed| (seed, play(Kind::Unconfirmed, seed)));
    let found = worlds.find_map(|(seed, played)| Some((seed, played.violation?)));
    let (seed, violation) = found.expect("a world finds them");
    let expected = [
        AcknowledgedWritesAreReadBack,
        FlushedDataSurvive,
        // Each flush ends the connection, and the client is admitted again.
        EveryRequestEnds,
    ];
    let is_expected = expected.contains(&violation.invariant);
    assert!(is_expected, "world {seed}: {violation}");
}
