//! What a reshape does not do, what is not done while it goes on, and what becomes of spares.

use std::sync::Arc;

use block::{Node, Range};
use testkit::{MemDisk, block_on};

use super::super::format::{Level, Version};
use super::super::redundant::NewForm;
use super::super::redundant::tests::kit::{DISK, Recipe, options, superblock};
use super::super::{AddOptions, ArrayOptions, Candidate, MemberState, NewShape, SyncKind, open};
use super::open::candidates;
use super::reshape::{Case, Content, assert_fits, one_step, write};

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
        (old, shape(None, Some(0), None), "or a backup file"),
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
            let refused = array.reshape(shape, None).await.unwrap_err().to_string();
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
        let again = array
            .reshape(case.shape, None)
            .await
            .unwrap_err()
            .to_string();
        assert!(again.contains("has that form already"), "{again}");
        let scrub = array.scrub(SyncKind::Check).unwrap_err();
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
        let refused = redundant.begin_reshape(form, vec![id], 4096, None).await;
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
        array.reshape(case.shape, None).await.unwrap();
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
fn an_array_in_the_midst_of_a_reshape_is_read() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid6, 2, 4), 5);
        let disks = case.disks();
        let array = case.begun(&disks).await;
        assert!(one_step(&array).await);
        array.stop().await.unwrap();
        let only_read = || ArrayOptions {
            read_only: true,
            ..options()
        };
        let two_less = candidates(&disks).into_iter().skip(2).collect();
        for given in [candidates(&disks), two_less] {
            let array = open(given, only_read()).await.unwrap();
            Content::of(&case).check(&array, "only read").await;
            let sync = array.status().sync.expect("it is not done");
            assert_eq!(sync.kind, SyncKind::Reshape);
        }
    });
}
