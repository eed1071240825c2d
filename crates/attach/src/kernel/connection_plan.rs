//! [`ConnectionPlan`]: how many connections a device gets from a server, and when those that live end. Pure.
//!
//! All connections of a device lead to one server, and have one size. So those that live end where another server takes the place of
//! theirs, or the disk has grown. Another server has to take all connections before that: one that takes fewer would leave the device
//! with fewer, or with none. The same server takes them afterwards, since it may count those that have not ended.

/// What is done with the connections of a device of which one or more are dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionPlan {
    /// Connections to make before one ends.
    pub(super) first: usize,
    /// Connections to make in all.
    pub(super) in_all: usize,
    /// Whether those that live end.
    pub(super) ends_live: bool,
}

impl ConnectionPlan {
    /// For a device with these connections, each alive or not. `has_moved`: the new ones lead to another server. `has_grown`: to a
    /// larger disk.
    pub(super) fn new(live: &[bool], has_moved: bool, has_grown: bool) -> Self {
        let dead = live.iter().filter(|live| !**live).count();
        let ends_live = has_moved || has_grown;
        let in_all = match ends_live {
            true => live.len(),
            false => dead,
        };
        let waits_for_end = has_grown && !has_moved && dead < live.len();
        let first = match waits_for_end {
            true => 1,
            false => in_all,
        };
        Self {
            first,
            in_all,
            ends_live,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(live: &[bool], has_moved: bool, has_grown: bool) -> (usize, usize, bool) {
        let plan = ConnectionPlan::new(live, has_moved, has_grown);
        (plan.first, plan.in_all, plan.ends_live)
    }

    #[test]
    fn the_same_server_replaces_what_is_dead() {
        assert_eq!(plan(&[true, false, false], false, false), (2, 2, false));
        assert_eq!(plan(&[false; 3], false, false), (3, 3, false));
    }

    /// Connections that lived were ended after the first one to another server, which then took no more of them.
    #[test]
    fn another_server_has_all_connections_before_one_ends() {
        for live in [[true, true, false], [true, false, false], [false; 3]] {
            for has_grown in [false, true] {
                assert_eq!(plan(&live, true, has_grown), (3, 3, true));
            }
        }
    }

    /// A server with a limit of connections counts those that live.
    #[test]
    fn a_server_whose_disk_has_grown_takes_the_others_after_the_end_of_those_that_live() {
        assert_eq!(plan(&[true, false, false], false, true), (1, 3, true));
        assert_eq!(plan(&[false; 3], false, true), (3, 3, true));
    }
}
