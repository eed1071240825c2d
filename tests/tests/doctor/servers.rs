//! Servers that are the limit without computing: a rate limit of their own, and a quota of their cgroup.

use std::path::{Path, PathBuf};
use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::LIMIT;
use testkit::proc::Process;
use testkit::requires;

use super::{alone, around, doctor, names, runs_long_tests};

/// A cgroup with a quota; removed when dropped, after the processes in it.
pub(super) struct QuotaGroup {
    directory: PathBuf,
}

impl QuotaGroup {
    /// One that lets its processes have `percent` of a core; none where this machine does not permit it.
    pub(super) fn new(percent: u32) -> Option<Self> {
        let name = format!("outboard-doctor-{}", std::process::id());
        let group = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"]
            .map(|root| Path::new(root).join(&name))
            .into_iter()
            .find_map(|directory| Self::make(directory, percent));
        if group.is_none() {
            eprintln!("skipped: no cgroup with a quota can be made here");
        }
        group
    }

    fn make(directory: PathBuf, percent: u32) -> Option<Self> {
        std::fs::create_dir(&directory).ok()?;
        let group = Self { directory };
        // With version 1, the root is no cgroup but a directory.
        if !group.directory.join("cgroup.procs").exists() {
            return None;
        }
        group.set(percent).then_some(group)
    }

    /// Lets them have `percent` of a core; whether that is permitted.
    pub(super) fn set(&self, percent: u32) -> bool {
        let write =
            |name: &str, text: String| std::fs::write(self.directory.join(name), text).is_ok();
        let quota = percent * 1000;
        write("cpu.max", format!("{quota} 100000")) || write("cpu.cfs_quota_us", quota.to_string())
    }

    /// `command` in this group.
    pub(super) fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        let procs = self.directory.join("cgroup.procs");
        let script = format!("echo $$ > {}; exec \"$@\"", procs.display());
        inside.args(["-c", &script, "sh"]);
        around(inside, command)
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // Processes leave it a moment after they were waited for.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A server that listens on `socket` in `folder`, and the URI of this export of it.
pub(super) fn start(folder: &Folder, mut command: Command, export: &str) -> (Process, String) {
    let socket = folder.path().join("socket");
    let mut process = Process::start(&mut command).expect("a server");
    process.wait_for_socket(&socket, LIMIT).expect("it listens");
    let uri = format!("nbd+unix:///{export}?socket={}", socket.display());
    (process, uri)
}

#[test]
fn a_server_that_limits_its_own_rate_is_named_and_not_its_processor_or_disk() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let image = folder.at("a.img");
    std::fs::write(&image, vec![7; 64 << 20]).expect("a file that is written");
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["-f", "--filter=rate", "-U", &folder.at("socket")]);
    nbdkit.args(["file", &image, "rate=160M"]);
    let (_server, uri) = start(&folder, nbdkit, "");
    let told = names(&["server"], |seconds| doctor(&folder, seconds, &[&uri]));
    let cause = told["verdict"]["cause"]["kind"].as_str();
    assert_eq!(cause, Some("waits_by_itself"), "{told:#}");
    let sentence = told["verdict"]["sentence"].to_string();
    assert!(
        sentence.contains("neither computes nor waits"),
        "{sentence}"
    );
}

#[test]
fn a_quota_of_the_server_is_named_with_its_file() {
    if !runs_long_tests() {
        return;
    }
    if !requires::all(&[requires::root()]) {
        return;
    }
    let Some(group) = QuotaGroup::new(5) else {
        return;
    };
    let _alone = alone();
    let folder = Folder::new();
    let mut serve = said::outboard(&["serve", "m=memory(64M)", "--listen"]);
    serve.arg(format!("unix:{}", folder.at("socket")));
    let (server, uri) = start(&folder, group.inside(&serve), "");
    let told = names(&["server"], |seconds| doctor(&folder, seconds, &[&uri]));
    assert_eq!(told["verdict"]["cause"]["kind"].as_str(), Some("quota"));
    let advice = told["verdict"]["advice"].to_string();
    assert!(
        advice.contains("outboard-doctor-") && advice.contains("0.05 cores"),
        "{advice}"
    );
    drop(server);
    drop(group);
}
