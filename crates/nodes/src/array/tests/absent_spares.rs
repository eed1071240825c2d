//! Spares that were absent while the form of their array changed: they hold nothing, so what they missed is no reason to refuse the
//! array, and takes nothing from it when they take a part.

use block::{Node, Range, WriteFlags};
use testkit::{block_on, pattern, single};

use super::super::{AddOptions, Candidate, ConsistencyPolicy, MemberState, NewShape};
use super::policy::{MIB, assert_parity_fits, made, mem_disks, opened, read};
use super::reshape::{one_step, write};

const WHOLE: Range = Range::new(0, MIB);

/// An array of three members and two spares, the second of which is absent for a reshape from one step on.
async fn reshaped_without_the_second_spare(shape: NewShape, steps: usize) -> Vec<Node> {
    let disks = mem_disks(5, 8 * MIB);
    let array = made(&disks[..3], ConsistencyPolicy::Resync).await;
    write(&array, WHOLE, 1).await;
    for (name, disk) in ["d", "e"].into_iter().zip(&disks[3..]) {
        let spare = Candidate::local(name, disk.clone());
        array.add(spare, AddOptions::default()).await.unwrap();
    }
    array.by_hand().work().await.unwrap();
    if steps > 0 {
        array.reshape(shape, None).await.unwrap();
    }
    for _ in 0..steps {
        assert!(one_step(&array).await);
    }
    array.stop().await.unwrap();
    drop(array);
    let array = opened(&disks[..4]).await;
    if steps == 0 {
        array.reshape(shape, None).await.unwrap();
    }
    array.by_hand().work().await.unwrap();
    assert!(array.status().sync.is_none());
    array.stop().await.unwrap();
    disks
}

/// These disks are an array with `working` members, all that was written, and parity that fits.
async fn assert_whole(disks: &[Node], working: u32) {
    let array = opened(disks).await;
    assert_eq!(array.status().working, working);
    assert!(read(&array, WHOLE).await == pattern(1, WHOLE));
    assert_parity_fits(&array).await;
    array.stop().await.unwrap();
}

/// The spare's superblock recorded a reshape: once it had a part, the array was refused, and mdadm advised.
#[test]
fn a_spare_that_was_absent_when_a_reshape_ended_takes_a_part_and_the_array_opens() {
    block_on(async {
        let shape = NewShape {
            parts: Some(4),
            layout: None,
            chunk: None,
        };
        let disks = reshaped_without_the_second_spare(shape, 1).await;
        let array = opened(&disks).await;
        array.fail("a").await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, 4);
        array.stop().await.unwrap();
        drop(array);
        assert_whole(&disks[1..], 4).await;
    });
}

/// "By disk1 the array has chunks of 8192 bytes, by disk3 of 4096": the whole array was refused.
#[test]
fn a_spare_that_was_absent_when_the_chunk_changed_has_failed_and_can_be_added_again() {
    block_on(async {
        let shape = NewShape {
            parts: None,
            layout: None,
            chunk: Some(32 << 10),
        };
        for steps in [0, 1] {
            let disks = reshaped_without_the_second_spare(shape, steps).await;
            let array = opened(&disks).await;
            let status = array.status();
            let state = |name: &str| {
                let mut members = status.members.iter();
                members.find(|one| one.name == name).map(|one| one.state)
            };
            assert_eq!(state("d"), Some(MemberState::Spare), "{status:?}");
            assert_eq!(state("e"), Some(MemberState::Failed), "{status:?}");
            array.remove("e").await.unwrap();
            let spare = || Candidate::local("e", disks[4].clone());
            if steps > 0 {
                let refused = array.add(spare(), AddOptions::default()).await;
                let why = refused.unwrap_err().to_string();
                assert!(why.contains("says that a reshape was going on"), "{why}");
                let superblock = Range::new(4096, 4096);
                let zeroes = single(vec![0; 4096]);
                disks[4]
                    .write(superblock, zeroes, WriteFlags::empty())
                    .await
                    .unwrap();
            }
            array.add(spare(), AddOptions::default()).await.unwrap();
            for failed in ["a", "b"] {
                array.fail(failed).await.unwrap();
                array.by_hand().work().await.unwrap();
            }
            array.stop().await.unwrap();
            drop(array);
            assert_whole(&disks[2..], 3).await;
        }
    });
}
