//! What the requests of a served volume cost by the user's prices: in the status, in the metrics, and storage in `bucket status`.

use std::path::Path;

use testkit::proc::Process;

use super::super::{metrics_address, scrape};
use super::{Place, write_image};

/// Prices of one request of each class, of a GiB, and of a GiB and month, in billionths: powers of two, so that floats are exact.
const PUT: u64 = 1 << 20;
const GET: u64 = 1 << 17;
const EGRESS_GIB: u64 = 1 << 32;
const STORAGE_GIB: u64 = 1 << 34;

/// The section of a configuration with these prices.
fn section() -> String {
    let decimal = |billionths: u64| {
        format!(
            "{}.{:09}",
            billionths / 1_000_000_000,
            billionths % 1_000_000_000
        )
    };
    let (put, get) = (decimal(PUT * 1000), decimal(GET * 1000));
    let (egress, storage) = (decimal(EGRESS_GIB), decimal(STORAGE_GIB));
    format!(
        "[store_prices]\ncurrency = \"EUR\"\nput_per_1000 = {put}\nget_per_1000 = {get}\n\
         egress_per_gib = {egress}\nstorage_per_gib_month = {storage}\n"
    )
}

#[expect(clippy::cast_precision_loss, reason = "JSON has floats")]
fn amount(billionths: u64) -> f64 {
    billionths as f64 / 1e9
}

/// What this many requests and bytes cost, in billionths.
fn cost_of([put, list, get, received]: [u64; 4]) -> u64 {
    (put + list) * PUT + get * GET + received * EGRESS_GIB / (1 << 30)
}

fn start(place: &Place<'_>, arguments: &[&str]) -> Process {
    let metrics = ["--metrics", "127.0.0.1:0"];
    let of_config = arguments.contains(&"--config");
    let metrics: &[&str] = if of_config { &[] } else { &metrics };
    place.start_at(&place.folder.join("socket"), &[arguments, metrics].concat())
}

/// The one volume of the one server, as `outboard status --json` has it.
fn volume_of(place: &Place<'_>) -> serde_json::Value {
    place.servers()[0]["bucket_volumes"][0].clone()
}

/// The cost in the status is that of the requests in it, and so is that in the metrics.
fn costs_are_those_of_the_requests(place: &Place<'_>, volume: &str) {
    let found = volume_of(place);
    let number = |value: &serde_json::Value| value.as_u64().expect("a count");
    let of = |name: &str| {
        let all = found["operations"].as_array().expect("a list");
        let one = all.iter().find(|one| one["operation"] == name);
        number(&one.expect("each kind is there")["requests"])
    };
    let counts = [of("put"), of("list"), of("get"), number(&found["received"])];
    let (cost, total) = (&found["cost"], cost_of(counts));
    assert!(counts[0] > 1 && counts[2] > 0 && counts[3] >= 5 << 20);
    assert_eq!(cost["currency"], "EUR");
    assert_eq!(cost["put_class_requests"], counts[0] + counts[1]);
    assert_eq!(cost["get_class_requests"], counts[2]);
    assert_eq!(cost["total"], amount(total), "{found}");
    let open_ms = number(&found["open_ms"]);
    let month_ms = 730 * 60 * 60 * 1000;
    let per_month = u128::from(total) * month_ms / u128::from(open_ms);
    let per_month = u64::try_from(per_month).expect("it is not that much");
    assert_eq!(cost["per_month"], amount(per_month), "{found}");
    let requests = counts[0] + counts[1] + counts[2] + of("delete");
    let rate = requests * 1_000_000_000_000 / open_ms;
    assert_eq!(found["requests_per_second"], amount(rate), "{found}");

    let text = scrape(metrics_address(&place.servers()[0]));
    let value = |name: &str, more: &str| -> f64 {
        let series = format!("outboard_bucket_{name}{{volume=\"{volume}\",use=\"write\"{more}}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
        line.parse().expect("a number")
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let count = |name: &str, more: &str| value(name, more) as u64;
    let requests = |kind: &str| count("requests_total", &format!(",operation=\"{kind}\""));
    let received = count("received_bytes_total", "");
    let counts = [requests("put"), requests("list"), requests("get"), received];
    let cost = value("estimated_cost_total", ",currency=\"EUR\"");
    assert_eq!(cost.to_bits(), amount(cost_of(counts)).to_bits(), "{text}");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/running.md");
    let guide = std::fs::read_to_string(guide).expect("a guide");
    assert!(guide.contains("`outboard_bucket_estimated_cost_total`"));
    let status = place.done(&["status"]);
    assert!(status.contains("\n  estimated cost "), "{status}");
    assert!(status.contains(" EUR a month at this rate"), "{status}");
}

#[test]
fn a_served_volume_has_the_cost_of_its_requests_by_the_prices_of_the_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    write_image(folder.path());
    place.done(&["bucket", "create", &volume, "8M"]);
    let socket = folder.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let export = format!("nbd+unix:///?socket={}", socket.display());
    let config = folder.path().join("server.toml");
    let config = config.to_str().expect("a path");
    let text = format!(
        "listen = [\"{listen}\"]\nmetrics = \"127.0.0.1:0\"\n{}[[export]]\nname = \"root\"\ndisk = \"{volume}\"\n",
        section()
    );
    std::fs::write(config, text).expect("it is written");
    {
        let _server = start(&place, &["--config", config]);
        place.done(&["copy", "image", &export, "--force"]);
        place.done(&["copy", &export, "copy"]);
        costs_are_those_of_the_requests(&place, &volume);
    }
    {
        let arguments = [
            volume.as_str(),
            "--listen",
            &listen,
            "--store-prices",
            config,
        ];
        let _server = start(&place, &arguments);
        assert_eq!(volume_of(&place)["cost"]["currency"], "EUR");
    }
    let _server = start(&place, &[&volume, "--listen", &listen]);
    assert!(
        volume_of(&place).get("cost").is_none(),
        "no prices, no cost"
    );
    let text = scrape(metrics_address(&place.servers()[0]));
    assert!(!text.contains("cost"), "{text}");
    assert!(!place.done(&["status"]).contains("cost"));
}

#[test]
fn the_status_of_a_volume_has_the_cost_of_its_storage() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    write_image(folder.path());
    place.done(&["bucket", "create", &volume, "8M"]);
    place.done(&["copy", "image", &volume, "--force"]);
    std::fs::write(folder.path().join("prices"), section()).expect("it is written");
    let status = ["bucket", "status", &volume];
    let priced = [&status[..], &["--store-prices", "prices"]].concat();
    let found = place.json(&[&["--json"][..], &priced].concat());
    let bytes = |name: &str| found[name].as_u64().expect("a size");
    let bytes = bytes("data_bytes") + bytes("index_bytes");
    assert!(bytes >= 5 << 20, "{found}");
    let cost = &found["storage_cost"];
    assert_eq!(cost["currency"], "EUR");
    assert_eq!(cost["per_month"], amount(bytes * STORAGE_GIB / (1 << 30)));
    let text = place.done(&priced);
    assert!(text.contains(" EUR a month"), "{text}");
    assert!(
        !place.done(&status).contains("a month"),
        "no prices, no cost"
    );

    let wrong = section().replace("put_per_1000 = ", "put_per_1000 = -");
    std::fs::write(folder.path().join("prices"), wrong).expect("it is written");
    place.fails(&priced, "an amount that is not negative");
    place.fails(&priced, "line 3");
    std::fs::write(folder.path().join("prices"), "listen = []\n").expect("it is written");
    place.fails(&priced, "missing key `store_prices`");
}
