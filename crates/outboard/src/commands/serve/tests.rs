//! Tests of what `serve` decides without touching anything: places, names, URIs.

use std::path::PathBuf;

use nbd::server::ListenAddress;
use nbd::{ANY_CID, VsockAddress};
use proptest::prelude::*;

use super::announce::{under_tls, uri};
use super::exports::plan;
use super::listen::ListenPlace;

fn tcp(host: &str, port: u16) -> Option<ListenPlace> {
    let host = host.to_owned();
    Some(ListenPlace::Tcp { host, port })
}

fn place(text: &str) -> Option<ListenPlace> {
    text.parse().ok()
}

#[test]
fn a_place_without_a_port_has_the_port_of_nbd() {
    assert_eq!(place("0.0.0.0"), tcp("0.0.0.0", 10809));
    assert_eq!(place("::"), tcp("::", 10809));
    assert_eq!(place("[::1]"), tcp("::1", 10809));
    assert_eq!(place("nas.lan"), tcp("nas.lan", 10809));
}

#[test]
fn a_place_takes_a_port_behind_a_colon() {
    assert_eq!(place("127.0.0.1:0"), tcp("127.0.0.1", 0));
    assert_eq!(place("[::]:10810"), tcp("::", 10810));
    assert_eq!(place("localhost:1"), tcp("localhost", 1));
}

#[test]
fn a_socket_has_a_path_and_perhaps_permissions() {
    let socket = |path: &str, mode| {
        let path = PathBuf::from(path);
        Some(ListenPlace::Unix { path, mode })
    };
    assert_eq!(place("unix:/run/a b:c"), socket("/run/a b:c", None));
    assert_eq!(place("unix:/run/a,b"), socket("/run/a,b", None));
    assert_eq!(place("unix:s,mode=660"), socket("s", Some(0o660)));
    assert_eq!(place("unix:s,mode=0777"), socket("s", Some(0o777)));
    let twice = socket("s,mode=660", Some(0o600));
    assert_eq!(place("unix:s,mode=660,mode=600"), twice);
}

#[test]
fn a_place_for_virtual_machines_has_a_port_and_perhaps_a_context_id() {
    let at = |cid, port| Some(ListenPlace::Vsock(VsockAddress { cid, port }));
    assert_eq!(place("vsock:10809"), at(ANY_CID, 10809));
    assert_eq!(place("vsock:1:4000000000"), at(1, 4_000_000_000));
}

#[test]
fn the_uri_of_a_vsock_has_the_address_of_the_host() {
    let anywhere = ListenAddress::Vsock(VsockAddress {
        cid: ANY_CID,
        port: 10810,
    });
    let said = uri(&anywhere, "a", "host").to_string();
    assert_eq!(said, "nbd+vsock://2:10810/a");
}

/// The URI under TLS named an address that the certificate is not for: every client refused it.
#[test]
fn under_tls_the_uri_has_a_name_of_the_certificate() {
    let made = ["nas", "nas.local", "localhost", "127.0.0.1", "::1"];
    let said = |listen: &str, hosts: &[&str]| {
        let place = ListenAddress::Tcp(listen.parse().unwrap());
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        under_tls(uri(&place, "a", "nas"), &place, &hosts, "nas").to_string()
    };
    assert_eq!(said("127.0.0.1:1", &made), "nbds://127.0.0.1:1/a");
    assert_eq!(
        said("127.0.0.1:1", &["NAS.lan", "localhost"]),
        "nbds://localhost:1/a"
    );
    assert_eq!(said("127.0.0.1:1", &["nas.lan"]), "nbds://nas.lan:1/a");
    assert_eq!(said("0.0.0.0:1", &made), "nbds://nas:1/a");
    assert_eq!(
        said("0.0.0.0:1", &["localhost", "nas.local"]),
        "nbds://nas.local:1/a"
    );
    assert_eq!(
        said("0.0.0.0:1", &["*.lan", "localhost", "store.lan"]),
        "nbds://store.lan:1/a"
    );
    assert_eq!(said("192.168.1.5:1", &made), "nbds://nas:1/a");
    assert_eq!(
        said("192.168.1.5:1", &["192.168.1.5", "nas"]),
        "nbds://192.168.1.5:1/a"
    );
    assert_eq!(
        said("192.168.1.5:1", &["localhost"]),
        "nbds://192.168.1.5:1/a"
    );
    assert_eq!(said("0.0.0.0:1", &[]), "nbds://nas:1/a");
    let socket = ListenAddress::Unix(Some(PathBuf::from("/run/s")));
    let hosts = ["localhost".to_owned(), "store.lan".to_owned()];
    let named = under_tls(uri(&socket, "a", "nas"), &socket, &hosts, "nas");
    assert_eq!(named.tls.unwrap().hostname.as_deref(), Some("store.lan"));
}

#[test]
fn what_is_no_place_is_refused() {
    for text in [
        "",
        ":1",
        "10809",
        "a:",
        "a:b",
        "a:1:2",
        "a:65536",
        "a:-1",
        "unix:",
        "unix:,mode=660",
        "unix:s,mode=",
        "unix:s,mode=rw",
        "unix:s,mode=1777",
        "unix:s,mode=668",
        "[::1",
        "[x]:1",
        "[::1]1",
        "[::1]:",
        "vsock:",
        "vsock:x",
        "vsock:1:",
        "vsock:-1:5",
        "vsock:1:2:3",
    ] {
        assert_eq!(place(text), None, "{text}");
    }
}

#[test]
fn an_address_that_means_all_is_named_by_this_machines_name() {
    let at = |address: &str| ListenAddress::Tcp(address.parse().expect("an address"));
    let said = |address: &str| uri(&at(address), "a b", "nas").to_string();
    assert_eq!(said("0.0.0.0:10809"), "nbd://nas/a%20b");
    assert_eq!(said("[::]:1"), "nbd://nas:1/a%20b");
    assert_eq!(said("127.0.0.1:1"), "nbd://127.0.0.1:1/a%20b");
    assert_eq!(said("[::1]:10809"), "nbd://[::1]/a%20b");
    let socket = ListenAddress::Unix(Some(PathBuf::from("/run/s")));
    assert_eq!(
        uri(&socket, "", "nas").to_string(),
        "nbd+unix:///?socket=/run/s"
    );
}

#[test]
fn names_may_only_be_left_out_once_and_at_the_front() {
    let planned = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        plan(&texts, false).ok().map(|disks| {
            let names = disks.into_iter().map(|disk| disk.name);
            names.collect::<Vec<_>>()
        })
    };
    let a = Some("a".to_owned());
    assert_eq!(planned(&["x", "a=y"]), Some(vec![None, a.clone()]));
    assert_eq!(planned(&["a=x"]), Some(vec![a]));
    assert_eq!(planned(&["a=x", "y"]), None);
    assert_eq!(planned(&["a=x", "a=y"]), None);
}

proptest! {
    #[test]
    fn no_place_panics(text in any::<String>(), odd in "[\\[\\]:0-9a-f.]{0,20}") {
        let _ = place(&text);
        let _ = place(&odd);
    }
}
