//! Tests of the engine with both backends.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use proptest::prelude::*;
use smallvec::smallvec;

use crate::{
    Backend, BackendChoice, Buffer, Config, DiskFile, Handle, InFlight, Ticket, clock, run,
};

const BACKENDS: [BackendChoice; 2] = [BackendChoice::Uring, BackendChoice::Threads];

fn on<T, F: Future<Output = T>>(backend: BackendChoice, main: impl FnOnce(Handle) -> F) -> T {
    run(&Config { backend, cores: 2 }, main).expect("this machine has both backends")
}

fn file_with(content: &[u8]) -> DiskFile {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(content).expect("written");
    DiskFile::from_fd(OwnedFd::from(file), false)
}

#[test]
fn what_was_written_is_read_back() {
    for backend in BACKENDS {
        on(backend, |_| async {
            let file = file_with(&[0; 8192]);
            let flight = InFlight::new();
            let data = smallvec![Bytes::from_static(b"ab"), Bytes::from_static(b"cde")];
            let written = file.write(data, 4094, false, flight.ticket()).await;
            written.expect("written");
            let durable = smallvec![Bytes::from_static(b"!")];
            file.write(durable, 0, true, flight.ticket())
                .await
                .expect("durable");
            file.sync_data(flight.ticket()).await.expect("synced");
            let read = file.read(6, 4093, Ticket::none()).await.expect("read");
            assert_eq!(&read[..], b"\0abcde");
            assert_eq!(flight.count(), 0);
        });
    }
}

#[test]
fn what_is_dirty_is_written_out_and_stays_as_it_is() {
    for backend in BACKENDS {
        on(backend, |_| async {
            let file = file_with(&[0; 4096]);
            let data = smallvec![Bytes::from_static(b"dirty")];
            file.write(data, 10, false, Ticket::none())
                .await
                .expect("written");
            file.start_write_out(Ticket::none()).await.expect("begun");
            let read = file.read(5, 10, Ticket::none()).await.expect("read");
            assert_eq!(&read[..], b"dirty");
            let (pipe, _other) = std::io::pipe().expect("a pipe");
            let pipe = DiskFile::from_fd(OwnedFd::from(pipe), false);
            let refused = pipe.start_write_out(Ticket::none()).await;
            assert!(refused.is_err(), "the kernel was not asked");
        });
    }
}

#[test]
fn a_read_behind_the_end_is_an_unexpected_end() {
    for backend in BACKENDS {
        on(backend, |_| async {
            let file = file_with(b"short");
            let error = file.read(6, 0, Ticket::none()).await.expect_err("too long");
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        });
    }
}

#[test]
fn a_dropped_write_is_settled_before_its_ticket_is_back() {
    for backend in BACKENDS {
        on(backend, |_| async {
            let file = file_with(&[0; 4096]);
            let flight = InFlight::new();
            for _ in 0..300 {
                let data = smallvec![Bytes::from(vec![7; 4096])];
                let write = file.write(data, 0, false, flight.ticket());
                // Started, then dropped: the kernel may still be at it.
                drop(clock::timeout(Duration::ZERO, write).await);
            }
            flight.settled().await;
            assert_eq!(flight.count(), 0);
            let read = file.read(4096, 0, Ticket::none()).await.expect("read");
            assert!(read.iter().all(|&b| b == 7));
        });
    }
}

#[test]
fn operations_left_at_the_end_are_waited_for() {
    for backend in BACKENDS {
        let file = file_with(&[0; 1 << 20]);
        let flight = InFlight::new();
        on(backend, |handle| {
            let (file, flight) = (file.clone(), flight.clone());
            async move {
                for core in 0..64 {
                    let (file, ticket) = (file.clone(), flight.ticket());
                    handle.spawn_on(core, move || async move {
                        let data = smallvec![Bytes::from(vec![9; 1 << 16])];
                        drop(file.write(data, 0, false, ticket).await);
                    });
                }
                clock::sleep(Duration::from_millis(1)).await;
            }
        });
        if backend == BackendChoice::Uring {
            assert_eq!(flight.count(), 0);
        }
    }
}

#[test]
fn more_operations_than_ring_entries_all_complete() {
    for backend in BACKENDS {
        on(backend, |_| async {
            let file = file_with(&[1; 4096]);
            let reads = (0..2000).map(|_| crate::spawn(file.read(512, 512, Ticket::none())));
            for read in reads.collect::<Vec<_>>() {
                assert_eq!(read.await.expect("no panic").expect("read").len(), 512);
            }
        });
    }
}

#[test]
fn tasks_run_on_the_core_they_are_sent_to() {
    on(BackendChoice::Auto, |handle| async move {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        for core in 0..2 {
            let tell = tell.clone();
            handle.spawn_on(core, move || async move {
                let name = std::thread::current().name().map(str::to_owned);
                tell.send((core, name)).expect("listening");
            });
        }
        for _ in 0..2 {
            let (core, name) = told.recv().await.expect("two answers");
            assert_eq!(name.as_deref() == Some("core-1"), core == 1);
        }
    });
}

/// The kernel takes 1024 parts in one call and refuses more as invalid. Stripes cut a long write
/// into many parts: such a write failed.
#[test]
fn a_write_of_more_parts_than_the_kernel_takes_is_written_whole() {
    for backend in BACKENDS {
        on(backend, |_| async {
            let file = file_with(&[0; 8192]);
            let data = (0..2500u16).map(|i| Bytes::from(i.to_be_bytes().to_vec()));
            let ticket = InFlight::new().ticket();
            let written = file.write(data.collect(), 100, false, ticket).await;
            written.expect("written");
            let read = file.read(5000, 100, Ticket::none()).await.expect("read");
            let numbers = read.chunks(2).map(|b| u16::from_be_bytes([b[0], b[1]]));
            assert!(numbers.eq(0..2500));
        });
    }
}

/// Jobs of a core are begun by one task: one that panicked before its future was made ended that
/// task, and the core took no job any more.
#[test]
fn a_job_that_panics_while_it_is_made_harms_no_other() {
    async fn nothing() {}
    on(BackendChoice::Auto, |handle| async move {
        for core in 0..2 {
            let (tell, told) = tokio::sync::oneshot::channel();
            handle.spawn_on(core, || -> std::future::Ready<()> {
                panic!("as the test asked")
            });
            handle.spawn_on(core, move || {
                tell.send(core).expect("listening");
                nothing()
            });
            let answer = clock::timeout(Duration::from_secs(10), told).await;
            assert_eq!(answer, Ok(Ok(core)), "core {core} takes no job");
        }
    });
}

/// More completions than the ring's queue holds, all of them left behind at the stop.
#[test]
fn completions_beyond_the_queue_are_waited_for_at_the_stop() {
    for backend in BACKENDS {
        let file = file_with(&[0; 4096]);
        let flight = InFlight::new();
        let counted = flight.clone();
        on(backend, |_| async move {
            for _ in 0..3000 {
                let data = smallvec![Bytes::from(vec![3; 512])];
                let write = file.write(data, 0, false, counted.ticket());
                // Begun, then dropped, before the driver had a turn.
                drop(write.now_or_never());
            }
        });
        assert_eq!(flight.count(), 0, "{backend:?}");
    }
}

/// A core whose ring could not be had (too few descriptors, too little locked memory) ended quietly
/// at the start. What was sent to it, every other connection of a server, vanished.
#[test]
fn every_core_works_or_the_engine_does_not_start() {
    const CHILD: &str = "OUTBOARD_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        // The limit is the whole process's: this takes one of its own.
        let name = "tests::every_core_works_or_the_engine_does_not_start";
        let exe = std::env::current_exe().expect("a test binary");
        let mut child = std::process::Command::new(exe);
        child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
        let output = child.output().expect("started");
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    // What tokio keeps for the process is there from here on.
    on(BackendChoice::Auto, |_| async {});
    let open = std::fs::read_dir("/proc/self/fd").expect("listed").count() as u64;
    let mut started = Vec::new();
    for limit in open..open + 40 {
        let mut limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limits.current = Some(limit);
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limits).expect("lowered");
        let config = Config {
            backend: BackendChoice::Auto,
            cores: 4,
        };
        let worked = run(&config, |handle| async move {
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            for core in 0..4 {
                let tell = tell.clone();
                handle.spawn_on(
                    core,
                    move || async move { tell.send(()).expect("listening") },
                );
            }
            for _ in 0..4 {
                let answer = clock::timeout(Duration::from_secs(2), told.recv()).await;
                assert_eq!(
                    answer,
                    Ok(Some(())),
                    "a core is deaf with {limit} descriptors"
                );
            }
            handle.backend()
        });
        started.extend(worked.ok());
    }
    assert!(started.contains(&Backend::Threads) && started.contains(&Backend::Uring));
}

#[test]
fn cached_pages_are_counted_for_whole_ranges_within_the_file() {
    use std::os::fd::AsFd;
    let file = file_with(&[1; 65_536]);
    let cached = |offset, len| crate::page_cache::is_cached(file.fd().as_fd(), offset, len);
    assert!(cached(0, 65_536) && cached(0, 0) && cached(65_535, 1) && cached(1, 4096));
    assert!(!cached(0, 65_537) && !cached(65_536, 1) && !cached(1 << 40, 4096));
    assert!(!cached(u64::MAX, 1) && !cached(u64::MAX, u64::MAX) && !cached(0, u64::MAX));
    // A page that the file ends in is cached; what lies behind the end is not there.
    rustix::fs::ftruncate(file.fd(), 65_000).expect("cut");
    assert!(cached(0, 65_000) && !cached(0, 65_536));
}

#[test]
#[should_panic(expected = "address space")]
fn a_buffer_longer_than_memory_is_refused() {
    drop(Buffer::take(usize::MAX));
}

proptest! {
    #[test]
    fn buffers_are_aligned_and_as_long_as_requested(lens in prop::collection::vec(0usize..300_000, 1..20)) {
        for round in 0u8..2 {
            let mut held = Vec::new();
            for &len in &lens {
                let mut buffer = Buffer::take(len);
                prop_assert_eq!(buffer.len(), len);
                prop_assert_eq!(buffer.as_ptr().addr() % 4096, 0);
                buffer.fill(round);
                held.push(buffer.freeze());
            }
            prop_assert!(held.iter().all(|b| b.iter().all(|&x| x == round)));
        }
    }
}
