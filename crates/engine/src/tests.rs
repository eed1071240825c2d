//! Tests of the engine with both backends.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use smallvec::smallvec;

use crate::{BackendChoice, Buffer, Config, DiskFile, Handle, InFlight, Ticket, clock, run};

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

proptest! {
    #[test]
    fn buffers_are_aligned_and_as_long_as_asked(lens in prop::collection::vec(0usize..300_000, 1..20)) {
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
