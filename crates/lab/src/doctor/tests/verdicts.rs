//! One rule each: what rules a stage out, what makes it a suspect, and how that is reported.

use super::*;
use crate::units::Nanos;

const OURS: [Stage; 7] = [
    Stage::Generator,
    Stage::Queue,
    Stage::Client,
    Stage::Protocol,
    Stage::Wire,
    Stage::Server,
    Stage::Disk,
];

/// What is undecided of a server with this address and this agent.
fn undecided(peer: Option<&str>, agent: Option<&str>) -> String {
    let mut e = way(&OURS, 20.0);
    e.target = "nbd://nas.lan/my film".into();
    e.peer = peer.map(|peer| peer.parse().unwrap());
    e.agent = agent.map(str::to_owned);
    let verdict = diagnose(&e);
    assert!(verdict.limiter.len() > 1, "{verdict:?}");
    let commands = verdict
        .advice
        .lines()
        .filter(|line| line.starts_with("    "));
    for line in commands {
        assert!(
            text(&e, &verdict).contains(line),
            "{line} is not in one piece"
        );
    }
    verdict.advice
}

#[test]
fn no_agent_is_named_for_a_disk_or_a_server_of_this_machine() {
    let verdict = diagnose(&way(&[Stage::Generator, Stage::Queue, Stage::Disk], 20.0));
    assert!(verdict.limiter.len() > 1, "{verdict:?}");
    for advice in [verdict.advice, undecided(None, None)] {
        assert!(!advice.contains("agent"), "{advice}");
    }
}

#[test]
fn what_only_an_agent_can_separate_has_the_commands_that_do() {
    let advice = undecided(Some("192.0.2.7"), None);
    let commands: Vec<&str> = advice
        .lines()
        .filter(|line| line.starts_with("    "))
        .collect();
    let expected = [
        "    outboard tls init tls --name 192.0.2.7",
        "    outboard agent --listen 192.0.2.7 --tls tls --token-file agent.token --allow-iperf3",
        "    outboard doctor 'nbd://nas.lan/my film' --agent 192.0.2.7:10811 --agent-tls tls --agent-token-file agent.token",
    ];
    assert_eq!(commands, expected);
    let advice = undecided(Some("2001:db8::7"), None);
    assert!(advice.contains("--agent [2001:db8::7]:10811 "), "{advice}");
}

#[test]
fn an_agent_that_was_given_is_not_advised_again() {
    let advice = undecided(Some("192.0.2.7"), Some("nas.lan:10811"));
    assert!(
        advice.contains("The agent at nas.lan:10811 does not separate them"),
        "{advice}"
    );
    assert!(!advice.contains("--agent"), "{advice}");
    assert!(advice.contains("--allow-iperf3"), "{advice}");
}

#[test]
fn a_disk_that_substitution_rules_out_is_not_named_by_its_bound() {
    let mut e = way(&OURS, 100.0);
    e.bounds = vec![alone(Stage::Disk, 101.0), alone(Stage::Wire, 110.0)];
    e.substitutions = vec![without(&[Stage::Disk], 100.0)];
    assert_eq!(diagnose(&e).limiter, [Stage::Wire]);
}

#[test]
fn a_substitution_that_may_not_have_taken_place_rules_nothing_out() {
    let mut e = way(&OURS, 100.0);
    e.bounds = vec![alone(Stage::Disk, 101.0), alone(Stage::Wire, 1000.0)];
    e.substitutions = vec![Substitution {
        sure: false,
        ..without(&[Stage::Disk], 100.0)
    }];
    assert_eq!(diagnose(&e).limiter, [Stage::Disk]);
}

#[test]
fn what_is_left_is_named_when_all_others_carry_far_more() {
    let mut e = way(&OURS, 20.0);
    e.bounds = OURS[..6].iter().map(|part| alone(*part, 900.0)).collect();
    e.substitutions = vec![without(&[Stage::Wire, Stage::Server, Stage::Disk], 800.0)];
    let verdict = diagnose(&e);
    assert_eq!(
        (verdict.limiter, verdict.ground),
        (vec![Stage::Disk], VerdictBasis::Elimination)
    );
}

#[test]
fn a_wire_and_a_server_that_were_not_measured_are_not_distinguished() {
    let mut e = way(&OURS, 20.0);
    e.bounds = vec![
        alone(Stage::Generator, 900.0),
        alone(Stage::Client, 900.0),
        alone(Stage::Protocol, 900.0),
    ];
    e.substitutions = vec![
        without(&[Stage::Disk], 20.0),
        without(&[Stage::Wire, Stage::Server, Stage::Disk], 800.0),
    ];
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Wire, Stage::Server]);
    assert!(
        verdict.sentence.contains("wire or server"),
        "{}",
        verdict.sentence
    );
    assert!(!verdict.advice.contains("agent"), "{}", verdict.advice);
}

#[test]
fn a_queue_that_is_too_short_is_named_though_a_faster_disk_would_help_too() {
    let mut e = way(&OURS, 10.0);
    let latency = Nanos::from_ms(200);
    e.bounds = vec![
        Bound::in_flight(e.job.in_flight(), latency).unwrap(),
        alone(Stage::Disk, 300.0),
    ];
    e.substitutions = vec![
        without(&[Stage::Wire, Stage::Server, Stage::Disk], 800.0),
        without(&[Stage::Queue], 40.0),
    ];
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Queue], "{verdict:#?}");
    assert!(
        verdict.advice.contains("128 requests"),
        "{}",
        verdict.advice
    );
}

#[test]
fn more_requests_that_were_tried_and_are_still_too_few_are_not_the_end() {
    let next_with = |deeper: f64| {
        let mut e = way(&OURS, 10.0);
        let latency = Nanos::from_ms(200);
        e.bounds = vec![
            Bound::in_flight(e.job.in_flight(), latency).unwrap(),
            alone(Stage::Disk, 300.0),
        ];
        let more = Substitution::deeper(e.job.depth * 4, "more at once", rate(deeper));
        e.substitutions = vec![more];
        let verdict = diagnose(&e);
        assert_eq!(verdict.limiter, [Stage::Queue], "{verdict:#?}");
        (verdict.next.unwrap(), verdict.advice)
    };
    let (next, advice) = next_with(40.0);
    assert_eq!(next.part, Some(Stage::Queue));
    assert!(advice.contains("about 128 requests"), "{advice}");
    assert!(advice.contains("met no other limit"), "{advice}");
    // Another limit was met, though none is known there.
    let (next, advice) = next_with(25.0);
    assert_eq!(next.part, None);
    assert!(advice.contains("reach the next wall"), "{advice}");
}

#[test]
fn a_thread_that_encrypts_is_held_by_the_cipher() {
    let mut e = way(&OURS, 200.0);
    e.way.insert(3, Stage::Cipher);
    let busy = cpu(0.97, 0.0, Some(0.7));
    e.bounds = vec![Bound::busy(Stage::Server, e.rate, busy).unwrap()];
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Cipher]);
    assert!(verdict.evidence[0].contains("70 % of it encryption"));
}

#[test]
fn a_core_that_others_have_is_reported_with_what_to_do() {
    let mut e = way(&OURS, 200.0);
    e.bounds = vec![Bound::busy(Stage::Server, e.rate, cpu(0.48, 0.5, None)).unwrap()];
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Server]);
    assert!(
        verdict.evidence[0].contains("got a core for 48 %"),
        "{:?}",
        verdict.evidence
    );
    assert!(verdict.advice.starts_with("Move what else runs"));
}

#[test]
fn a_cache_that_answers_hides_the_rest_and_is_said_as_such() {
    let mut e = way(
        &[Stage::Generator, Stage::Queue, Stage::Cache, Stage::Disk],
        3000.0,
    );
    e.bounds = vec![alone(Stage::Disk, 200.0)];
    e.signs = vec![Sign {
        part: Stage::Cache,
        text: "All of it came from memory.".into(),
    }];
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Cache]);
    assert_eq!(verdict.evidence[0], "All of it came from memory.");
}

#[test]
fn the_text_has_every_part_and_marks_the_one_that_is_named() {
    let mut e = way(&OURS, 100.0);
    e.bounds = vec![alone(Stage::Wire, 105.0), alone(Stage::Disk, 180.0)];
    let said = text(&e, &diagnose(&e));
    assert!(said.contains("\n> wire "), "{said}");
    assert!(OURS.iter().all(|part| said.contains(part.name())), "{said}");
    assert!(said.contains("Next, the disk comes at 189 MB/s"), "{said}");
    assert!(
        said.lines().all(|line| line.chars().count() <= 100),
        "{said}"
    );
}

#[test]
fn what_went_at_the_targets_own_rate_is_not_named_where_a_thread_is_at_its_end() {
    let mut e = way(&OURS, 980.0);
    e.bounds = vec![
        Bound::at_least(Stage::Protocol, rate(990.0), "a null export"),
        Bound::at_least(Stage::Wire, rate(990.0), "a null export"),
        Bound::busy(Stage::Client, e.rate, cpu(0.5, 0.46, None)).unwrap(),
    ];
    e.substitutions = vec![without(&[Stage::Wire, Stage::Server, Stage::Disk], 990.0)];
    assert_eq!(diagnose(&e).limiter, [Stage::Client]);
}

#[test]
fn a_slower_result_says_nothing_of_what_was_replaced() {
    let mut e = way(&OURS, 100.0);
    e.bounds = vec![alone(Stage::Disk, 101.0)];
    e.substitutions = vec![without(&[Stage::Disk], 30.0)];
    assert_eq!(diagnose(&e).limiter, [Stage::Disk]);
}

#[test]
fn what_is_faster_than_an_unsteady_targets_middle_has_not_moved_yet() {
    let mut e = way(&OURS, 100.0);
    e.best = rate(180.0);
    e.bounds = vec![Bound::busy(Stage::Client, e.rate, cpu(0.1, 0.8, None)).unwrap()];
    e.substitutions = vec![without(&[Stage::Wire, Stage::Server, Stage::Disk], 200.0)];
    assert_eq!(diagnose(&e).limiter, [Stage::Client]);
}

#[test]
fn a_rate_of_few_requests_says_how_uncertain_it_is() {
    let mut e = way(&OURS, 10.0);
    let moved = |e: &mut Examination, mib: u64| {
        e.in_flight_part = e.job.in_flight().0 as f64 / (mib * MIB) as f64;
        e.remark_in_flight(Bytes(mib * MIB));
    };
    moved(&mut e, 100);
    assert!(e.remarks.is_empty(), "{:?}", e.remarks);
    moved(&mut e, 10);
    assert!(
        e.remarks[0].contains("as uncertain as 20 %"),
        "{:?}",
        e.remarks
    );
}

/// The disk was named: a null export takes less of the processor for each request, so that it carried more with the quota of
/// the server used up.
#[test]
fn a_server_at_its_quota_is_not_ruled_out_by_an_export_that_costs_it_less() {
    let throttled = CpuUse {
        quota: Some(Quota {
            file: "/sys/fs/cgroup/nbd.slice/cpu.max".into(),
            cores: 0.01,
            throttled: 1.0,
        }),
        ..cpu(0.01, 0.0, None)
    };
    let mut e = way(&OURS, 4.0);
    e.bounds = vec![
        Bound::busy(Stage::Server, e.rate, throttled).expect("it is not idle"),
        Bound::busy(Stage::Client, e.rate, cpu(0.05, 0.0, None)).expect("it is not idle"),
    ];
    e.substitutions = vec![without(&[Stage::Disk], 9.0)];
    assert_eq!(diagnose(&e).limiter, [Stage::Server]);
    // With time to spare, the server did not carry more than it can.
    e.bounds[0] = Bound::busy(Stage::Server, e.rate, cpu(0.3, 0.0, None)).expect("it is not idle");
    assert_eq!(diagnose(&e).limiter, [Stage::Disk]);
}
