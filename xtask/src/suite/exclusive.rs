//! Tests that do not run among the others of their binary: exclusive ones run with nothing else, because they compare
//! times or use a resource of the whole machine; limited ones run beside everything, but few of them at once.

/// Tests of a binary, few of which run at once.
#[derive(Debug)]
pub(super) struct LimitedTests {
    pub(super) binary: &'static str,
    /// The beginning of their names.
    pub(super) beginning: &'static str,
    pub(super) at_once: usize,
}

/// They wait for other programs most of the time, and would hold all the threads of their binary for minutes. They are
/// started first.
pub(super) const LIMITED: &[LimitedTests] = &[LimitedTests {
    binary: "outboard cli",
    beginning: "lab_plans::",
    at_once: 2,
}];

/// Binary, and the beginnings of its tests' names; an empty beginning is all of them.
pub(super) const EXCLUSIVE: &[(&str, &[&str])] = &[
    // They compare times with limits of a second or less.
    ("nbd", &["client::tests::slow_flush"]),
    // `sync` waits for what every other test has written.
    ("outboard-tests attach_kill", &[""]),
    // They measure as a user does: a run waits until the machine is idle and until what others have written is on its disks.
    (
        "outboard cli",
        &[
            "graph::the_lab",
            "lab_bad_input::a_second_run",
            "lab_permissions::",
            "lab_places::",
        ],
    ),
    // They measure disks and wires of this machine.
    ("outboard-tests doctor", &[""]),
    ("outboard-tests lab_wire", &[""]),
];

/// The exclusive tests that a binary has, by the beginnings of their names.
pub(super) fn names(binary: &str) -> &'static [&'static str] {
    EXCLUSIVE
        .iter()
        .find(|(name, _)| *name == binary)
        .map_or(&[], |(_, tests)| *tests)
}

/// The limited tests that a binary has.
pub(super) fn limited(binary: &str) -> impl Iterator<Item = &'static LimitedTests> {
    LIMITED.iter().filter(move |tests| tests.binary == binary)
}

/// Arguments for the tests that run with others, where `selected` names all that run or is none; `None` where there are
/// none.
pub(super) fn without(beginnings: &[&str], selected: Option<&[String]>) -> Option<Vec<String>> {
    match selected {
        Some(selected) => exact(selected, |test| !begins(test, beginnings)),
        None if beginnings.contains(&"") => None,
        None => {
            let skip = |name: &&str| ["--skip".to_owned(), (*name).to_owned()];
            Some(beginnings.iter().flat_map(skip).collect())
        }
    }
}

/// Arguments for the tests with these beginnings, where `selected` names all that run or is none; `None` where there are
/// none.
pub(super) fn only(beginnings: &[&str], selected: Option<&[String]>) -> Option<Vec<String>> {
    match selected {
        Some(selected) => exact(selected, |test| begins(test, beginnings)),
        None if beginnings.is_empty() => None,
        None => Some(beginnings.iter().map(|name| (*name).to_owned()).collect()),
    }
}

fn begins(test: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|name| test.starts_with(name))
}

fn exact(selected: &[String], is_in: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let tests = selected.iter().filter(|test| is_in(test));
    let tests: Vec<String> = tests.cloned().collect();
    (!tests.is_empty()).then(|| [vec!["--exact".to_owned()], tests].concat())
}
