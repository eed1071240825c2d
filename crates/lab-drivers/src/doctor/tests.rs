//! What a directory's mount shows of its I/O path.

use lab::agent::protocol::Counters;
use lab::doctor::{DoctorJob, Evidence, Stage};
use lab::plan::{Direction, Pattern};
use lab::sensors::DiskCounters;
use lab::units::{Bytes, MIB, Nanos, Rate};

use super::directory_info::DirectoryInfo;
use super::watcher::WatchedSpan;

/// What the kernel writes of an NFS mount and two of SMB.
const MOUNTS: &str = "\
    21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
    90 28 0:52 / /mnt/nfs rw,relatime - nfs4 nas:/srv rw,vers=4.2,rsize=65536,wsize=131072,proto=tcp,nconnect=2,sec=sys,addr=192.0.2.7\n\
    93 28 0:55 / /mnt/smb rw,relatime - cifs //nas/share rw,vers=3.1.1,cache=strict,addr=192.0.2.7,seal,rsize=4194304,wsize=4194304\n\
    96 28 0:58 / /mnt/plan9 rw,relatime - 9p share rw,trans=virtio\n";

fn place(directory: &str) -> DirectoryInfo {
    DirectoryInfo::of(directory.into(), MOUNTS).expect("it is on a mount")
}

fn job(direction: Direction, block_size: u64) -> DoctorJob {
    DoctorJob {
        direction,
        pattern: Pattern::Sequential,
        block_size: Bytes(block_size),
        depth: 16,
    }
}

#[test]
fn a_mount_over_nfs_or_smb_is_recognised_with_all_that_is_on_its_way() {
    let remote = [Stage::Protocol, Stage::Wire, Stage::Server, Stage::Disk];
    let nfs = place("/mnt/nfs/films");
    assert_eq!(
        nfs.about(),
        "nfs4 on nas:/srv, NFS 4.2 over TCP, 2 connections, reads of 64 KiB at most"
    );
    assert_eq!(nfs.server_port(), Some(2049));
    let before = [Stage::Generator, Stage::Queue, Stage::Client];
    assert_eq!(nfs.way(false, None), [&before[..], &remote].concat());
    let smb = place("/mnt/smb");
    assert!(
        smb.about()
            .ends_with("SMB 3.1.1 over TCP, reads of 4 MiB at most, encrypted")
    );
    assert_eq!(smb.server_port(), Some(445));
    let before = [
        Stage::Generator,
        Stage::Queue,
        Stage::Cache,
        Stage::Client,
        Stage::Cipher,
    ];
    assert_eq!(smb.way(true, None), [&before[..], &remote].concat());
    // Of others, only that there is a server.
    let other = place("/mnt/plan9");
    assert_eq!(
        (other.about().as_str(), other.server_port()),
        ("9p on share", None)
    );
    assert!(other.way(false, None).contains(&Stage::Server));
    assert!(!place("/home").way(false, None).contains(&Stage::Server));
}

#[test]
fn requests_that_a_mount_cuts_into_pieces_are_reported() {
    let nfs = place("/mnt/nfs");
    let told = nfs
        .remark(&job(Direction::Read, 1 << 20))
        .expect("a remark");
    assert!(
        told.contains("as 16 of 64 KiB") && told.contains("rsize"),
        "{told}"
    );
    let told = nfs
        .remark(&job(Direction::Write, 1 << 20))
        .expect("a remark");
    assert!(
        told.contains("as 8 of 128 KiB") && told.contains("wsize"),
        "{told}"
    );
    assert_eq!(nfs.remark(&job(Direction::Read, 4096)), None);
    assert_eq!(place("/home").remark(&job(Direction::Read, 64 << 20)), None);
}

/// The disk of a server was not seen where it had the name of the device that is attached here, so that a slow one was
/// never named.
#[test]
fn a_device_of_another_machine_is_not_the_one_of_that_name_here() {
    let disk = |name: &str, written: u64, busy_ms: u64| DiskCounters {
        number: (8, 0),
        name: name.into(),
        reads: 0,
        read: Bytes(0),
        writes: 0,
        written: Bytes(written),
        busy_ms,
        waited_ms: 0,
    };
    let counters = |seconds: u64, disks: Vec<DiskCounters>| Counters {
        at: Nanos::from_ms(seconds * 1000),
        cores: Vec::new(),
        tick: Nanos::from_ms(10),
        server: None,
        agent: None,
        processor: None,
        disks,
        served: None,
    };
    let span = |is_here: bool| WatchedSpan {
        before: Some(counters(1, vec![disk("sda", 0, 0), disk("sdb", 0, 0)])),
        after: Some(counters(
            3,
            vec![disk("sda", 40 * MIB, 1900), disk("sdb", 40 * MIB, 400)],
        )),
        is_here,
    };
    let busiest = |span: WatchedSpan, own: Option<&str>| {
        let rate = Rate(20.0 * MIB as f64);
        let bound = span.disk(rate, Direction::Write, own);
        match bound.expect("both moved the bytes").evidence {
            Evidence::DeviceBusy { device, .. } => device,
            evidence => panic!("{evidence:?}"),
        }
    };
    assert_eq!(busiest(span(false), Some("sda")), "sda");
    assert_eq!(busiest(span(true), Some("sda")), "sdb");
    assert_eq!(busiest(span(true), None), "sda");
}
