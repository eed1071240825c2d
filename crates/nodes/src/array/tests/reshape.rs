//! Arrays that get another form while they are used: what they hold, at every step and after any end.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, TryIo, WriteFlags};
use testkit::{MemDisk, block_on, pattern, single};

use super::super::format::{Level, Version, features};
use super::super::redundant::NewForm;
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
    const fn devices(recipe: Recipe, parts: u32) -> Self {
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
        let parities = self.recipe.level.parities() as u64;
        [self.recipe.parts, self.parts()].map(|parts| (u64::from(parts) - parities) * MEMBER)
    }

    pub(super) fn mem_disks(&self) -> Vec<Arc<MemDisk>> {
        let len = DISK + self.recipe.ppl.unwrap_or(0);
        let disk = |_| Arc::new(MemDisk::new(len));
        (0..self.parts()).map(disk).collect()
    }

    fn disks(&self) -> Vec<Node> {
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
        array.reshape(self.shape).await.unwrap();
        array
    }

    /// It has ended: the array is as large as it should be, and what is new is zero.
    async fn has_ended(&self, array: &Array) {
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

pub(super) fn cases() -> Vec<Case> {
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

async fn write(array: &Array, range: Range, fill: u8) {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::empty()).await.unwrap();
}

/// The whole array, and what it should hold.
#[derive(Debug)]
struct Content(Vec<u8>);

impl Content {
    fn of(case: &Case) -> Self {
        Self(pattern(1, Range::new(0, case.sizes()[0])))
    }

    async fn put(&mut self, array: &Array, range: Range, fill: u8) {
        write(array, range, fill).await;
        let start = Range::new(0, range.offset).len_usize();
        self.0[start..start + range.len_usize()].copy_from_slice(&pattern(fill, range));
    }

    async fn check(&self, array: &Array, what: &str) {
        let all = Range::new(0, self.0.len() as u64);
        let found = array.read(all).await.unwrap().concat();
        let differs = found.iter().zip(&self.0).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}");
    }
}

/// Moves one window; whether there was one.
async fn one_step(array: &Array) -> bool {
    let moved = array.by_hand().array.move_rows(1).await;
    moved.expect("rows can be moved").is_some()
}

/// Parity fits everywhere.
async fn assert_fits(array: &Array, what: &str) {
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
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        for knowing in 0..4 {
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
            array.reshape(case.shape).await.unwrap();
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
            Content::of(&case)
                .check(&array, &format!("disk {knowing} knows"))
                .await;
            case.has_ended(&array).await;
        }
    });
}

#[test]
fn what_cannot_be_reshaped_is_refused_by_name() {
    let shape = |parts, layout, chunk| NewShape {
        parts,
        layout,
        chunk,
    };
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    let old = Recipe {
        version: Version::V1_0,
        ..raid5.clone()
    };
    let cases = [
        (
            raid5.clone(),
            shape(Some(2), None, None),
            "does not get fewer",
        ),
        (
            raid5.clone(),
            shape(Some(3), None, None),
            "has that form already",
        ),
        (
            raid5.clone(),
            shape(Some(4), None, None),
            "it takes 1 spares more, and there are 0",
        ),
        (
            raid5.clone(),
            shape(None, Some(9), None),
            "layout 9 of raid5 is not known",
        ),
        (
            raid5.clone(),
            shape(None, None, Some(5000)),
            "do not become chunks of 5000",
        ),
        (
            raid5.clone(),
            shape(None, None, Some(128 << 10)),
            "not made of whole chunks",
        ),
        (
            raid5,
            shape(None, None, Some(8192)),
            "has 7680 bytes of room in front",
        ),
        (
            old,
            shape(None, Some(0), None),
            "has 0 bytes of room in front",
        ),
        (
            Recipe::mirror(2),
            shape(Some(3), None, None),
            "only arrays with parity",
        ),
    ];
    for (recipe, shape, why) in cases {
        block_on(async {
            let disk = |_| Arc::new(MemDisk::new(DISK)) as Node;
            let disks: Vec<Node> = (0..recipe.parts).map(disk).collect();
            recipe.make(&disks).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let refused = array.reshape(shape).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        });
    }
}

#[test]
fn nothing_else_is_done_while_a_reshape_goes_on() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid6, 2, 4), 5);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        let again = array.reshape(case.shape).await.unwrap_err().to_string();
        assert!(again.contains("has that form already"), "{again}");
        let scrub = array.scrub(crate::array::SyncKind::Check).unwrap_err();
        assert!(scrub.to_string().contains("is being"), "{scrub}");
        array.fail("b").await.unwrap();
        let new = Arc::new(MemDisk::new(DISK)) as Node;
        let new = Candidate::local("new", new);
        array.add(new, AddOptions::default()).await.unwrap();
        assert!(one_step(&array).await);
        let members = array.status().members;
        let added = members.iter().find(|member| member.name == "new").unwrap();
        assert_eq!(added.state, MemberState::Spare);
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, 5, "then it is rebuilt");
        assert_fits(&array, "rebuilt after the reshape").await;
    });
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

#[test]
fn a_spare_that_fails_before_the_reshape_begins_ends_it_and_changes_nothing() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let disks = case.disks();
        case.recipe.make(&disks[..3]).await;
        let array = open(candidates(&disks[..3]), options()).await.unwrap();
        write(&array, Range::new(0, case.sizes()[0]), 1).await;
        let spare = Candidate::local("spare", disks[3].clone());
        array.add(spare, AddOptions::default()).await.unwrap();
        let redundant = array.by_hand().array.clone();
        let id = redundant.named("spare").unwrap();
        array.fail("spare").await.unwrap();
        let form = NewForm {
            parts: 4,
            layout: 2,
            chunk: 4096,
        };
        let refused = redundant.begin_reshape(form, vec![id], 4096).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("has failed meanwhile"), "{refused}");
        assert!(!redundant.is_reshaping() && array.status().parts == 3);
        array.stop().await.unwrap();
        let of = superblock(&disks[0]).await;
        assert_eq!((of.members, of.reshape), (3, None));
    });
}

#[test]
fn spares_that_get_no_part_stay_spares_also_where_the_array_is_opened_in_the_midst_of_it() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let mut disks = case.disks();
        disks.push(Arc::new(MemDisk::new(DISK)));
        case.recipe.make(&disks[..3]).await;
        let array = open(candidates(&disks[..3]), options()).await.unwrap();
        write(&array, Range::new(0, case.sizes()[0]), 1).await;
        for (number, spare) in disks[3..].iter().enumerate() {
            let spare = Candidate::local(format!("spare{number}"), spare.clone());
            array.add(spare, AddOptions::default()).await.unwrap();
        }
        array.reshape(case.shape).await.unwrap();
        assert!(one_step(&array).await);
        let replaced = array.replace("a", None).await.unwrap_err().to_string();
        assert!(replaced.contains("is being reshaped"), "{replaced}");
        array.stop().await.unwrap();
        let array = open(candidates(&disks), options()).await.unwrap();
        let spares = || {
            let members = array.status().members.into_iter();
            members
                .filter(|member| member.state == MemberState::Spare)
                .count()
        };
        assert_eq!((array.status().working, spares()), (4, 1));
        array.by_hand().work().await.unwrap();
        case.has_ended(&array).await;
        array.fail("b").await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!((array.status().working, spares()), (4, 0));
        Content::of(&case).check(&array, "of the spare").await;
        assert_fits(&array, "of the spare").await;
    });
}

#[test]
fn an_array_in_the_midst_of_a_reshape_is_read_and_never_forced() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid6, 2, 4), 5);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        assert!(one_step(&array).await);
        array.stop().await.unwrap();
        let forced = ArrayOptions {
            force_dirty_degraded: true,
            ..options()
        };
        let refused = open(candidates(&disks), forced).await;
        let refused = refused.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(refused.contains("is not opened by force"), "{refused}");
        let only_read = || ArrayOptions {
            read_only: true,
            ..options()
        };
        let two_less = candidates(&disks).into_iter().skip(2).collect();
        for given in [candidates(&disks), two_less] {
            let array = open(given, only_read()).await.unwrap();
            Content::of(&case).check(&array, "only read").await;
            let sync = array.status().sync.expect("it is not done");
            assert_eq!(sync.kind, crate::array::SyncKind::Reshape);
        }
    });
}
