//! The status of an export in a context of another server, and what a hostile one can do with it.

use std::time::Duration;

use block::Range;
use nbd_proto::{Command, Extent, Framing, QEMU_ALLOCATION_DEPTH, WireError};

use super::fake::{Act, Fake};
use super::{in_engine, until};
use crate::client::{ClientError, ContextExtent, limits, read_context};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const BITMAP: &str = "qemu:dirty-bitmap:nightly";
const SOON: Duration = Duration::from_secs(20);

fn reporting(framing: Framing, extents: &[(u64, u64)]) -> Fake {
    let fake = Fake::start(MIB);
    {
        let mut world = fake.world();
        world.framing = framing;
        world.contexts = vec![QEMU_ALLOCATION_DEPTH, BITMAP];
        let extents = extents.iter();
        world.extents = extents.map(|&(len, flags)| Extent { len, flags }).collect();
    }
    fake
}

const fn extent(offset: u64, len: u64, status: u64) -> ContextExtent {
    ContextExtent {
        range: Range::new(offset, len),
        status,
    }
}

/// `qemu:dirty-bitmap:NAME` could be listed and not be read: what is dirty was not known.
#[test]
fn a_context_of_another_server_is_read_from_end_to_end() {
    for framing in [Framing::Structured, Framing::Extended] {
        in_engine(|| async move {
            let fake = reporting(framing, &[(4096, 0), (4096, 1), (4096, 1), (8192, 2)]);
            let map = read_context(&fake.target(), BITMAP, SOON).await.unwrap();
            let expected = [
                extent(0, 4096, 0),
                extent(4096, 8192, 1),
                extent(12_288, 8192, 2),
                extent(20_480, MIB - 20_480, 0),
            ];
            assert_eq!((map.size, map.reported()), (MIB, MIB));
            assert_eq!(map.extents, expected);
            assert_eq!(map.dirty(), [Range::new(4096, 8192)]);
            assert_eq!(fake.world().commands(), [Command::BlockStatus]);
            until("a goodbye", || fake.world().goodbyes == 1).await;
        });
    }
}

#[test]
fn answers_that_end_early_and_exports_of_terabytes_take_several_requests() {
    in_engine(|| async {
        let extents: Vec<(u64, u64)> = (0..100).map(|nth| (1000, nth % 2)).collect();
        let fake = reporting(Framing::Structured, &extents);
        fake.world().extents_max = 3;
        let map = read_context(&fake.target(), BITMAP, SOON).await.unwrap();
        assert_eq!(map.extents.len(), 101);
        assert_eq!(map.dirty().len(), 50);
        assert_eq!(fake.world().log.len(), 34);
    });
    // An extent may end behind its request: in lengths of 32 bits at 4 GiB less a byte.
    for (framing, requests) in [(Framing::Structured, 257), (Framing::Extended, 1)] {
        in_engine(|| async move {
            let fake = reporting(framing, &[(TIB, 1)]);
            fake.world().export.size = TIB;
            let map = read_context(&fake.target(), BITMAP, SOON).await.unwrap();
            assert_eq!(map.extents, [extent(0, TIB, 1)]);
            assert_eq!(fake.world().log.len(), requests);
        });
    }
}

#[test]
fn an_export_without_the_context_is_an_error_and_so_is_a_server_without_contexts() {
    for framing in [Framing::Simple, Framing::Structured] {
        in_engine(|| async move {
            let fake = reporting(framing, &[]);
            let error = read_context(&fake.target(), "qemu:dirty-bitmap:weekly", SOON).await;
            let error = error.unwrap_err();
            assert!(matches!(error, ClientError::NoContext { .. }), "{error}");
            assert!(fake.world().log.is_empty());
        });
    }
}

#[test]
fn a_failed_request_and_a_server_without_an_answer_are_errors() {
    in_engine(|| async {
        let fake = reporting(Framing::Structured, &[]);
        fake.world().script = Box::new(|_, _| Act::Refuse(WireError::Io, "bad sector"));
        let error = read_context(&fake.target(), BITMAP, SOON)
            .await
            .unwrap_err();
        let expected =
            "cannot read the status of qemu:dirty-bitmap:nightly: input/output error: bad sector";
        assert!(error.to_string().ends_with(expected), "{error}");
        fake.world().script = Box::new(|_, _| Act::Hangup);
        let error = read_context(&fake.target(), BITMAP, SOON)
            .await
            .unwrap_err();
        assert!(matches!(error, ClientError::Closed { .. }), "{error}");
        fake.world().script = Box::new(|_, _| Act::Raw(vec![7; 100]));
        let error = read_context(&fake.target(), BITMAP, SOON)
            .await
            .unwrap_err();
        assert!(matches!(error, ClientError::Broken { .. }), "{error}");
        fake.world().script = Box::new(|_, _| Act::Silence);
        let soon = Duration::from_millis(300);
        let error = read_context(&fake.target(), BITMAP, soon)
            .await
            .unwrap_err();
        assert!(matches!(error, ClientError::Unanswered { .. }), "{error}");
    });
}

/// A server that reports byte by byte would have the client go on for as long as the disk is large.
#[test]
fn no_more_extents_are_taken_than_a_map_may_have_and_the_rest_counts_as_dirty() {
    in_engine(|| async {
        let fake = reporting(Framing::Extended, &[]);
        let most = limits::CONTEXT_EXTENTS_MAX;
        {
            let mut world = fake.world();
            world.export.size = TIB;
            world.extents = vec![Extent { len: 1, flags: 0 }; most + 5];
            world.extents_max = most / 4 - 1;
        }
        let map = read_context(&fake.target(), BITMAP, SOON).await.unwrap();
        let reported = most as u64;
        assert_eq!(map.extents, [extent(0, reported, 0)]);
        assert_eq!(map.dirty(), [Range::new(reported, TIB - reported)]);
        assert_eq!(fake.world().log.len(), 5);
    });
}
