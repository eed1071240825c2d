//! Tests of the words and events of moves.

use super::hook_event;
use super::report::{MoveProgress, MoveReport};

fn report(state: MoveProgress) -> MoveReport {
    MoveReport {
        group: "vg0".to_owned(),
        from: "a.img".to_owned(),
        to: vec!["b.img".to_owned(), "c.img".to_owned()],
        state,
        why: (state == MoveProgress::Failed).then(|| "b.img cannot be written".to_owned()),
        bytes: 8 << 20,
        copied: 2 << 20,
    }
}

#[test]
fn a_line_says_how_far_a_move_is_and_why_it_ended() {
    assert_eq!(
        report(MoveProgress::Running).line(),
        "move of vg0: 2.00 MiB of 8.00 MiB copied from a.img to b.img and c.img"
    );
    assert_eq!(
        report(MoveProgress::Failed).line(),
        "move of vg0: the move away from a.img failed: b.img cannot be written"
    );
}

#[test]
fn the_program_gets_the_end_of_a_move_once() {
    assert_eq!(hook_event(&report(MoveProgress::Running)), None);
    assert_eq!(hook_event(&report(MoveProgress::Stopped)), None);
    let event = hook_event(&report(MoveProgress::Failed)).expect("an event");
    assert_eq!((event.event, &*event.array), ("VolumeMoveFailed", "vg0"));
    assert_eq!(event.member.as_deref(), Some("a.img"));
    let done = hook_event(&report(MoveProgress::Done)).expect("an event");
    assert_eq!(done.event, "VolumeMoveFinished");
}
