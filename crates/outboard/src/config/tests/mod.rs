//! Tests of the configuration: what it says, what is wrong in it and where, what a change means.

mod overlay;
mod standby;
mod writers;

use std::time::Duration;

use nbd::server::Limits;
use nbd::tls::TlsVersion;
use proptest::prelude::*;

use super::*;
use crate::live_page::PageAdmin;

const SMALL: &str = "[[export]]\nname = \"a\"\ndisk = \"memory(1M)\"\n";

fn plan(text: &str) -> ServerPlan {
    parse(text).unwrap_or_else(|slip| panic!("{slip}"))
}

fn slip(text: &str) -> String {
    parse(text).expect_err("a slip").to_string()
}

#[test]
fn a_small_configuration_takes_defaults_for_the_rest() {
    let plan = plan(SMALL);
    assert_eq!(plan.exports.len(), 1);
    assert_eq!(plan.exports[0].name, "a");
    assert_eq!(plan.exports[0].rules, Rules::default());
    assert_eq!(plan.limits, Limits::default());
    assert!(plan.listen.is_empty() && plan.tls.is_none() && plan.user.is_none());
}

#[test]
fn all_keys_are_parsed() {
    let text = r#"
        listen = ["127.0.0.1:0", "unix:/run/x.sock"]
        control = "/run/c.sock"
        metrics = "127.0.0.1:9109"
        http = "127.0.0.1:9110"
        http_admin = "/etc/outboard/http-token"
        http_hosts = ["NAS.lan"]
        user = "nobody"
        [tls]
        directory = "/etc/tls"
        demand = "all"
        minimum = "1.2"
        [limits]
        connections_max = 100
        connections_per_address_max = 10
        handshake_timeout = "5s"
        stall_timeout = "2m"
        stop_timeout = "500ms"
        payload_max = "32M"
        in_flight_requests_max = 64
        in_flight_bytes_max = 67108864
        in_flight_bytes_total_max = "1G"
        [[export]]
        name = "media"
        disk = "file(/srv/media.img, direct=true)"
        description = "films"
        read_only = true
        allow = ["192.168.1.0/24", "unix"]
        allow_certificates = ["pi"]
        connections_max = 8
        [[export]]
        name = "scratch"
        disk = "null(1G)"
    "#;
    let plan = plan(text);
    assert_eq!(plan.limits.handshake_timeout, Duration::from_secs(5));
    assert_eq!(plan.limits.stop_timeout, Duration::from_millis(500));
    assert_eq!(plan.limits.payload_max, 32 << 20);
    assert_eq!(plan.limits.in_flight_bytes_total_max, 1 << 30);
    let page = plan.http.as_ref().expect("a live page");
    assert_eq!(page.address.port(), 9110);
    assert_eq!(page.hosts, ["nas.lan"]);
    assert_eq!(
        page.admin,
        PageAdmin::File("/etc/outboard/http-token".into())
    );
    let media = &plan.exports[0];
    assert!(media.read_only);
    assert_eq!(media.rules.connections_max, Some(8));
    assert_eq!(media.rules.access.origins.as_ref().map(Vec::len), Some(2));
    let tls = plan.tls.expect("a [tls] table");
    assert_eq!(tls.demand, Demand::All);
    assert_eq!(tls.files.minimum, TlsVersion::Tls12);
}

#[test]
fn an_unknown_key_is_an_error_with_its_place_and_the_known_ones() {
    let told = slip("listen = []\nlisten_to = []\n");
    assert!(
        told.starts_with("line 2, column 1: unknown key `listen_to`"),
        "{told}"
    );
    assert!(told.contains("`metrics`"), "{told}");
    let told = slip(&format!("{SMALL}alow = [\"10.0.0.0/8\"]\n"));
    assert!(
        told.starts_with("line 4, column 1: unknown key `alow`"),
        "{told}"
    );
    assert!(told.contains("`allow`"), "{told}");
    assert!(slip("[tls]\ndir = \"x\"\n").contains("`directory`"));
    assert!(slip("[limits]\nconnections = 1\n").contains("`connections_max`"));
}

/// Asserts that the error in `text` is reported at `place`, in a message with `word`.
fn assert_slip(text: &str, place: &str, word: &str) {
    let told = slip(text);
    assert!(
        told.starts_with(place) && told.contains(word),
        "{text}\n{told}"
    );
}

#[test]
fn every_wrong_value_of_an_export_is_reported_with_its_place() {
    for (line, place, word) in [
        (
            "allow = [\"10.0.0.1/8\"]",
            "line 4, column 10",
            "10.0.0.0/8",
        ),
        ("allow = [\"10.0.0\"]", "line 4, column 10", "no address"),
        ("connections_max = 0", "line 4, column 19", "1 to"),
        ("connections_max = \"x\"", "line 4, column 19", "number"),
        ("allow_certificates = [\"pi\"]", "line 2, column 8", "[tls]"),
        ("read_only = 1", "line 4, column 13", "boolean"),
        (SMALL, "line 5, column 8", "second export"),
    ] {
        assert_slip(&format!("{SMALL}{line}\n"), place, word);
    }
    let with_disk = |disk: &str| format!("[[export]]\nname = \"ä\"\ndisk = \"{disk}\"");
    let read_only = with_disk("null(1M)") + "\nread_only = true";
    assert_slip(&read_only, "line 3, column 8", "read-only");
    assert_slip(&with_disk("memory(1)"), "line 3, column 8", "memory");
    assert_slip(&with_disk("b=memory(1M)"), "line 3, column 8", "`name`");
    assert_slip("[[export]]\nname = \"a\"", "line 1", "disk");
    assert_slip("", "line 1, column 1", "[[export]]");
}

#[test]
fn every_wrong_value_of_the_server_is_reported_with_its_place() {
    for (text, place, word) in [
        ("listen = [\"1:2:3\"]", "line 1, column 11", "ADDRESS"),
        ("metrics = \"9109\"", "line 1, column 11", "127.0.0.1:9109"),
        ("http = \"9110\"", "line 1, column 8", "127.0.0.1:9110"),
        ("http_admin = \"/x\"", "line 1, column 14", "needs http"),
        (
            "http = \"[::1]:1\"\nhttp_hosts = [\"nas:80\"]",
            "line 2, column 15",
            "without a port",
        ),
        ("user = \"\"", "line 1, column 8", "user's name"),
        (
            "[limits]\nstall_timeout = \"10\"",
            "line 2, column 17",
            "\"10s\"",
        ),
        (
            "[limits]\nstall_timeout = 10",
            "line 2, column 17",
            "\"10s\"",
        ),
        (
            "[limits]\nstall_timeout = \"25h\"",
            "line 2, column 17",
            "24h",
        ),
        ("[limits]\npayload_max = \"1K\"", "line 2, column 15", "64K"),
        (
            "[limits]\nin_flight_bytes_total_max = 1",
            "line 2",
            "not a size",
        ),
        (
            "[tls]\ndirectory = \"x\"\ndemand = \"none\"",
            "line 3",
            "network",
        ),
        (
            "[tls]\ndirectory = \"x\"\nminimum = \"1.1\"",
            "line 3",
            "1.3",
        ),
        ("x = = 1", "line 1", ""),
    ] {
        // Without an export that would be what is wrong.
        assert_slip(&format!("{text}\n{SMALL}"), place, word);
    }
}

#[test]
fn changes_name_what_is_added_removed_and_changed_and_nothing_else() {
    let export = |name: &str, rest: &str| format!("[[export]]\nname = \"{name}\"\n{rest}\n");
    let old = [
        export("kept", "disk = \"memory(1M)\""),
        export("gone", "disk = \"memory(1M)\""),
        export("other", "disk = \"memory(1M)\""),
        export("ruled", "disk = \"memory(1M)\""),
        export("ro", "disk = \"/x\""),
    ];
    let new = [
        export("new", "disk = \"null(1M)\""),
        export("kept", "disk = 'memory(1M)' # the same"),
        export("other", "disk = \"memory(2M)\""),
        export("ruled", "disk = \"memory(1M)\"\nallow = [\"unix\"]"),
        export("ro", "disk = \"/x\"\nread_only = true"),
    ];
    let (old, new) = (plan(&old.concat()), plan(&new.concat()));
    let changes = changes(&old, &new);
    let names = |exports: &[ExportPlan]| -> Vec<String> {
        exports.iter().map(|export| export.name.clone()).collect()
    };
    assert_eq!(changes.remove, ["gone"]);
    assert_eq!(names(&changes.add), ["new"]);
    assert_eq!(names(&changes.replace), ["other", "ro"]);
    assert_eq!(names(&changes.update), ["ruled"]);
    let order = changes.order.expect("another order");
    assert_eq!(order, ["new", "kept", "other", "ruled", "ro"]);
    assert!(changes.later.is_empty());
}

#[test]
fn the_same_plan_needs_no_change_and_other_keys_wait_for_a_start() {
    let old = plan(SMALL);
    assert_eq!(changes(&old, &old), Changes::default());
    let new = plan(&format!(
        "listen = [\"::1\"]\nmetrics = \"[::1]:1\"\nhttp = \"[::1]:2\"\n{SMALL}"
    ));
    assert_eq!(changes(&old, &new).later, ["listen", "metrics", "http"]);
}

#[test]
fn prices_of_a_store_are_there_if_they_are_set_and_wait_for_a_start() {
    let section = |put: &str| {
        let prices = format!("currency = \"USD\"\nput_per_1000 = {put}\nget_per_1000 = 0.0004");
        format!("[store_prices]\n{prices}\n{SMALL}")
    };
    let (old, new) = (plan(SMALL), plan(&section("0.005")));
    assert_eq!(old.store_prices, None);
    assert_eq!(changes(&old, &new).later, ["store_prices"]);
    let prices = new.store_prices.expect("prices");
    let billionths = [
        prices.put_per_1000,
        prices.get_per_1000,
        prices.egress_per_gib,
    ];
    assert_eq!(
        billionths.map(|one| one.billionths),
        [5_000_000, 400_000, 0]
    );
    let wrong = slip(&section("-1"));
    assert!(
        wrong.contains("line 3") && wrong.contains("an amount that is not negative"),
        "{wrong}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("none.toml");
    let told = read(&path).expect_err("there is none").to_string();
    assert!(told.contains("none.toml"), "{told}");
    std::fs::write(&path, "a = 1\n").expect("a file");
    let told = read(&path).expect_err("a slip").to_string();
    assert!(
        told.contains("none.toml, line 1, column 1: unknown key"),
        "{told}"
    );
    let long = "#".repeat(usize::try_from(TEXT_MAX).expect("small") + 1);
    std::fs::write(&path, long).expect("a file");
    assert!(matches!(read(&path), Err(ConfigError::TooLong { .. })));
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "listen",
        "export",
        "[[export]]",
        "[limits]",
        "[tls]",
        "name",
        "disk",
        "allow",
        "=",
        "[",
        "]",
        "\"",
        "'",
        "\n",
        " ",
        "\"memory(1M)\"",
        "\"a\"",
        "10",
        "\"10s\"",
        "\"64M\"",
        "handshake_timeout",
        "payload_max",
        "\"10.0.0.0/8\"",
        "\"ä\"",
        "#",
        ".",
        "{",
        "}",
        ",",
        "-1",
        "1e400",
        "9223372036854775808",
        "\"\"\"",
        "\\u0000",
        "\u{0}",
        "directory",
        "\r",
    ])
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        drop(parse(&text));
    }

    #[test]
    fn no_mixture_of_known_pieces_panics(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        if let Err(slip) = parse(&text) {
            prop_assert!(slip.line <= text.matches('\n').count() + 1);
        }
    }
}

#[test]
fn a_program_for_events_is_a_path_alone_or_with_arguments() {
    let of = |value: &str| plan(&format!("on_event = {value}\n{SMALL}")).on_event;
    assert_eq!(of("\"/bin/x y\""), Some(vec!["/bin/x y".to_owned()]));
    let words = ["/bin/x", "-t", "a"].map(str::to_owned).to_vec();
    assert_eq!(of("[\"/bin/x\", \"-t\", \"a\"]"), Some(words));
    for (wrong, word) in [
        ("\"x y\"", "absolute"),
        ("[]", "no program"),
        ("1", "wanted"),
    ] {
        let text = format!("on_event = {wrong}\n{SMALL}");
        assert_slip(&text, "line 1, column 12", word);
    }
}
