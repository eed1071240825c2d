//! Addresses of exports: the examples of doc/uri.md, and what is refused.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use crate::{NbdUri, TlsVersion, Transport, UriError, UriTls};

fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
    NbdUri {
        transport: Transport::Tcp {
            host: host.to_owned(),
            port,
        },
        others: Vec::new(),
        fenced_after: None,
        tls: None,
        export: export.to_owned(),
    }
}

fn vsock(cid: u32, port: u32, export: &str) -> NbdUri {
    NbdUri {
        transport: Transport::Vsock { cid, port },
        others: Vec::new(),
        fenced_after: None,
        tls: None,
        export: export.to_owned(),
    }
}

fn tls(uri: NbdUri, certificates: Option<&str>, hostname: Option<&str>) -> NbdUri {
    NbdUri {
        tls: Some(UriTls {
            certificates: certificates.map(PathBuf::from),
            hostname: hostname.map(str::to_owned),
            ..UriTls::default()
        }),
        ..uri
    }
}

fn unix(path: &str, export: &str) -> NbdUri {
    NbdUri {
        transport: Transport::Unix(PathBuf::from(path)),
        others: Vec::new(),
        fenced_after: None,
        tls: None,
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
        ("nbds://h/x", tls(tcp("h", 10809, "x"), None, None)),
        (
            "nbds+unix:///x?tls-hostname=h&socket=s&tls-type=x509&tls-verify-peer=1",
            tls(unix("s", "x"), None, Some("h")),
        ),
        (
            "nbds://h/?tls-certificates=/etc/pki",
            tls(tcp("h", 10809, ""), Some("/etc/pki"), None),
        ),
        ("nbd+vsock:///x", vsock(2, 10809, "x")),
        ("nbd+vsock://3/", vsock(3, 10809, "")),
        ("nbds+vsock://3:77/", tls(vsock(3, 77, ""), None, None)),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

fn no_time(value: &str) -> UriError {
    UriError::Value {
        parameter: "fenced-after",
        value: value.to_owned(),
    }
}

/// The same disk on further servers.
fn also(uri: NbdUri, others: &[NbdUri]) -> NbdUri {
    let others = others.iter().map(|other| other.transport.clone());
    NbdUri {
        others: others.collect(),
        ..uri
    }
}

#[test]
fn several_servers_of_one_disk_are_read_in_their_order() {
    let after = |uri, seconds| NbdUri {
        fenced_after: Some(Duration::from_secs(seconds)),
        ..uri
    };
    let [a, b] = ["a", "b"].map(|host| tcp(host, 10809, "root"));
    for (text, expected) in [
        ("nbd://a,b/root", also(a.clone(), std::slice::from_ref(&b))),
        (
            "nbd://a:10809,b:10810/root",
            also(a.clone(), &[tcp("b", 10810, "root")]),
        ),
        (
            "nbd://a,b",
            also(tcp("a", 10809, ""), std::slice::from_ref(&b)),
        ),
        (
            "nbd://[::1]:99,[fe80::2],c/root",
            also(
                tcp("::1", 99, "root"),
                &[tcp("fe80::2", 10809, ""), tcp("c", 10809, "")],
            ),
        ),
        (
            "nbds://a,b/root?fenced-after=30",
            after(
                tls(also(a.clone(), std::slice::from_ref(&b)), None, None),
                30,
            ),
        ),
        ("nbd://b,a/root?fenced-after=30s", after(also(b, &[a]), 30)),
        // A parameter in front of them that is taken first leaves their order.
        (
            "nbds+unix:///x?tls-hostname=h&fenced-after=9&socket=a&socket=b&socket=c",
            after(
                tls(
                    also(unix("a", "x"), &[unix("b", "x"), unix("c", "x")]),
                    None,
                    Some("h"),
                ),
                9,
            ),
        ),
        (
            "nbd+unix:///x?socket=/run/a,1&socket=/run/b",
            also(unix("/run/a,1", "x"), &[unix("/run/b", "")]),
        ),
        (
            "nbd+vsock://2,3:7/x",
            also(vsock(2, 10809, "x"), &[vsock(3, 7, "")]),
        ),
        ("nbd://a%2cb/root", tcp("a,b", 10809, "root")),
    ] {
        assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        assert_eq!(expected.to_string().parse(), Ok(expected), "{text}");
    }
}

#[test]
fn what_would_be_ignored_or_cannot_be_done_is_refused_by_name() {
    for (text, expected) in [
        ("disk.img", UriError::NoScheme),
        ("http://x/", UriError::Scheme("http".to_owned())),
        ("nbd+ssh://x/", UriError::Scheme("nbd+ssh".to_owned())),
        ("nbd+://x/", UriError::Scheme("nbd+".to_owned())),
        ("nbd+vsock://x/", UriError::Cid("x".to_owned())),
        ("nbd+vsock://1:x/", UriError::Port("x".to_owned())),
        (
            "nbds://x/?tls-type=PSK",
            UriError::TlsType("PSK".to_owned()),
        ),
        (
            "nbds://x/?tls-verify-peer=no",
            UriError::Value {
                parameter: "tls-verify-peer",
                value: "no".to_owned(),
            },
        ),
        (
            "nbds://x/?tls-psk-file=k",
            UriError::Parameter("tls-psk-file".to_owned()),
        ),
        ("nbds://user@host/", UriError::User),
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
            UriError::NeedsTls("tls-type".to_owned()),
        ),
        (
            "nbd://host/?socket=a&socket=b",
            UriError::Parameter("socket".to_owned()),
        ),
        (
            "nbds://host/?tls-verify-peer=1&tls-verify-peer=0",
            UriError::Parameter("tls-verify-peer".to_owned()),
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

#[test]
fn lists_of_servers_that_are_no_lists_are_refused_by_name() {
    for (text, expected) in [
        ("nbd+unix:///?socket=a&socket=", UriError::NoSocket),
        (
            "nbd+unix:///?socket=a&socket=a",
            UriError::Twice("a".to_owned()),
        ),
        ("nbd://a,/x", UriError::NoHost),
        ("nbd://,a/x", UriError::NoHost),
        ("nbd://a,b:x/", UriError::Port("x".to_owned())),
        ("nbd://a,a:10809/x", UriError::Twice("a:10809".to_owned())),
        ("nbd://1,2,3,4,5,6,7,8,9/x", UriError::Servers),
        (
            "nbd://a/x?fenced-after=9",
            UriError::NeedsServers("fenced-after".to_owned()),
        ),
        ("nbd://a,b/x?fenced-after=", no_time("")),
        ("nbd://a,b/x?fenced-after=0", no_time("0")),
        ("nbd://a,b/x?fenced-after=+9", no_time("+9")),
        ("nbd://a,b/x?fenced-after=9m", no_time("9m")),
        ("nbd://a,b/x?fenced-after=999999", no_time("999999")),
    ] {
        assert_eq!(text.parse::<NbdUri>(), Err(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(host in "[a-z0-9.]{1,20}|[0-9a-f:]{2,20}|\\PC{1,5}", port in 1u16.., export in "[^\0]{0,30}") {
        let uri = tcp(&host, port, &export);
        prop_assert_eq!(uri.to_string().parse(), Ok(uri));
    }

    #[test]
    fn parameters_of_tls_are_parsed_back(
        certificates in prop::option::of("\\PC{1,20}"),
        hostname in prop::option::of("[^\0]{1,20}"),
        verify_peer: bool,
        minimum in prop::sample::select(&[TlsVersion::Tls12, TlsVersion::Tls13][..]),
        cid: u32,
        port: u32,
    ) {
        let said = UriTls {
            certificates: certificates.map(PathBuf::from),
            hostname,
            verify_peer,
            minimum,
        };
        for uri in [unix("s", "x"), vsock(cid, port, "x"), tcp("h", 1, "")] {
            let uri = NbdUri { tls: Some(said.clone()), ..uri };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }
    }

    #[test]
    fn sockets_are_read_back(path in "\\PC{1,30}", export in "[^\0]{0,30}") {
        let uri = unix(&path, &export);
        prop_assert_eq!(uri.to_string().parse(), Ok(uri));
    }

    #[test]
    fn lists_of_servers_are_read_back(
        hosts in prop::collection::btree_set("[a-z]{1,3}|[0-9a-f:]{2,9}|\\PC{1,3}", 2..9),
        port in 1u16..,
        seconds in prop::option::of(1u64..9999),
    ) {
        let servers: Vec<NbdUri> = hosts.iter().map(|host| tcp(host, port, "x")).collect();
        let sockets: Vec<NbdUri> = hosts.iter().map(|path| unix(path, "x")).collect();
        for servers in [servers, sockets] {
            let uri = NbdUri {
                fenced_after: seconds.map(Duration::from_secs),
                ..also(servers[0].clone(), &servers[1..])
            };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}", tail in "[\\[\\]:@/?%=&,a0]{0,20}") {
        for text in [text, format!("nbd://{tail}"), format!("nbd+unix://{tail}"), format!("nbds+vsock://{tail}")] {
            if let Ok(uri) = text.parse::<NbdUri>() {
                prop_assert_eq!(uri.to_string().parse(), Ok(uri));
            }
        }
    }
}

#[test]
fn the_oldest_version_of_tls_is_1_3_unless_an_address_says_otherwise() {
    for (text, minimum) in [
        ("nbds://h/", TlsVersion::Tls13),
        ("nbds://h/?tls-minimum=1.3", TlsVersion::Tls13),
        ("nbds://h/?tls-minimum=1.2", TlsVersion::Tls12),
    ] {
        let uri: NbdUri = text.parse().unwrap();
        assert_eq!(uri.tls.unwrap().minimum, minimum, "{text}");
    }
    let unknown = UriError::Value {
        parameter: "tls-minimum",
        value: "1.1".to_owned(),
    };
    assert_eq!("nbds://x/?tls-minimum=1.1".parse::<NbdUri>(), Err(unknown));
    let in_the_clear = UriError::NeedsTls("tls-minimum".to_owned());
    let parsed = "nbd://x/?tls-minimum=1.2".parse::<NbdUri>();
    assert_eq!(parsed, Err(in_the_clear));
}
