//! The metrics of a server in the hands of Prometheus: its own checker, the alert rules and the dashboard that the package has,
//! each query of which has an answer from a real Prometheus that scrapes a real server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use outboard_tests::image::{Folder, MIB};
use outboard_tests::metrics::get;
use outboard_tests::said;
use outboard_tests::server::{Server, free_port};
use serde_json::Value;
use testkit::proc::Process;
use testkit::requires;

/// How long Prometheus may take to start, and to scrape twice.
const LIMIT: Duration = Duration::from_secs(60);

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

/// The answer of Prometheus to a query: how many series.
fn query(port: u16, expression: &str) -> usize {
    let escaped: String = expression
        .bytes()
        .map(|byte| format!("%{byte:02x}"))
        .collect();
    let answer = get(port, &format!("/api/v1/query?query={escaped}"));
    let answer = answer.unwrap_or_else(|| panic!("{expression} is no query"));
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().expect("series").len()
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// A server with requests that it has answered, the one of its remote disk, and the port of its metrics.
struct Scraped {
    _server: Server,
    _remote: Server,
    metrics: u16,
}

/// A server of an array, of one that is being resynced, of a volume with a snapshot, of one that was moved, of a cache and of a
/// remote disk.
fn server(folder: &Folder) -> Scraped {
    let disks = ["a", "b", "c", "d", "e", "f", "g"].map(|name| folder.empty(name, 48 * MIB));
    let [a, b, c, d, e, f, g] = &disks;
    let (cache, behind) = (folder.at("cache"), folder.filled("behind", MIB, 1));
    let outboard = |words: &[&str]| run(&mut said::outboard(words));
    let backup = folder.empty("none", 0);
    let backup = Path::new(&backup).parent().expect("a folder");
    let backup = format!("--backup={}", backup.display());
    outboard(&["array", "create", a, b, "--level=1", "--assume-clean"]);
    outboard(&["array", "create", d, e, "--level=1", "--name=resynced"]);
    let volume = |words: String| {
        let words = words.split(' ').chain([backup.as_str()]);
        outboard(&["volume"].into_iter().chain(words).collect::<Vec<_>>())
    };
    volume(format!("create vg/data --disks {c} --size=8M"));
    volume(format!("snapshot create vg/data before {c} --size=4M"));
    volume(format!("create moved/films --disks {f} {g} --size=8M"));
    let remote = Server::start(&[&format!("far={}", folder.filled("far", MIB, 2))]);
    let metrics = free_port();
    let mut server = Server::start(&[
        &format!("data=volume({c}, name=vg/data)"),
        &format!("films=volume({f}, {g}, name=moved/films)"),
        &format!("photos=array({a}, {b})"),
        &format!("slow=array(throttle({d}, bytes=100K/s), {e})"),
        &format!("cached=cache({behind}, {cache})"),
        &format!("far={}", remote.uri("far")),
        &format!("--metrics=127.0.0.1:{metrics}"),
    ]);
    let process = server.process().id().to_string();
    volume(format!("move moved --server {process} --from {f}"));
    let content = folder.empty("content", MIB);
    for export in ["data", "photos"] {
        outboard(&[
            "copy",
            &content,
            &server.uri(export),
            "--force",
            "--detect-zeroes=never",
        ]);
    }
    // The second time from the cache.
    for _ in 0..2 {
        outboard(&["copy", &server.uri("cached"), &content, "--force"]);
    }
    Scraped {
        _server: server,
        _remote: remote,
        metrics,
    }
}

/// One with an overlay for each client, which one of them uses.
fn server_of_overlays(folder: &Folder) -> (Server, u16) {
    let port = free_port();
    let base = folder.empty("base", MIB);
    let server = Server::start(&[
        &format!("root={base}"),
        &format!("--overlay-per-client={}", folder.at("overlays")),
        &format!("--metrics=127.0.0.1:{port}"),
    ]);
    (server, port)
}

/// A metric that is added to a server is added to the guide.
#[test]
fn the_guide_lists_each_metric() {
    let folder = Folder::new();
    let server = server(&folder);
    let (_overlays, of_overlays) = server_of_overlays(&folder);
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/running.md");
    let guide = std::fs::read_to_string(guide).expect("a guide");
    for port in [server.metrics, of_overlays] {
        let metrics = get(port, "/metrics").expect("metrics");
        let types = metrics
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "));
        let names: Vec<&str> = types.filter_map(|line| line.split(' ').next()).collect();
        assert!(names.len() > 10, "{metrics}");
        for name in names {
            assert!(guide.contains(&format!("`{name}`")), "{name}");
        }
    }
}

#[test]
fn promtool_finds_the_metrics_and_the_rules_good() {
    if !requires::all(&[requires::command("promtool")]) {
        return;
    }
    let folder = Folder::new();
    let server = server(&folder);
    let metrics = get(server.metrics, "/metrics").expect("metrics");
    let (_overlays, port) = server_of_overlays(&folder);
    let of_overlays = get(port, "/metrics").expect("metrics");
    for (part, metrics) in [
        ("outboard_array_sync_done_bytes", &metrics),
        ("outboard_cache_hits_total", &metrics),
        ("outboard_export_overlays", &of_overlays),
    ] {
        assert!(
            metrics.contains(&format!("\n{part}{{")),
            "{part}: {metrics}"
        );
        assert_promtool_finds_no_fault(metrics);
    }
    let prometheus = packaging().join("prometheus");
    let promtool = |words: &[&str]| {
        run(Command::new("promtool")
            .args(words)
            .current_dir(&prometheus))
    };
    promtool(&["check", "rules", "outboard.rules.yml"]);
    promtool(&["test", "rules", "outboard.test.yml"]);
    let rules = std::fs::read_to_string(prometheus.join("outboard.rules.yml")).expect("rules");
    assert_are_there(&rules, &metrics);
    let dashboard = std::fs::read_to_string(packaging().join("grafana/outboard.json"));
    assert_are_there(&dashboard.expect("a dashboard"), &metrics);
}

/// That `promtool check metrics` has nothing to say of a server's metrics.
fn assert_promtool_finds_no_fault(metrics: &str) {
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped());
    check.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = check.spawn().expect("promtool");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(metrics.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let found = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && found.is_empty(), "{found}");
}

/// What metrics of volumes on object stores begin with. The binary under test has none: the tests of `outboard bucket` look for those of
/// the rules.
const BUCKET: &str = "outboard_bucket_";

/// That all our metrics in a text are among those that a server has.
fn assert_are_there(text: &str, metrics: &str) {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c| !is_part(c));
    let mut count = 0;
    let ours = words.filter(|word| word.starts_with("outboard_") && !word.starts_with(BUCKET));
    for name in ours {
        let is_there = metrics
            .lines()
            .any(|line| line.starts_with(&format!("# TYPE {name} ")));
        let histogram = name.trim_end_matches("_bucket");
        let is_bucket = metrics.contains(&format!("# TYPE {histogram} histogram"));
        assert!(is_there || is_bucket, "no server has {name}");
        count += 1;
    }
    assert!(count > 5, "{count} metrics");
}

#[test]
fn prometheus_answers_each_query_of_the_dashboard_and_loads_the_rules() {
    if !requires::all(&[requires::command("prometheus")]) {
        return;
    }
    let folder = Folder::new();
    let server = server(&folder);
    let port = free_port();
    let rules = packaging().join("prometheus/outboard.rules.yml");
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\n\
         scrape_configs:\n- job_name: outboard\n  static_configs: [{{ targets: ['127.0.0.1:{}'] }}]\n",
        rules.display(),
        server.metrics
    );
    let config_at = folder.empty("prometheus.yml", 0);
    std::fs::write(&config_at, config).expect("a file");
    let mut command = Command::new("prometheus");
    command.args([
        format!("--config.file={config_at}"),
        format!("--storage.tsdb.path={config_at}.data"),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ]);
    let mut prometheus = Process::start(&mut command).expect("it starts");
    let scraped = "count_over_time(up[1m]) > 2";
    let is_ready = || get(port, "/-/ready").is_some() && query(port, scraped) == 1;
    let ready = prometheus.wait_until("scrapes", LIMIT, |_| is_ready().then_some(()));
    ready.unwrap_or_else(|error| panic!("{error}"));
    let loaded: Value =
        serde_json::from_str(&get(port, "/api/v1/rules").expect("rules")).expect("JSON");
    let loaded = loaded["data"]["groups"][0]["rules"]
        .as_array()
        .expect("rules");
    assert!(loaded.len() >= 14, "{loaded:?}");
    assert!(
        loaded.iter().all(|rule| rule["lastError"].is_null()),
        "{loaded:?}"
    );
    let dashboard = std::fs::read(packaging().join("grafana/outboard.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_slice(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    for panel in panels {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("a query");
            let expression = expression
                .replace("$__rate_interval", "1m")
                .replace("$server", ".+");
            let series = query(port, &expression);
            assert!(series > 0, "{}: no series", panel["title"]);
        }
    }
    assert!(panels.len() >= 14);
}
