//! A member that lets requests in one after the other, as a throttled or a remote one does.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use block::Node;

use crate::array::format::{Level, Version};
use crate::array::{
    AddOptions, ArrayOptions, BitmapChoice, Candidate, CreateOptions, MemberState, NewMember,
    create, open,
};
use crate::timed::timed;
use crate::{Memory, Rates, Throttle};

const MEMBER: u64 = 8 << 20;

fn new_member(name: &str, disk: Option<Node>) -> NewMember {
    NewMember {
        name: name.to_owned(),
        disk,
        write_mostly: false,
        fail_fast: false,
    }
}

/// The kernel's judge found this: while members were told how far a recovery is, its windows were not polled.
/// One of them had its turn before a throttled member and did not take it, the flush stood behind it, and
/// after half a minute the member was given up.
#[test]
fn windows_go_on_while_members_are_told_how_far_they_are() {
    let first: Node = Arc::new(Memory::new(MEMBER));
    let second: Node = Arc::new(Throttle::new(
        Arc::new(Memory::new(MEMBER)),
        Rates {
            bytes_per_s: NonZeroU64::new(16 << 20),
            ..Rates::default()
        },
    ));
    let state = timed(async {
        let wish = CreateOptions {
            level: Level::Raid1,
            layout: None,
            chunk: None,
            version: Version::V1_2,
            name: "slow".to_owned(),
            bitmap: BitmapChoice::Usual,
            assume_clean: true,
            size: None,
        };
        let parts = vec![
            new_member("first", Some(first.clone())),
            new_member("second", None),
        ];
        create(parts, Vec::new(), wish).await.unwrap();
        let options = ArrayOptions {
            run: true,
            ..ArrayOptions::default()
        };
        let array = open(vec![Candidate::local("first", first)], options)
            .await
            .unwrap();
        let added = Candidate::local("second", second);
        array.add(added, AddOptions::default()).await.unwrap();
        let limit = Duration::from_secs(20);
        let synced = engine::clock::timeout(limit, array.synced()).await;
        synced.expect("it does not hang").unwrap();
        let members = array.status().members;
        let member = members.iter().find(|member| member.name == "second");
        let state = member.map(|member| member.state);
        array.stop().await.unwrap();
        state
    });
    assert_eq!(state, Some(MemberState::InSync));
}
