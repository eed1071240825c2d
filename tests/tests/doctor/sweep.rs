//! A table of real rigged systems, the truth of each next to the doctor's verdict: `cargo xtask soak doctor` runs it.
//!
//! # Invariants
//!
//! * Every system is held by a limiter of a few 10 MB/s, so that no core is needed for it.
//! * No verdict is wrong, and no more than one in ten is undecided of those that an agent or this machine shows.
//!
//! # What it does not do
//!
//! It is left out of `cargo xtask test`: it takes ten minutes.

use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::LIMIT;
use serde_json::Value;
use testkit::proc::Process;
use testkit::requires;

use super::network::{Network, can_make_networks};
use super::servers::QuotaGroup;
use super::{alone, diagnosis, doctor, limiter, runs_long_tests};

/// Only systems with this in their titles are examined.
const SYSTEMS: &str = "OUTBOARD_DOCTOR_SYSTEMS";

/// For each verdict.
const SECONDS: u32 = 20;
/// Bytes of images.
const IMAGE: usize = 64 << 20;

/// The server.
#[derive(Debug, Clone, Copy)]
enum Program {
    Outboard,
    /// None: the disk is examined on this machine.
    Local,
    Nbdkit,
    QemuNbd,
    NbdServer,
}

/// A system and what limits it.
#[derive(Debug, Clone)]
struct RiggedSystem {
    name: String,
    program: Program,
    /// The program's arguments: disks of ours, plugin and filters of nbdkit, options of qemu-nbd.
    args: Vec<String>,
    /// Behind a wire of 100 Mb/s.
    is_far: bool,
    with_agent: bool,
    /// Percent of a core that it may use.
    quota: Option<u32>,
    /// Options of the doctor.
    options: &'static [&'static str],
    /// The part, and its cause if that is checked.
    truth: (&'static str, &'static str),
}

impl RiggedSystem {
    fn new(program: Program, args: &[&str], truth: (&'static str, &'static str)) -> Self {
        Self {
            name: format!("{program:?} {}", args.join(" ")),
            program,
            args: args.iter().map(|word| (*word).to_owned()).collect(),
            is_far: false,
            with_agent: false,
            quota: None,
            options: &[],
            truth,
        }
    }

    fn far(mut self) -> Self {
        self.is_far = true;
        self
    }

    fn agent(mut self) -> Self {
        self.with_agent = true;
        self
    }

    fn options(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }

    fn quota(mut self, percent: u32) -> Self {
        self.quota = Some(percent);
        self
    }

    /// In a few words.
    fn title(&self) -> String {
        let mut title = match self.is_far {
            true => "wire, ".to_owned(),
            false => String::new(),
        };
        if self.with_agent {
            title.push_str("agent, ");
        }
        if let Some(percent) = self.quota {
            title.push_str(&format!("quota {percent} %, "));
        }
        title.push_str(&self.name);
        self.options.iter().for_each(|option| {
            title.push(' ');
            title.push_str(option);
        });
        title
    }
}

const ONE: &[&str] = &["--depth", "1"];
const LARGE: &[&str] = &["--block-size", "1M"];
const SMALL: &[&str] = &["--block-size", "16K", "--random"];
const SINGLE: &[&str] = &["--connections", "1"];
const WAITS: (&str, &str) = ("server", "waits_by_itself");

/// An export of ours.
fn ours(disks: &[&str], truth: (&'static str, &'static str)) -> RiggedSystem {
    RiggedSystem::new(Program::Outboard, disks, truth)
}

/// The slowest of some disks limits all of them.
const SLOW_MEMBER: (&str, &str) = ("disk", "slow_member");

/// A stripe of disks of these rates, MiB a second.
fn stripe(rates: &[u32]) -> String {
    let disks = rates
        .iter()
        .map(|rate| format!("throttle(memory(64M), read-bytes={rate}M/s)"));
    format!("stripe({})", disks.collect::<Vec<_>>().join(", "))
}

/// Disks of this machine, without a server and with ours.
fn disk_systems() -> Vec<RiggedSystem> {
    let both = |disk: &str, truth: (&'static str, &'static str)| {
        [
            RiggedSystem::new(Program::Local, &[disk], truth),
            ours(&[&format!("d={disk}")], truth),
        ]
    };
    let mut all = Vec::new();
    all.extend(both(
        "throttle(memory(64M), read-bytes=15M/s)",
        ("disk", ""),
    ));
    all.extend(both(&stripe(&[40, 8]), SLOW_MEMBER));
    all.extend(both(&stripe(&[30, 6, 30]), SLOW_MEMBER));
    all.extend(both(&stripe(&[9, 9]), ("disk", "")));
    let late = both("delay(memory(64M), read=20ms)", ("queue", ""));
    all.extend(late.map(|system| system.options(ONE)));
    all
}

/// Other programs with a quota on this machine, and with requests that take their time.
fn quota_systems() -> Vec<RiggedSystem> {
    use Program::{NbdServer, Nbdkit, QemuNbd};
    let quota = ("server", "quota");
    let late = ["--filter=delay", "file", "IMAGE", "rdelay=20ms"];
    vec![
        RiggedSystem::new(QemuNbd, &["-f", "raw", "IMAGE"], quota).quota(10),
        RiggedSystem::new(NbdServer, &[], quota).quota(10),
        RiggedSystem::new(Nbdkit, &late, ("queue", "")).options(ONE),
    ]
}

/// Servers on this machine.
fn near_systems() -> Vec<RiggedSystem> {
    use Program::{Nbdkit, QemuNbd};
    let mut all = Vec::new();
    for rate in ["10M", "30M"] {
        let disk = format!("d=throttle(memory(64M), read-bytes={rate}/s)");
        all.push(ours(&[&disk], ("disk", "")));
        all.push(ours(&[&disk], ("disk", "")).options(SMALL));
    }
    all.push(ours(&["d=delay(memory(64M), read=10ms)"], ("queue", "")).options(ONE));
    all.push(ours(&["d=memory(64M)"], ("server", "quota")).quota(5));
    // Servers that wait by themselves.
    let rate = ["--filter=rate", "file", "IMAGE", "rate=160M"];
    all.push(RiggedSystem::new(Nbdkit, &rate, WAITS));
    let serial = [
        "--filter=noparallel",
        "--filter=delay",
        "file",
        "IMAGE",
        "serialize=requests",
        "rdelay=5ms",
    ];
    all.push(RiggedSystem::new(Nbdkit, &serial, WAITS));
    all.push(RiggedSystem::new(Nbdkit, &["file", "IMAGE"], ("server", "quota")).quota(10));
    let group = "throttle-group,id=t,x-bps-read=20000000";
    let throttled = "driver=throttle,throttle-group=t,file.driver=file,file.filename=IMAGE";
    let qemu = ["--object", group, "--image-opts", throttled];
    all.push(RiggedSystem::new(QemuNbd, &qemu, WAITS));
    all
}

/// Servers behind the wire.
fn far_systems() -> Vec<RiggedSystem> {
    use Program::Nbdkit;
    let mut all = Vec::new();
    for options in [&[][..], LARGE, SMALL] {
        all.push(
            ours(&["d=memory(64M)"], ("wire", ""))
                .far()
                .options(options),
        );
        let with_null = ours(&["d=memory(64M)", "n=null(1G)"], ("wire", "")).far();
        all.push(with_null.agent().options(options));
    }
    all.push(
        RiggedSystem::new(Nbdkit, &["file", "IMAGE"], ("wire", ""))
            .far()
            .agent(),
    );
    // Disks from 0.4 to 0.95 of the wire.
    for kib in [4700, 7000, 8200, 9200, 10_500] {
        let disk = format!("d=throttle(memory(64M), read-bytes={kib}K/s)");
        all.push(ours(&[&disk, "n=null(1G)"], ("disk", "")).far().agent());
        all.push(ours(&[&disk], ("disk", "")).far().agent());
        all.push(ours(&[&disk, "n=null(1G)"], ("disk", "")).far());
    }
    for options in [LARGE, SMALL] {
        let disk = "d=throttle(memory(64M), read-bytes=6M/s)";
        let both = ours(&[disk, "n=null(1G)"], ("disk", "")).far();
        all.push(both.agent().options(options));
    }
    // And a disk that is faster than the wire by as little.
    for kib in [13_000, 16_000] {
        let disk = format!("d=throttle(memory(64M), read-bytes={kib}K/s)");
        all.push(ours(&[&disk, "n=null(1G)"], ("wire", "")).far().agent());
    }
    all.push(
        ours(&["d=delay(memory(64M), read=30ms)"], ("queue", ""))
            .far()
            .options(ONE),
    );
    let rate = [
        "--filter=rate",
        "file",
        "IMAGE",
        "rate=64M",
        "burstiness=0.1",
    ];
    all.push(
        RiggedSystem::new(Nbdkit, &rate, WAITS)
            .far()
            .agent()
            .options(SINGLE),
    );
    all
}

/// A server that listens.
struct StartedServer {
    process: Option<Process>,
    /// The URI of its export, or the disk.
    uri: String,
    /// Removed after the process has ended.
    _group: Option<QuotaGroup>,
}

/// nbd-server serves nothing in the foreground (`-d`), so it goes to the background and ends with this shell.
const IN_FRONT: &str = r#"nbd-server -C "$0" -p "$1" || exit 1
trap 'kill "$(cat "$1")"; exit' TERM
while :; do sleep 0.2; done"#;

/// The command line of a system's server, on a socket or on an address.
fn command_line(system: &RiggedSystem, args: &[String], socket: &str, host: &str) -> Vec<String> {
    let listen: Vec<String> = match (system.program, system.is_far) {
        (Program::Outboard, _) => {
            let program = said::outboard(&[]);
            let program = program.get_program().to_string_lossy().into_owned();
            vec![program, "serve".into(), format!("--listen=unix:{socket}")]
        }
        (Program::Nbdkit, true) => ["nbdkit", "-f", "-i", host, "-p", "10809"]
            .map(str::to_owned)
            .to_vec(),
        (Program::Nbdkit, false) => ["nbdkit", "-f", "-U", socket].map(str::to_owned).to_vec(),
        (Program::NbdServer, _) => {
            let config = ["[generic]", &format!("unixsock = {socket}"), "[d]"];
            let image = socket.replace("socket", "a.img");
            let lines = [config.join("\n"), format!("exportname = {image}\n")].join("\n");
            let path = socket.replace("socket", "config");
            std::fs::write(&path, lines).expect("a configuration");
            let pid = socket.replace("socket", "pid");
            let words = ["sh", "-c", IN_FRONT, &path, &pid];
            words.map(str::to_owned).to_vec()
        }
        // It has no server.
        (Program::Local, _) => Vec::new(),
        (Program::QemuNbd, _) => ["qemu-nbd", "-t", "-r", "-e", "8", "-k", socket]
            .map(str::to_owned)
            .to_vec(),
    };
    [&listen, args].concat()
}

fn start(system: &RiggedSystem, folder: &Folder, network: &Network) -> StartedServer {
    if matches!(system.program, Program::Local) {
        return StartedServer {
            process: None,
            uri: system.args.concat(),
            _group: None,
        };
    }
    let image = folder.at("a.img");
    let args = system.args.iter();
    let args: Vec<String> = args.map(|word| word.replace("IMAGE", &image)).collect();
    let (socket, host) = (folder.at("socket"), format!("{}.2", network.subnet));
    let words = command_line(system, &args, &socket, &host);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if system.is_far {
        return start_far(system, folder, network, &args, &words);
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let group = system.quota.and_then(QuotaGroup::new);
    if let Some(group) = &group {
        command = group.inside(&command);
    }
    let mut process = Process::start(&mut command).expect("a server");
    let socket = std::path::Path::new(&socket);
    process.wait_for_socket(socket, LIMIT).expect("it listens");
    let export = match system.program {
        Program::Outboard | Program::NbdServer => "d",
        _ => "",
    };
    StartedServer {
        process: Some(process),
        uri: format!("nbd+unix:///{export}?socket={}", socket.display()),
        _group: group,
    }
}

fn start_far(
    system: &RiggedSystem,
    folder: &Folder,
    network: &Network,
    args: &[String],
    words: &[&str],
) -> StartedServer {
    let (process, uri) = match system.program {
        Program::Outboard => {
            let disks: Vec<&str> = args.iter().map(String::as_str).collect();
            let (process, address) = network.serve(folder, &disks);
            (process, format!("nbd://{address}/d"))
        }
        _ => {
            let process = Process::start(&mut network.inside(words)).expect("a server");
            std::thread::sleep(std::time::Duration::from_secs(1));
            (process, format!("nbd://{}.2:10809/", network.subnet))
        }
    };
    StartedServer {
        process: Some(process),
        uri,
        _group: None,
    }
}

fn grade(told: &Value, truth: (&str, &str)) -> &'static str {
    let named = limiter(told);
    let cause = told["verdict"]["cause"]["kind"]
        .as_str()
        .unwrap_or_default();
    match named.as_slice() {
        [only] if only == truth.0 && (truth.1.is_empty() || truth.1 == cause) => "right",
        some if some.iter().any(|part| part == truth.0) => "undecided",
        _ => "WRONG",
    }
}

#[test]
fn every_rigged_system_gets_the_right_verdict() {
    if !runs_long_tests() {
        return;
    }
    let needs = ["nbdkit", "qemu-nbd", "nbd-server"].map(requires::command);
    if !can_make_networks() || !requires::all(&needs) {
        return;
    }
    let _alone = alone();
    let network = Network::new();
    let mut grades: Vec<&str> = Vec::new();
    let wanted = std::env::var(SYSTEMS).unwrap_or_default();
    let all = [
        disk_systems(),
        quota_systems(),
        near_systems(),
        far_systems(),
    ]
    .concat();
    for system in all
        .into_iter()
        .filter(|system| system.title().contains(&wanted))
    {
        let folder = Folder::new();
        std::fs::write(folder.path().join("a.img"), vec![7; IMAGE]).expect("an image");
        let mut server = start(&system, &folder, &network);
        let agent = system
            .with_agent
            .then(|| network.agent(&folder, &["--allow-iperf3"]));
        let mut command = doctor(&folder, SECONDS, &[&server.uri]);
        command.args(system.options);
        if let Some((_, address)) = &agent {
            command.args(["--agent", address, "--agent-insecure"]);
            command.args(["--agent-token-file", &folder.at("token")]);
        }
        let told = diagnosis(&mut command);
        let grade = grade(&told, system.truth);
        let rate = told["examination"]["rate"].as_f64().unwrap_or_default() / 1e6;
        let named = limiter(&told).join(", ");
        let (part, cause) = system.truth;
        eprintln!(
            "| {} | {rate:.1} | {part} {cause} | {named} | {grade} |",
            system.title()
        );
        grades.push(grade);
        if let Some(process) = &mut server.process {
            drop(process.signal(rustix::process::Signal::TERM));
            drop(process.wait(LIMIT));
        }
    }
    let count = |wanted: &str| grades.iter().filter(|grade| **grade == wanted).count();
    eprintln!(
        "{} systems: {} right, {} undecided",
        grades.len(),
        count("right"),
        count("undecided")
    );
    assert_eq!(count("WRONG"), 0);
    assert!(count("undecided") * 5 <= grades.len());
}
