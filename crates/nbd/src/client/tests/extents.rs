//! What is known of holes and zeroes, and lengths of more than 32 bits.

use block::{BlockDevice, Extent, ExtentKind, Range, WriteFlags};
use nbd_proto::{
    BASE_ALLOCATION, Command, CommandFlags, Extent as Told, Framing, TransmissionFlags,
};

use super::fake::Fake;
use super::{connect, in_engine, short_limits};
use crate::client::{ClientConfig, describe};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

const HOLE: u64 = 3;
const ZERO: u64 = 2;

fn reporting(framing: Framing, extents: &[(u64, u64)]) -> Fake {
    let fake = Fake::start(MIB);
    {
        let mut world = fake.world();
        world.framing = framing;
        // Another one first: the right one is found by its id.
        world.contexts = vec!["other:context", BASE_ALLOCATION];
        let reported = extents.iter();
        world.extents = reported
            .map(|(len, flags)| Told {
                len: *len,
                flags: *flags,
            })
            .collect();
    }
    fake
}

const fn extent(offset: u64, len: u64, kind: ExtentKind) -> Extent {
    Extent {
        range: Range::new(offset, len),
        kind,
    }
}

#[test]
fn holes_zeroes_and_data_are_distinguished_and_cut_to_the_range() {
    for framing in [Framing::Structured, Framing::Extended] {
        in_engine(|| async move {
            let reported = [
                (4096, HOLE),
                (4096, ZERO),
                (4096, 0),
                (4096, 1),
                (8192, HOLE | 1 << 9),
            ];
            let fake = reporting(framing, &reported);
            let client = connect(&fake, short_limits()).await;
            assert!(client.knows_extents() && client.health().extents);
            assert_eq!(client.health().extended, framing == Framing::Extended);
            let expected = [
                extent(1024, 3072, ExtentKind::Hole),
                extent(4096, 4096, ExtentKind::Zero),
                // A hole that need not read as zeroes is as good as data.
                extent(8192, 8192, ExtentKind::Data),
                extent(16_384, 616, ExtentKind::Hole),
            ];
            let extents = client.extents(Range::new(1024, 15_976)).await.unwrap();
            assert_eq!(extents, expected);
            assert!(client.extents(Range::new(512, 0)).await.unwrap().is_empty());
            assert_eq!(fake.world().log.len(), 1);
        });
    }
}

#[test]
fn an_answer_that_ends_early_is_continued_by_another_request() {
    in_engine(|| async {
        let reported: Vec<(u64, u64)> = (0..100).map(|nth| (1000, HOLE * (nth % 2))).collect();
        let fake = reporting(Framing::Structured, &reported);
        fake.world().extents_max = 3;
        let client = connect(&fake, short_limits()).await;
        let extents = client.extents(Range::new(0, MIB)).await.unwrap();
        assert_eq!(extents.len(), 101);
        for (nth, extent) in extents.iter().enumerate().take(100) {
            let kind = match nth % 2 {
                0 => ExtentKind::Data,
                _ => ExtentKind::Hole,
            };
            assert_eq!(
                (extent.range.offset, extent.kind),
                (nth as u64 * 1000, kind)
            );
        }
        assert_eq!(extents[100].range.end(), MIB);
        let offsets: Vec<u64> = fake
            .world()
            .log
            .iter()
            .map(|request| request.offset)
            .collect();
        assert_eq!(offsets.len(), 34);
        assert!(
            offsets
                .iter()
                .zip(0..)
                .all(|(offset, nth)| *offset == 3000 * nth)
        );
    });
}

#[test]
fn long_ranges_take_one_question_with_64_bits_and_many_with_32() {
    for (framing, questions) in [(Framing::Extended, 1), (Framing::Structured, 512)] {
        in_engine(|| async move {
            let fake = reporting(framing, &[(TIB, HOLE)]);
            fake.world().export.size = TIB;
            let client = connect(&fake, short_limits()).await;
            let extents = client.extents(Range::new(0, TIB)).await.unwrap();
            assert_eq!(extents, [extent(0, TIB, ExtentKind::Hole)]);
            let world = fake.world();
            assert_eq!(world.log.len(), questions);
            let reported: u64 = world.log.iter().map(|request| request.len).sum();
            assert!(reported >= TIB);
        });
    }
}

#[test]
fn a_server_without_contexts_gets_no_block_status_and_all_is_data() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        fake.world().contexts = vec!["other:context"];
        let client = connect(&fake, short_limits()).await;
        assert!(!client.knows_extents());
        let range = Range::new(512, 4096);
        let extents = client.extents(range).await.unwrap();
        assert_eq!(extents, [extent(512, 4096, ExtentKind::Data)]);
        assert!(fake.world().log.is_empty());
    });
}

#[test]
fn extents_are_requested_again_after_a_lost_connection_or_are_data_if_the_server_forgot() {
    in_engine(|| async {
        let fake = reporting(Framing::Structured, &[(65_536, HOLE)]);
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(0, MIB);
        let before = client.extents(range).await.unwrap();
        assert_eq!(before.len(), 2);
        fake.stop().await;
        fake.listen();
        assert_eq!(client.extents(range).await.unwrap(), before);
        fake.stop().await;
        fake.world().contexts.clear();
        fake.listen();
        let after = client.extents(range).await.unwrap();
        assert_eq!(after, [extent(0, MIB, ExtentKind::Data)]);
    });
}

/// Sends what changes terabytes and returns how it went over the wire: command, offset and length.
async fn changes(framing: Framing) -> Vec<(Command, u64, u64)> {
    let fake = reporting(framing, &[]);
    fake.world().export.size = 16 * TIB;
    fake.world().export.block_size_min = 4096;
    let client = connect(&fake, short_limits()).await;
    client.trim(Range::new(0, 16 * TIB)).await.unwrap();
    let fast = WriteFlags::FAST_ZERO | WriteFlags::FUA;
    let range = Range::new(4096, 5 << 30);
    client.write_zeroes(range, fast).await.unwrap();
    client
        .write_zeroes(range, WriteFlags::empty())
        .await
        .unwrap();
    let log = fake.world().log.clone();
    for request in &log {
        let zeroes = request.command == Command::WriteZeroes;
        let fast = request.flags.contains(CommandFlags::FAST_ZERO);
        assert!(!fast || (zeroes && request.flags.contains(CommandFlags::FUA)));
    }
    let log = log
        .iter()
        .filter(|request| request.command != Command::Flush);
    log.map(|request| (request.command, request.offset, request.len))
        .collect()
}

#[test]
fn terabytes_are_trimmed_and_zeroed_in_one_request_where_lengths_have_64_bits() {
    const ZEROES: Command = Command::WriteZeroes;
    // Zeroing that may be slow goes in parts, so that each is answered in time.
    const PARTS: [(Command, u64, u64); 3] = [
        (ZEROES, 4096, 2 << 30),
        (ZEROES, 4096 + (2 << 30), 2 << 30),
        (ZEROES, 4096 + (4 << 30), 1 << 30),
    ];
    in_engine(|| async {
        let log = changes(Framing::Extended).await;
        assert_eq!(
            log[..2],
            [(Command::Trim, 0, 16 * TIB), (ZEROES, 4096, 5 << 30)]
        );
        assert_eq!(log[2..], PARTS);
    });
    in_engine(|| async {
        let log = changes(Framing::Structured).await;
        let (trims, zeroes) = log.split_at(8192);
        assert!(
            trims
                .iter()
                .all(|(command, _, len)| *command == Command::Trim && *len == 2 << 30)
        );
        assert_eq!(zeroes[..3], PARTS);
        assert_eq!(zeroes[3..], PARTS);
    });
}

/// It cannot take what must be written again.
#[test]
fn a_server_that_comes_back_with_shorter_lengths_is_another_disk_if_it_must_hear_longer_ones() {
    let lost = |long: bool| async move {
        let fake = reporting(Framing::Extended, &[]);
        fake.world().export.size = TIB;
        let client = connect(&fake, short_limits()).await;
        let len = if long { 5 << 30 } else { 1 << 30 };
        let fast = client.write_zeroes(Range::new(0, len), WriteFlags::FAST_ZERO);
        fast.await.unwrap();
        fake.stop().await;
        fake.world().framing = Framing::Structured;
        fake.listen();
        client
            .read(Range::new(0, 512))
            .await
            .map_err(|e| e.to_string())
    };
    in_engine(|| async move {
        lost(false).await.unwrap();
        let error = lost(true).await.unwrap_err();
        assert!(
            error.contains("it took requests of 5368709120 bytes and takes 2147483648 at most"),
            "{error}"
        );
    });
}

#[test]
fn a_description_has_what_was_negotiated_and_the_contexts() {
    in_engine(|| async {
        let fake = reporting(Framing::Extended, &[]);
        let timeout = std::time::Duration::from_secs(10);
        let description = describe(&fake.target(), timeout).await.unwrap();
        assert!(description.structured && description.extended && !description.tls);
        assert_eq!(description.contexts, ["other:context", BASE_ALLOCATION]);
        fake.world().framing = Framing::Simple;
        let description = describe(&fake.target(), timeout).await.unwrap();
        assert!(!description.structured && !description.extended);
        assert!(description.contexts.is_empty());
    });
}

/// Without one, extents of a connection are not what another one's server would say.
#[test]
fn every_connection_negotiates_the_same() {
    in_engine(|| async {
        let fake = reporting(Framing::Extended, &[(65_536, HOLE)]);
        fake.world().export.flags |= TransmissionFlags::CAN_MULTI_CONN;
        let config = ClientConfig {
            connections: 4,
            in_flight_max: 1,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let asked = (0..16).map(|_| client.extents(Range::new(0, MIB)));
        for extents in futures_util::future::join_all(asked).await {
            assert_eq!(extents.unwrap().len(), 2);
        }
    });
}
