//! Tests of the metrics: the text is read back by the rules of the format, from a real scrape.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nbd::server::{
    ClientDiskFigures, ClientName, CommandFigures, ExportFigures, Figures, Op, ServerFigures,
    StandbyFigures, WritersFigures,
};

use super::text::{self, Reports};
use crate::arrays::loss_report::LossReport;
use crate::arrays::report::{MemberHealth, PauseReport, SyncOperation, SyncReport};
use crate::http_thread;

fn figures() -> ServerFigures {
    let mut read = CommandFigures::none(Op::Read);
    read.requests = 7;
    read.errors = 1;
    read.bytes = 4096;
    read.latency[3] = 4;
    read.latency[27] = 3;
    read.latency_nanos = 1_500_000_000;
    ServerFigures {
        connections: 2,
        exports: vec![ExportFigures {
            name: "a \"b\"\\\nc".to_owned(),
            description: String::new(),
            size: 1 << 40,
            read_only: false,
            clients_ever: 5,
            clients: Vec::new(),
            figures: Figures {
                commands: vec![read],
            },
            client_disks: Some(vec![overlay(3, false), overlay(0, true)]),
            writers: Some(WritersFigures {
                policy: "fenced".to_owned(),
                generation: 3,
                writer: None,
            }),
            standby: Some(StandbyFigures {
                is_open: false,
                takeovers: 2,
            }),
        }],
        ..ServerFigures::default()
    }
}

fn overlay(connections: u64, is_older: bool) -> ClientDiskFigures {
    ClientDiskFigures {
        name: ClientName::User(1),
        connections,
        bytes: Some(1000),
        quota: None,
        last_seen: None,
        image: String::new(),
        image_id: String::new(),
        is_older,
    }
}

/// One sample: its name with its labels, and its value.
fn sample(line: &str) -> (String, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a series and a value");
    let name_len = series.find('{').unwrap_or(series.len());
    let (name, labels) = series.split_at(name_len);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!(!name.is_empty() && name.chars().all(is_name), "{line}");
    assert!(
        labels.is_empty() || (labels.starts_with('{') && labels.ends_with('}')),
        "{line}"
    );
    let mut rest = labels.trim_start_matches('{').trim_end_matches('}');
    while !rest.is_empty() {
        let (key, behind) = rest.split_once("=\"").expect("a label");
        assert!(key.chars().all(is_name), "{line}");
        let mut is_escaped = false;
        let end = behind.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        rest = behind[end.expect("a closing quote") + 1..].trim_start_matches(',');
    }
    (series.to_owned(), value.parse().expect("a number"))
}

/// Reads the text as strictly as it is meant, and returns its samples.
fn read(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            name.clone_into(&mut family);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = sample(line);
            assert!(series.starts_with(&family), "{line} belongs to no family");
            assert!(
                samples.insert(series, value).is_none(),
                "{line} is there twice"
            );
        }
    }
    assert!(text.ends_with('\n'));
    samples
}

#[test]
fn the_text_follows_the_format_and_has_the_figures() {
    let samples = read(&text::of(&figures(), &Reports::default()));
    let labels = "export=\"a \\\"b\\\"\\\\\\nc\",command=\"read\"";
    let value = |series: String| samples[&series];
    let writer = "outboard_export_writer_generation{export=\"a \\\"b\\\"\\\\\\nc\"}";
    assert!((value(writer.to_owned()) - 3.0).abs() < 1e-9);
    for (name, is) in [("standby", 1.0), ("takeovers_total", 2.0)] {
        let series = writer.replace("writer_generation", name);
        assert!((value(series) - is).abs() < 1e-9, "{name}");
    }
    assert!((value(format!("outboard_requests_total{{{labels}}}")) - 7.0).abs() < 1e-9);
    let bucket = |le| {
        value(format!(
            "outboard_request_duration_seconds_bucket{{{labels},le=\"{le}\"}}"
        ))
    };
    assert!(
        (bucket("0.000008192") - 4.0).abs() < 1e-9,
        "buckets are cumulative"
    );
    assert!((bucket("+Inf") - 7.0).abs() < 1e-9);
    let sum = value(format!("outboard_request_duration_seconds_sum{{{labels}}}"));
    assert!((sum - 1.5).abs() < 1e-9);
    let count = value(format!(
        "outboard_request_duration_seconds_count{{{labels}}}"
    ));
    assert!((count - 7.0).abs() < 1e-9);
}

#[test]
fn overlays_of_clients_are_counted_where_there_are_some() {
    let samples = read(&text::of(&figures(), &Reports::default()));
    for (name, expected) in [
        ("overlays", 1.0),
        ("overlays_older", 1.0),
        ("overlays_open", 1.0),
        ("overlay_bytes", 2000.0),
    ] {
        let series = format!("outboard_export_{name}{{export=\"a \\\"b\\\"\\\\\\nc\"}}");
        assert!((samples[&series] - expected).abs() < 1e-9, "{series}");
    }
    let mut without = figures();
    without.exports[0].client_disks = None;
    assert!(!text::of(&without, &Reports::default()).contains("overlay"));
}

fn get(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a limit");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("it answers and closes");
    answer
}

#[test]
fn a_scrape_over_http_gets_the_text_and_nothing_else_is_there() {
    let export = nbd::server::Export {
        name: "a".to_owned(),
        description: String::new(),
        disk: Arc::new(testkit::MemDisk::new(4096)).into(),
    };
    let limits = nbd::server::Limits::default();
    let server = nbd::server::Server::new(vec![export], limits).expect("an export");
    let listener = http_thread::bind(super::NAME, ([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let metrics = super::start(listener, server.control(), super::MetricSources::default())
        .expect("it starts");
    // Scrapers that send nothing had all places, and others waited for 10 s.
    let silent: Vec<TcpStream> = (0..2 * http_thread::CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    let start = engine::clock::now();
    let answer = get(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let took = engine::clock::now() - start;
    assert!(took < http_thread::HEAD_TIMEOUT / 2, "{took:?}");
    drop(silent);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let samples = read(body);
    assert!((samples["outboard_export_size_bytes{export=\"a\"}"] - 4096.0).abs() < 1e-9);
    let other = get(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    let post = get(
        address,
        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    drop(metrics);
    let ends = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(address).is_err()
    });
    assert!(ends, "it ends with its server");
}

#[test]
fn arrays_have_metrics_of_their_members_and_syncs() {
    let mut array = crate::arrays::tests::mirror();
    array.working = 1;
    array.members[1].state = MemberHealth::Rebuilding;
    array.members[0].corrected = 3;
    array.sync = Some(SyncReport {
        kind: SyncOperation::Recovery,
        done: 100,
        of: 400,
        speed: 7,
        seconds_left: None,
        mismatches: 0,
    });
    let samples = read(&text::of(
        &figures(),
        &Reports {
            arrays: vec![array],
            ..Reports::default()
        },
    ));
    let labels = "array=\"media\",uuid=\"00112233:44556677:8899aabb:ccddeeff\",export=\"films\"";
    let value =
        |name: &str, more: &str| samples[&format!("outboard_array_{name}{{{labels}{more}}}")];
    assert_eq!(value("degraded", ""), 1.0);
    assert_eq!(value("members", ",state=\"rebuilding\""), 1.0);
    assert_eq!(value("members", ",state=\"failed\""), 0.0);
    assert_eq!(value("sync", ",kind=\"recovery\""), 1.0);
    assert_eq!(value("sync", ",kind=\"check\""), 0.0);
    assert_eq!(value("sync_done_bytes", ""), 100.0);
    assert_eq!(value("corrected_reads_total", ""), 3.0);
    assert_eq!(value("bitmap_dirty_chunks", ""), 0.0);
    assert_eq!(value("reshape_paused", ""), 0.0);
    assert_eq!(value("reshape_lost_places", ""), 0.0);
    assert_eq!(value("reshape_lost_bytes", ""), 0.0);
    assert!(!text::of(&figures(), &Reports::default()).contains("outboard_array"));
}

#[test]
fn a_reshape_that_is_paused_has_metrics_of_that_and_of_what_is_lost() {
    let mut array = crate::arrays::tests::mirror();
    array.reshape_paused = Some(PauseReport {
        done: 1 << 30,
        of: 4 << 30,
        why: "add a disk".to_owned(),
    });
    array.reshape_lost = LossReport {
        places: 2,
        bytes: 12 << 10,
    };
    let samples = read(&text::of(
        &figures(),
        &Reports {
            arrays: vec![array],
            ..Reports::default()
        },
    ));
    let labels = "array=\"media\",uuid=\"00112233:44556677:8899aabb:ccddeeff\",export=\"films\"";
    let value = |name: &str| samples[&format!("outboard_array_reshape_{name}{{{labels}}}")];
    assert_eq!(value("paused"), 1.0);
    assert_eq!(value("lost_places"), 2.0);
    assert_eq!(value("lost_bytes"), 12_288.0);
}

#[test]
fn snapshots_have_their_stores_in_bytes() {
    let snapshot = crate::snapshots::report::SnapshotReport {
        group: "vg0".to_owned(),
        origin: "media".to_owned(),
        name: "before".to_owned(),
        state: crate::snapshots::report::SnapshotHealth::Valid,
        why: None,
        size: 9000,
        store_size: 5000,
        used: 4000,
        per_mille: Some(800),
        chunk: 4096,
    };
    let samples = read(&text::of(
        &figures(),
        &Reports {
            snapshots: vec![snapshot],
            ..Reports::default()
        },
    ));
    let labels = "group=\"vg0\",snapshot=\"before\",origin=\"media\"";
    let value = |name: &str| samples[&format!("outboard_snapshot_{name}{{{labels}}}")];
    assert_eq!(value("store_size_bytes"), 5000.0);
    assert_eq!(value("store_used_bytes"), 4000.0);
    assert_eq!((value("valid"), value("invalid")), (1.0, 0.0));
}

#[test]
fn moves_of_extents_have_their_bytes() {
    let report = crate::volume_moves::report::MoveReport {
        group: "vg0".to_owned(),
        from: "a.img".to_owned(),
        to: vec!["b.img".to_owned()],
        state: crate::volume_moves::report::MoveProgress::Running,
        why: None,
        bytes: 4096,
        copied: 1024,
    };
    let samples = read(&text::of(
        &figures(),
        &Reports {
            moves: vec![report],
            ..Reports::default()
        },
    ));
    let value = |name: &str| samples[&format!("outboard_volume_move_{name}{{group=\"vg0\"}}")];
    assert_eq!((value("bytes"), value("copied_bytes")), (4096.0, 1024.0));
    assert_eq!((value("running"), value("failed")), (1.0, 0.0));
    assert!(!text::of(&figures(), &Reports::default()).contains("volume_move"));
}

#[test]
fn a_cache_file_has_its_figures_and_a_server_without_one_has_none() {
    let cache = nodes::CacheStatus {
        file: "/var/cache/a \"b\".outboard".to_owned(),
        hits: 5,
        misses: 2,
        cached: 4096,
        failure: Some("broken".to_owned()),
        ..nodes::CacheStatus::default()
    };
    let text = text::of(
        &figures(),
        &Reports {
            caches: vec![cache],
            ..Reports::default()
        },
    );
    let labels = r#"{file="/var/cache/a \"b\".outboard"}"#;
    for (name, value) in [
        ("outboard_cache_hits_total", 5),
        ("outboard_cache_misses_total", 2),
        ("outboard_cache_cached_bytes", 4096),
        ("outboard_cache_failed", 1),
    ] {
        let line = format!("{name}{labels} {value}");
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    assert!(!text::of(&figures(), &Reports::default()).contains("outboard_cache"));
}

#[test]
fn remote_disks_have_metrics_of_their_servers() {
    let remote = crate::remotes::RemoteReport {
        disk: "nbd://a,b/x".to_owned(),
        servers: vec![("nbd://a/x".to_owned(), 0), ("nbd://b/x".to_owned(), 1)],
        server_changes: 3,
        unreachable_for: Duration::from_millis(1500),
        ..crate::remotes::RemoteReport::default()
    };
    let samples = read(&text::of(
        &figures(),
        &Reports {
            remotes: vec![remote],
            ..Reports::default()
        },
    ));
    let value = |name: &str, more: &str| {
        samples[&format!("outboard_remote_{name}{{disk=\"nbd://a,b/x\"{more}}}")]
    };
    assert_eq!(value("server_clients", ",server=\"nbd://a/x\""), 0.0);
    assert_eq!(value("server_clients", ",server=\"nbd://b/x\""), 1.0);
    assert_eq!(value("server_changes_total", ""), 3.0);
    assert_eq!(value("unreachable_seconds_total", ""), 1.5);
    assert_eq!(value("unreachable", ""), 0.0);
}

#[test]
fn a_volume_on_an_object_store_has_its_requests() {
    let get = bucket::OperationFigures {
        operation: bucket::StoreOperation::Get,
        requests: 5,
        failures: 1,
        nanos: 1_500_000_000,
        answered: 5,
    };
    let volume = |is_writer| bucket::VolumeFigures {
        uri: "s3://disks/root".to_owned(),
        is_writer,
        failure: is_writer.then(|| "lost".to_owned()),
        unwritten: 7,
        journal: is_writer.then_some(bucket::JournalFigures {
            unstored: 10,
            size: 20,
            full_waits: 30,
        }),
        received: 8,
        sent: 9,
        open_ms: 1000,
        requests_per_second: bucket::Decimal::default(),
        cost: None,
        operations: vec![get],
    };
    let priced = || {
        let prices = "currency = 'EUR'\nput_per_1000 = 1\nget_per_1000 = 0.25";
        let prices: bucket::StorePrices = toml::from_str(prices).expect("prices");
        let cost = Some(prices.cost(&volume(false)));
        bucket::VolumeFigures {
            cost,
            ..volume(false)
        }
    };
    let reports = Reports {
        volumes: vec![volume(true), priced(), priced()],
        ..Reports::default()
    };
    let samples = read(&text::of(&figures(), &reports));
    let value = |name: &str, of: &str, more: &str| {
        samples[&format!("outboard_bucket_{name}{{volume=\"s3://disks/root\",use=\"{of}\"{more}}}")]
    };
    let get = ",operation=\"get\"";
    assert_eq!(value("requests_total", "write", get), 5.0);
    assert_eq!(value("request_failures_total", "read", get), 2.0);
    assert_eq!(value("request_seconds_total", "write", get), 1.5);
    assert_eq!(value("unwritten_bytes", "write", ""), 7.0);
    assert_eq!(value("received_bytes_total", "write", ""), 8.0);
    assert_eq!(value("sent_bytes_total", "read", ""), 18.0);
    assert_eq!(value("failed", "write", ""), 1.0);
    assert_eq!(value("failed", "read", ""), 0.0);
    for (name, expected) in [
        ("unstored_bytes", 10.0),
        ("size_bytes", 20.0),
        ("full_waits_total", 30.0),
    ] {
        assert_eq!(value(&format!("journal_{name}"), "write", ""), expected);
    }
    let euro = ",currency=\"EUR\"";
    assert_eq!(value("estimated_cost_total", "read", euro), 0.0025);
    let costs = samples.keys().filter(|name| name.contains("cost"));
    assert_eq!(costs.count(), 1, "no prices, no cost");
}
