//! Encodings: round trips, and that what was changed is refused.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn keys() -> impl Strategy<Value = IndexKey> {
    let block = 0..u8::try_from(RUN_BLOCKS).unwrap();
    prop_oneof![
        any::<u64>().prop_map(IndexKey::Run),
        (any::<u64>(), block).prop_map(|(run, block)| IndexKey::Block { run, block }),
    ]
}

fn entry(key: IndexKey, kind: u8, numbers: (u32, u64, u32)) -> Entry {
    let (generation, commit, offset) = numbers;
    let content = match kind {
        8 => EntryContent::Zero,
        9 if key.block_count() == 1 => EntryContent::Inline(vec![7; BLOCK_LEN].into()),
        _ => EntryContent::Stored(RunPointer {
            generation,
            object: commit / 2,
            offset,
            is_sealed: kind & 2 != 0,
            checksums: (0..).take(key.block_count()).collect(),
            lengths: match kind & 1 {
                0 => Vec::new(),
                _ => (1..).map(|len| len * 127).take(key.block_count()).collect(),
            },
        }),
    };
    let sequence = Sequence { generation, commit };
    Entry { sequence, content }
}

proptest! {
    #[test]
    fn keys_survive_and_sort_as_their_bytes(one in keys(), other in keys()) {
        prop_assert_eq!(IndexKey::decode(&one.encode()), Some(one));
        // The entry of a run comes before those of its blocks.
        let order = |key: IndexKey| match key {
            IndexKey::Run(run) => (run, None),
            IndexKey::Block { run, block } => (run, Some(block)),
        };
        prop_assert_eq!(one.encode().cmp(&other.encode()), order(one).cmp(&order(other)));
    }

    #[test]
    fn entries_survive_and_nothing_else_is_taken_for_one(
        key in keys(), other in keys(), kind in prop_oneof![0..4_u8, 8..10_u8],
        numbers in any::<(u32, u64, u32)>(), at: prop::sample::Index, flip in 1..=255_u8,
    ) {
        let entry = entry(key, kind, numbers);
        let bytes = Bytes::from(entry.encode(key));
        prop_assert_eq!(Entry::decode(key, &bytes), Ok(entry));
        let mut changed = bytes.to_vec();
        let at = at.index(changed.len());
        changed[at] ^= flip;
        prop_assert!(Entry::decode(key, &changed.into()).is_err());
        prop_assert!(Entry::decode(key, &bytes.slice(..at)).is_err());
        if other != key {
            prop_assert_eq!(Entry::decode(other, &bytes), Err(EntryFormatError::Checksum));
        }
    }

    #[test]
    fn no_bytes_panic(key in keys(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Entry::decode(key, &bytes.clone().into()).is_err());
        prop_assert!(IndexMeta::decode(&bytes).is_err());
        prop_assert!(VolumeHeader::decode(&bytes).is_err());
        let _key = IndexKey::decode(&bytes);
    }

    #[test]
    fn names_of_objects_survive(generation: u32, number: u64, version: u64) {
        let id = VolumeId([7; 16]);
        let header = VolumeHeader { id, size: BLOCK, origins: Vec::new(), compression: None, sealed_key: None };
        let names = Names::new("a/b".to_owned()).of(&header);
        let object = DataObject { generation, number };
        let name = names.object(object);
        prop_assert_eq!(data_object(name.strip_prefix(&format!("a/b/data/{id}/")).unwrap()), Some(object));
        let name = names.header(version);
        prop_assert_eq!(header_version(name.strip_prefix("a/b/volume/").unwrap()), Some(version));
    }
}

#[test]
fn names_that_are_no_objects_are_none() {
    for name in [
        "",
        "x",
        "00000001",
        "00000001-",
        "0000000g-0000000000000001",
        "+0000001-0000000000000001",
    ] {
        assert_eq!(data_object(name), None, "{name}");
    }
    assert_eq!(header_version("1"), None);
    assert_eq!(Names::new(String::new()).headers(), "volume");
}

#[test]
fn another_version_is_named() {
    let key = IndexKey::Run(3);
    let mut bytes = entry(key, 8, (1, 1, 0)).encode(key);
    bytes[0] = 9;
    assert_eq!(
        Entry::decode(key, &bytes.into()),
        Err(EntryFormatError::Version(9))
    );
    let id = VolumeId([3; 16]);
    let meta = IndexMeta {
        id,
        generation: 5,
        journal: None,
    };
    let mut bytes = meta.encode();
    assert_eq!(IndexMeta::decode(&bytes), Ok(meta));
    bytes[0] = 3;
    assert_eq!(IndexMeta::decode(&bytes), Err(MetaFormatError::Version(3)));
    bytes[0] = 1;
    bytes[5] ^= 1;
    assert_eq!(IndexMeta::decode(&bytes), Err(MetaFormatError::Checksum));
}

#[test]
fn headers_survive_and_what_is_none_is_refused_by_name() {
    let header = VolumeHeader {
        id: VolumeId::random(),
        size: 5 * BLOCK,
        origins: Vec::new(),
        compression: None,
        sealed_key: None,
    };
    let text = String::from_utf8(header.encode()).unwrap();
    let decode = |text: &str| VolumeHeader::decode(text.as_bytes());
    assert_eq!(decode(&text), Ok(header.clone()));
    let changed = |from: &str, to: &str| decode(&text.replace(from, to));
    let version = changed("\"version\": 1", "\"version\": 4");
    assert_eq!(version, Err(HeaderFormatError::Version(4)));
    let no_clone = changed("\"version\": 1", "\"version\": 2");
    assert_eq!(no_clone, Err(HeaderFormatError::Origins));
    let size = changed("20480", "20481");
    assert_eq!(size, Err(HeaderFormatError::Size(20481)));
    let units = changed("\"block\": 4096", "\"block\": 512");
    assert_eq!(units, Err(HeaderFormatError::Units(512, RUN)));
    let id = changed(&header.id.to_string(), "12");
    assert_eq!(id, Err(HeaderFormatError::Id));
    assert!(matches!(
        changed("outboard volume", "x"),
        Err(HeaderFormatError::Json(_))
    ));
    assert!(matches!(decode("x"), Err(HeaderFormatError::Json(_))));
}

/// A program of before compression and encryption reads versions 1 and 2, and names this one.
#[test]
fn the_header_of_an_encoded_volume_has_another_version() {
    let header = VolumeHeader {
        id: VolumeId([7; 16]),
        size: 5 * BLOCK,
        origins: vec![origin("lab/a", 1, 4)],
        compression: Some(Compression::Lz4),
        sealed_key: Some(SealedKey([0xab; SealedKey::LEN])),
    };
    let text = String::from_utf8(header.encode()).unwrap();
    assert!(text.contains("\"version\": 3"), "{text}");
    let decode = |text: &str| VolumeHeader::decode(text.as_bytes());
    assert_eq!(decode(&text), Ok(header.clone()));
    let refused = |from: &str, to: &str, error| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert_eq!(decode(&changed), Err(error), "{from}");
    };
    let other = HeaderFormatError::Compression("zstd".to_owned());
    refused("\"lz4\"", "\"zstd\"", other);
    let other = HeaderFormatError::Cipher("rot13".to_owned());
    refused("aes-256-gcm", "rot13", other);
    refused("abab", "ABab", HeaderFormatError::SealedKey);
    refused("abab", "ab", HeaderFormatError::SealedKey);
    let encoding = HeaderFormatError::Encoding;
    refused("\"version\": 3", "\"version\": 2", encoding.clone());
    let plain = VolumeHeader {
        compression: None,
        sealed_key: None,
        ..header.clone()
    };
    let plain = String::from_utf8(plain.encode()).unwrap();
    let plain = plain.replace("\"version\": 2", "\"version\": 3");
    assert_eq!(decode(&plain), Err(encoding));
    // All but the digits of the key is what the key authenticates.
    let other = VolumeHeader {
        sealed_key: Some(SealedKey([0; SealedKey::LEN])),
        ..header.clone()
    };
    assert_eq!(other.authenticated(), header.authenticated());
    for changed in [
        VolumeHeader {
            size: 6 * BLOCK,
            ..header.clone()
        },
        VolumeHeader {
            origins: Vec::new(),
            ..header.clone()
        },
        VolumeHeader {
            compression: None,
            ..header.clone()
        },
    ] {
        assert_ne!(changed.authenticated(), header.authenticated());
    }
}

/// An origin whose last writer has this generation.
fn origin(path: &str, id: u8, generation: u32) -> Origin {
    Origin {
        path: path.to_owned(),
        id: VolumeId([id; 16]),
        snapshot: "golden".parse().unwrap(),
        generation,
    }
}

/// A program of before clones reads version 1 only: it would search the folder of the clone for objects of its origin.
#[test]
fn the_header_of_a_clone_has_another_version() {
    let header = VolumeHeader {
        id: VolumeId([7; 16]),
        size: 5 * BLOCK,
        origins: vec![origin("lab/a", 1, 4), origin("b", 2, 4), origin("c", 3, 9)],
        compression: None,
        sealed_key: None,
    };
    let text = String::from_utf8(header.encode()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["version"], 2);
    assert_eq!(json["origins"][2]["generation"], 9);
    let decode = |text: &str| VolumeHeader::decode(text.as_bytes());
    assert_eq!(decode(&text), Ok(header));
    for (from, to) in [
        ("\"version\": 2", "\"version\": 1"),
        ("\"generation\": 9", "\"generation\": 3"),
        ("\"lab/a\"", "\"lab/../a\""),
        ("\"lab/a\"", "\"\""),
        ("\"golden\"", "\"a/b\""),
        ("0303", "03"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert_eq!(decode(&changed), Err(HeaderFormatError::Origins), "{from}");
    }
}

#[test]
fn the_generation_of_an_object_decides_its_folder() {
    let header = VolumeHeader {
        id: VolumeId([7; 16]),
        size: BLOCK,
        origins: vec![origin("lab/a", 1, 4), origin("b", 2, 4), origin("c", 3, 9)],
        compression: None,
        sealed_key: None,
    };
    let names = Names::new("d".to_owned()).of(&header);
    for (generation, path, id) in [
        (0, "lab/a", 1),
        (4, "lab/a", 1),
        (5, "c", 3),
        (9, "c", 3),
        (10, "d", 7),
        (u32::MAX, "d", 7),
    ] {
        let object = DataObject {
            generation,
            number: 1,
        };
        let folder = format!("{path}/data/{}/", VolumeId([id; 16]));
        assert!(names.object(object).starts_with(&folder), "{generation}");
    }
    assert_eq!(
        names.data(),
        format!("d/data/{}", header.id),
        "it is written there"
    );
}

#[test]
fn the_record_of_a_clone_is_the_name_of_its_checkpoint() {
    let record = CloneRecord {
        id: VolumeId([0x1a; 16]),
        snapshot: "before-1.2".parse().unwrap(),
        path: "lab/a/b".to_owned(),
    };
    let text = format!("outboard-clone/1/{}/before-1.2/lab/a/b", "1a".repeat(16));
    assert_eq!(record.encode(), text);
    assert_eq!(CloneRecord::decode(&text), Some(record));
    assert_eq!(SnapshotRecord::decode(&text), None);
    for (from, to) in [
        ("/1/", "/2/"),
        ("1a1a", "1a"),
        ("before-1.2", ""),
        ("before-1.2", ".x"),
        ("lab/a/b", ""),
        ("lab/a/b", "lab/../b"),
        ("lab/a/b", "/lab"),
    ] {
        let changed = text.replace(from, to);
        assert_eq!(CloneRecord::decode(&changed), None, "{changed}");
    }
}

#[test]
fn the_record_of_a_snapshot_is_the_name_of_its_checkpoint() {
    let record = SnapshotRecord {
        name: "before-1.2".parse().unwrap(),
        size: 5 * BLOCK,
    };
    assert_eq!(record.encode(), "outboard-snapshot/1/20480/before-1.2");
    assert_eq!(SnapshotRecord::decode(&record.encode()), Some(record));
    for text in [
        "",
        "outboard-snapshot/2/20480/a",
        "outboard-snapshot/1/20480/",
        "outboard-snapshot/1/20481/a",
        "outboard-snapshot/1/+20480/a",
        "outboard-snapshot/1//a",
        "outboard-snapshot/1/20480/a/b",
        PENDING,
        FLUSH_REQUEST,
    ] {
        assert_eq!(SnapshotRecord::decode(text), None, "{text}");
    }
}
