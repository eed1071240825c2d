//! Values of the namespace: what is printed is read back, and nothing else is.

use proptest::prelude::*;

use super::*;

fn access() -> impl Strategy<Value = WriterAccess> {
    use AccessMode::{Read, Resume, Shared, Takeover, Write};
    let mode = prop::sample::select(vec![Read, Write, Resume, Shared, Takeover]);
    (any::<[u8; 16]>(), mode).prop_map(|(random, mode)| WriterAccess {
        token: ClientToken::new(random),
        mode,
    })
}

fn identity() -> impl Strategy<Value = DiskIdentity> {
    use WriterPolicy::{Fenced, Many, One};
    let id = "[!-~]{1,255}".prop_map(|text: String| text.parse::<DiskId>().unwrap());
    let writers = prop::option::of(prop::sample::select(vec![One, Many, Fenced]));
    (
        prop::option::of(id),
        any::<Option<u64>>(),
        writers,
        any::<bool>(),
    )
        .prop_map(|(identity, incarnation, writers, is_fenced)| DiskIdentity {
            identity,
            incarnation,
            writers,
            is_fenced,
        })
}

proptest! {
    #[test]
    fn what_a_client_asks_for_is_what_a_server_reads(client in prop::option::of(access()), disk: bool) {
        let sent = DiskQueries { disk, client };
        let mut read = DiskQueries::default();
        for query in sent.queries() {
            prop_assert!(crate::context::is_query(&query));
            prop_assert_eq!(read.add(&query), Some(()));
        }
        prop_assert_eq!(read, sent);
        prop_assert_eq!(sent.is_empty(), sent.queries().is_empty());
    }

    #[test]
    fn what_a_server_says_of_a_disk_is_what_a_client_reads(sent in identity()) {
        let mut read = DiskIdentity::default();
        for name in sent.names() {
            prop_assert_eq!(crate::context::name(name.as_bytes()), Some(name.as_str()));
            read.add(&name);
        }
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn no_text_of_a_peer_panics_and_what_is_parsed_is_printed_back(text in "\\PC{0,300}") {
        if let Ok(access) = text.parse::<WriterAccess>() {
            prop_assert_eq!(access.to_string(), text.clone());
        }
        let mut disk = DiskIdentity::default();
        for key in ["disk", "incarnation", "writers", "other"] {
            let name = format!("outboard:{key}={text}");
            let before = disk.clone();
            disk.add(&name);
            prop_assert!(disk == before || disk.names().contains(&name));
        }
    }
}

#[test]
fn values_of_another_form_are_not_taken() {
    let token = "0123456789abcdef0123456789abcdef";
    assert!(format!("{token},write").parse::<WriterAccess>().is_ok());
    for text in [
        String::new(),
        token.to_owned(),
        format!("{token},"),
        format!("{token},Write"),
        format!("{token},write "),
        format!("{token},write,read"),
        format!("{},write", token.to_uppercase()),
        format!("{},write", &token[1..]),
        format!("{token}0,write"),
        format!("+{},write", &token[1..]),
    ] {
        assert!(text.parse::<WriterAccess>().is_err(), "{text:?}");
        assert_eq!(
            DiskQueries::default().add(&format!("{CLIENT_QUERY}{text}")),
            None
        );
    }
    for text in ["", "two words", "tab\t", "naïve", "nul\0", &"x".repeat(256)] {
        assert!(text.parse::<DiskId>().is_err(), "{text:?}");
    }
    for name in [
        "outboard:incarnation=1",
        "outboard:incarnation=00000000000000FF",
        "outboard:incarnation=00000000000000001",
        "outboard:writers=two",
        "outboard:fence=none",
        "outboard:fence=",
        "outboard:disk=",
        "outboard:disk",
        "base:allocation",
        "qemu:disk=x",
    ] {
        let mut disk = DiskIdentity::default();
        disk.add(name);
        assert_eq!(disk, DiskIdentity::default(), "{name}");
    }
}

#[test]
fn the_first_of_two_values_counts() {
    let mut disk = DiskIdentity::default();
    for value in ["", "one", "another"] {
        disk.add(&format!("outboard:disk={value}"));
    }
    assert_eq!(disk.identity.unwrap().as_str(), "one");
}

#[test]
fn a_namespace_alone_asks_for_the_disk_and_unknown_names_for_nothing() {
    for (query, disk) in [
        ("outboard:", true),
        ("outboard:disk", true),
        ("outboard:disks", false),
        ("outboard:incarnation", false),
    ] {
        let mut queries = DiskQueries::default();
        assert_eq!(queries.add(query), Some(()));
        assert_eq!(queries, DiskQueries { disk, client: None });
    }
}

#[test]
fn a_refusal_is_known_by_how_its_text_begins() {
    let cases = [
        (
            "already attached for writing by 10.0.0.1",
            Some(WriterRefusal::Busy),
        ),
        ("fenced: 10.0.0.2 took over", Some(WriterRefusal::Fenced)),
        ("not allowed: fenced: no", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(WriterRefusal::of_text(text), expected, "{text}");
    }
}

#[test]
fn a_client_that_reconnects_takes_no_new_claim() {
    use AccessMode::{Read, Resume, Shared, Takeover, Write};
    for (first, again) in [
        (Read, Read),
        (Write, Resume),
        (Resume, Resume),
        (Shared, Shared),
        (Takeover, Resume),
    ] {
        assert_eq!(first.again(), again);
    }
}
