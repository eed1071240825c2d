//! Becoming another user, once the sockets are open and before any disk is.
//!
//! # Invariants
//!
//! * It happens while the process has one thread: the kernel keeps identities by thread, and those
//!   that start later inherit this one's.
//! * It cannot be taken back: that is tried, and must fail.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::failure::Failure;

/// The user and groups to switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UserIdentity {
    pub(super) uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// Finds a user by name or number in the texts of passwd(5) and group(5).
pub(super) fn find(user: &str, passwd: &str, group: &str) -> Option<UserIdentity> {
    let number = |text: &str| text.parse::<u32>().ok();
    let (name, uid, gid) = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _) = (fields.next()?, fields.next()?);
        let (uid, gid) = (number(fields.next()?)?, number(fields.next()?)?);
        (name == user || number(user) == Some(uid)).then_some((name, uid, gid))
    })?;
    let member_of = group.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let (id, members) = (number(fields.next()?)?, fields.next()?);
        members
            .split(',')
            .any(|member| member == name)
            .then_some(id)
    });
    let mut groups: Vec<Gid> = member_of.map(Gid::from_raw).collect();
    let gid = Gid::from_raw(gid);
    groups.push(gid);
    Some(UserIdentity {
        uid: Uid::from_raw(uid),
        gid,
        groups,
    })
}

/// Looks up a user by name or number.
pub(super) fn named(user: &str) -> Result<UserIdentity, Failure> {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path);
        text.map_err(|e| Failure::because(format!("cannot read {path}"), &e))
    };
    let found = find(user, &read("/etc/passwd")?, &read("/etc/group")?);
    found.ok_or_else(|| {
        let failure = Failure::new(format!("there is no user `{user}` in /etc/passwd"));
        failure.next("make one: useradd --system NAME")
    })
}

impl UserIdentity {
    /// Switches to it for good. Does nothing if the process runs as this user already.
    pub(super) fn assume(&self) -> Result<(), Failure> {
        if rustix::process::geteuid() == self.uid {
            return Ok(());
        }
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        assert_eq!(threads, 1, "identities belong to threads");
        let uid = self.uid.as_raw();
        let failed = |e: rustix::io::Errno| {
            let failure =
                Failure::because(format!("cannot become user {uid}"), &io::Error::from(e));
            failure.next("`user` is for servers that root starts")
        };
        set_thread_groups(&self.groups).map_err(failed)?;
        set_thread_res_gid(self.gid, self.gid, self.gid).map_err(failed)?;
        set_thread_res_uid(self.uid, self.uid, self.uid).map_err(failed)?;
        let root = Uid::ROOT;
        if !self.uid.is_root() && set_thread_res_uid(root, root, root).is_ok() {
            return Err(Failure::new(format!("user {uid} can become root again")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nbroken\nnbd:x:105:110::/:/bin/false\n";
    const GROUP: &str = "root:x:0:\ndisk:x:6:backup,nbd\nnbdx:x:7:nbdx\nnbd:x:110:\n";

    #[test]
    fn a_user_is_found_by_name_and_number_with_the_groups_it_is_in() {
        let by_name = find("nbd", PASSWD, GROUP).expect("a user");
        assert_eq!(by_name.uid, Uid::from_raw(105));
        assert_eq!(by_name.gid, Gid::from_raw(110));
        assert_eq!(by_name.groups, [Gid::from_raw(6), Gid::from_raw(110)]);
        assert_eq!(find("105", PASSWD, GROUP), Some(by_name));
        for nobody in ["nb", "", "110", "broken", "x"] {
            assert_eq!(find(nobody, PASSWD, GROUP), None, "{nobody}");
        }
    }
}
