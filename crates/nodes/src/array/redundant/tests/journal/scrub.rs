//! A scrub that repairs parity of an array with a journal.

use block::Range;
use testkit::block_on;

use super::super::kit::{DATA, Recipe, put};
use super::{CHUNK, FIRST, LARGE, disks, opened, read, sum_of, write};
use crate::array::SyncKind;
use crate::array::format::Level;

/// What was wrong: a row was written with parity that did not fit before, so that the journal had parity that did not fit either. A
/// repair wrote the right one, the power was cut, and the replay wrote the wrong one again.
#[test]
fn parity_that_was_repaired_is_right_after_a_cut_too() {
    block_on(async {
        // Old parity is read of six members: four chunks would stay.
        let recipe = Recipe::parity(Level::Raid5, 2, 6).with_journal();
        let disks = disks(&recipe, LARGE);
        recipe.make(&disks).await;
        let array = opened(&disks).await;
        let whole = Range::new(0, 15 * CHUNK);
        write(&array, whole, 1).await.unwrap();
        // Row 0 has its parity on part 5.
        put(&disks[5], DATA, vec![0x5a; 4096]).await;
        write(&array, FIRST, 2).await.unwrap();
        // And row 1, of the same window, on part 4.
        put(&disks[4], DATA + CHUNK, vec![0x5a; 4096]).await;
        let second = Range::new(5 * CHUNK, CHUNK);
        write(&array, second, 3).await.unwrap();
        for row in [0, 1] {
            assert!(sum_of(&disks[..6], row).await.iter().any(|byte| *byte != 0));
        }
        let before = read(&array, whole).await;
        array.scrub(SyncKind::Repair).unwrap();
        array.by_hand().work().await.unwrap();
        for row in [0, 1] {
            assert!(sum_of(&disks[..6], row).await.iter().all(|byte| *byte == 0));
        }
        drop(array);
        let array = opened(&disks).await;
        assert_eq!(read(&array, whole).await, before);
        for row in [0, 1] {
            assert!(sum_of(&disks[..6], row).await.iter().all(|byte| *byte == 0));
        }
        array.stop().await.unwrap();
    });
}
