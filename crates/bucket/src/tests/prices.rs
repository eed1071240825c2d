//! Costs: exact figures of a known number of requests, and what is no price.

use serde_json::json;

use crate::figures::{OperationFigures, StoreOperation, VolumeFigures};
use crate::prices::{Decimal, StorePrices};

fn prices() -> StorePrices {
    let json = json!({
        "currency": "USD", "put_per_1000": 0.005, "get_per_1000": 0.0004,
        "egress_per_gib": 0.09, "storage_per_gib_month": 0.023,
    });
    serde_json::from_value(json).unwrap()
}

/// Puts, lists, gets and deletes in ten hours.
fn volume(puts: u64, lists: u64, gets: u64, received: u64) -> VolumeFigures {
    let of = |operation, requests| OperationFigures {
        operation,
        requests,
        failures: 0,
        nanos: 0,
        answered: requests,
    };
    VolumeFigures {
        uri: "s3://disks/root".to_owned(),
        is_writer: true,
        failure: None,
        unwritten: 0,
        journal: None,
        received,
        sent: 1 << 40,
        open_ms: 36_000_000,
        requests_per_second: Decimal::default(),
        cost: None,
        operations: vec![
            of(StoreOperation::Get, gets),
            of(StoreOperation::Put, puts),
            of(StoreOperation::List, lists),
            of(StoreOperation::Delete, 1_000_000),
        ],
    }
}

#[test]
fn requests_have_the_price_of_their_class_and_deletes_and_data_to_the_store_are_free() {
    let cost = prices().cost(&volume(1000, 1, 2_500_000, 3 << 29));
    assert_eq!(
        (cost.put_class_requests, cost.get_class_requests),
        (1001, 2_500_000)
    );
    // 1,001 at 5 millionths each, 2,500,000 at 0.4 millionths, 1.5 GiB at 0.09.
    assert_eq!(cost.put_class.billionths, 5_005_000);
    assert_eq!(cost.get_class.billionths, 1_000_000_000);
    assert_eq!(cost.egress.billionths, 135_000_000);
    assert_eq!(cost.total.billionths, 1_140_005_000);
    // 73 times ten hours.
    assert_eq!(cost.per_month.billionths, 73 * 1_140_005_000);
    let json = serde_json::to_value(&cost).unwrap();
    assert_eq!(json["total"], 1.140_005);
    assert_eq!(json["per_month"], 83.220_365);
    let back: crate::VolumeCost = serde_json::from_value(json).unwrap();
    assert_eq!(back, cost);
}

#[test]
fn several_handles_of_a_volume_cost_their_sum() {
    let priced = |puts| {
        let mut volume = volume(puts, 0, 0, 0);
        volume.cost = Some(prices().cost(&volume));
        volume
    };
    let mut one = priced(3);
    one.add(&priced(4));
    assert_eq!(one.cost.as_ref(), priced(7).cost.as_ref());
}

#[test]
fn stored_bytes_have_their_price() {
    assert_eq!(
        prices().storage_per_month(5 << 29).billionths,
        57_500_000,
        "2.5 GiB at 0.023"
    );
}

#[test]
fn no_figure_overflows_and_a_volume_that_was_just_opened_has_no_rate() {
    let mut prices = prices();
    prices.put_per_1000.billionths = u64::MAX;
    let cost = prices.cost(&volume(u64::MAX, 0, 0, 0));
    assert_eq!(cost.per_month.billionths, u64::MAX);
    let json = serde_json::to_string(&cost).unwrap();
    let back: crate::VolumeCost = serde_json::from_str(&json).unwrap();
    assert_eq!(back, cost);
    let opened = VolumeFigures {
        open_ms: 0,
        ..volume(7, 0, 0, 0)
    };
    assert_eq!(prices.cost(&opened).per_month, Decimal::default());
    assert_eq!(Decimal::per_second(7, 0), Decimal::default());
    assert_eq!(Decimal::per_second(7, 2000).to_string(), "3.50");
}

#[test]
fn amounts_are_short_to_read() {
    let text = |billionths| Decimal { billionths }.to_string();
    assert_eq!(text(0), "0");
    assert_eq!(text(400), "0");
    assert_eq!(text(35_000), "0.000035");
    assert_eq!(text(120_000_000), "0.12");
    assert_eq!(text(4_413_000_000), "4.41");
}

#[test]
fn what_is_no_price_is_refused() {
    let parse = |key: &str, value: serde_json::Value| {
        let mut json = json!({ "currency": "USD", "put_per_1000": 1, "get_per_1000": 0.0000004 });
        json[key] = value;
        serde_json::from_value::<StorePrices>(json).map_err(|error| error.to_string())
    };
    let least = parse("currency", json!("€")).unwrap();
    assert_eq!(least.put_per_1000.billionths, 1_000_000_000);
    assert_eq!(least.get_per_1000.billionths, 400);
    assert_eq!(least.egress_per_gib, Decimal::default());
    for (key, value) in [
        ("put_per_1000", json!(-0.1)),
        ("get_per_1000", json!(1e11)),
        ("get_per_1000", json!("0.1")),
        ("currency", json!("")),
        ("currency", json!("a\nb")),
        ("currency", json!("seventeen letters")),
        ("delete_per_1000", json!(0)),
    ] {
        parse(key, value).unwrap_err();
    }
}
