//! Tests of outlines: what is drawn of an expression.

use super::super::outline::DiskOutline;
use super::super::resolve;

/// An outline in one line: `kind[text](children)`.
fn line(outline: &DiskOutline) -> String {
    let children: Vec<String> = outline.children.iter().map(line).collect();
    format!("{}[{}]({})", outline.kind, outline.text, children.join(" "))
}

#[test]
fn an_outline_has_the_disks_below_a_disk_and_its_options_as_they_are_written() {
    for (text, expected) in [
        ("/srv/media.img", "file[/srv/media.img]()"),
        ("nbd://nas.lan/media", "nbd[nbd://nas.lan/media]()"),
        ("memory(1G)", "memory[1G]()"),
        (
            "a=partition(array(a.img, missing, run=true), 2)",
            "partition[2](array[run=true](file[a.img]() missing[]()))",
        ),
        (
            "overlay(/srv/base.img, top.img, chunk=4K)",
            "overlay[top.img, chunk=4K](file[/srv/base.img]())",
        ),
        (
            "volume(stripe(a, b, chunk=64K), name=vg0/media)",
            "volume[name=vg0/media](stripe[chunk=64K](file[a]() file[b]()))",
        ),
    ] {
        let disk = resolve(text).expect("a disk");
        assert_eq!(line(&DiskOutline::of(&disk)), expected, "{text}");
    }
}
