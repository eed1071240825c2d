//! Tests that run with nothing else: they compare times, or use a resource of the whole machine.

/// Binary, and the beginnings of its tests' names; an empty beginning is all of them.
pub(super) const EXCLUSIVE: &[(&str, &[&str])] = &[
    // They compare times with limits of a second or less.
    ("nbd", &["client::tests::slow_flush"]),
    (
        "nodes",
        &[
            "array::member_guard::tests",
            "array::mirror::tests::timeouts",
            "array::mirror::tests::steady_load",
        ],
    ),
    // `sync` waits for what every other test has written.
    ("outboard-tests attach_killed", &[""]),
    // They measure disks and wires of this machine.
    ("outboard-tests doctor", &[""]),
    ("outboard-tests lab_wire", &[""]),
];

/// The beginnings that a binary has.
pub(super) fn names(binary: &str) -> &'static [&'static str] {
    EXCLUSIVE
        .iter()
        .find(|(name, _)| *name == binary)
        .map_or(&[], |(_, tests)| *tests)
}

/// Arguments for the tests that run with others; `None` where there are none.
pub(super) fn without(names: &[&str], filter: Option<&str>) -> Option<Vec<String>> {
    if names.contains(&"") {
        return None;
    }
    let mut arguments: Vec<String> = filter.map(str::to_owned).into_iter().collect();
    for name in names {
        arguments.extend(["--skip".to_owned(), (*name).to_owned()]);
    }
    Some(arguments)
}

/// Arguments for the tests that run alone; `None` where there are none.
pub(super) fn only(names: &[&str], filter: Option<&str>) -> Option<Vec<String>> {
    let chosen: Vec<String> = names
        .iter()
        .filter_map(|name| match filter {
            None => Some((*name).to_owned()),
            Some(filter) if name.is_empty() || filter.contains(name) => Some(filter.to_owned()),
            Some(filter) => name.contains(filter).then(|| (*name).to_owned()),
        })
        .filter(|name| !(name.is_empty() && names.len() > 1))
        .collect();
    (!chosen.is_empty()).then_some(chosen)
}
