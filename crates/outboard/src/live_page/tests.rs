//! Tests of what the page shows of two snapshots, and that its files need nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nbd::server::{
    ClientFigures, CommandFigures, ExportFigures, Figures, Op, ServerFigures, WriterFigures,
    WritersFigures,
};
use serde_json::Value;

use super::status::{PageInput, ROWS_MAX, StatusHistory, Surroundings};
use super::{PageAdmin, PagePlan, assets};
use crate::control::ServerStatus;

fn reads(count: u64) -> Figures {
    let mut read = CommandFigures::none(Op::Read);
    (read.requests, read.bytes) = (count, count * 4096);
    read.latency[5] = count;
    let commands = vec![read];
    Figures { commands }
}

fn client(id: u64, figures: Figures) -> ClientFigures {
    ClientFigures {
        id,
        peer: format!("192.168.1.7:{id}"),
        address: None,
        process: None,
        certificate: None,
        size: 1 << 20,
        connected_seconds: 3,
        figures,
    }
}

fn input(count: u64, clients: Vec<ClientFigures>) -> PageInput {
    let export = ExportFigures {
        name: "media".to_owned(),
        description: "films".to_owned(),
        size: 1 << 20,
        read_only: false,
        clients_ever: clients.len() as u64,
        clients,
        figures: reads(count),
        client_disks: None,
        writers: Some(WritersFigures {
            policy: "one".to_owned(),
            generation: 1,
            writer: Some(WriterFigures {
                peer: "192.168.1.7:1".to_owned(),
                since: 0,
                connections: 1,
            }),
        }),
        standby: None,
    };
    PageInput {
        status: ServerStatus {
            name: "serve-1".to_owned(),
            process: 1,
            program: "0.1.0".to_owned(),
            config: None,
            listen: Vec::new(),
            metrics: None,
            up_seconds: 1,
            figures: ServerFigures {
                exports: vec![export],
                ..ServerFigures::default()
            },
            disks: BTreeMap::new(),
            directory: PathBuf::new(),
            arrays: Vec::new(),
            snapshots: Vec::new(),
            moves: Vec::new(),
            caches: Vec::new(),
            bucket_volumes: Vec::new(),
        },
        outlines: BTreeMap::new(),
        groups: Vec::new(),
    }
}

fn shown(history: &mut StatusHistory, at: Instant, input: PageInput) -> Value {
    let status = history.next(at, input, Surroundings::default());
    serde_json::to_value(&status).expect("JSON")
}

#[test]
fn rates_are_between_two_snapshots_and_a_new_client_counts_from_zero() {
    let mut history = StatusHistory::default();
    let start = engine::clock::now();
    let first = shown(&mut history, start, input(100, Vec::new()));
    assert!(first["rates"].is_null() && first["exports"][0]["rates"].is_null());
    let later = start + Duration::from_secs(2);
    let second = shown(&mut history, later, input(300, vec![client(7, reads(40))]));
    assert_eq!(second["number"], 2);
    assert_eq!(second["rates"]["reads"], 100);
    assert_eq!(second["exports"][0]["rates"]["read_bytes"], 100 * 4096);
    assert_eq!(second["exports"][0]["rates"]["p99_us"], 32);
    assert_eq!(second["exports"][0]["writer"], "192.168.1.7:1");
    assert_eq!(second["clients"][0]["rates"]["reads"], 20);
}

#[test]
fn after_a_pause_without_pages_there_are_no_rates() {
    let mut history = StatusHistory::default();
    let start = engine::clock::now();
    shown(&mut history, start, input(100, Vec::new()));
    let later = start + Duration::from_secs(600);
    let second = shown(&mut history, later, input(300, Vec::new()));
    assert!(second["rates"].is_null());
}

#[test]
fn an_export_that_is_removed_makes_no_rate_of_what_the_others_did_before() {
    let mut history = StatusHistory::default();
    let start = engine::clock::now();
    let with_both = || {
        let mut input = input(1000, Vec::new());
        let exports = &mut input.status.figures.exports;
        let mut other = exports[0].clone();
        other.name = "other".to_owned();
        other.figures = reads(5000);
        exports.push(other);
        input
    };
    shown(&mut history, start, with_both());
    let second = Duration::from_secs(1);
    let left = shown(&mut history, start + second, input(1010, Vec::new()));
    assert_eq!(left["rates"], Value::Null);
    assert_eq!(left["exports"][0]["rates"]["reads"], 10);
    let next = shown(&mut history, start + 2 * second, input(1030, Vec::new()));
    assert_eq!(next["rates"]["reads"], 20);
}

#[test]
fn clients_are_bounded_and_counted() {
    let many = ROWS_MAX + 500;
    let clients = (0..many as u64).map(|id| client(id, reads(1))).collect();
    let mut history = StatusHistory::default();
    let page = shown(&mut history, engine::clock::now(), input(1, clients));
    assert_eq!(page["clients"].as_array().map(Vec::len), Some(ROWS_MAX));
    assert_eq!(page["clients_count"], many);
}

#[test]
fn actions_are_refused_where_other_machines_would_send_the_token() {
    let mut plan = PagePlan {
        address: ([0, 0, 0, 0], 9110).into(),
        admin: PageAdmin::Off,
        hosts: Vec::new(),
    };
    assert_eq!(plan.check(), Ok(()));
    plan.admin = PageAdmin::Printed;
    let failure = plan.check().expect_err("it is refused").text();
    assert!(
        failure.contains("without TLS") && failure.contains("ssh -L"),
        "{failure}"
    );
    plan.address = ([127, 0, 0, 1], 9110).into();
    assert_eq!(plan.check(), Ok(()));
}

#[test]
fn every_file_of_the_page_is_in_the_binary_and_none_is_inline() {
    let (_, page) = assets::ALL[0];
    let has = |path: &str| assets::ALL.iter().any(|(known, _)| *known == path);
    let mut count = 0;
    for attribute in ["src=\"", "href=\""] {
        for after in page.content.split(attribute).skip(1) {
            let path = after.split('"').next().expect("an end");
            assert!(path.starts_with('#') || has(path), "{path}");
            count += 1;
        }
    }
    assert!(count > 8, "{count}");
    assert!(!page.content.contains("style=") && !page.content.contains("<style"));
    for (path, asset) in assets::ALL {
        for after in asset.content.split("from \"./").skip(1) {
            let module = after.split('"').next().expect("an end");
            assert!(has(&format!("/{module}")), "{path} imports {module}");
        }
        let is_ours = asset.content_type.contains("javascript") && path != "/uPlot.js";
        for forbidden in ["innerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(
                !is_ours || !asset.content.contains(forbidden),
                "{path}: {forbidden}"
            );
        }
    }
}
