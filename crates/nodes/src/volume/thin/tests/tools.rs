//! thin-provisioning-tools write metadata, and agree with what we read of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use block::{Extent, ExtentKind, Node, Range};
use fastrand::Rng;
use tempfile::TempDir;
use testkit::{MemDisk, block_on, requires};

use super::super::{CacheMode, CacheState, ThinPool, ThinPoolSpec, cache_is_clean};
use super::image::{CHUNK, TestPool};

/// Chunks of a volume, at most.
const CHUNKS: u64 = 3000;
/// Bytes of a metadata file.
const METADATA_LEN: u64 = 8 << 20;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.expect("the program runs");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).expect("text")
}

fn path(folder: &TempDir, name: &str) -> String {
    let path = folder.path().join(name);
    path.to_str().expect("a path in text").to_owned()
}

/// The XML of a pool, as thin_dump writes it.
fn xml(pool: &TestPool) -> String {
    let sectors = pool.chunk / 512;
    let mut xml = format!(
        "<superblock uuid=\"\" time=\"1\" transaction=\"{}\" version=\"2\" data_block_size=\"{sectors}\" \
         nr_data_blocks=\"{}\">\n",
        pool.transaction_id, pool.data_chunks
    );
    for (device, mappings) in &pool.volumes {
        writeln!(
            xml,
            "<device dev_id=\"{device}\" mapped_blocks=\"{}\" transaction=\"0\" creation_time=\"0\" \
             snap_time=\"1\">",
            mappings.len()
        )
        .unwrap();
        for (chunk, data) in mappings {
            writeln!(
                xml,
                "<single_mapping origin_block=\"{chunk}\" data_block=\"{data}\" time=\"0\"/>"
            )
            .unwrap();
        }
        xml.push_str("</device>\n");
    }
    xml + "</superblock>\n"
}

/// The value of an attribute in a line of XML.
fn attribute(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()?.parse().ok()
}

/// The mappings of each device, as thin_dump prints them.
fn mappings(dump: &str) -> BTreeMap<u64, BTreeMap<u64, u64>> {
    let mut volumes = BTreeMap::new();
    let mut device = 0;
    for line in dump.lines() {
        if let Some(found) = attribute(line, "dev_id") {
            device = found;
            volumes.insert(device, BTreeMap::new());
        }
        let first = attribute(line, "origin_begin").or_else(|| attribute(line, "origin_block"));
        let data = attribute(line, "data_begin").or_else(|| attribute(line, "data_block"));
        let (Some(first), Some(data)) = (first, data) else {
            continue;
        };
        let count = attribute(line, "length").unwrap_or(1);
        let volume = volumes.get_mut(&device).expect("mappings are in a device");
        volume.extend((0..count).map(|index| (first + index, data + index)));
    }
    volumes
}

fn disk(path: &str) -> Node {
    let bytes = std::fs::read(Path::new(path)).expect("it was written");
    Arc::new(MemDisk::from_bytes(bytes))
}

#[test]
fn what_thin_restore_wrote_maps_as_thin_dump_says() {
    let needs = ["thin_restore", "thin_dump", "thin_check"];
    if !requires::all(&needs.map(requires::command)) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let pool = TestPool::random(&mut rng, CHUNKS, 4000);
        let (input, output) = (path(&folder, "xml"), path(&folder, "metadata"));
        std::fs::write(&input, xml(&pool)).expect("there is room");
        let file = std::fs::File::create(&output).expect("there is room");
        file.set_len(METADATA_LEN).expect("there is room");
        run("thin_restore", &["-i", &input, "-o", &output]);
        run("thin_check", &[&output]);
        let dumped = mappings(&run("thin_dump", &[&output]));
        assert_eq!(dumped, pool.volumes);
        judge(&pool, &output);
    }
}

/// Compares extents and data places of each volume with the mappings.
fn judge(pool: &TestPool, path: &str) {
    let data = MemDisk::new(pool.data_chunks * pool.chunk);
    let data = Arc::new(data.with_geometry(|geometry| geometry.read_only = true));
    let opened = block_on(ThinPool::open(disk(path), data, pool.spec())).unwrap();
    assert_eq!(opened.usage().data_chunks, pool.data_chunks);
    for (device, mappings) in &pool.volumes {
        let mapped = block_on(opened.check_volume(*device)).unwrap();
        assert_eq!(mapped, mappings.len() as u64);
        let size = CHUNKS * pool.chunk;
        let volume = block_on(opened.volume(*device, size, None)).unwrap();
        let extents = block_on(volume.extents(Range::new(0, size))).unwrap();
        let kind = |chunk: u64| {
            let holds = |extent: &&Extent| extent.range.end() > chunk * pool.chunk;
            extents.iter().find(holds).map(|extent| extent.kind)
        };
        for chunk in 0..CHUNKS {
            let range = Range::new(chunk * pool.chunk, pool.chunk);
            let place = volume
                .remap(range)
                .map(|(_, there)| there.offset / pool.chunk);
            let expected = mappings.get(&chunk).copied();
            assert_eq!(place, expected, "chunk {chunk}");
            let is_data = kind(chunk) == Some(ExtentKind::Data);
            assert_eq!(is_data, expected.is_some(), "chunk {chunk}");
        }
    }
}

#[test]
fn what_cache_restore_wrote_is_clean_or_dirty_as_its_xml_says() {
    if !requires::all(&[requires::command("cache_restore")]) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for version in ["1", "2"] {
        for dirty in [0, 3] {
            let (input, output) = (path(&folder, "xml"), path(&folder, "cache"));
            let mut xml =
                "<superblock uuid=\"\" block_size=\"128\" nr_cache_blocks=\"700\" policy=\"smq\" \
                 hint_width=\"4\">\n<mappings>\n"
                    .to_owned();
            for chunk in 0..600 {
                let is_dirty = chunk % 200 < dirty / 3;
                writeln!(
                    xml,
                    "<mapping cache_block=\"{chunk}\" origin_block=\"{}\" dirty=\"{is_dirty}\"/>",
                    chunk * 7
                )
                .unwrap();
            }
            xml.push_str("</mappings>\n<hints>\n</hints>\n</superblock>\n");
            std::fs::write(&input, xml).expect("there is room");
            let file = std::fs::File::create(&output).expect("there is room");
            file.set_len(METADATA_LEN).expect("there is room");
            let format = format!("--metadata-version={version}");
            run("cache_restore", &["-i", &input, "-o", &output, &format]);
            let state = block_on(cache_is_clean(&disk(&output))).unwrap();
            let expected = CacheState {
                clean_shutdown: true,
                dirty,
            };
            assert_eq!(state, expected, "version {version}");
            assert_eq!(state.check_origin(CacheMode::Writeback).is_ok(), dirty == 0);
        }
    }
}

#[test]
fn a_pool_of_thin_restore_is_refused_with_another_chunk() {
    if !requires::all(&[requires::command("thin_restore")]) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let pool = TestPool::new(8).volume(1, &[(0, 1)]);
    let (input, output) = (path(&folder, "xml"), path(&folder, "metadata"));
    std::fs::write(&input, xml(&pool)).expect("there is room");
    let file = std::fs::File::create(&output).expect("there is room");
    file.set_len(METADATA_LEN).expect("there is room");
    run("thin_restore", &["-i", &input, "-o", &output]);
    let spec = ThinPoolSpec {
        chunk_size: 2 * CHUNK,
        ..pool.spec()
    };
    let opened = block_on(ThinPool::open(disk(&output), pool.data_disk(), spec));
    assert!(opened.is_err());
}
