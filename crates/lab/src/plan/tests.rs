//! Plans are read strictly and written back the same.

use proptest::prelude::*;

use super::*;
use crate::units::Nanos;

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
        .map(|w| w.fio().map(|job| (job.pattern, job.direction)).unwrap())
        .collect();
    for pattern in [Pattern::Sequential, Pattern::Random] {
        for direction in [Direction::Read, Direction::Write] {
            assert!(tests.contains(&(pattern, direction)));
        }
    }
    let fsync = plan.workloads.last().and_then(Workload::fio).unwrap();
    assert_eq!(
        (fsync.block_size, fsync.depth, fsync.jobs),
        (Bytes(4096), 1, 1)
    );
    assert_eq!(fsync.options["fsync"], "1");
    assert!(plan.budget.blocks_min >= 5);
    assert!(estimate(&plan, 2).time_max <= Nanos::from_ms(180_000));
}

/// It wrote 10.6 GB to a disk that could be a card; then three targets ended after one block, by the bytes.
#[test]
fn quick_writes_at_most_a_gibibyte_to_any_targets_and_makes_its_least_number_of_blocks_of_that() {
    assert_eq!(quick().budget.written_max, Some(Bytes(1 << 30)));
    for targets in 1..=6 {
        let mut plan = quick().fitted(targets);
        plan.check().unwrap();
        assert_eq!(plan.fitted(targets), plan, "a run that goes on");
        assert_eq!(plan == quick(), targets <= 2, "{targets}");
        assert!(
            plan.data.size >= Bytes(64 << 20),
            "{targets}: {}",
            plan.data.size
        );
        assert!(estimate(&plan, targets).written_max <= Bytes(1 << 30));
        plan.budget.blocks_max = plan.budget.blocks_min;
        plan.budget.written_max = None;
        let written = estimate(&plan, targets).written_max;
        assert!(written <= Bytes(1 << 30), "{targets}: {written}");
        let time = estimate(&plan, targets);
        let cells = u64::from(targets) * 5 * u64::from(plan.budget.blocks_min);
        assert!(time.time_max >= Nanos::from_ms(cells * 2000), "{targets}");
    }
}

#[test]
fn a_plan_of_other_bounds_is_fitted_and_stays_valid() {
    for plan in list().unwrap() {
        for (targets, mib) in [(1, 1), (2, 100), (9, 100), (64, 4000)] {
            let mut plan = plan.clone();
            plan.budget.written_max = Some(Bytes(mib << 20));
            let fitted = plan.fitted(targets);
            fitted.check().unwrap();
            assert_eq!(fitted.fitted(targets), fitted);
            assert!(fitted.data.size <= plan.data.size);
        }
    }
}

#[test]
fn every_row_of_the_studies_has_a_plan_that_says_what_it_repeats() {
    let names: Vec<String> = list().unwrap().into_iter().map(|plan| plan.name).collect();
    let wanted = [
        "quick",
        "raspi-nbd",
        "layers",
        "filesystems",
        "partitions",
        "disks",
        "programs",
        "dm-linear",
        "thermal",
        "network",
        "remote-fs",
        "block-size",
        "queue-depth",
        "connections",
        "mirror",
        "uneven-mirror",
        "raid-levels",
        "raid-smb",
        "wire-speeds",
        "clients",
        "replay",
        "object-stores",
    ];
    assert_eq!(names, wanted);
    for plan in list().unwrap() {
        let asked_by_nobody = ["quick", "queue-depth", "connections", "object-stores"];
        let silent = asked_by_nobody.contains(&plan.name.as_str());
        assert_eq!(plan.repeats.is_none(), silent, "{}", plan.name);
    }
}

#[test]
fn a_small_plan_keeps_every_target_and_every_test_and_is_valid() {
    for plan in list().unwrap() {
        let small = plan.small();
        small.check().unwrap();
        assert_eq!(small.targets, plan.targets, "{}", plan.name);
        assert!(small.data.size <= plan.data.size);
        assert_eq!((small.budget.blocks_min, small.budget.blocks_max), (1, 1));
        let names = |plan: &Plan| -> BTreeSet<String> {
            let name = |one: &Workload| match &one.series {
                Some(series) => series.name.clone(),
                None => one.name.clone(),
            };
            plan.workloads.iter().map(name).collect()
        };
        assert_eq!(names(&small), names(&plan), "{}", plan.name);
        let time: u64 = small.workloads.iter().map(|one| one.usual().0).sum();
        assert!(time < 40_000_000_000, "{} takes {time} ns", plan.name);
    }
}

#[test]
fn a_small_curve_has_its_first_and_its_last_point() {
    let small = builtin("queue-depth").unwrap().small();
    let names: Vec<&str> = small
        .workloads
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["read-1", "read-256", "write-1", "write-256"]);
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
            p.workloads[0].fio_mut().unwrap().block_size = Bytes(1000)
        }),
        ("no depth", |p| p.workloads[0].fio_mut().unwrap().depth = 0),
    ];
    for (what, change) in changes {
        let mut plan = quick();
        change(&mut plan);
        assert!(matches!(plan.check(), Err(LabError::BadPlan(_))), "{what}");
    }
}

#[test]
fn the_estimate_counts_the_first_writing_and_every_block_on_every_target() {
    let mut plan = quick();
    plan.budget.blocks_max = 5;
    plan.budget.written_max = None;
    plan.workloads.truncate(4);
    for workload in &mut plan.workloads {
        workload.fio_mut().unwrap().bytes_max = Bytes(0);
    }
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

/// A plan with targets of every kind, tools and sweeps.
const WHOLE: &str = r#"
name = "whole"
summary = "Everything that a plan can say."
repeats = "study B, figures 5 to 8"
baseline = "disk"
[data]
size = "64M"
layout_ms = 1000
[budget]
blocks_min = 5
blocks_max = 9
time_ms = 1000
limit_ms = 2000
precision = 0.03
[[target]]
name = "here"
kind = "directory"
path = "."
[[target]]
name = "disk"
title = "One disk"
needs = ["root"]
kind = "disk"
disk = "{a}"
images = [{ name = "a", size = "1G" }]
filesystem = "ext4"
via = "fuse"
[[target]]
name = "loop"
kind = "disk"
disk = "{b}"
images = [{ name = "b", size = "512M" }]
filesystem = "ext4"
on = "disk"
[[target]]
name = "served"
kind = "served"
disk = "{c}"
images = [{ name = "c", size = "512M" }]
filesystem = "ext4"
transport = "tcp"
[[target]]
name = "nfs"
kind = "mount"
type = "nfs"
on = "disk"
[[target]]
name = "raw"
kind = "raw"
uri = "nbd://localhost/c"
[[workload]]
name = "read"
title = "Sequential read"
pattern = "sequential"
direction = "read"
depth = 1
jobs = 1
runtime_ms = 100
options = { rate_iops = "100" }
sweep = { block_size = ["4K", "12K", "1M"] }
[[workload]]
name = "many"
title = "dbench"
on = ["disk", "loop"]
tool = "dbench"
runtime_ms = 2000
sweep = { clients = [1, 4] }
"#;

#[test]
fn a_plan_has_targets_of_every_kind_and_its_sweeps_become_points_of_a_curve() {
    let plan = Plan::parse(WHOLE).unwrap();
    assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
    let names: Vec<&str> = plan.workloads.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(
        names,
        ["read-4k", "read-12k", "read-1m", "many-1", "many-4"]
    );
    let series = plan.workloads[1].series.as_ref().unwrap();
    assert_eq!((series.name.as_str(), series.point), ("read", 12 << 10));
    assert_eq!(series.varies, Varies::BlockSize);
    assert_eq!(plan.workloads[1].title, "Sequential read, 12 KiB");
    assert_eq!(plan.workloads[1].fio().unwrap().block_size, Bytes(12 << 10));
    assert!(plan.workloads[4].tool().is_some());
    assert!(plan.workloads[4].is_for("loop") && !plan.workloads[4].is_for("nfs"));
    assert_eq!(plan.targets[2].on(), Some("disk"));
    assert!(plan.targets[5].is_read_only() && !plan.targets[1].is_read_only());
}

#[test]
fn the_estimate_counts_a_test_only_on_the_targets_it_is_for_and_writes_nothing_that_is_only_read() {
    let mut plan = Plan::parse(WHOLE).unwrap();
    let size = plan.data.size.0;
    // Five of six are written once; what is read is not counted, nor is dbench, which has no bound.
    assert_eq!(estimate(&plan, 6).written_max, Bytes(size * 5));
    plan.workloads.truncate(1);
    plan.workloads[0].fio_mut().unwrap().direction = Direction::Write;
    assert_eq!(estimate(&plan, 6).written_max, Bytes(size * (5 + 5 * 9)));
    plan.workloads[0].on = vec!["disk".into()];
    assert_eq!(estimate(&plan, 6).written_max, Bytes(size * (5 + 9)));
}

#[test]
fn the_estimate_counts_what_tools_write_where_that_has_a_bound() {
    let with = |tool: &str| {
        let from = WHOLE.find("[[workload]]").unwrap();
        let test = "[[workload]]\nname = \"a\"\ntitle = \"a\"\non = [\"disk\", \"loop\"]\n";
        let plan = Plan::parse(&format!("{}{test}{tool}", &WHOLE[..from])).unwrap();
        (estimate(&plan, 6), u64::from(plan.budget.blocks_max))
    };
    let (found, blocks) = with("tool = \"bonnie++\"\nsize = \"64M\"\nfiles = 1");
    let each = 2 * ((64 << 20) + 1024 * 4096);
    assert_eq!(found.written_max, Bytes(2 * blocks * each));
    assert_eq!(found.space, Bytes(each), "no file is written for fio");
    let (found, _) = with("tool = \"dbench\"\nclients = 1\nruntime_ms = 2000");
    assert_eq!((found.written_max, found.space), (Bytes(0), Bytes(0)));
    let (found, blocks) =
        with("tool = \"clients\"\nclients = 3\nbytes = \"8M\"\nblock_size = \"4K\"\ndepth = 1");
    assert_eq!(found.written_max, Bytes(2 * blocks * (8 << 20)));
    // The tree is there once, its archive is made in each block.
    let (found, blocks) = with("tool = \"tar\"\nbytes_max = \"8M\"");
    assert!(found.written_max > Bytes(2 * (blocks + 1) * (8 << 20)));
}

proptest! {
    #[test]
    fn a_place_in_hundredths_is_in_the_data_and_what_is_used_from_there_too(
        size in 0..u64::MAX / 2, place in 0..100u32, extent in 0..1u64 << 40
    ) {
        let mut plan = builtin("quick").unwrap();
        let job = plan.workloads[0].fio_mut().unwrap();
        (job.place, job.extent) = (place, Bytes(extent));
        let (begin, room) = (job.begin(Bytes(size)).0, job.room(Bytes(size)).0);
        prop_assert!(begin <= size && begin.is_multiple_of(1 << 20));
        prop_assert!(u128::from(begin) * 100 <= u128::from(size) * u128::from(place));
        prop_assert!(u128::from(begin + (1 << 20)) * 100 >= u128::from(size) * u128::from(place));
        prop_assert!(begin + room <= size && (extent == 0 || room <= extent));
    }
}

#[test]
fn a_plan_survives_json_as_well() {
    let plan = Plan::parse(WHOLE).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn what_makes_no_sense_of_a_plan_with_targets_is_refused_by_name_in_one_line() {
    let changes = [
        ("path = \".\"", "path = \".\"\nfiles = 3", "files"),
        ("via = \"fuse\"", "via = \"magic\"", "magic"),
        (
            "on = \"disk\"\n[[target]]\nname = \"served\"",
            "on = \"later\"\n[[target]]\nname = \"served\"",
            "later",
        ),
        ("baseline = \"disk\"", "baseline = \"none\"", "none"),
        ("name = \"raw\"", "name = \"nfs\"", "nfs"),
        (
            "depth = 1",
            "depth = 1\nplace = 100",
            "a place from 0 to 99",
        ),
        (
            "depth = 1",
            "depth = 1\nplace = 1\noffset = \"1M\"",
            "one of them",
        ),
        (
            "uri = \"nbd://localhost/c\"",
            "",
            "one of disk, device and uri",
        ),
        ("rate_iops", "filename", "filename"),
        (
            "clients = [1, 4]",
            "clients = [1, 4], depth = [1]",
            "one key",
        ),
        ("tool = \"dbench\"", "tool = \"dbunch\"", "dbunch"),
        (
            "tool = \"dbench\"",
            "tool = \"dbench\"\nclients = 4",
            "swept and set",
        ),
        ("runtime_ms = 2000", "runtime_ms = 2000\nmercy = 1", "mercy"),
        ("on = [\"disk\", \"loop\"]", "on = [\"disc\"]", "disc"),
        ("depth = 1\n", "depth = 1\ndeep = 1\n", "deep"),
        ("summary =", "colour = 1\nsummary =", "colour"),
    ];
    for (from, to, named) in changes {
        let text = WHOLE.replacen(from, to, 1);
        assert_ne!(text, WHOLE, "{from}");
        let message = Plan::parse(&text).unwrap_err().to_string();
        assert!(message.contains(named), "{to}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}
