//! The figures of one measurement, and their medians over rounds.

use hdrhistogram::Histogram;
use serde::Serialize;

/// What was measured in one round; absent where a row has no such figure.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Sample {
    /// Requests a second.
    pub(crate) rate: Option<f64>,
    /// 10^6 bytes a second.
    pub(crate) mb_per_s: Option<f64>,
    /// 10^6 bytes of missing members a second.
    pub(crate) rebuilt_mb_per_s: Option<f64>,
    /// The server's processor time for each request, in microseconds.
    pub(crate) server_cpu_us: Option<f64>,
    /// The client's processor time for each request, in microseconds.
    pub(crate) client_cpu_us: Option<f64>,
    /// Completion latency, in microseconds.
    pub(crate) p50_us: Option<f64>,
    /// Completion latency, in microseconds.
    pub(crate) p99_us: Option<f64>,
    /// Completion latency, in microseconds.
    pub(crate) p999_us: Option<f64>,
    /// Resident memory for each connection, in KiB.
    pub(crate) memory_kib: Option<f64>,
    /// Resident memory of the whole server at its largest, in MiB.
    pub(crate) server_mib: Option<f64>,
    /// 10^6 bytes for each second of the server's processor time.
    pub(crate) mb_per_cpu_s: Option<f64>,
    /// How long the work took.
    pub(crate) seconds: Option<f64>,
    /// Memory of the server for each exception of an overlay.
    pub(crate) exception_bytes: Option<f64>,
    /// What the server wrote, in MiB.
    pub(crate) copied_mib: Option<f64>,
    /// Processor time as a part of one core, in percent.
    pub(crate) core_percent: Option<f64>,
    /// Bytes uploaded to the store for each byte that was written.
    pub(crate) uploaded_ratio: Option<f64>,
    /// Objects written for each request.
    pub(crate) puts_per_request: Option<f64>,
    /// Bytes in the store for each byte of data.
    pub(crate) stored_ratio: Option<f64>,
    /// Requests to the store a second.
    pub(crate) store_rate: Option<f64>,
}

impl Sample {
    /// The quantiles of latencies in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a figure has three digits")]
    pub(super) fn of_latencies(latencies: &Histogram<u64>) -> Self {
        let at = |quantile: f64| Some(latencies.value_at_quantile(quantile) as f64 / 1000.0);
        Self {
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            ..Self::default()
        }
    }
}

/// One column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Rate,
    Bandwidth,
    Rebuilt,
    ServerCpu,
    ClientCpu,
    P50,
    P99,
    P999,
    Memory,
    ServerMemory,
    CpuBandwidth,
    Seconds,
    ExceptionBytes,
    Copied,
    Core,
    Uploaded,
    Puts,
    Stored,
    StoreRate,
}

impl Figure {
    /// All columns, in the order they are printed.
    pub(crate) const ALL: [Self; 19] = [
        Self::Rate,
        Self::Bandwidth,
        Self::Rebuilt,
        Self::ServerCpu,
        Self::ClientCpu,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Memory,
        Self::ServerMemory,
        Self::CpuBandwidth,
        Self::Seconds,
        Self::ExceptionBytes,
        Self::Copied,
        Self::Core,
        Self::Uploaded,
        Self::Puts,
        Self::Stored,
        Self::StoreRate,
    ];

    /// The head of the column, with its unit.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Rate => "req/s",
            Self::Bandwidth => "MB/s",
            Self::Rebuilt => "rebuilt MB/s",
            Self::ServerCpu => "srv us/req",
            Self::ClientCpu => "cli us/req",
            Self::P50 => "p50 us",
            Self::P99 => "p99 us",
            Self::P999 => "p99.9 us",
            Self::Memory => "KiB/conn",
            Self::ServerMemory => "srv MiB",
            Self::CpuBandwidth => "MB/srv s",
            Self::Seconds => "s",
            Self::ExceptionBytes => "B/exception",
            Self::Copied => "copied MiB",
            Self::Core => "% of a core",
            Self::Uploaded => "up B/B",
            Self::Puts => "PUT/req",
            Self::Stored => "stored B/B",
            Self::StoreRate => "store req/s",
        }
    }

    /// The figure in a sample.
    pub(crate) fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::Rate => sample.rate,
            Self::Bandwidth => sample.mb_per_s,
            Self::Rebuilt => sample.rebuilt_mb_per_s,
            Self::ServerCpu => sample.server_cpu_us,
            Self::ClientCpu => sample.client_cpu_us,
            Self::P50 => sample.p50_us,
            Self::P99 => sample.p99_us,
            Self::P999 => sample.p999_us,
            Self::Memory => sample.memory_kib,
            Self::ServerMemory => sample.server_mib,
            Self::CpuBandwidth => sample.mb_per_cpu_s,
            Self::Seconds => sample.seconds,
            Self::ExceptionBytes => sample.exception_bytes,
            Self::Copied => sample.copied_mib,
            Self::Core => sample.core_percent,
            Self::Uploaded => sample.uploaded_ratio,
            Self::Puts => sample.puts_per_request,
            Self::Stored => sample.stored_ratio,
            Self::StoreRate => sample.store_rate,
        }
    }

    /// The median over rounds.
    pub(crate) fn median(self, samples: &[Sample]) -> Option<f64> {
        let values: Vec<f64> = samples
            .iter()
            .filter_map(|sample| self.of(sample))
            .collect();
        median(values)
    }

    /// The value as it is printed: enough digits to compare, no more.
    pub(crate) fn show(self, value: Option<f64>) -> String {
        match value {
            None => "-".to_owned(),
            Some(value) if value >= 1000.0 => format!("{value:.0}"),
            Some(value) if value >= 100.0 => format!("{value:.1}"),
            Some(value) => format!("{value:.2}"),
        }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(middle.checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}
