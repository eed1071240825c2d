//! Extents that are moved while their volumes are read and written: disks that fail, what is refused meanwhile, and worlds by seed
//! (`worlds.rs`).

mod worlds;

use engine::clock;
use futures_util::future::join;
use testkit::{CrashDisk, Effect, Fault, FaultDisk, block_on};

use super::*;
use crate::volume::edit::{
    EditStamp, GroupEdit, MoveRequest, NewGroup, NewGroupMember, NewVolume, used_runs,
};
use crate::volume::format::NewLabel;
use crate::volume::open::{LiveMoveOptions, LiveMoveState, OpenChangeError, SnapshotChange};
use crate::volume::random_id;
use crate::volume::scan::scan;
use crate::volume::update::{MetadataArea, commit, write_labels};

const EXTENT: u64 = 64 << 10;
/// Extents of each disk.
const EXTENTS: u64 = 16;
const PV_LEN: u64 = NewLabel::DATA_START + EXTENTS * EXTENT;
const DISKS: usize = 3;
const SECTOR: u64 = 512;

fn stamp() -> EditStamp {
    EditStamp {
        seconds: 2,
        host: "test".to_owned(),
        description: "test".to_owned(),
    }
}

fn options() -> LiveMoveOptions {
    LiveMoveOptions {
        bytes_per_second: None,
        stamp: stamp(),
    }
}

fn request(from: &str) -> MoveRequest {
    MoveRequest {
        from: from.to_owned(),
        to: Vec::new(),
        volume: None,
        id: random_id(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// The group on these disks, which are called disk0 and on.
async fn group_on(disks: &[Node]) -> AssembledGroup {
    let mut found = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let scanned = scan(disk).await.unwrap().unwrap().unwrap();
        found.push(FoundPhysicalVolume {
            name: format!("disk{number}"),
            size: PV_LEN,
            volume: scanned.physical_volume(),
        });
    }
    assemble(&found).remove(0)
}

async fn set_on(disks: &[Node]) -> Arc<VolumeSet> {
    let group = group_on(disks).await;
    let nodes = group.disks(|index| disks[index].clone());
    VolumeSet::new(group, nodes, VolumeAccess::default()).unwrap()
}

fn areas(disks: &[Node]) -> Vec<MetadataArea> {
    let areas = disks.iter().enumerate().map(|(number, disk)| MetadataArea {
        name: format!("disk{number}"),
        disk: disk.clone(),
        area: NewLabel::METADATA_AREA,
        reset: false,
    });
    areas.collect()
}

fn new_volume(name: &str, extents: u64, stripes: usize) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        id: random_id(),
        extents,
        stripes,
        stripe_size: 4096,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// Images of a group of three disks. On the first one: `media` in two pieces with `gap` between them, and a stripe of `fast`.
async fn start() -> Vec<Vec<u8>> {
    let mem: Vec<Arc<MemDisk>> = (0..DISKS).map(|_| Arc::new(MemDisk::new(PV_LEN))).collect();
    let disks: Vec<Node> = mem.iter().map(|disk| disk.clone() as Node).collect();
    let members = (0..DISKS).map(|number| NewGroupMember {
        id: random_id(),
        device: format!("disk{number}"),
        size: PV_LEN,
    });
    let members: Vec<NewGroupMember> = members.collect();
    let labels = members.iter();
    let labels: Vec<NewLabel> = labels
        .map(|member| NewLabel::new(&member.id, PV_LEN).unwrap())
        .collect();
    let named: Vec<_> = (disks.iter().zip(&labels))
        .map(|(disk, label)| ("disk", disk, label))
        .collect();
    write_labels(&named).await.unwrap();
    let new = NewGroup {
        name: "vg".to_owned(),
        id: random_id(),
        extent: EXTENT,
    };
    let mut edit = GroupEdit::create_group(&new, &members).unwrap();
    edit.create_volume(&new_volume("media", 5, 1)).unwrap();
    edit.create_volume(&new_volume("gap", 1, 1)).unwrap();
    edit.extend("media", 7, &["pv0".to_owned()]).unwrap();
    edit.create_volume(&new_volume("fast", 4, 2)).unwrap();
    let text = edit.finish(&stamp()).unwrap();
    commit(&areas(&disks), &text).await.unwrap();
    mem.iter().map(|disk| disk.snapshot()).collect()
}

fn mem_disks(images: &[Vec<u8>]) -> Vec<Node> {
    let disks = images.iter().cloned();
    disks
        .map(|image| Arc::new(MemDisk::from_bytes(image)) as Node)
        .collect()
}

/// A sector that holds a number.
fn sector(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(index(SECTOR) / 4)
}

/// The numbers that sectors hold.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    let sectors = bytes.chunks(index(SECTOR)).map(|bytes| {
        let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!(bytes == sector(number), "a sector is torn");
        number
    });
    sectors.collect()
}

/// What volumes hold, as numbers of sectors.
async fn contents(disks: &[Node]) -> Vec<Vec<u32>> {
    let set = set_on(disks).await;
    let mut all = Vec::new();
    for name in ["media", "fast"] {
        let disk = set.open(name).await.unwrap().disk;
        let whole = Range::new(0, disk.geometry().size);
        all.push(numbers(&gather(&disk.read(whole).await.unwrap())));
    }
    all
}

/// A group in which all sectors of both volumes are written.
async fn filled() -> Vec<Vec<u8>> {
    let images = start().await;
    let mem: Vec<Arc<MemDisk>> = images
        .into_iter()
        .map(|image| Arc::new(MemDisk::from_bytes(image)))
        .collect();
    let disks: Vec<Node> = mem.iter().map(|disk| disk.clone() as Node).collect();
    let set = set_on(&disks).await;
    for (name, first) in [("media", 1000), ("fast", 9000)] {
        let disk = set.open(name).await.unwrap().disk;
        let size = disk.geometry().size;
        let numbers = first..first + u32::try_from(size / SECTOR).unwrap();
        let data = single(numbers.flat_map(sector).collect::<Vec<u8>>());
        let written = disk.write(Range::new(0, size), data, WriteFlags::empty());
        written.await.unwrap();
    }
    mem.iter().map(|disk| disk.snapshot()).collect()
}

/// Moves all of the first disk while a user writes the first sectors of `media`; returns how it ended, and the number that they
/// hold then.
async fn move_with_a_writer(disks: &[Node], good: &[Node]) -> (LiveMoveState, u32) {
    let group = group_on(good).await;
    let nodes = group.disks(|index| disks[index].clone());
    let set = VolumeSet::new(group, nodes, VolumeAccess::default()).unwrap();
    let media = set.open("media").await.unwrap().disk;
    let sequence = set.group().group.sequence;
    let request = request("pv0");
    // The copy waits for its rate now and then: the user writes meanwhile.
    let options = LiveMoveOptions {
        bytes_per_second: Some(16 << 30),
        ..options()
    };
    let begun = set.begin_move(sequence, Some(&request), options).await;
    let live = begun.unwrap();
    let mut last = 0;
    let writer = async {
        while live.state() == LiveMoveState::Running {
            last += 1;
            let range = Range::new(0, 8 * SECTOR);
            let data = single(sector(last).repeat(8));
            media.write(range, data, WriteFlags::empty()).await.unwrap();
            // The clock goes on only while all wait.
            clock::sleep(Duration::from_micros(100)).await;
        }
    };
    join(writer, set.run_move(&live)).await;
    media.flush().await.unwrap();
    (live.state(), last)
}

/// The same disks, with requests that take their time.
fn slow_disks(images: &[Vec<u8>], seed: u64) -> Vec<Node> {
    let disks = images.iter().cloned();
    disks
        .map(|image| Arc::new(CrashDisk::from_bytes(image).interleaved(seed)) as Node)
        .collect()
}

/// What the volumes hold after [`move_with_a_writer`].
async fn expected(images: &[Vec<u8>], last: u32) -> Vec<Vec<u32>> {
    let mut expected = contents(&mem_disks(images)).await;
    expected[0][..8].fill(last);
    expected
}

/// Moves all of the first disk, where the `after`th write of `bad` on one of the others fails once; returns whether that ended the move.
async fn move_with_a_bad_write(images: &[Vec<u8>], after: u64, bad: Range) -> bool {
    let good = slow_disks(images, after);
    let mut disks = good.clone();
    for number in [1, 2] {
        let fault = Fault::new(Effect::Fail(Errno::NoSpace))
            .on(block::Operation::Write)
            .at(bad)
            .after(after)
            .times(1);
        disks[number] = FaultDisk::new(good[number].clone(), after, vec![fault]);
    }
    let (state, last) = move_with_a_writer(&disks, &good).await;
    assert!(last > 0, "nothing was written meanwhile");
    let is_failed = matches!(&state, LiveMoveState::Failed(_));
    if let LiveMoveState::Failed(why) = &state {
        assert!(
            why.contains("cannot be written: ") && why.ends_with("stays where it was"),
            "{why}"
        );
        let group = group_on(&good).await.group;
        let mut volumes = group.volumes.iter();
        assert!(!volumes.any(|one| one.has_flag("PVMOVE")), "it is ended");
    }
    let expected = expected(images, last).await;
    assert!(
        contents(&good).await == expected,
        "after {after} writes: {state:?}"
    );
    is_failed
}

#[test]
fn a_new_disk_that_cannot_be_written_ends_the_move_and_no_user_notices() {
    block_on(async {
        let images = filled().await;
        // The new place of what the user writes, and what is behind it.
        let media = NewLabel::DATA_START + 2 * EXTENT;
        let users = Range::new(media, 8 * SECTOR);
        let others = Range::new(users.end(), PV_LEN - users.end());
        let mut failed = 0;
        for after in 0..8 {
            failed += u32::from(move_with_a_bad_write(&images, after, others).await);
        }
        assert!(failed > 1, "{failed} moves failed");
        // The copy comes first, then the user's own write of what was copied.
        for after in 0..2 {
            assert!(move_with_a_bad_write(&images, after, users).await);
        }
    });
}

#[test]
fn an_old_disk_that_cannot_be_read_ends_the_move() {
    block_on(async {
        let images = filled().await;
        let good = slow_disks(&images, 1);
        let mut disks = good.clone();
        let bad = Range::new(NewLabel::DATA_START + 3 * EXTENT, SECTOR);
        let fault = Fault::new(Effect::Fail(Errno::Io))
            .on(block::Operation::Read)
            .at(bad);
        disks[0] = FaultDisk::new(good[0].clone(), 1, vec![fault]);
        let (state, last) = move_with_a_writer(&disks, &good).await;
        let LiveMoveState::Failed(why) = state else {
            panic!("{state:?}")
        };
        assert!(why.starts_with("disk0 cannot be read: "), "{why}");
        assert!(contents(&good).await == expected(&images, last).await);
    });
}

#[test]
fn while_extents_move_snapshots_are_refused_and_volumes_are_opened() {
    block_on(async {
        let images = filled().await;
        let before = contents(&mem_disks(&images)).await;
        let disks = mem_disks(&images);
        let set = set_on(&disks).await;
        let sequence = set.group().group.sequence;
        let request = request("pv0");
        let begun = set.begin_move(sequence, Some(&request), options()).await;
        let live = begun.unwrap();
        assert_eq!(live.bytes, 15 * EXTENT);
        let sequence = set.group().group.sequence;
        let change = SnapshotChange::Remove {
            name: "snap".to_owned(),
        };
        let refused = set.change_snapshots(sequence, &change, &stamp()).await;
        assert!(
            matches!(refused, Err(OpenChangeError::Moving(_))),
            "{refused:?}"
        );
        let second = set.begin_move(sequence, None, options()).await;
        assert!(matches!(second, Err(OpenChangeError::Moving(_))));
        let media = set.open("media").await.unwrap().disk;
        set.run_move(&live).await;
        assert_eq!(
            (live.state(), live.copied()),
            (LiveMoveState::Done, live.bytes)
        );
        let whole = Range::new(0, media.geometry().size);
        assert!(numbers(&gather(&media.read(whole).await.unwrap())) == before[0]);
        assert!(contents(&disks).await == before);
        let again = set
            .begin_move(set.group().group.sequence, None, options())
            .await;
        assert!(matches!(again, Err(OpenChangeError::NoMove(_))));
    });
}

#[test]
fn a_set_that_is_opened_in_the_middle_of_a_move_serves_it_and_resumes_it() {
    block_on(async {
        let images = filled().await;
        let before = contents(&mem_disks(&images)).await;
        let disks = mem_disks(&images);
        let set = set_on(&disks).await;
        let sequence = set.group().group.sequence;
        let request = request("pv0");
        set.begin_move(sequence, Some(&request), options())
            .await
            .unwrap();
        drop(set);
        assert!(contents(&disks).await == before);
        let set = set_on(&disks).await;
        let media = set.open("media").await.unwrap().disk;
        let data = single(sector(77));
        let write = media.write(Range::new(0, SECTOR), data, WriteFlags::FUA);
        write.await.unwrap();
        let sequence = set.group().group.sequence;
        let live = set.begin_move(sequence, None, options()).await.unwrap();
        set.run_move(&live).await;
        assert_eq!(live.state(), LiveMoveState::Done);
        let mut after = before;
        after[0][0] = 77;
        assert!(contents(&disks).await == after);
        assert!(
            set.abort_move(&stamp()).await.is_ok(),
            "there is nothing left to end"
        );
        assert!(
            used_runs(&set.group().group)
                .unwrap()
                .iter()
                .all(|used| used.run.member != "pv0")
        );
    });
}
