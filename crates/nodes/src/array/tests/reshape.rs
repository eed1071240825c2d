//! Arrays that get another form while they are used: what they hold, at every step and after any end.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, TryIo, WriteFlags};
use testkit::{MemDisk, block_on, first_difference, pattern, single};

use super::super::format::{Level, Version, features};
use super::super::redundant::tests::kit::{DISK, MEMBER, RING, Recipe, options, superblock};
use super::super::{AddOptions, Array, ArrayOptions, Candidate, MemberState, NewShape, open};
use super::open::candidates;

/// A reshape, of an array that is made so.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) recipe: Recipe,
    pub(super) shape: NewShape,
}

impl Case {
    pub(super) const fn devices(recipe: Recipe, parts: u32) -> Self {
        let shape = NewShape {
            parts: Some(parts),
            layout: None,
            chunk: None,
        };
        Self { recipe, shape }
    }

    fn parts(&self) -> u32 {
        self.shape.parts.unwrap_or(self.recipe.parts)
    }

    /// Bytes of the array before, and after.
    pub(super) fn sizes(&self) -> [u64; 2] {
        if self.recipe.level == Level::Raid1 {
            return [MEMBER; 2];
        }
        let parities = self.recipe.level.parities() as u64;
        [self.recipe.parts, self.parts()].map(|parts| (u64::from(parts) - parities) * MEMBER)
    }

    pub(super) fn mem_disks(&self) -> Vec<Arc<MemDisk>> {
        let len = match self.recipe.version {
            // Its superblock begins at a multiple of 64 KiB, with as many behind it.
            Version::V0_90 { .. } => MEMBER + (64 << 10),
            _ => DISK + self.recipe.ppl.unwrap_or(0),
        };
        let disk = |_| Arc::new(MemDisk::new(len));
        (0..self.parts()).map(disk).collect()
    }

    pub(super) fn disks(&self) -> Vec<Node> {
        let disks = self.mem_disks().into_iter();
        disks.map(|disk| disk as Node).collect()
    }

    /// The array, full of a pattern, with the spares that it needs.
    pub(super) async fn begun(&self, disks: &[Node]) -> Arc<Array> {
        let (members, spares) = disks.split_at(usize::try_from(self.recipe.parts).unwrap());
        self.recipe.make(members).await;
        let array = open(candidates(members), options()).await.unwrap();
        write(&array, Range::new(0, self.sizes()[0]), 1).await;
        for (number, spare) in spares.iter().enumerate() {
            let candidate = Candidate::local(format!("spare{number}"), spare.clone());
            array.add(candidate, AddOptions::default()).await.unwrap();
        }
        array.by_hand().work().await.unwrap();
        array.reshape(self.shape, None).await.unwrap();
        array
    }

    /// The array, full of a pattern.
    pub(super) async fn full(&self, disks: &[Node]) -> Arc<Array> {
        self.recipe.make(disks).await;
        let array = open(candidates(disks), options()).await.unwrap();
        write(&array, Range::new(0, self.sizes()[0]), 1).await;
        array.by_hand().work().await.unwrap();
        array
    }

    /// It has ended: the array is as large as it should be, and what is new is zero.
    pub(super) async fn has_ended(&self, array: &Array) {
        let [before, after] = self.sizes();
        let status = array.status();
        assert_eq!(
            (status.size, status.parts),
            (after, self.parts()),
            "{self:?}"
        );
        assert_eq!(array.geometry().size, after, "{self:?}");
        let new = Range::new(before, after - before);
        if !new.is_empty() {
            let bytes = array.read(new).await.unwrap().concat();
            assert!(bytes.iter().all(|byte| *byte == 0), "{self:?}");
        }
    }
}

/// Reshapes of arrays with nothing free before their data.
pub(super) fn in_place_cases() -> Vec<Case> {
    let old = Version::V0_90 { big_endian: false };
    let of = |version, recipe: Recipe| Recipe { version, ..recipe };
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    let another_form = Case {
        recipe: of(Version::V1_0, raid5.clone()),
        shape: NewShape {
            parts: Some(5),
            layout: Some(0),
            chunk: Some(8192),
        },
    };
    let raid6 = Recipe::parity(Level::Raid6, 2, 4);
    vec![
        Case::devices(of(Version::V1_0, raid5.clone()), 4),
        Case::devices(of(Version::V1_0, raid6).without_bitmap(), 6),
        another_form,
        Case::devices(of(old, raid5).without_bitmap(), 4),
        Case::devices(of(old, Recipe::parity(Level::Raid4, 0, 3)), 5),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = moved_cases();
    cases.extend(in_place_cases());
    cases
}

/// Those of arrays with superblocks that a cut leaves whole: others are refused until the disk with a torn one is left out.
pub(super) fn world_cases() -> Vec<Case> {
    let mut cases = cases();
    cases.retain(|case| case.recipe.version.is_v1());
    cases
}

/// Reshapes that move data into the space before them.
pub(super) fn moved_cases() -> Vec<Case> {
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    let to = |recipe: &Recipe, layout, chunk| Case {
        recipe: recipe.clone(),
        shape: NewShape {
            parts: None,
            layout,
            chunk,
        },
    };
    let in_front = Recipe {
        version: Version::V1_1,
        ..raid5.clone()
    };
    vec![
        Case::devices(raid5.clone(), 4),
        Case::devices(raid5.clone().without_bitmap(), 6),
        Case::devices(raid5.clone().with_ppl(RING), 4),
        Case::devices(Recipe::parity(Level::Raid4, 0, 3), 5),
        Case::devices(Recipe::parity(Level::Raid6, 2, 4), 5),
        Case::devices(Recipe::parity(Level::Raid6, 9, 5), 7),
        to(&raid5, Some(0), None),
        to(&Recipe::parity(Level::Raid6, 18, 5), Some(2), None),
        to(&in_front, None, Some(8192)),
        Case {
            recipe: in_front,
            shape: NewShape {
                parts: Some(5),
                layout: Some(5),
                chunk: Some(8192),
            },
        },
    ]
}

pub(super) async fn write(array: &Array, range: Range, fill: u8) {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::empty()).await.unwrap();
}

/// The whole array, and what it should hold.
#[derive(Debug)]
pub(super) struct Content(Vec<u8>);

impl Content {
    pub(super) fn of(case: &Case) -> Self {
        Self(pattern(1, Range::new(0, case.sizes()[0])))
    }

    pub(super) async fn put(&mut self, array: &Array, range: Range, fill: u8) {
        write(array, range, fill).await;
        self.set(range, fill);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn set(&mut self, range: Range, fill: u8) {
        let start = Range::new(0, range.offset).len_usize();
        self.0[start..start + range.len_usize()].copy_from_slice(&pattern(fill, range));
    }

    pub(super) async fn check(&self, array: &Array, what: &str) {
        let all = Range::new(0, self.0.len() as u64);
        let found = array.read(all).await.unwrap().concat();
        let differs = first_difference(&found, &self.0);
        assert_eq!(differs, None, "{what}");
    }
}

/// Moves one window; whether there was one.
pub(super) async fn one_step(array: &Array) -> bool {
    let moved = array.by_hand().array.move_rows(1).await;
    moved.expect("rows can be moved").is_some()
}

/// Parity fits everywhere.
pub(super) async fn assert_fits(array: &Array, what: &str) {
    array.scrub(crate::array::SyncKind::Check).unwrap();
    array.by_hand().work().await.unwrap();
    let scrubbed = array.status().scrubbed.expect("it was scrubbed");
    assert_eq!(
        (scrubbed.mismatches, scrubbed.finished),
        (0, true),
        "{what}"
    );
}

#[test]
fn an_array_is_read_and_written_at_every_step_of_a_reshape() {
    for case in cases() {
        block_on(async {
            let disks = case.disks();
            let array = case.begun(&disks).await;
            let mut content = Content::of(&case);
            let size = case.sizes()[0];
            let mut step = 0;
            loop {
                content
                    .check(&array, &format!("{case:?}, step {step}"))
                    .await;
                for (at, len) in [(step * 5000 % size, 3000), (size - 2048, 512), (0, 1024)] {
                    let range = Range::new(at / 512 * 512, len.min(size - at) / 512 * 512);
                    content
                        .put(&array, range, u8::try_from(step % 200).unwrap())
                        .await;
                }
                if !one_step(&array).await {
                    break;
                }
                step += 1;
            }
            assert!(step > 2, "{case:?} has {step} steps");
            content
                .check(&array, &format!("{case:?}, at the end"))
                .await;
            case.has_ended(&array).await;
            assert_fits(&array, &format!("{case:?}")).await;
            array.stop().await.unwrap();
            let only_read = ArrayOptions {
                read_only: true,
                ..options()
            };
            let array = open(candidates(&disks), only_read).await.unwrap();
            content
                .check(&array, &format!("{case:?}, opened again"))
                .await;
            case.has_ended(&array).await;
        });
    }
}

#[test]
fn a_reshape_goes_on_where_it_was_after_any_end() {
    for case in cases() {
        block_on(async {
            let disks = case.disks();
            let mut array = case.begun(&disks).await;
            let mut content = Content::of(&case);
            let mut step = 0_u8;
            while one_step(&array).await {
                step += 1;
                content.put(&array, Range::new(0, 512), step).await;
                let last = Range::new(case.sizes()[0] - 512, 512);
                content.put(&array, last, step).await;
                match step % 3 {
                    0 => array.stop().await.unwrap(),
                    1 => {}
                    _ => continue,
                }
                drop(array);
                array = open(candidates(&disks), options()).await.unwrap();
                content
                    .check(&array, &format!("{case:?}, step {step}"))
                    .await;
            }
            // What was cut is computed again.
            array.by_hand().work().await.unwrap();
            content.check(&array, &format!("{case:?}")).await;
            case.has_ended(&array).await;
            assert_fits(&array, &format!("{case:?}")).await;
        });
    }
}

#[test]
fn an_array_that_loses_a_member_is_reshaped_without_it_and_the_member_is_rebuilt_then() {
    for case in cases() {
        block_on(async {
            let disks = case.disks();
            let array = case.begun(&disks).await;
            let mut content = Content::of(&case);
            assert!(one_step(&array).await);
            array.fail("b").await.unwrap();
            while one_step(&array).await {
                content.check(&array, &format!("{case:?}, degraded")).await;
                content.put(&array, Range::new(1024, 8192), 7).await;
            }
            case.has_ended(&array).await;
            array.stop().await.unwrap();
            let left = disks.iter().enumerate().filter(|(index, _)| *index != 1);
            let left: Vec<Node> = left.map(|(_, disk)| disk.clone()).collect();
            let array = open(candidates(&left), options()).await.unwrap();
            content
                .check(&array, &format!("{case:?}, opened degraded"))
                .await;
            let new = Arc::new(MemDisk::new(disks[0].geometry().size)) as Node;
            let new = Candidate::local("new", new);
            array.add(new, AddOptions::default()).await.unwrap();
            array.by_hand().work().await.unwrap();
            assert_eq!(array.status().working, case.parts(), "{case:?}");
            assert_fits(&array, &format!("{case:?}")).await;
            array.fail("a").await.unwrap();
            content
                .check(&array, &format!("{case:?}, of the new one"))
                .await;
        });
    }
}

#[test]
fn a_member_that_left_during_a_reshape_does_not_come_back_by_the_bitmap() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        assert!(one_step(&array).await);
        array.fail("b").await.unwrap();
        let returns = || Candidate::local("b", disks[1].clone());
        let refused = array.re_add(returns()).await.unwrap_err().to_string();
        assert!(refused.contains("a reshape was going on"), "{refused}");
        array.by_hand().work().await.unwrap();
        case.has_ended(&array).await;
        let refused = array.re_add(returns()).await.unwrap_err().to_string();
        assert!(refused.contains("a reshape was going on"), "{refused}");
        array.stop().await.unwrap();
        let array = open(candidates(&disks), options()).await.unwrap();
        assert_eq!(array.status().working, 3);
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, 3, "it is stale");
    });
}

/// What was wrong: after a reshape to another chunk or layout the array was refused where the member was named that had failed meanwhile.
#[test]
fn a_member_that_left_during_a_reshape_is_no_reason_to_refuse_the_array() {
    for case in cases() {
        block_on(async {
            let disks = case.disks();
            let array = case.begun(&disks).await;
            let content = Content::of(&case);
            assert!(one_step(&array).await);
            array.fail("b").await.unwrap();
            array.stop().await.unwrap();
            drop(array);
            let array = open(candidates(&disks), options()).await.unwrap();
            array.by_hand().work().await.unwrap();
            case.has_ended(&array).await;
            array.stop().await.unwrap();
            drop(array);
            let array = open(candidates(&disks), options()).await.unwrap();
            let status = array.status();
            assert_eq!(status.working, case.parts() - 1, "{case:?}");
            let left = status.members.iter().find(|member| member.name == "b");
            assert_eq!(left.unwrap().state, MemberState::Stale, "{case:?}");
            content.check(&array, &format!("{case:?}")).await;
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn superblocks_say_what_md_says_while_and_after_it() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        assert!(one_step(&array).await);
        for disk in &disks {
            let of = superblock(disk).await;
            let reshape = of.reshape.expect("it is being reshaped");
            assert_eq!((of.members, reshape.members_added), (4, 1));
            assert_eq!((of.layout, of.chunk), (2, 4096));
            assert_eq!((reshape.layout, reshape.chunk), (2, 4096));
            assert_eq!((reshape.level, reshape.position), (Level::Raid5, 3 * 4096));
            assert_eq!((reshape.data_moved, reshape.backwards), (-4096, false));
            assert_eq!(of.data.offset, 16 << 10);
            assert_ne!(of.features & features::NEW_OFFSET, 0);
        }
        array.by_hand().work().await.unwrap();
        for disk in &disks {
            let of = superblock(disk).await;
            assert_eq!((of.members, of.reshape), (4, None));
            assert_eq!(of.data, Range::new(12 << 10, MEMBER + 4096));
            assert_eq!(of.features & (features::RESHAPE | features::NEW_OFFSET), 0);
        }
    });
}

/// A power cut while superblocks are written that record a reshape: whichever of them know, the array is complete.
#[test]
fn a_reshape_that_one_member_alone_knows_of_begins() {
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    // Those with logs drop them in the same commit.
    for recipe in [raid5.clone(), raid5.with_ppl(RING)] {
        let case = Case::devices(recipe, 4);
        for knowing in 0..4 {
            block_on(one_member_alone_knows(&case, knowing));
        }
    }
}

async fn one_member_alone_knows(case: &Case, knowing: usize) {
    let disks = case.disks();
    let (members, _) = disks.split_at(3);
    case.recipe.make(members).await;
    let array = open(candidates(members), options()).await.unwrap();
    write(&array, Range::new(0, case.sizes()[0]), 1).await;
    let spare = Candidate::local("spare", disks[3].clone());
    array.add(spare, AddOptions::default()).await.unwrap();
    array.by_hand().array.mark_clean().await.unwrap();
    let images = |disks: &[Node]| {
        let disks = disks.to_vec();
        async move {
            let mut images = Vec::new();
            for disk in disks {
                let all = Range::new(0, disk.geometry().size);
                images.push(disk.read(all).await.unwrap().concat());
            }
            images
        }
    };
    let before = images(&disks).await;
    array.reshape(case.shape, None).await.unwrap();
    let after = images(&disks).await;
    let mixed = before.into_iter().zip(after).enumerate();
    let mixed = mixed.map(|(index, (before, after))| {
        let image = if index == knowing { after } else { before };
        Arc::new(MemDisk::from_bytes(image)) as Node
    });
    let mixed: Vec<Node> = mixed.collect();
    let array = open(candidates(&mixed), options()).await.unwrap();
    assert_eq!(array.status().working, 4, "disk {knowing} knows");
    array.by_hand().work().await.unwrap();
    Content::of(case)
        .check(&array, &format!("disk {knowing} knows"))
        .await;
    case.has_ended(&array).await;
}

#[test]
fn the_fast_path_and_regions_of_files_wait_for_the_end() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        let (range, mut into) = (Range::new(0, 512), [0; 512]);
        assert_eq!(array.try_read(range, &mut into), TryIo::WouldBlock);
        array.by_hand().work().await.unwrap();
        assert_eq!(array.try_read(range, &mut into), TryIo::Done);
        assert_eq!(into[..], pattern(1, range));
    });
}
