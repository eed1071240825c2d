//! What is on a device or in a file, as blkid knows it. See ADR 10: the list is Linux's own.

use std::io;
use std::path::Path;
use std::process::Command;

/// blkid's exit status for "nothing found".
const NOTHING: i32 = 2;
/// blkid's exit status for "several things found".
const SEVERAL: i32 = 8;
/// A filesystem's root usually has it where a user's path does not lead.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// What is there; none where nothing is known.
///
/// # Errors
/// Why it could not be found out: then nothing may be assumed.
pub(super) fn of(path: &Path) -> Result<Option<String>, String> {
    let output = Command::new("blkid")
        .args(["-p", "-o", "export"])
        .arg(path)
        .env("LC_ALL", "C")
        .env("PATH", PATH)
        .output();
    let output = output.map_err(|error| {
        let install = match error.kind() {
            io::ErrorKind::NotFound => "; install util-linux",
            _ => "",
        };
        format!("what is on it cannot be found out: blkid cannot be run: {error}{install}")
    })?;
    match output.status.code() {
        Some(0) => Ok(kind(&String::from_utf8_lossy(&output.stdout))),
        Some(NOTHING) if output.stderr.is_empty() => Ok(None),
        Some(SEVERAL) => Ok(Some("signatures of several kinds".into())),
        _ => Err(format!(
            "what is on it cannot be found out: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// A table of partitions, and of which kind: alone, it is no reason against one of its partitions.
pub(super) fn is_table(kind: &str) -> bool {
    kind.starts_with("a partition table")
}

/// What the answer names; none where it only names the table that a partition is in.
fn kind(export: &str) -> Option<String> {
    let mut pairs = export.lines().filter_map(|line| line.split_once('='));
    let value = |key: &str| {
        export
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value.to_owned())
    };
    let is_of_itself = |(key, _): (&str, &str)| key != "DEVNAME" && !key.starts_with("PART_ENTRY_");
    value("TYPE")
        .or_else(|| value("PTTYPE").map(|table| format!("a partition table ({table})")))
        .or_else(|| {
            pairs
                .any(is_of_itself)
                .then(|| "something that blkid knows without a name".into())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_wins_over_a_table_and_a_table_is_reported_as_one() {
        let of = |text| kind(text).unwrap();
        assert_eq!(of("DEVNAME=/dev/loop0\nTYPE=ext4\nPTTYPE=dos\n"), "ext4");
        assert!(is_table(&of("DEVNAME=/dev/loop0\nPTTYPE=gpt\n")));
        assert!(!is_table(&of("DEVNAME=/dev/loop0\nUSAGE=other\n")));
    }

    #[test]
    fn an_empty_partition_says_only_which_one_it_is() {
        let text = "DEVNAME=/dev/loop0p2\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_NUMBER=2\n";
        assert_eq!(kind(text), None);
    }
}
