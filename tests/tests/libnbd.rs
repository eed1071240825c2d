//! libnbd's programs and its Python binding as clients of our server.

use outboard_tests::image::{Folder, MIB, assert_same, bytes_at, pattern};
use outboard_tests::said::{nbdsh, needs_nbdsh, program};
use outboard_tests::server::{By, Server, WAYS};
use outboard_tests::server_fixture;
use testkit::requires;

fn can_run() -> bool {
    requires::all(&[
        requires::command("nbdinfo"),
        // nbdinfo detects with it what an export holds; without it, its JSON is not UTF-8.
        requires::command("file"),
        requires::command("nbdcopy"),
        needs_nbdsh(),
    ])
}

#[test]
fn nbdinfo_sees_the_size_and_what_the_export_can() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let image = folder.empty("a.img", 3 * MIB);
    let server = Server::start(&[&format!("media={image}")]);
    for by in WAYS {
        for export in ["media", ""] {
            let printed = program("nbdinfo", &["--json", &server.uri_by(by, export)]).ok();
            let info: serde_json::Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(info["protocol"], "newstyle-fixed");
            let export = &info["exports"][0];
            assert_eq!(export["export-size"], 3 * MIB);
            assert_eq!(export["is_read_only"], false);
            for can in [
                "can_flush",
                "can_fua",
                "can_trim",
                "can_zero",
                "can_multi_conn",
            ] {
                assert_eq!(export[can], true, "{can}");
            }
        }
    }
}

#[test]
fn nbdinfo_lists_every_export_once_by_its_name() {
    if !can_run() {
        return;
    }
    let server = Server::start(&["one=memory(1M)", "two=memory(2M)"]);
    let printed = program("nbdinfo", &["--json", "--list", &server.uri("")]).ok();
    let info: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let mut seen: Vec<(String, u64)> = info["exports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|export| {
            let name = export["export-name"].as_str().unwrap().to_owned();
            (name, export["export-size"].as_u64().unwrap())
        })
        .collect();
    seen.sort();
    assert_eq!(seen, [("one".to_owned(), MIB), ("two".to_owned(), 2 * MIB)]);
}

#[test]
fn a_read_only_export_says_so_and_refuses_writes() {
    if !can_run() {
        return;
    }
    let (image, server) = server_fixture::filled_with(&["--read-only"], MIB, 1);
    nbdsh("read_only", &[&server.uri("")]).ok();
    assert_eq!(bytes_at(&image, 0, 512), pattern(512, 1));
}

#[test]
fn nbdcopy_brings_every_byte_up_and_down_again() {
    if !can_run() {
        return;
    }
    for by in WAYS {
        let (image, server) = server_fixture::empty(33 * MIB + 512);
        let source = image.folder().filled("source", 33 * MIB + 512, 7);
        let back = image.folder().at("back");
        let uri = server.uri_by(by, "");
        program("nbdcopy", &["--flush", "--connections=4", &source, &uri]).ok();
        program("nbdcopy", &["--connections=4", &uri, &back]).ok();
        drop(server);
        assert_same(&source, &back);
        assert_same(&source, &image);
    }
}

#[test]
fn every_command_of_a_client_does_what_it_says() {
    if !can_run() {
        return;
    }
    let (image, server) = server_fixture::filled(4 * MIB, 3);
    nbdsh("commands", &[&server.uri("")]).ok();
    assert_eq!(bytes_at(&image, 4096, 4096), vec![0; 4096]);
    assert_eq!(bytes_at(&image, 3 * MIB + 1, 513), vec![b'z'; 513]);
    assert_eq!(bytes_at(&image, 0, 4096), pattern(4096, 3));
}

#[test]
fn what_is_past_the_end_is_refused_and_the_connection_goes_on() {
    if !can_run() {
        return;
    }
    let server = Server::start(&["memory(1M)"]);
    nbdsh("refusals", &[&server.uri("")]).ok();
}

#[test]
fn an_unknown_export_is_refused_and_the_negotiation_goes_on() {
    if !can_run() {
        return;
    }
    let server = Server::start(&["known=memory(1M)"]);
    nbdsh("unknown_export", &[&server.uri("")]).ok();
    let said = program("nbdinfo", &[&server.uri("unknown")]);
    assert_ne!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_server_is_started_by_its_client_on_a_socket_pair() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let image = folder.filled("a.img", 2 * MIB, 9);
    let binary = testkit::proc::outboard().unwrap();
    nbdsh("socket_pair", &[binary.to_str().unwrap(), &image]).ok();
    assert_eq!(bytes_at(&image, 4096, 11), b"socket pair");
}

#[test]
fn nbdcopy_starts_a_server_of_its_own_and_copies_from_it() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let image = folder.filled("a.img", 2 * MIB, 9);
    let back = folder.at("back");
    let binary = testkit::proc::outboard().unwrap();
    let serve = [binary.to_str().unwrap(), "serve", &image];
    let args = [&["--", "["], &serve[..], &["]", &back]].concat();
    program("nbdcopy", &args).ok();
    assert_same(&image, &back);
}

#[test]
fn a_server_takes_the_sockets_that_systemd_hands_over() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let image = folder.filled("a.img", MIB, 9);
    let binary = testkit::proc::outboard().unwrap();
    nbdsh("handed_over", &[binary.to_str().unwrap(), &image]).ok();
    assert_eq!(bytes_at(&image, 0, 12), b"handed over ");
}

#[test]
fn sixteen_connections_see_what_each_other_wrote() {
    if !can_run() {
        return;
    }
    let server = Server::start(&["memory(16M)"]);
    nbdsh("sixteen", &[&server.uri_by(By::Unix, "")]).ok();
}
