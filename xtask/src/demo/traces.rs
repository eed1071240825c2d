//! What something that ran in a folder may leave behind: the folder, mounts, loop devices, processes.

use std::path::Path;

/// Everything on this machine that still names `folder`.
pub(super) fn of(folder: &Path) -> Vec<String> {
    let here = folder.to_string_lossy().into_owned();
    let mut found = Vec::new();
    if folder.exists() {
        found.push(format!("folder {here}"));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_ours = mounts.lines().filter(|line| line.contains(&here));
    found.extend(of_ours.map(|line| format!("mount {line}")));
    for (name, path) in entries("/sys/block") {
        let file = std::fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default();
        if file.contains(&here) {
            found.push(format!("device /dev/{name} over {}", file.trim()));
        }
    }
    let us = std::process::id().to_string();
    for (name, path) in entries("/proc") {
        let printed =
            ["cmdline", "environ"].map(|file| std::fs::read(path.join(file)).unwrap_or_default());
        let names_it = printed
            .iter()
            .any(|bytes| String::from_utf8_lossy(bytes).contains(&here));
        if names_it && name != us {
            found.push(format!("process {name}"));
        }
    }
    found
}

fn entries(folder: &str) -> Vec<(String, std::path::PathBuf)> {
    let all = std::fs::read_dir(folder).into_iter().flatten();
    all.filter_map(Result::ok)
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .collect()
}
