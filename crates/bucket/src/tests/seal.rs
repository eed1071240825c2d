//! Sealed bytes: what was changed, or moved, or sealed with another key, is refused; a nonce is random; and encoded objects are what the plans
//! of commits and reads expect, against an array of tags.

use bytes::Bytes;
use proptest::prelude::*;

use super::plans::{ModelCodec, play_steps, steps_and_reads};
use crate::data_codec::DataCodec;
use crate::flush_plan::{ObjectLayout, ObjectPlan};
use crate::format::{
    BLOCK, BLOCK_LEN, Compression, DataObject, SEAL_LEN, SealedKey, VolumeHeader, VolumeId,
};
use crate::read_plan::{DecodeBlock as _, Fetch, FetchError};
use crate::run_map::StoredBlock;
use crate::seal::{DataKey, PIECE_SEAL_LEN, VolumeKey, VolumeKeyError};

const NAME: &str = "0a/00000002-0000000000000000";

/// Every change of one bit of `bytes`.
fn flipped(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut changed = bytes.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    })
}

fn sealed() -> DataCodec {
    DataCodec {
        compression: None,
        key: Some(DataKey::random()),
    }
}

/// A block of an object, as an entry has it.
fn stored(number: u64, offset: u64, len: usize) -> StoredBlock {
    StoredBlock {
        object: DataObject {
            generation: 2,
            number: 0,
        },
        offset,
        len: u32::try_from(len).unwrap(),
        is_sealed: true,
        number,
        checksum: 0,
    }
}

#[test]
fn a_sealed_block_with_any_bit_changed_is_refused() {
    for compression in [None, Some(Compression::Lz4)] {
        let codec = DataCodec {
            compression,
            ..sealed()
        };
        let block: Vec<u8> = b"0123456789abcdef".repeat(BLOCK_LEN / 16);
        let mut encoder = codec.object(|| NAME.to_owned()).encoder(1);
        encoder.push(7, &block);
        let (bytes, _) = encoder.finish();
        assert_eq!(
            bytes.len() == BLOCK_LEN + SEAL_LEN as usize,
            compression.is_none()
        );
        let place = stored(7, 0, bytes.len());
        let mut into = vec![0; BLOCK_LEN];
        let decoder = codec.object(|| NAME.to_owned());
        decoder.decode(&place, &bytes, &mut into).unwrap();
        assert_eq!(into, block);
        for changed in flipped(&bytes) {
            let decoded = decoder.decode(&place, &changed, &mut into);
            assert_eq!(decoded, Err(FetchError::Seal(0)));
        }
    }
}

#[test]
fn a_sealed_block_of_another_place_is_refused() {
    let codec = sealed();
    let mut encoder = codec.object(|| NAME.to_owned()).encoder(2);
    let block = vec![5; BLOCK_LEN];
    encoder.push(7, &block);
    encoder.push(8, &block);
    let (bytes, _) = encoder.finish();
    let len = bytes.len() / 2;
    let (first, second) = bytes.split_at(len);
    let mut into = vec![0; BLOCK_LEN];
    let mut decode = |codec: &DataCodec, name, place, bytes| {
        codec
            .object(|| str::to_owned(name))
            .decode(&place, bytes, &mut into)
            .is_ok()
    };
    let at = len as u64;
    assert!(decode(&codec, NAME, stored(7, 0, len), first));
    assert!(decode(&codec, NAME, stored(8, at, len), second));
    assert!(!decode(&codec, NAME, stored(7, 0, len), second));
    assert!(!decode(&codec, NAME, stored(8, at, len), first));
    assert!(!decode(&codec, NAME, stored(8, 0, len), first));
    assert!(!decode(&codec, NAME, stored(7, at, len), first));
    let other = "0a/00000002-0000000000000001";
    assert!(!decode(&codec, other, stored(7, 0, len), first));
    assert!(!decode(&sealed(), NAME, stored(7, 0, len), first));
}

#[test]
fn no_two_seals_have_the_same_nonce() {
    let key = DataKey::random();
    let codec = DataCodec {
        compression: None,
        key: Some(key.clone()),
    };
    let mut encoder = codec.object(|| NAME.to_owned()).encoder(512);
    for _ in 0..512 {
        encoder.push(7, &[5; BLOCK_LEN]);
    }
    let (bytes, _) = encoder.finish();
    let piece = BLOCK_LEN + SEAL_LEN as usize;
    let nonces = bytes.chunks(piece).map(|piece| piece[..12].to_vec());
    let nonces: std::collections::BTreeSet<_> = nonces.collect();
    assert_eq!(nonces.len(), 512);
    let salts = (0..512).map(|_| key.seal_piece(b"x")[..16].to_vec());
    let salts: std::collections::BTreeSet<_> = salts.collect();
    assert_eq!(salts.len(), 512);
}

#[test]
fn a_piece_of_the_index_with_any_bit_changed_is_refused() {
    let key = DataKey::random();
    let data = b"what is in a table".to_vec();
    let piece = key.seal_piece(&data);
    assert_eq!(piece.len(), data.len() + PIECE_SEAL_LEN);
    assert_eq!(key.open_piece(&piece), Ok(data));
    for changed in flipped(&piece) {
        assert!(key.open_piece(&changed).is_err());
    }
    for len in 0..piece.len() {
        assert!(key.open_piece(&piece[..len]).is_err());
    }
    assert!(DataKey::random().open_piece(&piece).is_err());
}

/// If any bit of a header is changed, it is refused, or is the same header.
#[test]
fn a_header_with_any_bit_changed_opens_no_other_volume() {
    let (key, data_key) = (VolumeKey::random(), DataKey::random());
    let mut header = VolumeHeader {
        id: VolumeId::random(),
        size: 5 * BLOCK,
        origins: Vec::new(),
        compression: Some(Compression::Lz4),
        sealed_key: Some(SealedKey([0; SealedKey::LEN])),
    };
    header.sealed_key = Some(key.seal(&data_key, header.id, &header.authenticated()));
    let open = |key: &VolumeKey, found: &VolumeHeader| {
        let sealed = found.sealed_key.as_ref()?;
        key.open(sealed, found.id, &found.authenticated()).ok()
    };
    assert!(open(&key, &header).is_some());
    assert!(open(&VolumeKey::random(), &header).is_none());
    let mut refused = 0;
    for changed in flipped(&header.encode()) {
        let found = VolumeHeader::decode(&changed).ok();
        match found.filter(|found| open(&key, found).is_some()) {
            Some(found) => assert_eq!(found, header),
            None => refused += 1,
        }
    }
    // All but the case of hexadecimal digits of the id.
    assert!(refused > header.encode().len() * 8 - 64, "{refused}");
}

#[test]
fn a_key_file_is_one_line_that_its_owner_alone_can_read() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let write = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        VolumeKey::read(&path)
    };
    assert!(matches!(VolumeKey::read(&path), Err(VolumeKeyError::Io(_))));
    let key = VolumeKey::random();
    let line = key.to_line();
    assert_eq!(line.len(), 65);
    assert_eq!(write(&line, 0o600).unwrap(), key);
    assert_eq!(write(line.trim_end(), 0o400).unwrap(), key);
    for mode in [0o640, 0o604, 0o660, 0o622] {
        assert!(matches!(write(&line, mode), Err(VolumeKeyError::Mode)));
    }
    for text in [
        "",
        "\n",
        &line[1..],
        &format!("{line}\n"),
        &format!("a{line}"),
        &line.replacen(&line[..1], "g", 1),
        "é",
    ] {
        let found = write(text, 0o600);
        assert!(matches!(found, Err(VolumeKeyError::Digits)), "{text:?}");
    }
    assert!(!format!("{key:?}").contains(&line[..8]));
}

#[test]
fn a_block_that_does_not_shrink_is_stored_as_it_is() {
    let codec = DataCodec {
        compression: Some(Compression::Lz4),
        key: None,
    };
    let mut encoder = codec.object(|| NAME.to_owned()).encoder(2);
    let mut rng = fastrand::Rng::with_seed(1);
    let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..))
        .take(BLOCK_LEN)
        .collect();
    encoder.push(1, &noise);
    encoder.push(2, &noise);
    let (bytes, layout) = encoder.finish();
    assert!(bytes[..BLOCK_LEN] == noise && bytes[BLOCK_LEN..] == noise);
    assert_eq!(layout, ObjectLayout::whole(false));
    let mut encoder = codec.object(|| NAME.to_owned()).encoder(2);
    encoder.push(1, &noise);
    encoder.push(2, &[7; BLOCK_LEN]);
    let (bytes, _) = encoder.finish();
    assert!(bytes[..BLOCK_LEN] == noise && bytes.len() < BLOCK_LEN + 100);
}

/// The codecs of one model each: compressed, sealed, both.
struct Encoded<const COMPRESSED: bool, const SEALED: bool>(DataCodec);

impl<const COMPRESSED: bool, const SEALED: bool> Default for Encoded<COMPRESSED, SEALED> {
    fn default() -> Self {
        Self(DataCodec {
            compression: COMPRESSED.then_some(Compression::Lz4),
            key: SEALED.then(DataKey::random),
        })
    }
}

impl<const COMPRESSED: bool, const SEALED: bool> ModelCodec for Encoded<COMPRESSED, SEALED> {
    fn encode(&self, name: DataObject, object: &ObjectPlan) -> (Bytes, ObjectLayout) {
        let mut encoder = self
            .0
            .object(|| name.to_string())
            .encoder(object.blocks.len());
        for (number, block) in object.numbers.iter().zip(&object.blocks) {
            encoder.push(*number, block);
        }
        encoder.finish()
    }

    fn decode(&self, fetch: &Fetch, bytes: Bytes) -> Result<Bytes, FetchError> {
        fetch.decode(bytes, &self.0.object(|| fetch.object.to_string()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_read_of_encoded_objects_finds_what_was_committed_last((steps, reads) in steps_and_reads()) {
        play_steps::<Encoded<true, false>>(steps.clone(), &reads);
        play_steps::<Encoded<false, true>>(steps.clone(), &reads);
        play_steps::<Encoded<true, true>>(steps, &reads);
    }
}
