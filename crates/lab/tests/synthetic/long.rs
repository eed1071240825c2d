//! A made-up run of three hours with 100,000 samples: what a report may take is measured with it.

use lab::sensors::Sample;
use lab::store::RunRecord;
use lab::units::{Nanos, SECOND};

/// What is sampled once a second.
const ITEMS: [(&str, &str); 10] = [
    ("cpu", "0/user"),
    ("cpu", "0/system"),
    ("cpu", "1/user"),
    ("cpu", "1/softirq"),
    ("temperature", "cpu-thermal"),
    ("clock", "0"),
    ("net", "eth0/rx-bytes"),
    ("net", "eth0/tx-bytes"),
    ("disk", "vda/read"),
    ("pressure", "io/some"),
];

/// The run.
pub(crate) fn long() -> RunRecord {
    let mut run = super::run(20);
    run.samples = (0..100_000u64)
        .map(|index| {
            let (sensor, item) = ITEMS[(index % 10) as usize];
            let wave = (index % 17) as f64;
            Sample {
                machine: 0,
                at: Nanos(index / 10 * SECOND),
                sensor: sensor.into(),
                item: item.into(),
                value: match sensor {
                    "cpu" | "pressure" => wave * 0.01,
                    "temperature" => 50.0 + wave,
                    _ => wave * 1e6,
                },
            }
        })
        .collect();
    run.elapsed = Some(Nanos(10_000 * SECOND));
    run
}
