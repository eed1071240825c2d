//! Addresses of exports: the examples of doc/uri.md, and what is refused.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::{NbdUri, Transport, UriError};

fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
    NbdUri {
        transport: Transport::Tcp {
            host: host.to_owned(),
            port,
        },
        export: export.to_owned(),
    }
}

fn unix(path: &str, export: &str) -> NbdUri {
    NbdUri {
        transport: Transport::Unix(PathBuf::from(path)),
        export: export.to_owned(),
    }
}

#[test]
fn the_examples_of_the_specification_are_read_as_it_says() {
    for (text, expected) in [
        ("nbd://example.com/disk", tcp("example.com", 10809, "disk")),
        ("nbd+unix:///disk?socket=sock", unix("sock", "disk")),
        ("nbd://example.com/", tcp("example.com", 10809, "")),
        ("nbd://example.com", tcp("example.com", 10809, "")),
        (
            "nbd://example.com//disk",
            tcp("example.com", 10809, "/disk"),
        ),
        (
            "nbd://example.com/hello%20world",
            tcp("example.com", 10809, "hello world"),
        ),
        ("nbd+unix:///?socket=%00/abstract", unix("\0/abstract", "")),
        ("NBD://[::1]:99/a/b", tcp("::1", 99, "a/b")),
        ("nbd://[fe80::1]", tcp("fe80::1", 10809, "")),
        ("nbd://127.0.0.1:10810/", tcp("127.0.0.1", 10810, "")),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

#[test]
fn what_would_be_ignored_or_cannot_be_done_is_refused_by_name() {
    for (text, expected) in [
        ("disk.img", UriError::NoScheme),
        ("http://x/", UriError::Scheme("http".to_owned())),
        ("nbds://x/", UriError::SchemeUnsupported("nbds".to_owned())),
        (
            "nbd+vsock://1/",
            UriError::SchemeUnsupported("nbd+vsock".to_owned()),
        ),
        ("nbd:///disk", UriError::NoHost),
        ("nbd+unix://host/disk?socket=x", UriError::HostWithSocket),
        ("nbd+unix:///disk", UriError::NoSocket),
        ("nbd+unix:///disk?socket=", UriError::NoSocket),
        ("nbd://user@host/", UriError::User),
        ("nbd://host:0/", UriError::Port("0".to_owned())),
        ("nbd://host:65536/", UriError::Port("65536".to_owned())),
        ("nbd://[::1/", UriError::Brackets("[::1".to_owned())),
        ("nbd://[::1]9/", UriError::Brackets("[::1]9".to_owned())),
        (
            "nbd://host/?socket=x",
            UriError::Parameter("socket".to_owned()),
        ),
        (
            "nbd://host/?tls-type=psk",
            UriError::Parameter("tls-type".to_owned()),
        ),
        (
            "nbd+unix:///?socket=a&socket=b",
            UriError::Parameter("socket".to_owned()),
        ),
        ("nbd://host/%4", UriError::Percent("%4".to_owned())),
        ("nbd://host/%zz", UriError::Percent("%zz".to_owned())),
        ("nbd://host/%00", UriError::Export),
        ("nbd://host/%ff", UriError::Export),
        ("nbd://host/disk#1", UriError::Fragment),
    ] {
        assert_eq!(text.parse::<NbdUri>(), Err(expected), "{text}");
    }
    let long = format!("nbd://host/{}", "x".repeat(4097));
    assert_eq!(long.parse::<NbdUri>(), Err(UriError::Export));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(host in "[a-z0-9.]{1,20}|[0-9a-f:]{2,20}|\\PC{1,5}", port in 1u16.., export in "[^\0]{0,30}") {
        let uri = tcp(&host, port, &export);
        prop_assert_eq!(uri.to_string().parse(), Ok(uri));
    }

    #[test]
    fn sockets_are_read_back(path in "\\PC{1,30}", export in "[^\0]{0,30}") {
        let uri = unix(&path, &export);
        prop_assert_eq!(uri.to_string().parse(), Ok(uri));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}", tail in "[\\[\\]:@/?%=&a0]{0,20}") {
        for text in [text, format!("nbd://{tail}"), format!("nbd+unix://{tail}")] {
            if let Ok(uri) = text.parse::<NbdUri>() {
                prop_assert_eq!(uri.to_string().parse(), Ok(uri));
            }
        }
    }
}
