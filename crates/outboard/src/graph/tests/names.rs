//! What names and words mean, and which are refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use block::{Errno, Operation, Range};
use nodes::{FaultEffect, FaultRule};

use super::{problem_of, refused_there};
use crate::graph::disk::{Disk, Overlay};
use crate::graph::with_cache;
use crate::graph::{ByteSize, resolve};

fn disk(text: &str) -> Disk {
    match resolve(text) {
        Ok(named) => named.disk,
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn a_path_is_a_file_that_is_written_through_the_page_cache() {
    for text in ["/srv/a.img", "file(/srv/a.img)", "'/srv/a.img'"] {
        let Disk::File {
            path,
            direct,
            read_only,
            ..
        } = disk(text)
        else {
            panic!("{text} is no file");
        };
        assert_eq!(path, PathBuf::from("/srv/a.img"));
        assert!(!direct && !read_only, "{text}");
    }
}

#[test]
fn a_file_takes_its_switches() {
    let text = "file('my disk.img', direct=true, read-only=true)";
    let Disk::File {
        path,
        direct,
        read_only,
        ..
    } = disk(text)
    else {
        panic!("no file");
    };
    assert_eq!(path, PathBuf::from("my disk.img"));
    assert!(direct && read_only);
    assert!(matches!(
        disk("file(a, direct=false)"),
        Disk::File {
            direct: false,
            read_only: false,
            ..
        }
    ));
}

#[test]
fn memory_and_null_take_a_size() {
    let size = ByteSize(1 << 30);
    assert!(matches!(disk("memory(1G)"), Disk::Memory { size: s, read_only: false } if s == size));
    let kept = disk("memory(1G, read-only=true)");
    assert!(matches!(
        kept,
        Disk::Memory {
            read_only: true,
            ..
        }
    ));
    assert!(matches!(disk("null(1024MiB)"), Disk::Null(s) if s == size));
}

#[test]
fn blocks_stand_on_another_disk() {
    let Disk::Blocks { disk: below, size } = disk("blocks(blocks(/srv/a, size=4K), size=512)")
    else {
        panic!("no blocks");
    };
    assert_eq!(size, 512);
    assert!(matches!(*below, Disk::Blocks { size: 4096, .. }));
    assert!(matches!(below.leaves()[..], [Disk::File { .. }]));
    assert!(below.can_be_read_only());
    assert!(!disk("blocks(null(1M), size=512)").can_be_read_only());
}

#[test]
fn a_uri_is_a_remote_disk_and_a_path_with_a_colon_is_not() {
    let Disk::Remote {
        target,
        connections: None,
        timeout: None,
        read_ahead: None,
        read_only: false,
        span,
    } = disk("m=nbd://h/e")
    else {
        panic!("no remote disk");
    };
    assert_eq!(
        (target.to_string().as_str(), span.start, span.end),
        ("nbd://h/e", 2, 11)
    );
    assert!(matches!(
        disk("NBD+UNIX:///e?socket=/s"),
        Disk::Remote { .. }
    ));
    assert!(matches!(disk("/srv/odd://name"), Disk::File { .. }));
    assert!(matches!(disk("srv/odd://name"), Disk::File { .. }));
}

#[test]
fn a_remote_disk_takes_its_connections_and_whether_it_is_written() {
    let Disk::Remote {
        target,
        connections: Some(8),
        timeout: Some(timeout),
        read_ahead: Some(0x10_0000),
        read_only: true,
        span,
    } = disk("remote(nbd://h/e, connections=8, timeout=1.5s, read-ahead=1M, read-only=true)")
    else {
        panic!("no remote disk");
    };
    assert_eq!(target.to_string(), "nbd://h/e");
    assert_eq!((span.start, span.end), (7, 16));
    assert_eq!(timeout, Duration::from_millis(1500));
    assert!(disk("remote(nbd://h/e)").can_be_read_only());
}

#[test]
fn disks_that_are_made_of_others_keep_them_in_order() {
    let Disk::Linear { disks, span } = disk("linear(partition(/dev/sda, 2), memory(1M))") else {
        panic!("no linear");
    };
    assert_eq!((span.start, span.end), (0, 42));
    let Disk::Partition {
        disk: below,
        number,
        ..
    } = &disks[0]
    else {
        panic!("no partition");
    };
    assert_eq!(*number, 2);
    assert!(matches!(**below, Disk::File { .. }));
    assert!(matches!(disks[1], Disk::Memory { .. }));
    assert!(matches!(
        disk("stripe(a, b)"),
        Disk::Stripe {
            chunk: 65_536,
            trim: false,
            ..
        }
    ));
    assert!(matches!(
        disk("stripe(a, b, chunk=1.5K, trim=true)"),
        Disk::Stripe {
            chunk: 1536,
            trim: true,
            ..
        }
    ));
}

#[test]
fn an_overlay_is_kept_in_its_top_and_never_in_its_base() {
    let text = "overlay(linear(a, b), 'to day.cow', chunk=16K, quota=10G)";
    let found = disk(text);
    assert_eq!(found.files(), [Path::new("to day.cow")]);
    assert_eq!(found.leaves().len(), 2);
    let Disk::Overlay(Overlay {
        chunk, quota, span, ..
    }) = found
    else {
        panic!("no overlay");
    };
    assert_eq!((chunk, quota), (Some(16_384), Some(10 << 30)));
    assert_eq!(&text[span.start..span.end], "'to day.cow'");
}

#[test]
fn a_cache_is_in_front_of_any_disk_and_keeps_its_file() {
    let text = "cache(nbd://nas/root, 'the cache', size=4G, profile=boot)";
    let found = disk(text);
    assert!(found.can_be_read_only());
    let Disk::Cache(cached) = found else {
        panic!("no cache");
    };
    assert_eq!(
        (&*cached.file, cached.size),
        (Path::new("the cache"), Some(4 << 30))
    );
    assert_eq!(cached.profile, Some(PathBuf::from("boot")));
    assert_eq!(&text[cached.span.start..cached.span.end], "'the cache'");
}

#[test]
fn a_cache_is_put_in_front_of_a_disk_with_its_options() {
    let remote = [
        ("connections", "2".to_owned()),
        ("timeout", "9s".to_owned()),
    ];
    let cached = |text: &str, size| with_cache(text, &remote, ("/a b", size, None)).unwrap();
    let profiled = with_cache("a.img", &remote, ("/c", Some(1 << 20), Some("/a b")));
    assert_eq!(
        profiled.unwrap(),
        "cache(a.img, /c, size=1048576, profile='/a b')"
    );
    assert_eq!(
        cached("nbd://nas/root", Some(1 << 20)),
        "cache(remote(nbd://nas/root, connections=2, timeout=9s), '/a b', size=1048576)"
    );
    assert_eq!(
        cached("remote(nbd://nas/root, timeout=1s)", None),
        "cache(remote(nbd://nas/root, timeout=1s), '/a b')"
    );
    assert_eq!(cached("a.img", None), "cache(a.img, '/a b')");
    assert!(matches!(
        disk(&cached("nbd://nas/root", None)),
        Disk::Cache(_)
    ));
}

#[test]
fn every_argument_of_a_delay_a_throttle_and_a_fault_is_taken() {
    let text = "delay(a, read=2ms, write=5ms, flush=1s, trim=1us, write-zeroes=3ms, extents=4ms, jitter=1ms, seed=7)";
    let Disk::Delay { times, .. } = disk(text) else {
        panic!("no delay");
    };
    let expected = [2000, 5000, 1_000_000, 1, 3000, 4000, 1000].map(Duration::from_micros);
    let found = [
        times.read,
        times.write,
        times.flush,
        times.trim,
        times.write_zeroes,
        times.extents,
        times.jitter,
    ];
    assert_eq!((found, times.seed), (expected, 7));
    let text = "throttle(a, bytes=10M/s, ops=500, read-bytes=1K, read-ops=2/s, write-bytes=3K, write-ops=4, burst=1M, burst-ops=9)";
    let Disk::Throttle { rates, .. } = disk(text) else {
        panic!("no throttle");
    };
    let found = [
        rates.bytes_per_s,
        rates.ops_per_s,
        rates.read_bytes_per_s,
        rates.read_ops_per_s,
        rates.write_bytes_per_s,
        rates.write_ops_per_s,
    ];
    let expected = [10 << 20, 500, 1024, 2, 3072, 4];
    assert_eq!(found.map(|rate| rate.map_or(0, u64::from)), expected);
    assert_eq!(
        (rates.burst_bytes, rates.burst_ops),
        (Some(1 << 20), Some(9))
    );
}

#[test]
fn a_fault_has_one_rule_and_two_habits() {
    let plan = |text: &str| match disk(text) {
        Disk::Fault { plan, .. } => plan,
        other => panic!("{text} is {other:?}"),
    };
    let found = plan(
        "fault(a, does=tear, error=no-space, on=write+flush, rate=0.5%, at=1M+64K, after=100, times=3, lasts=5s, seed=1, cache=1M, pulled-while=gone)",
    );
    let rule = FaultRule {
        on: vec![Operation::Write, Operation::Flush],
        at: Some(Range::new(1 << 20, 64 << 10)),
        after: 100,
        times: Some(3),
        lasts: Some(Duration::from_secs(5)),
        per_million: 5000,
        ..FaultRule::new(FaultEffect::Tear(Errno::NoSpace))
    };
    assert_eq!(found.rules, [rule]);
    assert_eq!((found.seed, found.cache), (1, Some(1 << 20)));
    assert_eq!(found.pulled_while, Some(PathBuf::from("gone")));
    assert!(plan("fault(a, cache=1M)").rules.is_empty());
    for (rate, expected) in [
        ("100%", 1_000_000),
        ("1", 1_000_000),
        ("0.1", 100_000),
        (".25", 250_000),
        ("0.0001%", 1),
        ("0.000001", 1),
    ] {
        let found = plan(&format!("fault(a, rate={rate})"));
        assert_eq!(found.rules[0].per_million, expected, "{rate}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_what_exists() {
    let (problem, place) = problem_of("memroy(1G)");
    assert_eq!(place, "memroy");
    let text = problem.to_string();
    assert!(text.contains("did you mean memory?"), "{text}");
    assert!(
        text.contains(
            "there are PATH, file, memory, null, remote, bucket, rbd, blocks, partition, linear, stripe, array, volume, dm, overlay, cache, delay, fault, throttle, zero, error and URIs (nbd://, nbd+unix://, nbds://, nbds+unix://, nbd+vsock://, nbds+vsock://, s3://, file://, rbd:)"
        ),
        "{text}"
    );
    let (problem, _) = problem_of("xyz(1)");
    assert!(!problem.to_string().contains("did you mean"), "{problem}");
}

#[test]
fn wrong_arguments_of_what_is_made_of_others_are_refused_at_their_place() {
    refused_there(&[
        ("remote(nbd://h, timeout=5)", "5", "a time has a unit"),
        (
            "remote(nbd://h, read-ahead=1)",
            "1",
            "a size from 4K to 64M",
        ),
        ("partition(a)", "partition", "NUMBER is missing"),
        ("partition(a, 0)", "0", "a number from 1 to"),
        ("partition(a, b)", "b", "a number from 1 to"),
        ("partition(2, a)", "a", "a number from 1 to"),
        ("linear()", "linear", "DISK is missing"),
        (
            "linear(a, chunk=1M)",
            "chunk",
            "there is no argument `chunk`",
        ),
        ("stripe(a, b, chunk=100)", "100", "a size from 512 to 1G"),
        ("overlay(a)", "overlay", "TOP is missing"),
        (
            "overlay(a, memory(1M))",
            "memory(1M)",
            "expected TOP, found a disk",
        ),
        ("overlay(a, b, quota=1K)", "1K", "a size from 1M to 4E"),
        ("cache(a)", "cache", "FILE is missing"),
        ("cache(a, b, size=1K)", "1K", "a size from 1M to 4E"),
        ("dm()", "dm", "TABLE-FILE is missing"),
        ("delay(a)", "delay", "a time, like read=2ms, is missing"),
        (
            "delay(a, jitter=1ms)",
            "delay",
            "a time, like read=2ms, is missing",
        ),
        ("delay(a, read=2)", "2", "a time has a unit"),
        ("delay(a, read=2x)", "2x", "`x` is not a unit: use us, ms"),
        (
            "throttle(a)",
            "throttle",
            "a rate, like bytes=10M/s, is missing",
        ),
        ("throttle(a, ops=0)", "0", "a size from 1 to"),
        (
            "fault(a)",
            "fault",
            "what goes wrong, like on=write, is missing",
        ),
        ("fault(a, on=reed)", "reed", "expected read, write, flush"),
        ("fault(a, rate=2)", "2", "expected a part like 10% or 0.1"),
        ("fault(a, rate=0)", "0", "expected a part like 10% or 0.1"),
        ("fault(a, rate=1.5.1%)", "1.5.1%", "expected a part"),
        ("fault(a, at=1M)", "1M", "expected OFFSET+LENGTH"),
        ("fault(a, at=1M+0)", "1M+0", "expected OFFSET+LENGTH"),
        ("fault(a, does=break)", "break", "expected fail or tear or"),
        ("fault(a, error=eio)", "eio", "expected io or no-space"),
    ]);
}

#[test]
fn wrong_arguments_are_refused_at_their_place() {
    let cases = [
        (
            "memory()",
            "memory",
            "SIZE is missing; write memory(SIZE, read-only=true)",
        ),
        (
            "memory(1G, 2G)",
            "2G",
            "one argument too many; write memory(SIZE, read-only=true)",
        ),
        ("memory(huge)", "huge", "expected a size"),
        ("nbd:///x", "nbd:///x", "nbd:// needs a host"),
        ("m=nbd://h:99999/x", "nbd://h:99999/x", "is not a port"),
        (
            "http://nas.lan/media",
            "http://nas.lan/media",
            "remote disks are nbd://, nbd+unix://",
        ),
        ("memory(1000)", "1000", "a multiple of 512 bytes"),
        ("null(0)", "0", "a multiple of 512 bytes"),
        ("memory(12Q)", "12Q", "`Q` is not a unit"),
        (
            "memory(memory(1G))",
            "memory(1G)",
            "expected SIZE, found a disk",
        ),
        ("file()", "file", "PATH is missing"),
        ("file(a, direkt=true)", "direkt", "did you mean direct?"),
        ("file(a, direct=yes)", "yes", "expected true or false"),
        ("file(a, direct=true, direct=true)", "direct", "given twice"),
        ("memory(1G, size=1G)", "size", "there is no argument `size`"),
        (
            "remote(/srv/a)",
            "/srv/a",
            "expected the URI of a remote disk",
        ),
        (
            "remote(nbd://h, connections=0)",
            "0",
            "a number from 1 to 16",
        ),
        (
            "remote(nbd://h, connections=17)",
            "17",
            "a number from 1 to 16",
        ),
        ("remote(nbd://h, connections=all)", "all", "found `all`"),
        ("blocks(size=512)", "blocks", "DISK is missing"),
        ("blocks(a)", "blocks", "size is missing"),
        ("blocks(a, size=600)", "600", "600 is none"),
        ("blocks(a, size=128K)", "128K", "131072 is none"),
        (
            "blocks(memory(1), size=512)",
            "1",
            "a multiple of 512 bytes",
        ),
    ];
    refused_there(&cases);
}

#[test]
fn the_name_of_the_export_is_kept() {
    let named = resolve("media=memory(1M)").expect("a good expression");
    assert_eq!(named.name.as_deref(), Some("media"));
    assert_eq!(resolve("memory(1M)").expect("a good expression").name, None);
}

#[test]
fn a_snapshot_of_a_volume_on_a_store_is_read_only() {
    for (text, expected) in [
        ("s3://disks/lab/root", false),
        ("s3://disks/lab/root@before", true),
        ("old=file:///srv/root@before", true),
        ("bucket(s3://disks/lab/root@before)", true),
        ("bucket(s3://disks/lab/root, read-only=true)", true),
    ] {
        match resolve(text).map(|named| named.disk) {
            Ok(Disk::Bucket(disk)) => assert_eq!(disk.read_only, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let (problem, marked) = problem_of("cache(s3://disks/lab/root@, file)");
    assert_eq!(marked, "s3://disks/lab/root@");
    assert!(
        problem.to_string().contains("no name of a snapshot"),
        "{problem}"
    );
}

#[test]
fn an_image_of_ceph_is_named_as_ceph_does() {
    for (text, name, read_only) in [
        ("rbd:vms/root", "vms/root", false),
        (
            "disk=rbd:vms/team/root@before",
            "vms/team/root@before",
            false,
        ),
        ("rbd(vms/root, read-only=true)", "vms/root", true),
        ("rbd(rbd:vms/root)", "vms/root", false),
    ] {
        match resolve(text).map(|named| named.disk) {
            Ok(Disk::Rbd(disk)) => {
                assert_eq!(disk.spec.name.to_string(), name, "{text}");
                assert_eq!(disk.spec.read_only, read_only, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let text = "rbd(vms/root, conf=/etc/ceph/lab.conf, id=lab, cluster=backup)";
    let Ok(Disk::Rbd(disk)) = resolve(text).map(|named| named.disk) else {
        panic!("{text} is an image");
    };
    let conf = disk.spec.conf.as_deref();
    assert_eq!(conf, Some(Path::new("/etc/ceph/lab.conf")));
    let (id, cluster) = (disk.spec.id.as_deref(), disk.spec.cluster.as_deref());
    assert_eq!((id, cluster), (Some("lab"), Some("backup")));
    let (problem, marked) = problem_of("cache(rbd:root, file)");
    assert_eq!(marked, "rbd:root");
    assert!(problem.to_string().contains("POOL/IMAGE"), "{problem}");
}
