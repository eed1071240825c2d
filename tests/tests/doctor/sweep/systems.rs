//! The systems of the table, each with the one part that limits it.
//!
//! # What it does not do
//!
//! It starts nothing. SSHFS has a test in `files.rs`: what its server has in memory cannot be dropped for a slow disk below it. SMB
//! takes a client of the kernel, which this machine may not have: it is examined in the guest (`cargo xtask guest doctor`).

/// The server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Outboard,
    /// None: the disk is examined on this machine.
    Local,
    Nbdkit,
    QemuNbd,
    NbdServer,
    /// None: the disk is attached by FUSE and mounted.
    Mounted,
    /// Ours, the export attached by FUSE and mounted.
    MountedExport,
    /// nbdkit, mounted in the same way.
    MountedNbdkit,
    /// qemu-nbd, mounted in the same way.
    MountedQemuNbd,
}

impl Program {
    /// The server of an export that is mounted.
    pub(super) const fn mounted_server(self) -> Option<Self> {
        match self {
            Self::MountedExport => Some(Self::Outboard),
            Self::MountedNbdkit => Some(Self::Nbdkit),
            Self::MountedQemuNbd => Some(Self::QemuNbd),
            _ => None,
        }
    }
}

/// A system and what limits it.
#[derive(Debug, Clone)]
pub(super) struct RiggedSystem {
    pub(super) name: String,
    pub(super) program: Program,
    /// The program's arguments: disks of ours, plugin and filters of nbdkit, options of qemu-nbd.
    pub(super) args: Vec<String>,
    /// Behind a wire of 100 Mb/s.
    pub(super) is_far: bool,
    pub(super) with_agent: bool,
    /// The near end of the wire reports the speed that the wire has, as a card does.
    pub(super) has_link_speed: bool,
    /// Percent of a core that it may use.
    pub(super) quota: Option<u32>,
    /// It shares its core with another process, at a lower priority.
    pub(super) is_starved: bool,
    /// The disk that its image lies on, where that is no file of this machine's disk.
    pub(super) image_on: Option<&'static str>,
    /// Which of the doctor's answers is graded: reads, writes, flushed writes.
    pub(super) answer: usize,
    /// Options of the doctor.
    pub(super) options: &'static [&'static str],
    /// The part, and its cause if that is checked.
    pub(super) truth: (&'static str, &'static str),
}

impl RiggedSystem {
    fn new(program: Program, args: &[&str], truth: (&'static str, &'static str)) -> Self {
        Self {
            name: format!("{program:?} {}", args.join(" ")),
            program,
            args: args.iter().map(|word| (*word).to_owned()).collect(),
            is_far: false,
            with_agent: false,
            has_link_speed: false,
            quota: None,
            is_starved: false,
            image_on: None,
            answer: 0,
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

    fn link_speed(mut self) -> Self {
        self.has_link_speed = true;
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

    fn starved(mut self) -> Self {
        self.is_starved = true;
        self
    }

    fn image_on(mut self, disk: &'static str) -> Self {
        self.image_on = Some(disk);
        self
    }

    /// It is written, and the verdict on that is graded.
    fn written(mut self) -> Self {
        (self.options, self.answer) = (WRITES, 1);
        self
    }

    /// Each write is flushed, and the verdict on that is graded.
    fn flushed(mut self) -> Self {
        (self.options, self.answer) = (WRITES, 2);
        self
    }

    /// Whether nothing on the server's machine is seen: neither an agent reports it, nor is its processor this machine's.
    pub(super) const fn is_unseen(&self) -> bool {
        self.is_far && !self.with_agent
    }

    /// Whether the verdict on reads is graded.
    pub(super) const fn is_read(&self) -> bool {
        self.answer == 0
    }

    /// In a few words.
    pub(super) fn title(&self) -> String {
        let mut title = match self.is_far {
            true => "wire, ".to_owned(),
            false => String::new(),
        };
        if self.with_agent {
            title.push_str("agent, ");
        }
        if self.has_link_speed {
            title.push_str("link speed, ");
        }
        if let Some(percent) = self.quota {
            title.push_str(&format!("quota {percent} %, "));
        }
        if self.is_starved {
            title.push_str("starved, ");
        }
        if let Some(disk) = self.image_on {
            title.push_str(&format!("image on {disk}, "));
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
const WRITES: &[&str] = &["--write"];
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
        all.push(ours(&[&disk], ("disk", "")).options(LARGE));
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
    all.push(RiggedSystem::new(Nbdkit, &["file", "IMAGE"], ("wire", "")).far());
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
        all.push(both.clone().agent().options(options));
        all.push(both.options(options));
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

/// Directories: reads, and writes where the options say so.
fn mounted_systems() -> Vec<RiggedSystem> {
    use Program::{Mounted, MountedExport};
    let reads = "throttle(memory(192M), read-bytes=12M/s)";
    let writes = "throttle(memory(192M), write-bytes=8M/s)";
    let late = "delay(memory(192M), read=20ms)";
    let served = |disk: &str| format!("d={disk}");
    let disk = ("disk", "");
    vec![
        RiggedSystem::new(Mounted, &[reads], disk),
        RiggedSystem::new(Mounted, &[writes], disk).written(),
        RiggedSystem::new(Mounted, &[late], ("queue", "")).options(ONE),
        RiggedSystem::new(MountedExport, &[&served(reads)], disk),
        RiggedSystem::new(MountedExport, &[&served("memory(192M)")], ("wire", "")).far(),
    ]
}

/// Exports of ours that are mounted and written, here and behind a wire of 100 Mb/s in that direction.
fn written_systems() -> Vec<RiggedSystem> {
    let mounted = |disk: &str, truth: (&'static str, &'static str)| {
        RiggedSystem::new(Program::MountedExport, &[&format!("d={disk}")], truth)
    };
    let throttled = |rate: &str| format!("throttle(memory(192M), write-bytes={rate}/s)");
    let (disk, wire, flush) = (("disk", ""), ("wire", ""), ("flush", ""));
    let late_flush = "delay(memory(192M), flush=80ms)";
    let mut all = vec![
        mounted(&throttled("8M"), disk).written(),
        mounted(&throttled("20M"), disk).written(),
        mounted(late_flush, flush).flushed(),
        mounted("memory(192M)", wire).far().written(),
        mounted("memory(192M)", wire).far().agent().written(),
        mounted(late_flush, flush).far().flushed(),
    ];
    // Disks from 0.4 to 0.8 of the wire, and one that is faster than the wire.
    for rate in ["4700K", "7000K", "9200K"] {
        all.push(mounted(&throttled(rate), disk).far().agent().written());
    }
    all.push(mounted(&throttled("16000K"), wire).far().agent().written());
    all
}

/// Servers behind the wire that get too little of a processor, and servers with a limit of their own close to that of their disk.
fn close_systems() -> Vec<RiggedSystem> {
    use Program::Nbdkit;
    // A percent of a core carries a few MB/s in requests this small. The quota is not named: cgroups are not in the
    // /sys of a network namespace, where the agent is.
    let memory = || {
        let system = ours(&["d=memory(64M)"], ("server", "")).far().agent();
        system.options(SMALL)
    };
    let mut all = vec![memory().quota(1), memory().starved()];
    // 16 MB/s of its own on a disk of 20 and 25 MB/s, and 25 MB/s on a disk of 16 and 20.
    let limited = |rate: &str, truth| {
        let filter = ["--filter=rate", "file", "IMAGE", rate, "burstiness=0.1"];
        RiggedSystem::new(Nbdkit, &filter, truth)
    };
    let disks = [
        "throttle(memory(192M), read-bytes=16000000/s)",
        "throttle(memory(192M), read-bytes=20000000/s)",
        "throttle(memory(192M), read-bytes=25000000/s)",
    ];
    all.push(limited("rate=128M", WAITS).image_on(disks[1]));
    all.push(limited("rate=128M", WAITS).image_on(disks[2]));
    all.push(limited("rate=200M", ("disk", "")).image_on(disks[0]));
    all.push(limited("rate=200M", ("disk", "")).image_on(disks[1]));
    // And servers without one.
    for (program, args) in [
        (Nbdkit, &["file", "IMAGE"][..]),
        (Program::QemuNbd, &["-f", "raw", "IMAGE"]),
    ] {
        all.push(RiggedSystem::new(program, args, ("disk", "")).image_on(disks[0]));
    }
    all
}

/// Servers behind the wire with neither an agent nor an export without data: what the wire carries is known by its link, the
/// server and its disk are not distinguished, and the doctor prints the command that does it.
fn unseen_systems() -> Vec<RiggedSystem> {
    use Program::{MountedExport, Nbdkit};
    let disk = ("disk", "");
    let reads = "d=throttle(memory(64M), read-bytes=8M/s)";
    let writes = "d=throttle(memory(192M), write-bytes=8M/s)";
    let rate = [
        "--filter=rate",
        "file",
        "IMAGE",
        "rate=64M",
        "burstiness=0.1",
    ];
    vec![
        ours(&[reads], disk).far().link_speed(),
        RiggedSystem::new(MountedExport, &[writes], disk)
            .far()
            .link_speed()
            .written(),
        RiggedSystem::new(Nbdkit, &rate, WAITS).far().link_speed(),
    ]
}

/// Exports of other servers on this machine, mounted and written: nothing is written to a disk of theirs by itself, so that
/// a server that waits by itself is named with its disk.
fn written_others() -> Vec<RiggedSystem> {
    use Program::{MountedNbdkit, MountedQemuNbd};
    let limited = [
        "--filter=rate",
        "memory",
        "192M",
        "rate=64M",
        "burstiness=0.1",
    ];
    let slow_disk = "throttle(memory(320M), write-bytes=8M/s)";
    let direct = ["--cache=none", "-f", "raw", "IMAGE"];
    vec![
        RiggedSystem::new(MountedNbdkit, &limited, WAITS).written(),
        RiggedSystem::new(MountedQemuNbd, &direct, ("disk", ""))
            .image_on(slow_disk)
            .written(),
    ]
}

/// All of the table.
pub(super) fn all() -> Vec<RiggedSystem> {
    [
        disk_systems(),
        quota_systems(),
        near_systems(),
        far_systems(),
        mounted_systems(),
        written_systems(),
        close_systems(),
        unseen_systems(),
        written_others(),
    ]
    .concat()
}
