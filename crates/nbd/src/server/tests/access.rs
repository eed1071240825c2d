//! Which clients are admitted: origins as numbers, certificates by name.

use std::net::IpAddr;

use proptest::prelude::*;

use crate::server::{Access, Origin, OriginError, Peer};

fn origin(text: &str) -> Origin {
    text.parse().expect("an origin")
}

fn peer(address: &str) -> Peer {
    Peer::new("peer", Some(address.parse().expect("an address")))
}

fn lets_in(origins: &[&str], address: &str) -> bool {
    let access = Access {
        origins: Some(origins.iter().map(|text| origin(text)).collect()),
        certificates: None,
    };
    access.allows(&peer(address))
}

/// nbd-server compared addresses by as many characters as the rule had, so that a rule for
/// 10.0.0.1 let 10.0.0.10 in (CVE-2013-6410).
#[test]
fn a_rule_for_one_address_lets_no_longer_one_in() {
    for (rule, other) in [
        ("10.0.0.1", "10.0.0.10"),
        ("10.0.0.1", "10.0.0.100"),
        ("10.0.0.10", "10.0.0.1"),
        ("1.2.3.4", "1.2.3.44"),
        ("10.0.0.0/31", "10.0.0.2"),
        ("10.0.0.0/31", "10.0.0.10"),
        ("2001:db8::1", "2001:db8::10"),
        ("2001:db8::/64", "2001:db8:0:1::"),
    ] {
        assert!(!lets_in(&[rule], other), "{rule} lets {other} in");
    }
    assert!(lets_in(&["10.0.0.1"], "10.0.0.1"));
    assert!(lets_in(&["10.0.0.0/31"], "10.0.0.1"));
    assert!(lets_in(&["192.168.0.0/16", "10.0.0.1"], "192.168.255.255"));
}

#[test]
fn an_ipv4_client_is_one_however_it_came_in() {
    assert!(lets_in(&["10.0.0.0/8"], "::ffff:10.1.2.3"));
    assert!(lets_in(&["::ffff:10.1.2.3"], "10.1.2.3"));
    assert!(lets_in(&["::ffff:10.0.0.0/104"], "10.1.2.3"));
    assert!(!lets_in(&["::ffff:10.0.0.0/104"], "11.1.2.3"));
    assert!(!lets_in(&["::/0"], "10.1.2.3"), "it is no IPv6 client");
}

#[test]
fn what_is_no_origin_is_refused_and_a_slip_is_shown() {
    for text in [
        "",
        "10.0.0",
        "10.0.0.0/33",
        "10.0.0.0/",
        "/8",
        "10.0.0.0/-1",
        "10.0.0.0/8 ",
        "010.0.0.1",
        "localhost",
        "10.0.0.*",
        "10.0.0.0/255.0.0.0",
        "::/129",
        "Unix",
        "10.0.0.1,10.0.0.2",
    ] {
        assert!(
            matches!(text.parse::<Origin>(), Err(OriginError::Unknown(_))),
            "{text:?}"
        );
    }
    let slip = "192.168.1.7/24".parse::<Origin>().expect_err("a slip");
    let told = slip.to_string();
    assert!(
        told.contains("192.168.1.0/24") && told.contains("the one host 192.168.1.7"),
        "{told}"
    );
}

#[test]
fn a_unix_client_comes_from_unix_and_from_no_address() {
    let access = |rule| Access {
        origins: Some(vec![origin(rule)]),
        certificates: None,
    };
    let local = Peer::new("a unix socket", None);
    assert!(access("unix").allows(&local));
    assert!(!access("0.0.0.0/0").allows(&local));
    assert!(!access("unix").allows(&peer("127.0.0.1")));
}

#[test]
fn a_certificate_is_compared_whole_and_required_in_addition_to_the_address() {
    let access = Access {
        origins: Some(vec![origin("10.0.0.0/8")]),
        certificates: Some(vec!["pi".to_owned()]),
    };
    let named = |address, name: Option<&str>| Peer {
        certificate_name: name.map(str::to_owned),
        ..peer(address)
    };
    assert!(access.allows(&named("10.0.0.1", Some("pi"))));
    assert!(!access.allows(&named("11.0.0.1", Some("pi"))));
    for other in [None, Some(""), Some("p"), Some("pi2"), Some("PI")] {
        assert!(!access.allows(&named("10.0.0.1", other)), "{other:?}");
    }
    assert!(Access::default().allows(&named("1.1.1.1", None)));
}

#[test]
fn an_empty_list_admits_no_client() {
    assert!(!lets_in(&[], "127.0.0.1"));
}

proptest! {
    #[test]
    fn a_network_holds_what_has_its_first_bits(bits: u32, prefix in 0..=32u32, other: u32) {
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        let network = IpAddr::from((bits & mask).to_be_bytes());
        let rule = format!("{network}/{prefix}");
        let address = IpAddr::from(other.to_be_bytes()).to_string();
        prop_assert_eq!(lets_in(&[&rule], &address), bits & mask == other & mask);
        let near = IpAddr::from(((bits & mask) | (other & !mask)).to_be_bytes());
        prop_assert!(lets_in(&[&rule], &near.to_string()));
    }

    #[test]
    fn no_text_panics_and_what_is_read_is_written_the_same(text in "[0-9a-f.:/unix]{0,24}") {
        if let Ok(origin) = text.parse::<Origin>() {
            prop_assert_eq!(origin.to_string().parse::<Origin>(), Ok(origin));
        }
    }
}
