//! Drives that are pulled: the removal test of a study that put four USB sticks behind each other with
//! a device-mapper table, made a filesystem over all of them, and pulled a middle one, then the
//! first one.
//!
//! The study saw that a file could still be made with a middle drive gone and none without the first
//! one, that names were still listed, and that a drive that came back was no part of the disk any more.
//! It did not look at the result of a program's flush, which files can still be
//! read, and what is left afterwards. These tests do.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB, assert_same};
use outboard_tests::said::{self, LIMIT, Said, program};
use outboard_tests::server::Server;
use testkit::proc::Process;
use testkit::requires;

/// Sizes of the drives in MiB, in the study's proportions: three equal ones and a larger one.
const DRIVES: [u64; 4] = [16, 16, 16, 64];
const FIRST: usize = 0;
/// What `detach` says of a device that another namespace has mounted.
const COPIED: &str = "which has it mounted in a namespace of its own";
/// What it says when that namespace has ended and the kernel still unmounts it, one filesystem after the other
/// (`delayed_mntput` in fs/namespace.c): one with a server that does not answer holds up all others.
const STILL_UNMOUNTED: &str = "in use (by an unknown process)";
const MIDDLE: usize = 2;
/// Files that nearly fill the filesystem over all of them.
const FILES: u64 = 40;
const FILE_SIZE: u64 = 2 * MIB;

/// Writes files one after the other, each with fsync, until one fails; a line for each that was
/// acknowledged.
const WRITER: &str = "
    n=0
    while :; do
        n=$((n + 1))
        head -c 10000 /dev/urandom >$0/piece
        dd if=$0/piece of=$1/new-$n bs=10000 conv=fsync 2>/dev/null || exit 7
        echo \"$(sha256sum <$0/piece | cut -d' ' -f1)  new-$n\" >>$0/acknowledged
    done
";

/// Four drives with a filesystem over them.
struct Bench {
    world: World,
    folder: Folder,
    mount: String,
    expression: String,
}

impl Bench {
    /// A filesystem over drives that are `fault` disks with these `arguments` more; mounted.
    fn new(arguments: &str) -> Option<Self> {
        if !requires::all(&[requires::command("filefrag"), requires::command("e2fsck")]) {
            return None;
        }
        let world = World::new()?;
        let folder = Folder::new();
        let drives: Vec<String> = (0..)
            .zip(DRIVES)
            .map(|(n, size)| {
                let image = folder.empty(&format!("{n}.img"), size * MIB);
                let flag = folder.at(&format!("{n}.pulled"));
                format!("fault({image}, pulled-while={flag}{arguments})")
            })
            .collect();
        let bench = Self {
            mount: world.at("mnt"),
            expression: format!("linear({})", drives.join(", ")),
            world,
            folder,
        };
        let attachment = bench.world.attachment(&bench.expression);
        attachment.ext4().on(&bench.mount).device();
        Some(bench)
    }

    fn pull(&self, drive: usize) {
        let flag = self.folder.at(&format!("{drive}.pulled"));
        std::fs::write(flag, b"").expect("a flag");
    }

    fn plug(&self, drive: usize) {
        let flag = self.folder.at(&format!("{drive}.pulled"));
        std::fs::remove_file(flag).expect("the flag");
    }

    /// Where a file is mounted, by its name.
    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.mount)
    }

    /// Writes the file `name` with the bytes of `seed`, down to the drives.
    fn write(&self, name: &str, seed: u64) {
        let source = self.folder.filled("source", FILE_SIZE, seed);
        let (from, to) = (format!("if={source}"), format!("of={}", self.at(name)));
        program("dd", &[&from, &to, "bs=1M", "conv=fsync"]).ok();
    }

    fn start_writer(&self) -> Process {
        let here = self.folder.at("");
        let mut command = Command::new("sh");
        command.args(["-c", WRITER, &here, &self.mount]);
        Process::start(&mut command).expect("a shell")
    }

    /// What the writer was promised.
    fn acknowledged(&self) -> usize {
        let list = std::fs::read_to_string(self.folder.at("acknowledged"));
        list.map_or(0, |list| list.lines().count())
    }

    /// Reads the file `name` from the drives, not from what the kernel keeps of it.
    fn read(&self, name: &str) -> Said {
        let from = format!("if={}", self.at(name));
        program("dd", &[&from, "of=/dev/null", "bs=1M", "iflag=direct"])
    }

    /// The drives that hold the file `name`.
    fn drives_of(&self, name: &str) -> BTreeSet<usize> {
        let told = program("filefrag", &["-v", "-b512", &self.at(name)]).ok();
        told.lines()
            .filter_map(extent)
            .flat_map(drives_of)
            .collect()
    }

    /// The first file that is on `drive` and nowhere else.
    fn file_on(&self, drive: usize) -> u64 {
        let is_there = |n: &u64| self.drives_of(&n.to_string()) == BTreeSet::from([drive]);
        let found = (0..FILES).find(is_there);
        found.unwrap_or_else(|| panic!("no file is on drive {drive} alone"))
    }

    /// The filesystem gives up when it cannot write its journal or the blocks that it keeps itself.
    fn assert_becomes_read_only(&self) {
        let gave_up = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            drop(program("sync", &["-f", &self.mount]));
            let touched = program("touch", &[&self.at("hmm")]);
            touched.stderr.contains("Read-only file system")
        });
        assert!(gave_up, "it can still be written");
    }

    /// Flushes and detaches. The drives are files on a disk that all other tests write to: at worst a flush waits for those.
    fn detach(&self, what: &str) {
        self.run_detach(what).ok();
    }

    /// Where other tests make a namespace at that moment, it has a copy of the mount until they unmount it, on a loaded machine for
    /// longer than `detach` waits; it then names them and leaves the device, which is freed with the last copy.
    fn run_detach(&self, what: &str) -> Said {
        let mut said = self.world.run(&["detach", what, "--timeout", "120"]);
        let is_copy = |line: &str| line.contains(COPIED) || line.contains(STILL_UNMOUNTED);
        let has_copies = !said.stderr.is_empty() && said.stderr.lines().all(is_copy);
        if said.code == Some(1) && has_copies {
            let freed = (0..600).any(|_| {
                std::thread::sleep(Duration::from_millis(100));
                self.world.traces().is_empty()
            });
            assert!(freed, "{said:?}: {:?}", self.world.traces());
            said.code = Some(0);
        }
        said
    }

    /// Takes the disk down, looks at the filesystem, and mounts it again.
    fn mount_again(&self) {
        let said = self.run_detach(&self.mount);
        let warned = said.stderr.contains("may be lost");
        assert_eq!(said.code == Some(0), !warned, "{said:?}");
        self.world.assert_clean();
        let device = self.world.attach(&self.expression);
        let mended = program("e2fsck", &["-fy", &device]);
        assert!(matches!(mended.code, Some(0 | 1)), "{mended:?}");
        program("e2fsck", &["-fn", &device]).ok();
        self.detach(&device);
        let attachment = self.world.attachment(&self.expression);
        attachment.on(&self.mount).device();
    }

    /// Every file that was acknowledged is there with its bytes.
    fn assert_whole(&self) {
        for n in 0..FILES {
            let source = self.folder.filled("source", FILE_SIZE, n);
            assert_same(&source, self.at(&n.to_string()));
        }
        let list = self.folder.at("acknowledged");
        let mut check = Command::new("sha256sum");
        check
            .args(["--quiet", "-c", &list])
            .current_dir(&self.mount);
        said::run(&mut check).ok();
    }
}

/// Sectors of an extent, from a line of `filefrag -v`: `0: 0.. 8191: 34816.. 43007: 8192: last`.
fn extent(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split(':').map(str::trim);
    fields.next()?.parse::<u64>().ok()?;
    let (first, last) = fields.nth(1)?.split_once("..")?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// The drives that sectors are on.
fn drives_of((first, last): (u64, u64)) -> impl Iterator<Item = usize> {
    let mut start = 0;
    let places = DRIVES.map(|size| {
        start += size * MIB / 512;
        start - size * MIB / 512..start
    });
    let touches = move |place: &std::ops::Range<u64>| first < place.end && place.start <= last;
    (0..)
        .zip(places)
        .filter(move |(_, place)| touches(place))
        .map(|(n, _)| n)
}

fn assert_input_output_error(said: &Said) {
    assert_ne!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("Input/output error"), "{said:?}");
}

/// Pulls `drive` under a writer, and plugs it in again.
fn pull_and_plug(drive: usize, arguments: &str) {
    let Some(bench) = Bench::new(arguments) else {
        return;
    };
    for n in 0..FILES {
        bench.write(&n.to_string(), n);
    }
    let mine = bench.file_on(drive).to_string();
    let others = (0..DRIVES.len()).filter(|&other| other != drive);
    let others: Vec<String> = others.map(|n| bench.file_on(n).to_string()).collect();
    let processes = bench.world.processes();
    let mut writer = bench.start_writer();
    let promised = writer.wait_until("promises", LIMIT, |_| {
        (bench.acknowledged() >= 5).then_some(())
    });
    promised.expect("a writer that gets on");

    bench.pull(drive);
    // A flush goes to all drives: without one of them it fails.
    assert_eq!(writer.wait(LIMIT).expect("an end").code(), Some(7));
    bench.assert_becomes_read_only();
    for other in &others {
        bench.read(other).ok();
    }
    assert_input_output_error(&bench.read(&mine));
    assert!(program("ls", &[&bench.mount]).ok().contains("lost+found"));

    bench.plug(drive);
    bench.read(&mine).ok();
    bench.world.run(&["status"]).ok();
    assert_eq!(bench.world.processes(), processes, "nobody died");

    bench.mount_again();
    bench.assert_whole();
    bench.write("grass", 1);
    bench.detach(&bench.mount);
    bench.world.assert_clean();
}

#[test]
fn without_a_middle_drive_nothing_is_promised_and_with_it_again_all_promises_are_kept() {
    pull_and_plug(MIDDLE, "");
}

#[test]
fn without_the_first_drive_nothing_is_promised_and_with_it_again_all_promises_are_kept() {
    pull_and_plug(FIRST, "");
}

#[test]
fn drives_that_lose_their_caches_when_they_are_pulled_keep_what_was_promised() {
    pull_and_plug(FIRST, ", cache=4M");
}

/// As the study did it: without a flush.
#[test]
fn a_file_can_be_made_without_a_middle_drive_as_long_as_it_is_not_flushed() {
    let Some(bench) = Bench::new("") else { return };
    bench.write("before", 1);
    bench.pull(MIDDLE);
    program("touch", &[&bench.at("grass")]).ok();
    let listed = program("ls", &[&bench.mount]).ok();
    assert!(
        listed.contains("grass") && listed.contains("lost+found"),
        "{listed}"
    );
    assert_input_output_error(&program("sync", &[&bench.at("grass")]));
    bench.plug(MIDDLE);
    bench.mount_again();
    let source = bench.folder.filled("source", FILE_SIZE, 1);
    assert_same(&source, bench.at("before"));
    bench.detach(&bench.mount);
}

#[test]
fn a_server_outlives_the_drive_that_it_serves() {
    let folder = Folder::new();
    let image = folder.filled("a.img", MIB, 5);
    let flag = folder.at("pulled");
    let server = Server::start(&[&format!("fault({image}, pulled-while={flag})")]);
    let uri = server.uri("");
    let copy = folder.at("copy");
    let copy_once = || said::run(&mut said::outboard(&["copy", &uri, &copy, "--force"]));
    std::fs::write(&flag, b"").unwrap();
    let line = copy_once().complaint(1);
    assert!(line.contains("input/output error"), "{line}");
    std::fs::remove_file(&flag).unwrap();
    copy_once().ok();
    assert_same(&image, &copy);
}
