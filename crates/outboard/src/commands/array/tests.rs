//! Tests of what the words of a command line mean.

use std::path::{Path, PathBuf};

use nodes::array::ConsistencyChoice;
use nodes::array::format::Level;

use super::target::{ArrayTarget, Server, choose, member};
use super::words;
use crate::arrays::report::ArrayReport;
use crate::arrays::tests::mirror;

const MEDIA: &str = "00112233:44556677:8899aabb:ccddeeff";
const OTHER: &str = "ffffffff:44556677:8899aabb:ccddeeff";

fn report(name: &str, export: &str, uuid: &str) -> ArrayReport {
    ArrayReport {
        name: format!("nas:{name}"),
        export: Some(export.to_owned()),
        uuid: uuid.to_owned(),
        ..mirror()
    }
}

fn server(name: &str, arrays: Vec<ArrayReport>) -> Server {
    (PathBuf::from(format!("/run/{name}.sock")), arrays)
}

fn servers() -> Vec<Server> {
    let first = vec![report("media", "films", MEDIA)];
    vec![
        server("first", first),
        server("second", vec![report("backup", "vm/1", OTHER)]),
    ]
}

/// What these words mean where the files `a.img`, `b.img` and `films` are there.
fn found(words: &[&str]) -> Result<String, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let exists = |path: &Path| ["a.img", "b.img", "films"].contains(&path.to_str().unwrap());
    match choose(&words, &servers(), false, &exists) {
        Ok(ArrayTarget::Served(served)) => Ok(format!("served {}", served.report.uuid)),
        Ok(ArrayTarget::Members(members)) => Ok(format!("members {}", members.join(" "))),
        Err(failure) => Err(failure.line()),
    }
}

#[test]
fn an_array_is_found_by_its_name_its_exports_or_its_uuid() {
    for word in [
        "media",
        "nas:media",
        MEDIA,
        "00112233445566778899AABBCCDDEEFF",
        "00112233-44556677-8899aabb-ccddeeff",
    ] {
        assert_eq!(found(&[word]), Ok(format!("served {MEDIA}")), "{word}");
    }
    assert_eq!(found(&["vm/1"]), Ok(format!("served {OTHER}")));
}

#[test]
fn disks_are_the_members_of_an_array_that_no_server_runs() {
    assert_eq!(
        found(&["a.img", "b.img"]),
        Ok("members a.img b.img".to_owned())
    );
    assert_eq!(found(&["a.img"]), Ok("members a.img".to_owned()));
    assert_eq!(found(&["./media"]), Ok("members ./media".to_owned()));
    assert_eq!(found(&["/vm/1"]), Ok("members /vm/1".to_owned()));
    let expressions = ["partition(a.img, 2)", "nbd://nas/b"];
    assert_eq!(
        found(&expressions),
        Ok(format!("members {}", expressions.join(" ")))
    );
}

#[test]
fn a_word_that_is_both_is_refused_with_how_to_say_either() {
    assert_eq!(
        found(&["films"]),
        Err(format!(
            "`films` is an array of the server first, and a file here too; write ./films for the file, {MEDIA} for \
             the array"
        ))
    );
}

#[test]
fn an_array_beside_disks_is_refused() {
    let told = found(&["media", "b.img"]).unwrap_err();
    assert!(
        told.starts_with("`media` is an array that a server runs, and stands beside others; "),
        "{told}"
    );
}

#[test]
fn a_word_that_matches_nothing_lists_what_there_is() {
    assert_eq!(
        found(&["medai"]),
        Err("`medai` is no array that a server here runs, and no file; these are run: media, backup".to_owned())
    );
}

#[test]
fn a_name_that_two_servers_have_is_distinguished_by_uuid() {
    let twice = vec![
        server("first", vec![report("media", "films", MEDIA)]),
        server("second", vec![report("media", "", OTHER)]),
    ];
    let words = ["media".to_owned()];
    let told = choose(&words, &twice, false, &|_| false)
        .unwrap_err()
        .line();
    assert_eq!(
        told,
        format!(
            "`media` may be {MEDIA} (export \"films\" of first) or {OTHER} (export \"\" of second); say which: its \
             UUID, or --server NAME"
        )
    );
}

#[test]
fn a_member_is_named_as_the_array_has_it_or_by_its_path() {
    let here = std::path::absolute("b.img").unwrap();
    let here = here.to_str().unwrap().to_owned();
    let mut report = mirror();
    report.members[1].name.clone_from(&here);
    assert_eq!(member(&report, "b.img"), Ok(here.clone()));
    assert_eq!(member(&report, "./b.img"), Ok(here.clone()));
    assert_eq!(member(&report, "a.img"), Ok("a.img".to_owned()));
    let told = member(&report, "c.img").unwrap_err().line();
    assert_eq!(
        told,
        format!("media has no member c.img; its members are a.img, {here}")
    );
}

#[test]
fn layouts_are_mds_numbers() {
    let ten = |text| words::layout(Level::Raid10, text).unwrap();
    assert_eq!(ten("n2"), Ok(0x102));
    assert_eq!(ten("f2"), Ok(0x201));
    assert_eq!(ten("o3"), Ok(0x1_0301));
    for wrong in ["", "n", "x2", "n0", "n256", "ü2", "left-symmetric"] {
        assert!(ten(wrong).is_err(), "{wrong}");
    }
    let five = |text| words::layout(Level::Raid5, text).unwrap();
    assert_eq!(five("ra"), Ok(1));
    assert_eq!(
        words::layout(Level::Raid6, "left-symmetric-6"),
        Some(Ok(18))
    );
    let told = five("left-symmetric-6").unwrap_err();
    assert!(told.starts_with("known are left-asymmetric, "), "{told}");
    for level in [Level::Raid0, Level::Raid1, Level::Raid4, Level::Linear] {
        assert_eq!(words::layout(level, "left-symmetric"), None);
    }
}

#[test]
fn a_bitmap_is_internal_none_or_has_a_chunk() {
    assert_eq!(
        words::bitmap("internal"),
        Ok(ConsistencyChoice::Bitmap(None))
    );
    assert_eq!(words::bitmap("none"), Ok(ConsistencyChoice::Resync));
    assert_eq!(
        words::bitmap("64M"),
        Ok(ConsistencyChoice::Bitmap(Some(64 << 20)))
    );
    assert!(words::bitmap("3M").is_err() && words::bitmap("yes").is_err());
}

#[test]
fn a_consistency_policy_is_one_of_mdadms_and_does_not_contradict_a_bitmap() {
    use ConsistencyChoice::{Bitmap, Default, Ppl, Resync};
    assert_eq!(words::policy("ppl"), Ok(Ppl));
    assert_eq!(words::policy("bitmap"), Ok(Bitmap(None)));
    assert_eq!(words::policy("resync"), Ok(Resync));
    assert_eq!(words::policy("journal"), Ok(ConsistencyChoice::Journal));
    assert!(words::policy("log").unwrap_err().contains("journal"));
    assert!(words::policy("unknown").is_err());
    let chunk = Bitmap(Some(65_536));
    for (policy, bitmap, expected) in [
        (None, None, Some(Default)),
        (Some(Ppl), None, Some(Ppl)),
        (None, Some(chunk), Some(chunk)),
        (Some(Bitmap(None)), Some(chunk), Some(chunk)),
        (Some(Ppl), Some(Resync), Some(Ppl)),
        (Some(Resync), Some(Resync), Some(Resync)),
        (Some(Ppl), Some(Bitmap(None)), None),
        (Some(Resync), Some(chunk), None),
        (Some(Bitmap(None)), Some(Resync), None),
    ] {
        assert_eq!(
            words::consistency(policy, bitmap),
            expected,
            "{policy:?} {bitmap:?}"
        );
    }
}

#[test]
fn levels_are_mds_numbers_or_their_names() {
    for (text, level) in [
        ("4", Level::Raid4),
        ("raid5", Level::Raid5),
        ("6", Level::Raid6),
    ] {
        assert_eq!(words::level(text), Ok(level));
    }
    assert!(words::level("7").unwrap_err().contains("10, 5, 6, 4"));
}
