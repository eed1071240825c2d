//! Mount tables, routes and the page cache.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::checks::ceiling::{Ceiling, CeilingSource};
use crate::units::{Bytes, MIB, Rate};

const MOUNTINFO: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
40 27 7:0 / /mnt/my\\040disk rw,noatime shared:3 - ext4 /dev/loop0 rw\n\
41 27 0:52 / /mnt/nas rw,relatime - nfs4 nas:/srv rw,vers=4.2,addr=192.0.2.7,clientaddr=192.0.2.9\n\
42 27 0:60 / /mnt/nas/tmp rw - tmpfs tmpfs rw\n";

#[test]
fn a_path_is_on_the_deepest_mount_above_it() {
    let mounts = mounts::parse(MOUNTINFO);
    let on = |path: &str| mounts::find(&mounts, Path::new(path)).unwrap();
    assert_eq!(on("/home/x").source, "/dev/vda");
    assert_eq!(on("/mnt/my disk/a").number, (7, 0));
    assert_eq!(on("/mnt/nas/b").filesystem, "nfs4");
    assert!(on("/mnt/nas/tmp/b").is_memory());
    assert_eq!(on("/mnt/nasty").point, PathBuf::from("/"));
}

#[test]
fn an_nfs_mount_names_its_server() {
    let mounts = mounts::parse(MOUNTINFO);
    let nas = mounts::find(&mounts, Path::new("/mnt/nas")).unwrap();
    assert!(nas.is_network());
    assert_eq!(nas.peer(), Some("192.0.2.7".parse().unwrap()));
}

const ROUTE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
const ROUTE_V6: &str = "\
20010db8000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth2\n\
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";

#[test]
#[cfg(target_endian = "little")]
fn the_longest_prefix_gives_the_interface() {
    let to = |address: &str| route::interface(address.parse().unwrap(), ROUTE, ROUTE_V6);
    assert_eq!(to("192.0.2.7").as_deref(), Some("eth1"));
    assert_eq!(to("198.51.100.1").as_deref(), Some("eth0"));
    assert_eq!(to("2001:db8::1").as_deref(), Some("eth2"));
    assert_eq!(to("2001:db9::1"), None);
}

#[test]
fn this_machine_is_described() {
    let machine = machine();
    assert!(machine.cores > 0 && machine.memory.0 > 0);
    assert!(machine.kernel.starts_with("Linux"));
}

#[test]
fn local_sockets_and_memory_carry_something_plausible() {
    let socket = ceilings::local_socket().unwrap();
    let memory = ceilings::memory();
    assert_eq!(socket.source, CeilingSource::LoopbackSocket);
    assert_eq!(memory.source, CeilingSource::MemoryCopy);
    // Anything from a busy small board to a large machine.
    for ceiling in [&socket, &memory] {
        assert!(
            (1.0..10_000_000.0).contains(&ceiling.rate.mb()),
            "{}",
            ceiling.rate
        );
    }
}

#[test]
fn a_ceiling_measured_again_is_never_lower_and_a_computed_one_stays() {
    let low = Ceiling {
        source: CeilingSource::MemoryCopy,
        rate: Rate(1.0),
    };
    assert!(ceilings::again(&low).rate > low.rate);
    let high = Ceiling {
        source: CeilingSource::MemoryCopy,
        rate: Rate(1e18),
    };
    assert_eq!(ceilings::again(&high), high);
    let link = Ceiling::of_link("eth0", crate::units::BitRate::from_mbit(100));
    assert_eq!(ceilings::again(&link), link);
}

/// Others on this machine, tests among them, drop all caches at times: what was read is then read again.
#[test]
fn pages_that_were_read_are_found_and_gone_after_a_drop() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let size = Bytes(4 * MIB);
    std::fs::write(&path, vec![1u8; 4 << 20]).unwrap();
    rustix::fs::sync();
    let look_anew = || {
        std::fs::read(&path).unwrap();
        residency::look(&path, size)
    };
    if look_anew().is_none() {
        eprintln!("skipped: this filesystem does not show its page cache");
        return;
    }
    let mut looks = (0..1000).filter_map(|_| look_anew());
    assert!(
        looks.any(|seen| seen.sampled > 0 && seen.resident == seen.sampled),
        "just read, so in memory"
    );
    residency::drop_caches(&path, size, false, &mut |_| true);
    let after = residency::look(&path, size).unwrap();
    if mounts::find(
        &mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap()),
        &path,
    )
    .is_some_and(mounts::Mount::is_memory)
    {
        eprintln!("skipped: a filesystem in memory drops nothing");
        return;
    }
    assert!(after.part() < 0.1, "{after:?}");
}

proptest! {
    #[test]
    fn nothing_in_the_tables_makes_a_parser_panic(text in "\\PC{0,200}") {
        std::hint::black_box(mounts::parse(&text));
        std::hint::black_box(mounts::parse(&format!("1 1 1:1 / /{text} rw - ext4 {text} rw")));
        std::hint::black_box(route::interface("192.0.2.1".parse().unwrap(), &text, &text));
        std::hint::black_box(route::interface("2001:db8::1".parse().unwrap(), &text, &text));
    }
}
