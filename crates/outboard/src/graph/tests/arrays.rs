//! What the arguments of `array` mean, and which are refused.

use std::time::Duration;

use nodes::array::Raid0Layout;

use super::refused_there;
use crate::graph::disk::Disk;
use crate::graph::resolve;

#[test]
fn an_array_is_its_members_and_what_is_known_of_them() {
    let text = "array(/a.img, missing, partition(b.img, 2), prefer='partition(b.img, 2)', \
                member-timeout=2s, raid0-layout=original, run=true, force-dirty-degraded=true)";
    let Disk::Array(array) = resolve(text).unwrap().disk else {
        panic!("an array")
    };
    assert_eq!(array.names, ["/a.img", "partition(b.img, 2)"]);
    assert_eq!(array.members.len(), 2);
    assert_eq!(array.missing, 1);
    assert_eq!(array.prefer, Some(1));
    assert_eq!(array.member_timeout, Some(Duration::from_secs(2)));
    assert_eq!(array.raid0_layout, Some(Raid0Layout::Original));
    assert!(array.run && array.force_dirty_degraded);
    assert_eq!(&text[array.span.start..array.span.end], text);
    let by_place = resolve("array(a, b, prefer=2)").unwrap().disk;
    assert!(matches!(by_place, Disk::Array(array) if array.prefer == Some(1)));
}

#[test]
fn what_is_wrong_with_an_array_is_marked() {
    refused_there(&[
        ("array()", "array", "MEMBER is missing"),
        (
            "array(missing)",
            "array",
            "a MEMBER that is there is missing",
        ),
        ("array(a, b, prefer=c)", "c", "`c` is none of the members"),
        ("array(a, b, prefer=3)", "3", "`3` is none of the members"),
        (
            "array(a, missing, prefer=2)",
            "2",
            "`2` is none of the members",
        ),
        ("array(a, run=yes)", "yes", "true or false"),
        ("array(a, raid0-layout=new)", "new", "original"),
        ("array(a, member-timeout=5)", "5", "5"),
        (
            "array(a, member-timout=5s)",
            "member-timout",
            "did you mean member-timeout?",
        ),
        ("array(a, xyz(b))", "xyz", "there is no disk `xyz`"),
    ]);
}
