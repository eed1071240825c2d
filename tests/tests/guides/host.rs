//! A machine of a session: a shell in namespaces of its own.
//!
//! Commands run as a page writes them, since everything that they name is the host's own and not this machine's: the folders
//! [`FOLDERS`] and `/etc` (a copy), the network with its ports, the processes and the host's name. All processes end with the host. Devices
//! are this machine's: the session detaches what it attached.
//!
//! Several hosts of a session are connected by a bridge, know each other by name, and have one `/media` in common, as a stick that is
//! carried from one to the other.

use std::fmt::Write as _;
use std::fs;
use std::io::{PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::UNMOUNT_OTHERS;
use testkit::proc::{Process, WaitError};
use testkit::requires::Missing;

/// Folders that are the host's own, empty at first. `/run` comes first: the driver's files are in it.
const FOLDERS: &[&str] = &["run", "srv", "mnt", "home", "root", "tmp"];

/// Where the driver's files are inside; `run/guide` in the host's folder outside.
const INSIDE: &str = "/run/guide";

/// How long a command may take, and a server to be there and to stop.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The network of a session with several hosts.
const NETWORK: &str = "10.99.0";

/// A shell that takes commands.
#[derive(Debug)]
pub(crate) struct Host {
    folder: PathBuf,
    shell: Process,
    input: PipeWriter,
    commands: usize,
    servers: Vec<Started>,
}

/// A command that was given to the shell.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    number: usize,
    command: String,
}

/// How a command stands.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it printed so far, on both of its outputs.
    pub(crate) output: String,
    /// Its exit status; absent while it runs.
    pub(crate) status: Option<i32>,
}

/// Takes down what a host has attached.
const DETACH_ALL: &str = "[ ! -e /run/outboard-attach ] || outboard detach --all --force";

impl Host {
    /// Starts it with its files in `folder`. Commands run in `cwd`; `names` is a file of hosts(5).
    pub(crate) fn start(folder: &Path, name: &str, cwd: &str, names: &str) -> Result<Self, String> {
        let io = |e: std::io::Error| format!("{}: {e}", folder.display());
        for name in FOLDERS.iter().chain(&["run/guide/bin", "etc", "../media"]) {
            fs::create_dir_all(folder.join(name)).map_err(io)?;
        }
        fs::write(folder.join("run/guide/bin/outboard"), "").map_err(io)?;
        fs::write(folder.join("names"), names).map_err(io)?;
        let (read, input) = std::io::pipe().map_err(io)?;
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--uts", "--net", "--pid", "--mount-proc"])
            .args([
                "--fork",
                "--kill-child=KILL",
                "bash",
                "--noprofile",
                "--norc",
                "-ec",
            ])
            .arg(script(name, cwd)?)
            .current_dir(folder)
            .env_clear()
            .env(
                "PATH",
                format!("{INSIDE}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            )
            .env("HOME", "/root")
            .env("LANG", "C.UTF-8")
            .stdin(read);
        let mut shell = Process::start_with(&mut command).map_err(|e| e.to_string())?;
        let ready = folder.join("run/guide/ready");
        shell
            .wait_for_file(&ready, LIMIT)
            .map_err(|e| e.to_string())?;
        Ok(Self {
            folder: folder.to_owned(),
            shell,
            input,
            commands: 0,
            servers: Vec::new(),
        })
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, command: &str) -> Result<Outcome, String> {
        let started = self.give(command, |number| {
            format!(
                ". {INSIDE}/command-{number} </dev/null >{INSIDE}/output-{number} 2>&1; \
                 echo $? >{INSIDE}/status-{number}"
            )
        })?;
        self.wait_for_end(&started)
    }

    /// Starts a command that goes on.
    pub(crate) fn start_server(&mut self, command: &str) -> Result<Started, String> {
        let started = self.give(command, |number| {
            // The trap is for the shell alone: it lives to write down how the command ended, once it has written that it
            // does.
            format!(
                "env --default-signal setsid bash --noprofile --norc -c 'trap : INT TERM; \
                 echo >{INSIDE}/trap-{number}; . {INSIDE}/command-{number}; echo $? >{INSIDE}/status-{number}' \
                 </dev/null >{INSIDE}/output-{number} 2>&1 & echo $! >{INSIDE}/group-{number}"
            )
        })?;
        self.servers.push(started.clone());
        Ok(started)
    }

    /// Waits until `is_enough` says so of a command; the caller gets the last outcome also when that is never.
    pub(crate) fn wait_until(
        &mut self,
        started: &Started,
        limit: Duration,
        is_enough: impl Fn(&Outcome) -> bool,
    ) -> Result<Outcome, String> {
        let files = self.folder.join("run/guide");
        let read = |name: &str| {
            let text = fs::read(files.join(format!("{name}-{}", started.number)));
            String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
        };
        let look = || {
            // The status is read first: the output is whole then.
            let status = read("status");
            Outcome {
                status: status.trim().parse().ok(),
                output: read("output"),
            }
        };
        let found = self.shell.wait_until(&started.command, limit, |_| {
            let outcome = look();
            (is_enough(&outcome) || outcome.status.is_some()).then_some(outcome)
        });
        match found {
            Ok(outcome) => Ok(outcome),
            Err(WaitError::Late { .. }) => Ok(look()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Waits for the end of a command.
    pub(crate) fn wait_for_end(&mut self, started: &Started) -> Result<Outcome, String> {
        let outcome = self.wait_until(started, LIMIT, |_| false)?;
        match outcome.status {
            Some(_) => Ok(outcome),
            None => Err(format!(
                "`{}` did not end within {LIMIT:?}:\n{}",
                started.command, outcome.output
            )),
        }
    }

    /// Sends a signal to the processes of a command that goes on.
    pub(crate) fn signal(&mut self, started: &Started, signal: &str) -> Result<(), String> {
        let group = format!("$(cat {INSIDE}/group-{})", started.number);
        self.run(&format!("kill -{signal} -- -{group}")).map(drop)
    }

    /// Starts a command, interrupts it after `delay` and waits for its end.
    pub(crate) fn run_interrupted(
        &mut self,
        command: &str,
        delay: Duration,
    ) -> Result<Outcome, String> {
        let started = self.start_server(command)?;
        // A shell without its trap ends of the signal, and no status is ever written.
        let trap = self
            .folder
            .join(format!("run/guide/trap-{}", started.number));
        let is_set = self
            .shell
            .wait_until(command, LIMIT, |_| trap.exists().then_some(()));
        is_set.map_err(|e| e.to_string())?;
        std::thread::sleep(delay);
        self.signal(&started, "INT")?;
        self.forget(&started);
        self.wait_for_end(&started)
    }

    /// Stops what runs, servers last; each of them has to end with status 0.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.run(DETACH_ALL)?;
        while !self.servers.is_empty() {
            self.stop_server()?;
        }
        Ok(())
    }

    /// Stops the server that was started last.
    pub(crate) fn stop_server(&mut self) -> Result<(), String> {
        let server = self.servers.pop().ok_or("no server runs")?;
        self.signal(&server, "TERM")?;
        let Outcome { output, status } = self.wait_for_end(&server)?;
        match status {
            Some(0) => Ok(()),
            _ => Err(format!(
                "`{}` ended with {status:?} at SIGTERM:\n{output}",
                server.command
            )),
        }
    }

    /// No longer a server that has to end with status 0.
    pub(crate) fn forget(&mut self, server: &Started) {
        self.servers.retain(|one| one.number != server.number);
    }

    /// The process that has the host's namespaces.
    fn process(&self) -> Result<String, String> {
        let path = format!("/proc/{0}/task/{0}/children", self.shell.id());
        let children = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let first = children.split_whitespace().next();
        first.map(str::to_owned).ok_or(format!("{path} is empty"))
    }

    fn give(&mut self, command: &str, line: impl Fn(usize) -> String) -> Result<Started, String> {
        self.commands += 1;
        let number = self.commands;
        let path = self.folder.join(format!("run/guide/command-{number}"));
        let written = fs::write(&path, format!("{command}\n"))
            .and_then(|()| writeln!(self.input, "{}", line(number)));
        written.map_err(|e| format!("`{command}` cannot be given to the shell: {e}"))?;
        Ok(Started {
            number,
            command: command.to_owned(),
        })
    }
}

/// A host that is killed frees its devices, but its record of them would go with its folder, and what its filesystems
/// have not written is lost.
impl Drop for Host {
    fn drop(&mut self) {
        drop(self.run(DETACH_ALL));
    }
}

/// Namespaces for hosts. In a chroot without a mount point as its root there are none.
pub(crate) fn are_possible() -> Result<(), Missing> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--uts", "--net", "--pid", "--fork", "true"]);
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Missing::new(
            "no namespaces",
            "run it as root, outside of a chroot",
        )),
    }
}

/// Connects several hosts by a bridge in the first one; host N has [`address`] N.
pub(crate) fn connect(hosts: &[&Host]) -> Result<(), String> {
    let pids: Result<Vec<String>, String> = hosts.iter().map(|host| host.process()).collect();
    let pids = pids?;
    let [first, others @ ..] = &pids[..] else {
        return Ok(());
    };
    ip(first, "link add hosts type bridge")?;
    ip(first, &format!("addr add {}/24 dev hosts", address(0)))?;
    ip(first, "link set hosts up")?;
    for (number, pid) in (1..).zip(others) {
        ip(
            first,
            &format!("link add to{number} type veth peer name eth0 netns {pid}"),
        )?;
        ip(first, &format!("link set to{number} master hosts up"))?;
        ip(pid, &format!("addr add {}/24 dev eth0", address(number)))?;
        ip(pid, "link set eth0 up")?;
    }
    Ok(())
}

/// The address of a host in a session with several.
pub(crate) fn address(number: usize) -> String {
    format!("{NETWORK}.{}", number + 1)
}

fn ip(namespace: &str, args: &str) -> Result<(), String> {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/proc/{namespace}/ns/net"))
        .arg("ip")
        .args(args.split(' '));
    let output = command.output().map_err(|e| format!("nsenter: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "ip {args}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// What makes the namespaces a host, and then takes commands. It runs in the host's folder; sources of mounts are relative to that, since
/// the folder's own path may be hidden by a mount.
fn script(name: &str, cwd: &str) -> Result<String, String> {
    let binary = testkit::proc::outboard()?;
    let mut script = UNMOUNT_OTHERS.to_owned();
    script +=
        &format!("hostname {name}; ip link set lo up; cp -a /etc/. etc; cp names etc/hosts\n");
    for folder in FOLDERS {
        if *folder == "run" {
            let to = "run/guide/bin/outboard";
            writeln!(script, "mount --bind '{}' {to}", binary.display()).expect("a String");
        }
        writeln!(script, "mount --no-canonicalize --rbind {folder} /{folder}").expect("a String");
    }
    writeln!(
        script,
        "mount --no-canonicalize --bind ../media /media\nmount --no-canonicalize --bind etc /etc\nmkdir -p '{cwd}'; cd '{cwd}'; set +e -a\n\
         echo ready >{INSIDE}/ready; exec bash --noprofile --norc -a -s"
    )
    .expect("a String");
    Ok(script)
}
