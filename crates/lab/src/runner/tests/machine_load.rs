//! Real runs on a machine that does something else, and on a filesystem that is not always direct.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{LoopDevice, requires};

use crate::checks::denominators::Busy;
use crate::checks::{Check, Level};
use crate::plan::Plan;
use crate::report::Summary;
use crate::runner::{Cancel, Directories, RunRequest, Silent, TargetSpec, run};
use crate::store::{Cell, RunRecord, Store};

fn measured(plan: &str, target: &Path) -> RunRecord {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::parse(plan).unwrap();
    let request =
        RunRequest::new(plan, folder.path().join("lab.sqlite")).on(TargetSpec::new(target));
    let run = run(&request, &mut Directories, &mut Silent, &Cancel::default()).unwrap();
    Store::open(&request.store).unwrap().load(run).unwrap()
}

const HEAD: &str = "name = \"test\"\nsummary = \"A test.\"\n\
    [data]\nsize = \"32M\"\nlayout_ms = 3600000\n\
    [budget]\nblocks_min = 1\nblocks_max = 1\ntime_ms = 60000\nlimit_ms = 60000\nprecision = 0.03\n";

/// A program that computes until it is dropped. It has a session of its own: the kernel shares processors fairly among
/// sessions (autogroup), and several hogs in one would get no more than the tool.
struct Hog(Child);

impl Hog {
    fn start() -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", "while :; do :; done"]);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Of as many as there are cores, so that it takes its part regardless of other load.
#[test]
fn a_run_on_a_machine_under_load_is_marked_noisy() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let hogs: Vec<Hog> = (0..cores).map(|_| Hog::start()).collect();
    let folder = tempfile::tempdir().unwrap();
    let plan = format!(
        "{HEAD}[[workload]]\nname = \"read\"\ntitle = \"Read\"\npattern = \"random\"\ndirection = \"read\"\n\
         block_size = \"4K\"\ndepth = 1\njobs = 1\nruntime_ms = 1000\n"
    );
    let record = measured(&plan, folder.path());
    drop(hogs);
    let is_noise = |check: Check, text: &str| {
        check == Check::Noise && text.contains("the machine was under load")
    };
    let cell = &record.cells[0];
    assert!(
        cell.findings
            .iter()
            .any(|one| is_noise(one.check, &one.text)),
        "{:?}",
        cell.findings
    );
    assert!(
        record
            .findings
            .iter()
            .any(|one| is_noise(one.check, &one.text) && one.text.starts_with("before the first")),
        "{:?}",
        record.findings
    );
    let others = cell.evidence.others.clone().unwrap();
    assert!(
        others.cpu.0 * 5 > cell.elapsed.0,
        "hogs took at least a fifth of a core: {others:?}"
    );
    let row = &Summary::of(&record).rows[0];
    assert!(row.validity.to_string().contains("remarks") || !row.validity.is_usable());
}

/// Every core is full, and none of it is tar's doing. Once the machine's time was taken for the tool's, and
/// all of its results were called CPU-bound.
#[test]
fn a_tool_on_a_machine_that_others_keep_busy_is_not_called_cpu_bound() {
    if !requires::all(&[requires::command("tar")]) {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let hogs: Vec<Hog> = (0..2 * cores).map(|_| Hog::start()).collect();
    let folder = tempfile::tempdir().unwrap();
    let plan = format!(
        "{HEAD}[[workload]]\nname = \"tar\"\ntitle = \"tar\"\ntool = \"tar\"\nbytes_max = \"64M\"\n"
    );
    let record = measured(&plan, folder.path());
    drop(hogs);
    let cell = &record.cells[0];
    assert!(!cell.has_failed(), "{:?}", cell.findings);
    let busy = Busy::of(&cell.evidence.cores).unwrap();
    assert!(busy.of_machine > 0.9, "{busy:?}");
    let mut findings = cell.findings.iter();
    assert!(
        findings.all(|one| one.check != Check::Generator),
        "{:?}, {:?} of processor time in {:?}",
        cell.findings,
        cell.evidence.tool_cpu,
        cell.elapsed
    );
}

/// A btrfs on a loop device, mounted until it is dropped.
struct Btrfs {
    point: PathBuf,
    _device: LoopDevice,
    _folder: tempfile::TempDir,
}

impl Btrfs {
    fn mounted() -> Result<Self, String> {
        // Next to the test's own program, since /tmp may be memory.
        let below = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(below.parent().unwrap()).unwrap();
        let image = folder.path().join("btrfs.img");
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&image)
            .unwrap();
        file.set_len(512 << 20).unwrap();
        let device = LoopDevice::over(&image).unwrap();
        let point = folder.path().join("mnt");
        fs::create_dir(&point).unwrap();
        let path = device.path().to_str().unwrap().to_owned();
        said(Command::new("mkfs.btrfs").args(["-q", &path]))?;
        said(
            Command::new("mount")
                .args(["-t", "btrfs", &path])
                .arg(&point),
        )?;
        Ok(Self {
            point,
            _device: device,
            _folder: folder,
        })
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        if let Err(e) = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::empty()) {
            eprintln!("{} could not be unmounted: {e}", self.point.display());
        }
    }
}

fn said(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Whether a measurement was found out not to be direct, and whether it can have been.
fn buffered(record: &RunRecord, cell: &Cell) -> (bool, bool) {
    let mut findings = cell.findings.iter();
    let found = findings.any(|one| (one.check, one.level) == (Check::Direct, Level::Invalid));
    let job = record.plan.workloads[cell.workload].fio().unwrap();
    (found, !job.block_size.0.is_multiple_of(4096))
}

/// A run of `plan` in which every buffered measurement was found out; a direct one never is taken for one. The
/// witness is the page cache, which others on this machine drop at times, tests among them: then all is measured
/// again.
fn found_out(plan: &str, target: &Path) -> RunRecord {
    for _ in 0..20 {
        let record = measured(plan, target);
        let mut missed = Vec::new();
        for cell in &record.cells {
            match buffered(&record, cell) {
                (true, false) => panic!("{:?} with {:?}", cell.findings, cell.evidence),
                (false, true) => missed.push(cell.evidence.clone()),
                _ => {}
            }
        }
        if missed.is_empty() {
            return record;
        }
        eprintln!("measured again: {missed:?}");
    }
    panic!("what was not direct was not found out");
}

/// Study C's "powers of two are 30 % faster": 12 and 96 KiB are aligned and no powers of two, the last three
/// sizes are neither.
#[test]
fn on_btrfs_misaligned_direct_reads_are_reported_as_not_direct_and_the_sweep_says_why() {
    let needs = [
        requires::root(),
        requires::loop_device(),
        requires::command("fio"),
        requires::command("mkfs.btrfs"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let btrfs = match Btrfs::mounted() {
        Ok(btrfs) => btrfs,
        Err(why) if why.contains("unknown filesystem type") => {
            eprintln!("skipped: this kernel has no btrfs: {why}");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let plan = format!(
        "{HEAD}[[workload]]\nname = \"sizes\"\ntitle = \"Block sizes\"\npattern = \"sequential\"\n\
         direction = \"read\"\ndepth = 4\njobs = 1\nruntime_ms = 800\n\
         sweep = {{ block_size = [\"4096\", \"12288\", \"98304\", \"131072\", \"6656\", \"12800\", \"98816\"] }}\n"
    );
    let record = found_out(&plan, &btrfs.point);
    assert_eq!(record.cells.len(), 7);
    let summary = Summary::of(&record);
    let said = summary
        .findings
        .iter()
        .find(|one| one.check == Check::Direct);
    let said = &said.expect("a word on the sweep").text;
    assert!(
        said.contains("only 4 of the 7 sizes are multiples of the 4096 B")
            && said.ends_with("by their alignment, powers of two or not"),
        "{said}"
    );
}
