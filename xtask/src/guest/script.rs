//! What a guest script says of itself in its first comments, and what it says on the console.
//!
//! ```text
//! #: serve DISK 512M       the host serves an empty image; its port is the guest's $DISK
//! #: root DISK 96M         the same with a root filesystem, see `rootfs`
//! #: disk NAME 24M         an empty image NAME.img is a disk of the guest's machine: /dev/vda and on
//! #: timeout 120           seconds until the guest is given up
//! #: outboard              our binary is in the guest, and the host's part has it
//! #: outboard host          only the host's part has it
//! #: processors 1          of the guest's machine, 2 by default
//! #: long                  the checks of every change leave it out: it does often what another script does once
//! #: host                  what follows is no part of the guest's script: it is the host's, see `host`
//! ```
//!
//! On the console: `@kill DISK` ends that server without a word, `@start DISK` starts it again on the
//! same port and image, `@swap DISK OTHER` ends both servers and serves OTHER's image on DISK's port, where it
//! must not change any more, `@grow DISK 96M` makes its image larger, `@proof DISK TEXT` says what a root
//! filesystem must hold at the end, `@host WORD…` has the host's part of the script run with these words,
//! `@exit N` is the script's end.

use anyhow::{Context, Result, bail, ensure};

/// Seconds a script may take when it does not say.
const DEFAULT_TIMEOUT: u64 = 120;

/// Processors of the guest of a script that does not say. A script requests one where the guest only judges, with the kernel's
/// drivers, what the host wrote: on a busy machine QEMU takes twice the processor time for two, which wait for each other.
pub(super) const DEFAULT_PROCESSORS: u32 = 2;

/// A server that the script requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Served {
    /// The variable that carries the port.
    pub(super) name: String,
    /// Bytes of the image.
    pub(super) size: u64,
    /// Whether a root filesystem is on it.
    pub(super) is_root: bool,
}

/// A disk of the guest's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disk {
    /// The image's name, without its ending.
    pub(super) name: String,
    /// Bytes of the image.
    pub(super) size: u64,
}

/// What a script requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) servers: Vec<Served>,
    pub(super) disks: Vec<Disk>,
    pub(super) timeout_s: u64,
    pub(super) outboard: BinaryUse,
    pub(super) processors: u32,
    pub(super) is_long: bool,
}

/// Where our binary is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryUse {
    Nowhere,
    Host,
    Guest,
}

/// A line of the console that is meant for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestCommand {
    Kill(String),
    Start(String),
    Swap(String, String),
    Grow(String, u64),
    Proof(String, String),
    Host(Vec<String>),
    Exit(i32),
}

/// The guest's part of a script, and the host's, which may be none.
pub(super) fn halves(script: &str) -> (&str, &str) {
    script.split_once("\n#: host\n").unwrap_or((script, ""))
}

/// Reads the `#:` lines of a script.
pub(super) fn wants(script: &str) -> Result<Wants> {
    let mut wants = Wants {
        servers: Vec::new(),
        disks: Vec::new(),
        timeout_s: DEFAULT_TIMEOUT,
        outboard: BinaryUse::Nowhere,
        processors: DEFAULT_PROCESSORS,
        is_long: false,
    };
    let (guests, _) = halves(script);
    for line in guests.lines().filter_map(|line| line.strip_prefix("#:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [kind @ ("serve" | "root"), name, size] => wants.servers.push(Served {
                name: variable(name)?,
                size: bytes(size)?,
                is_root: kind == "root",
            }),
            ["disk", name, size] => wants.disks.push(Disk {
                name: variable(name)?,
                size: bytes(size)?,
            }),
            ["timeout", seconds] => {
                wants.timeout_s = seconds
                    .parse()
                    .with_context(|| format!("#: timeout {seconds} is no number"))?;
            }
            ["outboard"] => wants.outboard = BinaryUse::Guest,
            ["outboard", "host"] => wants.outboard = BinaryUse::Host,
            ["processors", count @ ("1" | "2")] => wants.processors = count.parse()?,
            ["long"] => wants.is_long = true,
            _ => bail!(
                "#:{line} is neither serve, root, disk, timeout, outboard, processors, long nor host"
            ),
        }
    }
    Ok(wants)
}

/// Reads a line of the console; most are not for the host.
pub(super) fn parse_command(line: &str) -> Option<GuestCommand> {
    let words: Vec<&str> = line.trim().split(' ').collect();
    match words[..] {
        ["@kill", name] => Some(GuestCommand::Kill(name.to_owned())),
        ["@start", name] => Some(GuestCommand::Start(name.to_owned())),
        ["@swap", name, other] => Some(GuestCommand::Swap(name.to_owned(), other.to_owned())),
        ["@grow", name, size] => bytes(size)
            .ok()
            .map(|size| GuestCommand::Grow(name.to_owned(), size)),
        ["@proof", name, text] => Some(GuestCommand::Proof(name.to_owned(), text.to_owned())),
        ["@host", ref words @ ..] if !words.is_empty() => Some(GuestCommand::Host(
            words.iter().map(|&word| word.to_owned()).collect(),
        )),
        ["@exit", code] => code.parse().ok().map(GuestCommand::Exit),
        _ => None,
    }
}

/// A name the kernel hands to the first process as a variable.
fn variable(name: &str) -> Result<String> {
    let good = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    ensure!(good, "#: serve {name}: a name has capital letters only");
    Ok(name.to_owned())
}

fn bytes(text: &str) -> Result<u64> {
    let (digits, shift) = match text.strip_suffix('M') {
        Some(digits) => (digits, 20),
        None => (text.strip_suffix('G').unwrap_or(text), 30),
    };
    ensure!(
        text.ends_with(['M', 'G']),
        "#: serve: {text} ends neither with M nor with G"
    );
    let count: u64 = digits
        .parse()
        .with_context(|| format!("#: serve: {text} is no size"))?;
    count
        .checked_mul(1 << shift)
        .with_context(|| format!("#: serve: {text} is too big"))
}
