//! The volumes on object stores that are open in this process: their figures, and their end.
//!
//! # Invariants
//!
//! * They are closed behind arrays and caches, which may be made of them. A volume that is dropped commits by itself, but not before the
//!   process ends.

use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use attach::{CacheCounts, DiskSupervisor};
use bucket::{StoreOperation, StorePrices, VolumeCost, VolumeFigures};
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use lab::doctor::{AnsweredRequests, StoreReading};
use lab::units::Nanos;

/// What their stores charge, for all volumes of the process: once, so that a counter of costs never jumps.
static PRICES: OnceLock<StorePrices> = OnceLock::new();

/// Sets the prices, at the start.
pub(crate) fn set_prices(prices: Option<StorePrices>) {
    if let Some(prices) = prices {
        PRICES.get_or_init(|| prices);
    }
}

/// What they have requested of their stores, and what that cost where prices are set.
#[cfg(feature = "bucket")]
pub(crate) fn figures() -> Vec<VolumeFigures> {
    let mut volumes = bucket::volume_figures();
    for volume in &mut volumes {
        volume.cost = PRICES.get().map(|prices| prices.cost(volume));
    }
    volumes
}

/// There are none.
#[cfg(not(feature = "bucket"))]
pub(crate) const fn figures() -> Vec<VolumeFigures> {
    Vec::new()
}

/// What was requested of the store of the volume with this URI, by all its handles, for the doctor; none where it is not open.
pub(crate) fn store_reading(volumes: &[VolumeFigures], uri: &str) -> Option<StoreReading> {
    let mut handles = volumes.iter().filter(|volume| volume.uri == uri);
    let mut all = handles.next()?.clone();
    handles.for_each(|other| all.add(other));
    let of = |operation| {
        let mut found = all.operations.iter();
        let found = found.find(|figures| figures.operation == operation);
        found.map_or_else(AnsweredRequests::default, |figures| AnsweredRequests {
            requests: figures.answered,
            time: Nanos(figures.nanos),
        })
    };
    Some(StoreReading {
        volume: uri.to_owned(),
        get: of(StoreOperation::Get),
        put: of(StoreOperation::Put),
        cache: None,
    })
}

/// A line for a status.
pub(crate) fn line(volume: &VolumeFigures) -> String {
    if let Some(why) = &volume.failure {
        return format!("volume {}: out of use: {why}", volume.uri);
    }
    let requests = StoreOperation::ALL.map(|operation| {
        let count = volume.requests(operation);
        (count > 0).then(|| format!("{} {}", HumanCount(count), operation.name()))
    });
    let requests: Vec<String> = requests.into_iter().flatten().collect();
    let unwritten = match volume.unwritten {
        0 => String::new(),
        bytes => format!(", {} not there yet", HumanBytes(bytes)),
    };
    let mut line = format!(
        "volume {}: requests {} ({}/s); {} from the store, {} to it{unwritten}",
        volume.uri,
        requests.join(", "),
        volume.requests_per_second,
        HumanBytes(volume.received),
        HumanBytes(volume.sent),
    );
    if let Some(journal) = &volume.journal {
        let [unstored, size] = [journal.unstored, journal.size].map(HumanBytes);
        line.push_str(&format!(
            "\n  journal: {unstored} of {size} not in the store yet"
        ));
        if journal.full_waits > 0 {
            let waits = HumanCount(journal.full_waits);
            line.push_str(&format!("; full, {waits} flushes waited for the store"));
        }
    }
    if let Some(cost) = &volume.cost {
        line.push_str("\n  ");
        line.push_str(&cost_line(cost, Duration::from_millis(volume.open_ms)));
    }
    line
}

fn cost_line(cost: &VolumeCost, open: Duration) -> String {
    let class = |name, requests, of| format!("{of} for {} {name}", HumanCount(requests));
    format!(
        "estimated cost {total} {currency} in {}: {}, {}, {} for egress; {} {currency} a month at this rate, without storage",
        HumanDuration(open),
        class(
            "PUT, COPY, POST, LIST",
            cost.put_class_requests,
            cost.put_class
        ),
        class("GET and others", cost.get_class_requests, cost.get_class),
        cost.egress,
        cost.per_month,
        total = cost.total,
        currency = cost.currency,
    )
}

/// Commits and closes all of them, behind the last request of this process.
#[cfg(feature = "bucket")]
pub(crate) async fn close_all() {
    bucket::close_all().await;
}

/// There are none.
#[cfg(not(feature = "bucket"))]
#[allow(clippy::unused_async, reason = "it waits where the feature is there")]
pub(crate) async fn close_all() {}

/// Closes the volumes of an attached disk when it is detached.
pub(crate) struct AttachedVolumes {
    /// That of what else is below the disk.
    inner: Option<Box<dyn DiskSupervisor>>,
}

impl AttachedVolumes {
    /// The supervisor of a disk with this one, if this program has volumes.
    pub(crate) fn over(inner: Option<Box<dyn DiskSupervisor>>) -> Option<Box<dyn DiskSupervisor>> {
        match cfg!(feature = "bucket") {
            true => Some(Box::new(Self { inner })),
            false => inner,
        }
    }
}

impl DiskSupervisor for AttachedVolumes {
    fn problem(&self) -> Option<String> {
        self.inner.as_ref().and_then(|inner| inner.problem())
    }

    fn caches(&self) -> Vec<CacheCounts> {
        let inner = self.inner.as_ref();
        inner.map_or_else(Vec::new, |inner| inner.caches())
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let closed = match &self.inner {
                Some(inner) => inner.close().await,
                None => Ok(()),
            };
            close_all().await;
            closed
        })
    }
}

#[cfg(test)]
mod tests {
    use bucket::{Decimal, OperationFigures};

    use super::*;

    #[test]
    fn a_line_has_the_requests_and_why_a_volume_is_out_of_use() {
        let of = |operation, requests| OperationFigures {
            operation,
            requests,
            failures: 0,
            nanos: 0,
            answered: requests,
        };
        let mut volume = VolumeFigures {
            uri: "s3://disks/lab/root".to_owned(),
            is_writer: true,
            failure: None,
            unwritten: 0,
            journal: None,
            received: 3 << 20,
            sent: 4096,
            open_ms: 3_600_000,
            requests_per_second: Decimal::per_second(1207, 3_600_000),
            cost: None,
            operations: vec![
                of(StoreOperation::Get, 1200),
                of(StoreOperation::Put, 7),
                of(StoreOperation::List, 0),
            ],
        };
        let expected = "volume s3://disks/lab/root: requests 1,200 get, 7 put (0.335278/s); 3.00 MiB from the store, 4.00 KiB to it";
        assert_eq!(line(&volume), expected);
        let prices = "currency = 'USD'\nput_per_1000 = 0.005\nget_per_1000 = 0.0004\negress_per_gib = 0.1024";
        let prices: StorePrices = toml::from_str(prices).expect("prices");
        volume.cost = Some(prices.cost(&volume));
        let cost = "estimated cost 0.000815 USD in 60 minutes: 0.000035 for 7 PUT, COPY, POST, LIST, 0.00048 for 1,200 GET and others, \
                    0.0003 for egress; 0.59495 USD a month at this rate, without storage";
        assert_eq!(line(&volume), format!("{expected}\n  {cost}"));
        volume.cost = None;
        volume.unwritten = 512 << 10;
        assert_eq!(
            line(&volume),
            format!("{expected}, 512.00 KiB not there yet")
        );
        volume.unwritten = 0;
        volume.journal = Some(bucket::JournalFigures {
            unstored: 8 << 20,
            size: 16 << 20,
            full_waits: 2,
        });
        let journal = "journal: 8.00 MiB of 16.00 MiB not in the store yet; full, 2 flushes waited for the store";
        assert_eq!(line(&volume), format!("{expected}\n  {journal}"));
        volume.failure = Some("another server has it".to_owned());
        let expected = "volume s3://disks/lab/root: out of use: another server has it";
        assert_eq!(line(&volume), expected);
    }
}
