//! Exports that stand by.

use super::{assert_slip, plan};
use crate::config::changes;

fn export(disk: &str, keys: &str) -> String {
    format!("[[export]]\nname = \"a\"\ndisk = \"{disk}\"\n{keys}\n")
}

#[test]
fn only_a_volume_that_is_written_stands_by() {
    for disk in ["s3://disks/lab/root", "blocks(s3://disks/root, size=512)"] {
        let plan = plan(&export(disk, "standby = true"));
        assert!(plan.exports[0].is_standby);
    }
    let overlay = "overlay = \"per-client\"\noverlay_directory = \"/o\"";
    for (disk, keys, word) in [
        ("/srv/a.img", "", "only a volume on an object store"),
        ("nbd://nas/a", "", "only a volume on an object store"),
        ("delay(s3://disks/root, read=1ms)", "", "only a volume"),
        ("cache(s3://disks/root, /c)", "", "a cache does not"),
        ("s3://disks/root@first", "", "never written"),
        (
            "bucket(s3://disks/root, read-only=true)",
            "",
            "never written",
        ),
        ("s3://disks/root", "read_only = true", "read-only export"),
        ("s3://disks/root", overlay, "below overlays"),
        (
            "s3://disks/root",
            "single_writer = true\nwriter_file = \"/w\"",
            "on this machine alone",
        ),
    ] {
        let keys = format!("standby = true\n{keys}");
        assert_slip(&export(disk, &keys), "line 3", word);
    }
}

#[test]
fn another_standby_is_another_disk() {
    let before = plan(&export("s3://disks/root", ""));
    let after = plan(&export("s3://disks/root", "standby = true"));
    assert_eq!(changes(&before, &after).replace, after.exports);
}
