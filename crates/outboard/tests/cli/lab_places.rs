//! `lab run` over the places of a whole disk, which is only read.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{LoopDevice, requires};

use super::answer;

const MIB: usize = 1 << 20;
/// The disk's size.
const SIZE: usize = 64 * MIB;

/// A disk with data on it, and a plan that sweeps it.
struct Ground {
    folder: tempfile::TempDir,
    device: LoopDevice,
}

impl Ground {
    /// None, with the reason printed, where there are no loop devices.
    fn new() -> Option<Self> {
        let needs = [
            requires::root(),
            requires::loop_device(),
            requires::command("fio"),
        ];
        if !requires::all(&needs) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("disk.img");
        fs::write(&image, content()).expect("a disk");
        let device = LoopDevice::over(&image).expect("a device");
        Some(Self { folder, device })
    }

    /// Runs the sweep over the device, and gives what was stored of it.
    fn swept(&self, sweep: &str) -> Value {
        self.swept_on(
            &format!("device = \"{}\"", self.device.path().display()),
            sweep,
        )
    }

    /// The same over any target.
    fn swept_on(&self, target: &str, sweep: &str) -> Value {
        let plan = format!(
            "name = \"places\"\nsummary = \"A whole disk.\"\n\
             [data]\nsize = \"1T\"\nlayout_ms = 1000\n\
             [budget]\nblocks_min = 1\nblocks_max = 1\ntime_ms = 60000\nlimit_ms = 60000\nprecision = 0.03\n\
             [[target]]\nname = \"disk\"\ntitle = \"The disk\"\nkind = \"raw\"\n{target}\n\
             [[workload]]\nname = \"place\"\ntitle = \"Read by place\"\npattern = \"sequential\"\n\
             direction = \"read\"\nblock_size = \"128K\"\ndepth = 4\njobs = 1\nruntime_ms = 300\n\
             extent = \"8M\"\nsweep = {{ {sweep} }}\n"
        );
        fs::write(self.path().join("p.toml"), plan).expect("a plan");
        let told = answer(self.path(), &["--json", "lab", "run", "p.toml", "."]);
        let image = fs::read(self.path().join("disk.img")).expect("the disk");
        assert!(image == content(), "the disk was written");
        serde_json::from_str(&told).expect("JSON")
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Bytes of which none are like others.
fn content() -> Vec<u8> {
    let words = (0..SIZE as u64 / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Where each measurement began, in fio's arguments.
fn offsets(run: &Value) -> Vec<String> {
    let commands = run["commands"].as_array().expect("commands").iter();
    let lines = commands.filter(|one| {
        let purpose = one["purpose"].as_str().unwrap_or_default();
        purpose.starts_with("place-")
    });
    let mut found: Vec<String> = lines
        .map(|one| {
            let line = one["line"].as_str().expect("a line");
            let mut words = line.split(' ');
            let word = words.find_map(|word| word.strip_prefix("--offset="));
            word.unwrap_or("0").to_owned()
        })
        .collect();
    found.sort_by_key(|offset| offset.parse::<u64>().unwrap_or(u64::MAX));
    found
}

/// Once the first place behind the end of the disk stopped the whole run, in fio's words.
#[test]
fn places_behind_the_end_of_a_disk_are_left_out_with_the_reason() {
    let Some(ground) = Ground::new() else { return };
    let told = ground.swept("offset = [\"0\", \"16M\", \"48M\", \"512G\"]");
    let run = &told["run"];
    assert_eq!(run["cells"].as_array().map(Vec::len), Some(3));
    let findings = run["findings"].to_string();
    assert!(
        findings.contains("at 512 GiB is not made on")
            && findings.contains("only 64 MiB are there to be measured"),
        "{findings}"
    );
    assert_eq!(offsets(run), ["0", "16777216", "50331648"]);
}

#[test]
fn a_disk_that_is_an_expression_is_swept_like_a_device() {
    let Some(ground) = Ground::new() else { return };
    let image = ground.path().join("disk.img");
    let two = format!("disk = 'linear({}, memory(32M))'", image.display());
    let told = ground.swept_on(&two, "place = [0, 50, 99]");
    let run = &told["run"];
    assert_eq!(run["cells"].as_array().map(Vec::len), Some(3), "{told}");
    let expected = [0, 48, 95].map(|mib| (mib * MIB).to_string());
    assert_eq!(offsets(run), expected);
}

#[test]
fn a_disk_is_swept_from_its_first_byte_to_its_last_by_parts_of_it() {
    let Some(ground) = Ground::new() else { return };
    let told = ground.swept("place = [0, 25, 50, 75, 99]");
    let run = &told["run"];
    let cells = run["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 5);
    for cell in cells {
        let bytes = cell["outcome"]["fio"]["bytes"].as_u64().expect("bytes");
        assert!(bytes >= MIB as u64, "{cell}");
    }
    // Whole MiB, and the last of them has no more than one left.
    let expected = [0, 16, 32, 48, 63].map(|mib| (mib * MIB).to_string());
    assert_eq!(offsets(run), expected);
    let report = told["report"].to_string();
    assert!(report.contains("Read by place, by place"), "{report}");
    answer(ground.path(), &["lab", "report", "--output", "r.html"]);
    let page = fs::read_to_string(ground.path().join("r.html")).expect("the report");
    assert!(page.contains("at 75 % of it"));
}
