//! The order of measurements: what the seed makes of it, and what a listener hears of it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Mock, course, pairs, plan};
use crate::runner::blocks::run_blocks;
use crate::runner::progress::{CellProgress, Progress};
use crate::runner::schedule::block_order;
use crate::units::{MIB, Nanos, SECOND};

/// What a listener hears must add up.
#[derive(Default)]
struct Heard {
    done: Vec<u32>,
    left: Vec<Nanos>,
}

impl Progress for Heard {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, cell: &CellProgress<'_>) {
        assert!(cell.block >= 1 && cell.block <= cell.blocks, "{cell:?}");
        assert!(cell.done < cell.cells);
        self.left.push(cell.left);
    }
    fn cell_finished(&mut self, cell: &CellProgress<'_>, figure: &str) {
        assert!(figure.contains("MB/s"), "{figure}");
        self.done.push(cell.done);
    }
}

#[test]
fn a_listener_hears_every_measurement_once_and_in_order() {
    let mut heard = Heard::default();
    let mut mock = Mock {
        now: Nanos(0),
        takes: Nanos(SECOND),
        figure: |_| Ok(MIB),
    };
    let plan = plan();
    let pairs = pairs(&plan, 2);
    run_blocks(&course(&plan, &pairs), &mut mock, &mut heard, &mut |_| {
        Ok(())
    });
    assert_eq!(heard.done, (0..40).collect::<Vec<u32>>());
    assert!(heard.left.iter().all(|left| left.0 > 0));
}

proptest! {
    #[test]
    fn a_block_has_every_variant_once_and_the_seed_gives_its_order(
        seed in any::<u64>(), block in 0u32..1000, targets in 1usize..6
    ) {
        let pairs = pairs(&plan(), targets);
        let order = block_order(&pairs, seed, block);
        let variants: BTreeSet<(usize, usize)> = order.iter().map(|slot| (slot.workload, slot.target)).collect();
        prop_assert_eq!(variants.len(), 4 * targets);
        prop_assert_eq!(order.len(), 4 * targets);
        prop_assert!(order.iter().zip(0u32..).all(|(slot, at)| slot.position == at && slot.block == block));
        prop_assert_eq!(order, block_order(&pairs, seed, block));
    }

    #[test]
    fn orders_of_neighbouring_blocks_differ_for_most_seeds(seed in any::<u64>()) {
        let orders: BTreeSet<Vec<(usize, usize)>> = (0..8)
            .map(|block| block_order(&pairs(&plan(), 2), seed, block).iter().map(|s| (s.workload, s.target)).collect())
            .collect();
        prop_assert!(orders.len() >= 6);
    }
}
