//! Checks before a disk becomes a member: whether it is empty (blkid decides, as for `attach --mkfs` and `inspect`),
//! and whether it is a member already.

use block::Node;
use nodes::array::{Array, Candidate, examine, newest};

use super::report::{ArrayReport, MemberHealth, short_name, uuid};
use crate::commands::inspect::Probe;
use crate::failure::Failure;

/// Refuses a disk that is not empty. A member of the array `own` (its UUID) is its own to take back.
pub(crate) async fn refuse_full(name: &str, disk: &Node, own: Option<&str>) -> Result<(), Failure> {
    let found = examine(disk).await;
    let found =
        found.map_err(|error| Failure::because(format!("{name} cannot be read"), &error))?;
    if let Some((_, superblock)) = newest(&found) {
        let array = uuid(&superblock.array);
        if own == Some(array.as_str()) {
            return Ok(());
        }
        let of = short_name(&superblock.name);
        return Err(full(
            name,
            &format!("a superblock of the array {of} ({array})"),
        ));
    }
    let probe = Probe::find().await;
    if let Err(why) = probe.program() {
        let failure = Failure::new(format!("the content of {name} cannot be determined: {why}"));
        return Err(failure.next("--force takes it in any case"));
    }
    let signature = probe.signature(disk).await;
    let signature =
        signature.map_err(|error| Failure::because(format!("what is on {name}"), &error))?;
    let Some(signature) = signature else {
        return Ok(());
    };
    let table = || {
        signature
            .table
            .as_ref()
            .map(|table| format!("a partition table ({table})"))
    };
    let what = signature.in_words().or_else(table);
    Err(full(
        name,
        what.as_deref().unwrap_or("something that blkid knows"),
    ))
}

fn full(name: &str, what: &str) -> Failure {
    let what = format!("{name} is not empty, it holds {what}; nothing was changed");
    Failure::new(what).next("--force overwrites it")
}

/// Whether two names are of the same disk: they are equal, or paths of the same file.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let is_path = |name: &str| !name.contains('(') && !name.contains("://");
    let path = |name: &str| std::path::absolute(name).ok();
    one == other
        || is_path(one) && is_path(other) && path(one).is_some() && path(one) == path(other)
}

/// Forgets a member of this name that failed: it is closed then, and can be opened again.
pub(crate) async fn forget(array: &Array, name: &str) -> Result<(), Failure> {
    let report = ArrayReport::of(None, &array.status());
    let mut members = report.members.iter();
    match members
        .find(|member| is_same(&member.name, name) && member.state != MemberHealth::Missing)
    {
        None => Ok(()),
        Some(member) if matches!(member.state, MemberHealth::Failed | MemberHealth::Stale) => {
            array.remove(&member.name).await.map_err(Failure::from)
        }
        Some(member) => {
            let state = member.state.words();
            let failure = Failure::new(format!("{name} is a member already, it is {state}"));
            Err(failure.next("outboard array fail takes it out"))
        }
    }
}

/// Refuses a disk that is elsewhere and cannot be reached now: the log says why.
pub(crate) fn refuse_unreached(candidate: &Candidate) -> Result<(), Failure> {
    if candidate.disk.is_some() {
        return Ok(());
    }
    let what = format!("{} cannot be reached, and is no member yet", candidate.name);
    Err(Failure::new(what).next("see that its server runs"))
}
