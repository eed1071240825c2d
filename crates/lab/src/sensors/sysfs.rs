//! Sensors that are files of their own: temperatures, clocks, throttling. Found once, read each time.
//!
//! What it deliberately does not do: asking a drive for its temperature is a request to that drive, and
//! starting a program costs more than all other sensors together, so both are done once in
//! [`SLOWLY`] readings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::read::attribute;
use super::{Counter, Gauge, thermal};

/// Readings from one of the dear sensors to the next.
const SLOWLY: u64 = 10;
/// Files of one kind that are read.
const FILES_MAX: usize = 256;
/// Chips that ask a drive.
const DRIVES: [&str; 2] = ["drivetemp", "nvme"];
/// Where the firmware of a Raspberry Pi says how it is, on kernels of the foundation.
const FIRMWARE: &str = "/sys/devices/platform/soc/soc:firmware/get_throttled";
/// What says it elsewhere.
const VCGENCMD: [&str; 2] = ["/usr/bin/vcgencmd", "/opt/vc/bin/vcgencmd"];

/// The device of vcgencmd.
const MAILBOX: &str = "/dev/vcio";

/// A file and what its figure is called.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SysfsPath {
    item: String,
    path: PathBuf,
    is_dear: bool,
}

/// How this board says that it is throttled.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Throttle {
    File(PathBuf),
    Program(PathBuf),
}

/// Where this machine's sensors are.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    temperatures: Vec<SysfsPath>,
    clocks: Vec<SysfsPath>,
    /// Of the x86 cores: how often they slowed down.
    slowed: Vec<SysfsPath>,
    throttle: Option<Throttle>,
    readings: u64,
}

impl Places {
    /// Looks for them below `root`, which is `/` but in tests.
    pub(super) fn find(root: &Path) -> Self {
        let zones = zones(root);
        let names: Vec<String> = zones.iter().map(|zone| zone.item.clone()).collect();
        let firmware = root.join(FIRMWARE.trim_start_matches('/'));
        let throttle = if firmware.exists() {
            Some(Throttle::File(firmware))
        } else {
            VCGENCMD
                .iter()
                .map(|path| root.join(path.trim_start_matches('/')))
                .find(|path| path.exists())
                .map(Throttle::Program)
        };
        Self {
            temperatures: zones.into_iter().chain(chips(root, &names)).collect(),
            clocks: of_cores(root, "cpufreq/scaling_cur_freq"),
            slowed: of_cores(root, "thermal_throttle/core_throttle_count"),
            throttle,
            readings: 0,
        }
    }

    /// What is opened for each sensor, by its name.
    pub(super) fn files(&self) -> Vec<(&'static str, PathBuf)> {
        let kinds = [
            ("temperature", &self.temperatures),
            ("clock", &self.clocks),
            ("throttle", &self.slowed),
        ];
        let of = |(sensor, places): (&'static str, &Vec<SysfsPath>)| {
            let paths = places.iter().map(|place| place.path.clone());
            paths.map(|path| (sensor, path)).collect::<Vec<_>>()
        };
        let mut files: Vec<_> = kinds.into_iter().flat_map(of).collect();
        files.extend(self.throttle.as_ref().map(|throttle| match throttle {
            Throttle::File(path) => ("throttle", path.clone()),
            Throttle::Program(_) => ("throttle", PathBuf::from(MAILBOX)),
        }));
        files
    }

    /// Reads what is due.
    pub(super) fn read(&mut self) -> (Vec<Gauge>, Vec<Counter>) {
        let dear_too = self.readings.is_multiple_of(SLOWLY);
        self.readings += 1;
        let text = |place: &SysfsPath| fs::read_to_string(&place.path).ok();
        let temperatures = self
            .temperatures
            .iter()
            .filter(|place| dear_too || !place.is_dear)
            .filter_map(|place| {
                let degrees = thermal::degrees(&text(place)?)?;
                Some(Gauge::new("temperature", place.item.clone(), degrees))
            });
        let clocks = self.clocks.iter().filter_map(|place| {
            let hertz = thermal::hertz(&text(place)?)?;
            Some(Gauge::new("clock", place.item.clone(), hertz))
        });
        let slowed = self.slowed.iter().filter_map(|place| {
            let count = text(place)?.trim().parse().ok()?;
            let item = format!("core/{}", place.item);
            Some(Counter::new("throttle", item, count))
        });
        let mut gauges: Vec<Gauge> = temperatures.chain(clocks).collect();
        gauges.extend(self.throttled(dear_too));
        (gauges, slowed.collect())
    }

    fn throttled(&self, dear_too: bool) -> Vec<Gauge> {
        let said = match &self.throttle {
            Some(Throttle::File(path)) => fs::read_to_string(path).ok(),
            Some(Throttle::Program(path)) if dear_too => said_by(path),
            _ => None,
        };
        said.map_or_else(Vec::new, |text| thermal::throttled(&text))
    }
}

fn said_by(vcgencmd: &Path) -> Option<String> {
    let mut command = Command::new(vcgencmd);
    command.arg("get_throttled").stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

/// The entries of a folder of which the name is a `key`, in the order of these.
fn entries<K: Ord>(folder: &Path, key: impl Fn(&str) -> Option<K>) -> Vec<(K, PathBuf)> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(K, PathBuf)> = found
        .filter_map(|entry| Some((key(entry.file_name().to_str()?)?, entry.path())))
        .take(FILES_MAX)
        .collect();
    found.sort_unstable();
    found
}

/// The entries of a folder with names that begin with `prefix`, in the order of their numbers.
fn numbered(folder: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    entries(folder, |name| name.strip_prefix(prefix)?.parse().ok())
}

/// Zones are named by what they measure; the second one of a name gets its number.
fn zones(root: &Path) -> Vec<SysfsPath> {
    let mut found: Vec<SysfsPath> = Vec::new();
    for (number, folder) in numbered(&root.join("sys/class/thermal"), "thermal_zone") {
        let path = folder.join("temp");
        let Some(kind) = attribute(&folder.join("type")).filter(|_| path.exists()) else {
            continue;
        };
        let is_taken = found.iter().any(|place| place.item == kind);
        let item = match is_taken {
            true => format!("{kind}/{number}"),
            false => kind,
        };
        found.push(SysfsPath {
            item,
            path,
            is_dear: false,
        });
    }
    found
}

fn chips(root: &Path, zones: &[String]) -> Vec<SysfsPath> {
    let mut found = Vec::new();
    for (_, folder) in numbered(&root.join("sys/class/hwmon"), "hwmon") {
        let Some(chip) = attribute(&folder.join("name")) else {
            continue;
        };
        for (input, path) in inputs(&folder) {
            let label = attribute(&folder.join(format!("{input}_label")));
            if let Some(item) = thermal::chip_item(&chip, label.as_deref(), &input, zones) {
                found.push(SysfsPath {
                    item,
                    path,
                    is_dear: DRIVES.contains(&chip.as_str()),
                });
            }
        }
    }
    found
}

/// `temp1`, `temp2` and their files.
fn inputs(chip: &Path) -> Vec<(String, PathBuf)> {
    entries(chip, |name| {
        let input = name.strip_suffix("_input")?;
        input.starts_with("temp").then(|| input.to_owned())
    })
}

/// One file of each core that has it, named by the core's number.
fn of_cores(root: &Path, file: &str) -> Vec<SysfsPath> {
    numbered(&root.join("sys/devices/system/cpu"), "cpu")
        .into_iter()
        .map(|(number, folder)| SysfsPath {
            item: number.to_string(),
            path: folder.join(file),
            is_dear: false,
        })
        .filter(|place| place.path.exists())
        .collect()
}
