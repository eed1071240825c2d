//! Tests of pools.

use super::pool::{Pool, Raw};

const MIB: usize = 1 << 20;

#[test]
fn a_pool_keeps_no_more_than_its_bound() {
    let mut pool = Pool::new(2 * MIB);
    assert!(pool.keep(Raw::allocate(MIB)).is_none());
    assert!(pool.keep(Raw::allocate(MIB)).is_none());
    assert!(pool.keep(Raw::allocate(4096)).is_some());
    assert!(pool.take(MIB).is_some());
    assert!(pool.keep(Raw::allocate(4096)).is_none());
}

#[test]
fn a_pool_gives_memory_of_the_size_that_is_wanted() {
    let mut pool = Pool::new(2 * MIB);
    assert!(pool.keep(Raw::allocate(4096)).is_none());
    assert!(pool.take(8192).is_none());
    assert_eq!(pool.take(4096).map(|raw| raw.capacity), Some(4096));
    assert!(pool.take(4096).is_none());
}
