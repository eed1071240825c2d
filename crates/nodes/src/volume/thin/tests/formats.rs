//! What is refused, by name.

use std::sync::Arc;

use block::Node;
use testkit::{MemDisk, block_on};

use super::super::format::{BlockKind, NodeFault};
use super::super::{ThinError, ThinPool, ThinPoolSpec, ThinPoolUsage, unsupported};
use super::image::{CHUNK, Entries, INTERNAL, LEAF, MetadataImage, TestPool, number};
use crate::fields::{Fields, put};

fn pool() -> TestPool {
    TestPool::new(4).volume(1, &[(0, 2), (7, 3)])
}

/// The error after a change of the superblock, its checksum made right.
fn refused(at: usize, bytes: &[u8]) -> ThinError {
    let pool = pool();
    let mut metadata = pool.metadata();
    metadata.block(0)[at..at + bytes.len()].copy_from_slice(bytes);
    let sum = BlockKind::PoolSuperblock.checksum(metadata.block(0));
    put(metadata.block(0), 0, sum.to_le_bytes());
    let opened = pool.open_with(&metadata, pool.data_disk(), pool.spec());
    opened.expect_err("it is refused")
}

/// The error of opening with another spec.
fn unfit(change: impl FnOnce(&mut ThinPoolSpec)) -> Option<ThinError> {
    let pool = pool();
    let mut spec = pool.spec();
    change(&mut spec);
    pool.open_with(&pool.metadata(), pool.data_disk(), spec)
        .err()
}

#[test]
fn a_superblock_that_is_not_good_is_refused_by_name() {
    let text = |at, bytes: &[u8]| refused(at, bytes).to_string();
    assert!(text(4, &[1]).contains("marked needs_check"));
    assert!(text(4, &[4]).contains("unknown flags 0x4"));
    assert!(text(8, &[9]).contains("block number"));
    assert!(text(32, &[0]).contains("magic number"));
    assert!(text(40, &[3]).contains("version 3 is not supported"));
    assert!(text(360, &[2]).contains("unknown incompat_flags 0x2"));
    assert!(text(336, &[1, 0, 0, 0]).contains("chunk size"));
    assert!(text(336, &[0; 4]).contains("chunk size"));
    assert!(text(340, &[16]).contains("metadata block size"));
    assert!(text(64, &[0xff; 8]).contains("number of chunks"));
    assert!(text(192, &[0xff; 8]).contains("number of metadata blocks"));
    assert!(text(64, &[5]).contains("thin pool data have 262144 bytes"));
    assert!(text(192, &[200]).contains("a disk is too small"));
}

#[test]
fn the_held_root_and_read_only_features_are_ignored() {
    let pool = pool();
    let mut metadata = pool.metadata();
    for at in [56, 352, 356] {
        metadata.block(0)[at] = 99;
    }
    metadata.seal(0, BlockKind::PoolSuperblock);
    pool.open_with(&metadata, pool.data_disk(), pool.spec())
        .unwrap();
}

#[test]
fn a_damaged_missing_or_cut_superblock_is_refused() {
    let pool = pool();
    let mut damaged = pool.metadata();
    damaged.block(0)[100] ^= 1;
    let open = |image: &MetadataImage| {
        let opened = pool.open_with(image, pool.data_disk(), pool.spec());
        opened.expect_err("it is refused")
    };
    assert!(matches!(open(&damaged), ThinError::Checksum { .. }));
    let zeroes = MetadataImage {
        bytes: vec![0; 65_536],
    };
    assert!(matches!(open(&zeroes), ThinError::Unused));
    let cut = MetadataImage {
        bytes: pool.metadata().bytes[..1024].to_vec(),
    };
    assert!(matches!(open(&cut), ThinError::Cut { len: 1024, .. }));
}

#[test]
fn the_transaction_id_must_be_the_groups_or_one_behind_pending_messages() {
    assert!(unfit(|_| ()).is_none());
    assert!(
        unfit(|spec| spec.transaction_id = 0).is_none(),
        "it is not LVM's"
    );
    let wrong = |id: u64, pending: bool| {
        let error = unfit(|spec| {
            spec.transaction_id = id;
            spec.pending_messages = pending;
        });
        matches!(error, Some(ThinError::TransactionId { found: 7, .. }))
    };
    assert!(wrong(6, false) && wrong(8, false) && wrong(6, true) && wrong(9, true));
    assert!(!wrong(8, true) && !wrong(7, true));
    let error = unfit(|spec| spec.chunk_size = 2 * CHUNK);
    assert!(matches!(error, Some(ThinError::ChunkSize { .. })));
}

#[test]
fn a_volume_that_is_not_in_the_pool_is_refused() {
    let pool = pool();
    let opened = pool.open();
    let error = block_on(opened.volume(2, CHUNK, None)).unwrap_err();
    assert!(error.to_string().ends_with("no volume with device id 2"));
    let spec = ThinPoolSpec {
        transaction_id: 8,
        pending_messages: true,
        ..pool.spec()
    };
    let opened = pool
        .open_with(&pool.metadata(), pool.data_disk(), spec)
        .unwrap();
    let error = block_on(opened.volume(2, CHUNK, None)).unwrap_err();
    assert!(error.to_string().contains("its creation is still pending"));
}

/// Opens the volume with a mapping tree that `tree` makes, and reads all of it.
fn fault(tree: impl FnOnce(&mut MetadataImage) -> u64) -> NodeFault {
    let pool = pool();
    let mut image = pool.metadata();
    let root = tree(&mut image);
    let top = image.tree(8, &[(1, number(root))], 252);
    put(image.block(0), 320, top.to_le_bytes());
    let blocks = image.blocks();
    put(image.block(0), 192, blocks.to_le_bytes());
    image.seal(0, BlockKind::PoolSuperblock);
    let opened = pool
        .open_with(&image, pool.data_disk(), pool.spec())
        .unwrap();
    match block_on(opened.check_volume(1)) {
        Err(ThinError::Node { fault, .. }) => fault,
        other => panic!("a node is refused, not {other:?}"),
    }
}

fn mappings(chunks: &[u64]) -> Entries {
    chunks
        .iter()
        .map(|chunk| (*chunk, number(1 << 24)))
        .collect()
}

/// A leaf with a change in its header.
fn leaf_with(at: usize, value: u32) -> NodeFault {
    fault(|image| {
        let leaf = image.node(LEAF, 8, &mappings(&[1, 2]));
        put(image.block(leaf), at, value.to_le_bytes());
        image.seal(leaf, BlockKind::Node);
        leaf
    })
}

#[test]
fn a_damaged_node_is_refused_by_name() {
    assert_eq!(leaf_with(4, 3), NodeFault::Flags(3));
    assert_eq!(leaf_with(4, 0), NodeFault::Flags(0));
    let (found, expected) = (24, 8);
    assert_eq!(leaf_with(24, 24), NodeFault::ValueSize { found, expected });
    let (count, max) = (253, 252);
    assert_eq!(leaf_with(16, 253), NodeFault::Entries { count, max });
    let (count, max) = (2, u32::MAX);
    assert_eq!(leaf_with(20, u32::MAX), NodeFault::Entries { count, max });
    let order = fault(|image| image.node(LEAF, 8, &mappings(&[3, 3])));
    assert_eq!(order, NodeFault::Order(1));
    let empty = fault(|image| image.node(INTERNAL, 8, &[]));
    assert!(matches!(empty, NodeFault::Entries { count: 0, .. }));
    let outside = fault(|image| image.node(INTERNAL, 8, &[(0, number(1 << 60))]));
    assert!(matches!(outside, NodeFault::Outside { .. }));
    let flipped = fault(|image| {
        let leaf = image.node(LEAF, 8, &mappings(&[1]));
        image.block(leaf)[4000] ^= 1;
        leaf
    });
    assert!(matches!(flipped, NodeFault::Checksum { .. }));
    let moved = fault(|image| {
        let leaf = image.node(LEAF, 8, &mappings(&[1]));
        let content = image.block(leaf).to_vec();
        image.bytes.extend(content);
        leaf + 1
    });
    assert!(matches!(moved, NodeFault::BlockNumber(_)));
}

#[test]
fn a_node_with_keys_of_another_one_is_refused() {
    let below = fault(|image| {
        let leaf = image.node(LEAF, 8, &mappings(&[1, 2]));
        image.node(INTERNAL, 8, &[(2, number(leaf))])
    });
    let (low, high) = (2, u64::MAX);
    assert_eq!(below, NodeFault::Bounds { low, high });
    let above = fault(|image| {
        let leaf = image.node(LEAF, 8, &mappings(&[1, 9]));
        let next = image.node(LEAF, 8, &mappings(&[9, 10]));
        image.node(INTERNAL, 8, &[(1, number(leaf)), (9, number(next))])
    });
    assert_eq!(above, NodeFault::Bounds { low: 1, high: 8 });
}

#[test]
fn a_tree_that_never_ends_is_refused() {
    let own_child = fault(|image| {
        let number_of_it = image.blocks();
        image.node(INTERNAL, 8, &[(0, number(number_of_it))])
    });
    assert!(matches!(own_child, NodeFault::Depth(_) | NodeFault::Loop));
}

#[test]
fn a_mapping_to_nowhere_and_a_wrong_count_are_refused() {
    let mut nowhere = TestPool::new(4).volume(1, &[(0, 4)]);
    let opened = nowhere.open();
    let error = block_on(opened.check_volume(1)).unwrap_err();
    assert!(matches!(
        error,
        ThinError::Mapping {
            data: 4,
            chunks: 4,
            ..
        }
    ));
    let volume = block_on(opened.volume(1, CHUNK, None)).unwrap();
    let failed = block_on(volume.read(block::Range::new(0, 512))).unwrap_err();
    assert!(
        failed
            .to_string()
            .contains("maps chunk 0 of a volume to data chunk 4"),
        "{failed}"
    );

    nowhere = TestPool::new(4).volume(1, &[(0, 3)]);
    let mut image = nowhere.metadata();
    let details = Fields::of(image.block(0)).u64(328);
    image.block(details)[32 + 126 * 8] = 2;
    image.seal(details, BlockKind::Node);
    let opened = nowhere
        .open_with(&image, nowhere.data_disk(), nowhere.spec())
        .unwrap();
    let error = block_on(opened.check_volume(1)).unwrap_err();
    assert!(matches!(
        error,
        ThinError::Mapped {
            found: 1,
            expected: 2,
            ..
        }
    ));
}

#[test]
fn opening_reads_a_few_blocks_of_any_pool() {
    let many: Vec<(u64, u64)> = (0..200_000).map(|chunk| (chunk * 3, chunk % 4)).collect();
    let pool = TestPool::new(4).volume(1, &many);
    let image = pool.metadata();
    assert!(image.blocks() > 790);
    let disk = Arc::new(MemDisk::from_bytes(image.bytes));
    let opened = block_on(ThinPool::open(disk, pool.data_disk(), pool.spec())).unwrap();
    let volume: Node = block_on(opened.volume(1, 600_000 * CHUNK, None)).unwrap();
    let range = block::Range::new(3 * 123_456 * CHUNK, CHUNK);
    let found = testkit::gather(&block_on(volume.read(range)).unwrap());
    assert!(found[..] == pool.data()[..65_536]);
    let usage = opened.usage();
    assert_eq!(
        (usage.chunk_size, usage.data_chunks, usage.data_chunks_used),
        (CHUNK, 4, 2)
    );
}

#[test]
fn used_metadata_have_the_reserve_of_the_kernel() {
    let usage = |metadata_blocks, metadata_blocks_used| ThinPoolUsage {
        chunk_size: CHUNK,
        data_chunks: 4,
        data_chunks_used: 3,
        metadata_blocks,
        metadata_blocks_used,
    };
    // LVM showed 11.33 % of a pool with 14 of 1024 blocks in use.
    assert_eq!(usage(1024, 14).metadata_bytes_used(), 116 * 4096);
    assert_eq!(usage(1024, 1000).metadata_bytes_used(), 4 << 20);
    assert_eq!(usage(1 << 20, 1).metadata_bytes_used(), 4097 * 4096);
    assert_eq!(usage(1024, 14).data_bytes_used(), 3 * CHUNK);
}

#[test]
fn segment_types_that_are_not_opened_say_why_and_what_to_do() {
    for kind in [
        "vdo",
        "vdo-pool",
        "writecache",
        "integrity",
        "cache-pool",
        "thin-pool",
    ] {
        let text = unsupported(kind).unwrap().to_string();
        assert!(text.starts_with(&format!("segment type {kind} is not supported: ")));
    }
    assert_eq!(unsupported("raid1"), None);
}
