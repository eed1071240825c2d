//! Tests of expressions for a process in another directory.

use super::super::{absolute, resolve};

fn written(text: &str) -> String {
    absolute(&resolve(text).expect("a disk")).expect("the directory is there")
}

#[test]
fn paths_are_absolute_wherever_they_stand_and_nothing_else_is_changed() {
    let here = std::env::current_dir().expect("a directory");
    let here = here.to_str().expect("its name is text");
    for (text, expected) in [
        ("a.img", "HERE/a.img"),
        ("name=a.img", "HERE/a.img"),
        ("./with blanks (1).img", "HERE/with blanks (1).img"),
        ("/srv/a, b.img", "/srv/a, b.img"),
        ("memory(1G)", "memory(1G)"),
        (
            "file(a.img, read-only=true)",
            "file(HERE/a.img, read-only=true)",
        ),
        (
            "x=overlay(linear(a.img, 'b c.img'), top.img, quota=2G)",
            "overlay(linear(HERE/a.img, 'HERE/b c.img'), HERE/top.img, quota=2G)",
        ),
        (
            "cache(nbd://nas.lan/root, f.cache, size=1G, profile=boot)",
            "cache(nbd://nas.lan/root, HERE/f.cache, size=1G, profile=HERE/boot)",
        ),
        (
            "array(a.img, missing, b.img, prefer=b.img)",
            "array(HERE/a.img, missing, HERE/b.img, prefer=HERE/b.img)",
        ),
        (
            "array(a.img, b.img, prefer=2)",
            "array(HERE/a.img, HERE/b.img, prefer=2)",
        ),
        (
            "volume(pv.img, name=vg/lv)",
            "volume(HERE/pv.img, name=vg/lv)",
        ),
        (
            "partition(dm(t.table), 1)",
            "partition(dm(HERE/t.table), 1)",
        ),
        (
            "fault(a.img, pulled-while=gone)",
            "fault(HERE/a.img, pulled-while=HERE/gone)",
        ),
        (
            "nbd+unix:///media?socket=s",
            "nbd+unix:///media?socket=HERE/s",
        ),
    ] {
        let found = written(text);
        // A directory with characters that need quotes would stand in quotes.
        assert_eq!(found, expected.replace("HERE", here), "{text}");
        assert_eq!(written(&found), found, "{text}");
    }
}
