//! What the arguments of `volume` mean, and which are refused.

use super::refused_there;
use crate::graph::disk::{Disk, Volume};
use crate::graph::resolve;

fn volume(text: &str) -> Volume {
    match resolve(text).unwrap().disk {
        Disk::Volume(volume) => volume,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_volume_is_its_disks_and_its_name() {
    let text = "volume(/a.img, partition(b.img, 2), name=vg0/media, system-id=nas, owner=ignore)";
    let found = volume(text);
    assert_eq!(found.names, ["/a.img", "partition(b.img, 2)"]);
    assert_eq!(found.disks.len(), 2);
    assert_eq!(found.group.as_deref(), Some("vg0"));
    assert_eq!(found.name, "media");
    assert_eq!(found.system_id.as_deref(), Some("nas"));
    assert!(found.ignore_owner);
    let place = |span: crate::graph::Span| &text[span.start..span.end];
    assert_eq!(place(found.name_span), "vg0/media");
    assert_eq!(place(found.spans[1]), "partition(b.img, 2)");
    assert_eq!(place(found.span), text);
}

#[test]
fn the_group_may_be_left_out_and_the_name_come_first() {
    let found = volume("volume(a, name=media)");
    assert_eq!((found.group, found.name.as_str()), (None, "media"));
    let found = volume("volume(vg0/media, a, nbd://host/b)");
    assert_eq!(found.group.as_deref(), Some("vg0"));
    assert_eq!(found.names, ["a", "nbd://host/b"]);
    let found = volume("volume('Ic6ORZ-QK43/media', a)");
    assert_eq!(found.group.as_deref(), Some("Ic6ORZ-QK43"));
}

#[test]
fn what_is_wrong_with_a_volume_is_marked() {
    refused_there(&[
        ("volume()", "volume", "PV is missing"),
        ("volume(a, b)", "volume", "name=GROUP/VOLUME is missing"),
        (
            "volume(./vg0/a, b)",
            "volume",
            "name=GROUP/VOLUME is missing",
        ),
        (
            "volume(vg0/media)",
            "volume",
            "name=GROUP/VOLUME is missing",
        ),
        ("volume(a, name=vg0/)", "vg0/", "expected GROUP/VOLUME"),
        ("volume(a, name=a/b/c)", "a/b/c", "expected GROUP/VOLUME"),
        ("volume(a, name=v, owner=me)", "me", "expected ignore"),
        ("volume(a, name=v, nmae=w)", "nmae", "did you mean name?"),
    ]);
}
