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
        assert!(sum_of(&disks[..6], 0).await.iter().any(|byte| *byte != 0));
        let before = read(&array, whole).await;
        array.scrub(SyncKind::Repair).unwrap();
        array.by_hand().work().await.unwrap();
        assert!(sum_of(&disks[..6], 0).await.iter().all(|byte| *byte == 0));
        drop(array);
        let array = opened(&disks).await;
        assert_eq!(read(&array, whole).await, before);
        assert!(sum_of(&disks[..6], 0).await.iter().all(|byte| *byte == 0));
        array.stop().await.unwrap();
    });
}
