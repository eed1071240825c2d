//! What a server of this machine reports to the doctor, and to the agent for the doctor of another machine.

use std::path::Path;

use lab::doctor::{
    AnsweredRequests, CacheReads, ClientReading, ExportReading, MemberReading, ServedReading,
    StoreReading, cpu,
};
use lab::units::Nanos;
use nbd::server::{ClientFigures, Op};

use super::{ServerStatus, client};
use crate::arrays::report::{ArrayReport, MemberHealth, OperationReport};
use crate::buckets;
use crate::caches::report::CacheReport;
use crate::graph::{Disk, resolve};

/// What the server with this process reports; none where it is no server of ours.
pub(crate) fn read(process: u32) -> Option<ServedReading> {
    let mut all = client::statuses().into_iter();
    let status = all.find(|status| status.process == process)?;
    Some(reading(&status))
}

fn reading(status: &ServerStatus) -> ServedReading {
    let exports = status.figures.exports.iter().map(|export| {
        let array = status.arrays.iter();
        let mut array = array.filter(|array| array.export.as_ref() == Some(&export.name));
        let text = status.disks.get(&export.name);
        let disk = text.and_then(|text| resolve(text).ok());
        let files = disk.iter().flat_map(|named| named.disk.files());
        let export = ExportReading {
            name: export.name.clone(),
            files: files.map(|file| status.directory.join(file)).collect(),
            is_plain: disk
                .as_ref()
                .is_some_and(|named| matches!(named.disk, Disk::File { .. })),
            clients: export.clients.iter().map(client_reading).collect(),
            members: array.next().map(member_readings).unwrap_or_default(),
            stores: disk
                .iter()
                .flat_map(|named| stores(status, &named.disk, None))
                .collect(),
        };
        export.bounded()
    });
    ServedReading {
        exports: exports.collect(),
    }
}

/// The stores of the open volumes that a disk is made of, each with the nearest `cache` file in front of it.
fn stores(status: &ServerStatus, disk: &Disk, cache: Option<&CacheReport>) -> Vec<StoreReading> {
    let cache = match disk {
        Disk::Cache(cached) => {
            let mut files = status.caches.iter();
            files.find(|report| Path::new(&report.file) == cached.file)
        }
        _ => cache,
    };
    let own = match disk {
        Disk::Bucket(bucket) if cfg!(any(feature = "bucket", test)) => {
            let volumes = &status.bucket_volumes;
            buckets::store_reading(volumes, &bucket.uri.to_string())
        }
        _ => None,
    };
    let own = own.map(|store| StoreReading {
        cache: cache.map(|report| CacheReads {
            hits: report.hits,
            misses: report.misses,
        }),
        ..store
    });
    let below = disk.children().iter();
    let below = below.flat_map(|disk| stores(status, disk, cache));
    own.into_iter().chain(below).collect()
}

fn client_reading(client: &ClientFigures) -> ClientReading {
    let name = match client.process {
        Some(process) => format!("process {process} ({})", cpu::name(process)),
        None => client.peer.clone(),
    };
    ClientReading {
        id: client.id,
        name,
        process: client.process,
        read: client.figures.of(Op::Read).bytes,
        written: client.figures.of(Op::Write).bytes,
    }
}

/// The members that are read and written.
fn member_readings(array: &ArrayReport) -> Vec<MemberReading> {
    // A sync reads and writes them, too.
    let is_idle = array.sync.is_none();
    let members = array.members.iter().filter(|_| is_idle);
    let members = members.filter(|member| member.state == MemberHealth::InSync);
    let answered = |io: OperationReport| AnsweredRequests {
        requests: io.requests,
        time: Nanos(io.nanos),
    };
    let readings = members.map(|member| MemberReading {
        name: member.name.clone(),
        is_remote: member.remote,
        read: answered(member.io.read),
        written: answered(member.io.write),
    });
    readings.collect()
}
