//! `lab run --in-guest` as far as it goes without a guest: what goes in, what comes out, and how it is stopped.
//! `machine.sh` plays QEMU. What the guest itself does is tested by `cargo xtask guest lab`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use testkit::requires;

use super::{answer, outboard, within_a_minute};

const READ: &str = include_str!("../../../../lab/src/fio/fixtures/random-read.json");

/// A folder with a guest, a machine that is played, a base for the scratch disk, and what comes out.
struct Ground(tempfile::TempDir);

impl Ground {
    /// None, said, where QEMU could not be started either.
    fn new(status: &str, said: &str, errors: &str) -> Option<Self> {
        if !requires::all(&["setpriv", "tar"].map(requires::command)) {
            return None;
        }
        let ground = Self(tempfile::tempdir().expect("a folder"));
        for name in ["base", "guest", "machine", "machine/out"] {
            fs::create_dir(ground.path(name)).expect("a folder");
        }
        for (name, text) in [
            ("guest/kernel", ""),
            ("guest/initrd", ""),
            ("guest/session", "1\n"),
            ("machine/out/status", status),
            ("machine/out/said", said),
            ("machine/out/errors", errors),
            ("machine/qemu-system-x86_64", include_str!("machine.sh")),
        ] {
            fs::write(ground.path(name), text).expect("a file");
        }
        let machine = ground.path("machine/qemu-system-x86_64");
        fs::set_permissions(machine, fs::Permissions::from_mode(0o755)).expect("rights");
        Some(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A run comes out of the machine.
    fn with_a_run(self) -> Self {
        fs::write(self.path("r.json"), READ).expect("a file");
        let words = [
            "lab",
            "import",
            "r.json",
            "--store",
            "machine/out/lab.sqlite",
        ];
        answer(self.0.path(), &words);
        self
    }

    fn command(&self, more: &[&str]) -> Command {
        let words = ["lab", "run", "quick", "base", "--in-guest", "guest"];
        let mut command = outboard(self.0.path(), &[&words[..], more].concat());
        let path = std::env::var("PATH").unwrap_or_default();
        let machine = self.path("machine");
        command.env("PATH", format!("{}:{path}", machine.display()));
        command.stdin(Stdio::null());
        command
    }

    /// What a run that succeeds prints.
    fn answer(&self, more: &[&str]) -> String {
        let output = self.command(more).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        self.is_tidy();
        String::from_utf8(output.stdout).expect("text")
    }

    /// Starts a run as a shell does, in a process group of its own, and waits until `sign` is there.
    fn started(&self, sign: &str) -> Child {
        let mut command = self.command(&[]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.process_group(0).spawn().expect("it starts");
        let sign = self.path(sign);
        within_a_minute(|| sign.exists().then_some(()));
        child
    }

    /// Stops it as Ctrl-C in a terminal does; what it says then.
    fn stopped(&self, child: Child) -> String {
        kill_process_group(Pid::from_child(&child), Signal::INT).expect("it is there");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1));
        self.is_tidy();
        String::from_utf8(output.stderr).expect("text")
    }

    /// No disk and no machine is left.
    fn is_tidy(&self) {
        let left = fs::read_dir(self.path("base")).expect("the base").count();
        assert_eq!(left, 0, "disks of the guest stayed");
        let machine = read(&self.path("machine/started"));
        let machine = machine.trim().parse().ok().and_then(Pid::from_raw);
        let there = test_kill_process(machine.expect("a number"));
        assert!(there.is_err(), "the machine still runs");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_dry_run_is_made_in_the_guest_and_prints_what_was_said_there() {
    let Some(ground) = Ground::new("0\n", "what would be done\n", "") else {
        return;
    };
    assert_eq!(ground.answer(&["--dry-run"]), "what would be done\n");
    let words = read(&ground.path("machine/arguments"));
    assert!(words.starts_with("lab\nrun\n/job/plan.toml\n"), "{words}");
    assert!(words.ends_with("\n--dry-run\n"), "{words}");
    assert!(read(&ground.path("machine/plan.toml")).contains("name = \"quick\""));
    fs::write(ground.path("machine/out/said"), "{\"commands\":[]}\n").expect("a file");
    let told = ground.answer(&["--dry-run", "--json"]);
    assert_eq!(told, "{\"commands\":[]}\n");
    let words = read(&ground.path("machine/arguments"));
    assert!(words.ends_with("\n--dry-run\n--json\n"), "{words}");
    assert!(
        !ground.path("data").exists(),
        "a dry run has kept something"
    );
}

#[test]
fn a_run_comes_out_of_the_guest_into_the_store_and_is_printed_as_a_table_or_as_json() {
    let Some(ground) = Ground::new("0\n", "", "") else {
        return;
    };
    let ground = ground.with_a_run();
    let table = ground.answer(&[]);
    assert!(table.contains("made in a guest"), "{table}");
    let told = ground.answer(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let findings = told["run"]["findings"].as_array().expect("a list");
    let mut texts = findings.iter().filter_map(|one| one["text"].as_str());
    assert!(texts.any(|text| text.contains("made in a guest")), "{told}");
    let listed = answer(ground.0.path(), &["lab", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_the_users_store_cannot_take_in_is_kept_where_the_guest_measured() {
    let Some(ground) = Ground::new("0\n", "", "") else {
        return;
    };
    let ground = ground.with_a_run();
    fs::write(ground.path("machine/spoils"), "").expect("a file");
    for kept in ["base/lab-of-guest-1.sqlite", "base/lab-of-guest-2.sqlite"] {
        fs::remove_file(ground.path("own.sqlite")).ok();
        let output = ground.command(&["--store", "own.sqlite"]).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).expect("text");
        assert!(told.contains("own.sqlite"), "{told}");
        let next =
            format!("what the guest measured is in {kept}: `outboard lab report --store {kept}`\n");
        assert!(told.ends_with(&next), "{told}");
        assert_eq!(read(&ground.path("own.sqlite")), "no store\n");
        let listed = answer(ground.0.path(), &["lab", "list", "--json", "--store", kept]);
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1));
    }
}

/// The machine was in the terminal's own process group once: Ctrl-C ended it, and all that it had measured
/// was lost.
#[test]
fn ctrl_c_is_told_to_the_guest_and_what_it_measured_is_kept() {
    let errors = "outboard: stopped; 1 whole blocks were kept as run 1; `outboard lab run --resume=1` goes on \
                  with it\n";
    let Some(ground) = Ground::new("1\n", "", errors) else {
        return;
    };
    let ground = ground.with_a_run();
    fs::write(ground.path("machine/measures"), "").expect("a file");
    let child = ground.started("machine/measuring");
    let told = ground.stopped(child);
    assert_eq!(
        told,
        "outboard: in the guest, stopped; 1 whole blocks were kept; what was measured is shown by \
         `outboard lab report 1`\n"
    );
    assert!(!ground.path("machine/interrupted").exists());
    answer(ground.0.path(), &["lab", "report", "1"]);
}

#[test]
fn ctrl_c_before_the_guest_has_spoken_ends_it_at_once() {
    let Some(ground) = Ground::new("0\n", "", "") else {
        return;
    };
    fs::write(ground.path("machine/quiet"), "").expect("a file");
    let child = ground.started("machine/started");
    let told = ground.stopped(child);
    assert_eq!(told, "outboard: stopped; nothing was measured\n");
    assert!(!ground.path("data").exists());
}
