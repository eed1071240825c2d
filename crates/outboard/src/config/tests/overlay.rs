//! Tests of exports with an overlay for each client.

use nbd::server::NamedBy;

use super::*;

const HEAD: &str = "[[export]]\nname = \"root\"\ndisk = \"golden.img\"\n";
const PER_CLIENT: &str = "overlay = \"per-client\"\noverlay_directory = \"/var/o\"\n";
const TLS: &str = "[tls]\ndirectory = \"/etc/tls\"\n";

fn with(rest: &str) -> String {
    [HEAD, PER_CLIENT, rest].concat()
}

#[test]
fn overlays_need_no_more_than_their_folder() {
    let found = plan(&with("")).exports.remove(0).overlay;
    let overlay = found.expect("overlays");
    assert_eq!(
        overlay,
        OverlayPlan::at(OverlayPlace::Folder("/var/o".into()))
    );
    assert_eq!((overlay.quota, overlay.overlays_max), (2 << 30, 1024));
    assert_eq!(overlay.named_by, NamedBy::Either);
    assert_eq!(plan(HEAD).exports[0].overlay, None);
}

#[test]
fn all_keys_of_overlays_are_parsed() {
    let text =
        with("overlay_name = \"certificate\"\noverlay_quota = \"512M\"\noverlays_max = 200\n");
    let overlay = plan(&[TLS, &text].concat()).exports.remove(0).overlay;
    let expected = OverlayPlan {
        place: OverlayPlace::Folder("/var/o".into()),
        named_by: NamedBy::Certificate,
        quota: 512 << 20,
        overlays_max: 200,
    };
    assert_eq!(overlay, Some(expected));
}

#[test]
fn every_wrong_value_of_overlays_is_reported_with_its_place() {
    for (text, place, word) in [
        (
            with("overlay_name = \"name\""),
            "line 6, column 16",
            "address",
        ),
        (with("overlay_quota = \"1K\""), "line 6, column 17", "1M"),
        (with("overlays_max = 0"), "line 6, column 16", "1 to"),
        (with("read_only = true"), "line 4, column 11", "read_only"),
        (
            with("overlay_name = \"certificate\""),
            "line 2, column 8",
            "[tls]",
        ),
        (
            format!("{HEAD}overlay = \"per-client\""),
            "line 4, column 11",
            "overlay_directory",
        ),
        (
            format!("{HEAD}overlay = \"x\"\noverlay_directory = \"o\""),
            "line 4, column 11",
            "per-client",
        ),
        (
            format!("{HEAD}overlay_quota = \"1G\""),
            "line 4, column 17",
            "per-client",
        ),
        (
            with("").replace("golden.img", "memory(1M)"),
            "line 3, column 8",
            "no image",
        ),
    ] {
        assert_slip(&text, place, word);
    }
}

#[test]
fn another_image_is_for_new_clients_only_but_another_shared_disk_disconnects_all() {
    let image = |name: &str, rest: &str| plan(&with(rest).replace("golden.img", name));
    let old = image("1.img", "");
    for new in [image("2.img", ""), image("1.img", "overlay_quota = \"1G\"")] {
        let changes = changes(&old, &new);
        assert_eq!(changes.renew.len(), 1);
        assert!(changes.replace.is_empty() && changes.update.is_empty());
    }
    let shared = plan(&HEAD.replace("golden.img", "1.img"));
    assert_eq!(changes(&old, &shared).replace.len(), 1);
    assert_eq!(changes(&shared, &old).replace.len(), 1);
    let ruled = image("1.img", "allow = [\"unix\"]");
    assert_eq!(changes(&old, &ruled).update.len(), 1);
}
