//! *cache*: before a read, caches are written out and dropped on every machine of the I/O path, and
//! then it is verified that nothing of the file is in memory.
//!
//! Caught in: study C, and tools that run `echo` without a shell and drop nothing.

use serde::{Deserialize, Serialize};

use super::direct::Residency;
use super::phase::ToolMeasurement;
use super::{Check, Finding};

/// More of the file than this in memory before a read, and it is the cache that is measured.
const RESIDENT_MAX: f64 = 0.02;

/// What was done about this machine's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "dropped", rename_all = "kebab-case")]
pub enum Dropped {
    /// The whole page cache, through `/proc/sys/vm/drop_caches`.
    All,
    /// The test file's pages alone, since the above is not permitted here.
    FileOnly,
}

/// Where the server of a target is, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// A disk of this machine.
    None,
    /// On this machine: its page cache is ours.
    Here,
    /// On another machine, or it is not known where.
    Elsewhere,
}

/// What the agent of the server's machine did about the page cache there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedThere {
    /// What of the files that the server has open was in memory afterwards; none where that cannot be
    /// seen.
    pub residency: Option<Residency>,
}

/// Caches that were dropped, and what is left in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DroppedCaches<'a> {
    /// What was done here.
    pub(crate) dropped: Dropped,
    /// What of the file is still in memory.
    pub(crate) residency: Option<Residency>,
    /// Where the target's server is.
    pub(crate) server: Server,
    /// What was done on the server's machine.
    pub(crate) there: Option<DroppedThere>,
    /// The program that made the files, where it may have others than those that were looked at.
    pub(crate) program: Option<&'a str>,
}

pub(super) fn of_caches(seen: &DroppedCaches<'_>) -> Vec<Finding> {
    let mut findings = check(&seen.dropped, seen.residency, seen.server, seen.there);
    findings.extend(seen.program.and_then(|name| program(name, &seen.dropped)));
    findings
}

pub(super) fn of_tool(seen: &ToolMeasurement<'_>) -> Option<Finding> {
    let dropped = seen.measurement.evidence.dropped;
    let dropped = dropped.filter(|_| seen.tool.reads_what_was_there())?;
    program(&seen.name(), &dropped)
}

/// Holds what was dropped against what is still there; `there` if an agent did it on the server's machine.
fn check(
    dropped: &Dropped,
    residency: Option<Residency>,
    server: Server,
    there: Option<DroppedThere>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    match residency {
        Some(found) if found.part() > RESIDENT_MAX => findings.push(Finding::invalid(
            Check::Cache,
            format!("{:.0} % of the file was in memory before it was read", found.part() * 100.0),
        )),
        Some(_) => {}
        None => findings.push(Finding::remark(
            Check::Cache,
            "whether anything of the file was in memory before it was read could not be seen on this filesystem",
        )),
    }
    findings.extend(of_server(dropped, server, there));
    findings
}

/// Whether a program that reads files which were there before it began may have read them from memory: where
/// the whole cache was not dropped, its files were not looked at.
fn program(name: &str, dropped: &Dropped) -> Option<Finding> {
    (*dropped == Dropped::FileOnly).then(|| {
        Finding::remark(
            Check::Cache,
            format!(
                "the page cache was not dropped, which needs root: what {name} read may have been in memory"
            ),
        )
    })
}

fn of_server(dropped: &Dropped, server: Server, there: Option<DroppedThere>) -> Option<Finding> {
    match (server, there) {
        (Server::None, _) => None,
        (_, Some(there)) => left_there(there.residency),
        (Server::Here, None) if *dropped == Dropped::All => None,
        (Server::Here, None) => Some(Finding::remark(
            Check::Cache,
            "the server's page cache was not dropped: that needs root",
        )),
        (Server::Elsewhere, None) => Some(Finding::remark(
            Check::Cache,
            "the server's page cache was not dropped: the server is on another machine, and no agent there may",
        )),
    }
}

/// What the agent found still in memory.
fn left_there(residency: Option<Residency>) -> Option<Finding> {
    match residency {
        Some(found) if found.part() > RESIDENT_MAX => Some(Finding::invalid(
            Check::Cache,
            format!(
                "{:.0} % of the server's files were in its memory before they were read",
                found.part() * 100.0
            ),
        )),
        Some(_) => None,
        None => Some(Finding::remark(
            Check::Cache,
            "the server's page cache was dropped, but whether anything was left in it could not be seen",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Level;

    const EMPTY: Option<Residency> = Some(Residency {
        sampled: 256,
        resident: 0,
    });

    #[test]
    fn dropped_and_verified_on_both_ends_needs_no_remark() {
        assert_eq!(check(&Dropped::All, EMPTY, Server::None, None), []);
        assert_eq!(check(&Dropped::All, EMPTY, Server::Here, None), []);
    }

    #[test]
    fn a_drop_that_dropped_nothing_is_noticed() {
        let full = Some(Residency {
            sampled: 256,
            resident: 256,
        });
        let findings = check(&Dropped::All, full, Server::None, None);
        assert_eq!(findings[0].level, Level::Invalid);
        assert!(findings[0].text.contains("100 %"));
    }

    #[test]
    fn a_server_whose_cache_was_not_reached_is_said() {
        for (dropped, server) in [
            (Dropped::FileOnly, Server::Here),
            (Dropped::All, Server::Elsewhere),
        ] {
            let findings = check(&dropped, EMPTY, server, None);
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].level, Level::Remark);
        }
    }

    #[test]
    fn what_a_program_reads_may_be_in_a_cache_that_was_not_dropped() {
        assert_eq!(program("tar", &Dropped::All), None);
        let said = program("tar", &Dropped::FileOnly).unwrap();
        assert_eq!((said.check, said.level), (Check::Cache, Level::Remark));
        assert!(said.text.ends_with("what tar read may have been in memory"));
    }

    #[test]
    fn a_filesystem_that_does_not_show_its_cache_is_said() {
        assert_eq!(check(&Dropped::All, None, Server::None, None).len(), 1);
    }

    #[test]
    fn what_an_agent_dropped_and_saw_needs_no_remark() {
        let there = |residency| Some(DroppedThere { residency });
        for server in [Server::Here, Server::Elsewhere] {
            let check = |seen| check(&Dropped::FileOnly, EMPTY, server, there(seen));
            assert_eq!(check(EMPTY), []);
            let unseen = check(None);
            assert_eq!(unseen.len(), 1);
            assert_eq!(unseen[0].level, Level::Remark);
            let left = Some(Residency {
                sampled: 256,
                resident: 64,
            });
            let left = check(left);
            assert_eq!(left[0].level, Level::Invalid);
            assert!(left[0].text.contains("25 % of the server's files"));
        }
    }
}
