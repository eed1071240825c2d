//! Plans are read strictly and written back the same.

use proptest::prelude::*;

use super::*;

fn quick() -> Plan {
    builtin("quick").unwrap()
}

#[test]
fn every_plan_that_comes_with_the_program_is_valid_and_survives_being_written() {
    for plan in list().unwrap() {
        assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
    }
}

#[test]
fn quick_has_the_four_tests_of_the_study_and_fits_in_three_minutes() {
    let plan = quick();
    let tests: Vec<(Pattern, Direction)> = plan
        .workloads
        .iter()
        .map(|w| (w.pattern, w.direction))
        .collect();
    for pattern in [Pattern::Sequential, Pattern::Random] {
        for direction in [Direction::Read, Direction::Write] {
            assert!(tests.contains(&(pattern, direction)));
        }
    }
    assert!(plan.budget.blocks_min >= 5);
    assert!(estimate(&plan, 2).time_max <= Nanos::from_ms(180_000));
}

#[test]
fn an_unknown_key_is_refused_by_name_in_one_line() {
    let text = quick().to_toml().unwrap().replace("layout_ms", "layout_s");
    let message = Plan::parse(&text).unwrap_err().to_string();
    assert!(message.contains("layout_s"), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn an_unknown_plan_names_those_there_are() {
    assert!(builtin("slow").unwrap_err().to_string().contains("quick"));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    type Change = fn(&mut Plan);
    let changes: [(&str, Change); 10] = [
        ("time beyond the limit", |p| {
            p.budget.time_ms = p.budget.limit_ms + 1
        }),
        ("tiny data", |p| p.data.size = Bytes(1024)),
        ("no block", |p| p.budget.blocks_min = 0),
        ("min above max", |p| p.budget.blocks_max = 1),
        ("precision of one", |p| p.budget.precision = 1.0),
        ("no workload", |p| p.workloads.clear()),
        ("a name twice", |p| p.workloads[1].name = "seq-read".into()),
        ("a name with a slash", |p| {
            p.workloads[0].name = "../x".into()
        }),
        ("a block of 1000 bytes", |p| {
            p.workloads[0].block_size = Bytes(1000)
        }),
        ("no depth", |p| p.workloads[0].depth = 0),
    ];
    for (what, change) in changes {
        let mut plan = quick();
        change(&mut plan);
        assert!(
            matches!(plan.check(), Err(LabError::BadPlan { .. })),
            "{what}"
        );
    }
}

#[test]
fn the_estimate_counts_the_first_writing_and_every_block_on_every_target() {
    let mut plan = quick();
    plan.budget.blocks_max = 5;
    let size = plan.data.size.0;
    assert_eq!(
        estimate(&plan, 2).written_max,
        Bytes(size * 2 * (1 + 2 * 5))
    );
    assert_eq!(estimate(&plan, 1).written_max, Bytes(size * (1 + 2 * 5)));
}

#[test]
fn sizes_are_binary_and_nonsense_is_none() {
    assert_eq!(size::parse("4K"), Some(Bytes(4096)));
    assert_eq!(size::parse("512m"), Some(Bytes(512 << 20)));
    for wrong in [
        "",
        "K",
        "4X",
        "-1",
        "4.5M",
        "99999999999999999999",
        "999999999T",
        "4é",
    ] {
        assert_eq!(size::parse(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn a_size_is_read_back_as_it_was_written(bytes in any::<u64>()) {
        prop_assert_eq!(size::parse(&size::format(Bytes(bytes))), Some(Bytes(bytes)));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
        std::hint::black_box(Plan::parse(&text).is_ok());
        std::hint::black_box(size::parse(&text));
    }
}
