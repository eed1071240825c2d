//! Volumes that were created with images that count as equal (`--nosync`): they are not resynced before their first use.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{MemDisk, block_on, pattern, single};

use super::kit::{REGION, Volume, options, place};
use crate::array::format::dm_raid::DmRaid;
use crate::volume::raid::{RaidImageDisks, RaidOptions, open};

const LEN: usize = 32 << 10;

/// The disks of a volume that was never in use: metadata and data of each image. The first `made` images have metadata, with
/// which a power cut left the volume.
fn new_volume(made: usize) -> (Volume, Vec<Arc<MemDisk>>) {
    let mut volume = Volume::raid1(2, LEN);
    volume.change_all(|own| own.events = 1);
    for metadata in volume.metadata.iter_mut().flatten().skip(made) {
        metadata.fill(0);
    }
    volume.data[1].as_mut().unwrap().fill(0xbd);
    let both = volume.metadata.iter().zip(&volume.data);
    let bytes = both.flat_map(|(metadata, data)| [metadata.clone(), data.clone()]);
    let disks = bytes.map(|bytes| Arc::new(MemDisk::from_bytes(bytes.unwrap())));
    let disks = disks.collect();
    (volume, disks)
}

fn images(disks: &[Arc<MemDisk>]) -> Vec<RaidImageDisks> {
    let node = |disk: &Arc<MemDisk>| Some(disk.clone() as Node);
    let pairs = disks.chunks(2).map(|pair| RaidImageDisks {
        metadata: node(&pair[0]),
        data: node(&pair[1]),
    });
    pairs.collect()
}

#[test]
fn images_that_count_as_equal_are_not_resynced() {
    for made in 0..2 {
        let (volume, disks) = new_volume(made);
        let options = RaidOptions {
            assume_synced: true,
            ..options(false)
        };
        let written = Range::new(u64::from(REGION), 512);
        let data = pattern(7, written);
        block_on(async {
            let array = open(volume.spec(images(&disks)), &options).await.unwrap();
            assert_eq!(array.status().working, 2, "{made} images had metadata");
            array.work().await;
            let write = array.write(written, single(data.clone()), WriteFlags::empty());
            write.await.unwrap();
            array.stop().await.unwrap();
        });
        let mut untouched = vec![0xbd; LEN];
        untouched[place(written)].copy_from_slice(&data);
        assert!(
            disks[3].snapshot() == untouched,
            "only the write reaches it"
        );
        for metadata in disks.iter().step_by(2) {
            let own = DmRaid::decode(&metadata.snapshot()).unwrap().unwrap();
            assert_eq!((own.synced_to, own.failed.any(2)), (None, false));
        }
    }
}

#[test]
fn a_new_image_of_a_volume_in_use_does_not_count_as_equal() {
    let (mut volume, _) = new_volume(2);
    volume.change_all(|own| own.events = 5);
    volume.metadata[1].as_mut().unwrap().fill(0);
    let options = RaidOptions {
        assume_synced: true,
        ..options(false)
    };
    let array = block_on(open(volume.spec(volume.disks()), &options)).unwrap();
    assert_eq!(array.status().working, 1);
}
