//! A small program on the crate: attaches a disk in memory or a remote one, lists, detaches. The end-to-end tests
//! drive it as a user would.
//!
//!     attachment attach 64M|size=BYTES|copy=FILE|slow=64M|kept=FILE|URI [--mount DIR] [--mkfs FS] [--via WAY] [--read-only]
//!                       [--name NAME] [--for-root] [--shared]
//!     attachment detach DEVICE|DIR|--all [--force]
//!     attachment refresh DEVICE|DIR
//!     attachment status
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use attach::{AttachRequest, DetachOptions, DetachTarget, DiskSupervisor, LocalDisk, Source};

const BACKGROUND: &str = "background";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result =
        match words.as_slice() {
            [BACKGROUND] => attach::daemon::run(|text, writable| async move {
                Ok(open_slowly(&text, !writable).await?)
            })
            .map_err(|e| e.to_string()),
            [attach::WORKER] => attach::run_worker().map_err(|e| e.to_string()),
            ["attach", source, rest @ ..] => attach_one(source, rest),
            ["detach", which, rest @ ..] => detach(which, rest),
            ["refresh", what] => attach::refresh(what.as_ref())
                .map(|size| println!("{size}"))
                .map_err(|e| e.to_string()),
            ["status"] => status(),
            _ => Err("attach, detach or status".to_owned()),
        };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// How long a `slow=` disk takes to open.
const SLOW_FOR: Duration = Duration::from_secs(2);

/// Where a `kept=` disk's file says this, it cannot be closed.
const BROKEN: &str = "broken";

async fn open_slowly(text: &str, read_only: bool) -> Result<LocalDisk, String> {
    if let Some(file) = text.strip_prefix("kept=") {
        let file = std::path::absolute(file).map_err(|e| e.to_string())?;
        return Ok(LocalDisk {
            disk: open("64M", read_only)?,
            supervisor: Some(Box::new(InFile(file))),
        });
    }
    match text.strip_prefix("slow=") {
        Some(rest) => {
            engine::clock::sleep(SLOW_FOR).await;
            open(rest, read_only).map(LocalDisk::from)
        }
        None => open(text, read_only).map(LocalDisk::from),
    }
}

/// What is wrong with the disk is what the file says; afterwards the file says `closed`.
struct InFile(PathBuf);

impl DiskSupervisor for InFile {
    fn problem(&self) -> Option<String> {
        let said = std::fs::read_to_string(&self.0).unwrap_or_default();
        Some(said).filter(|said| !said.is_empty())
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            match self.problem() {
                Some(said) if said == BROKEN => Err(said),
                _ => std::fs::write(&self.0, "closed").map_err(|e| e.to_string()),
            }
        })
    }
}

/// `64M` is a disk in memory, `size=N` one of N bytes, `copy=FILE` one with a file's content.
fn open(text: &str, read_only: bool) -> Result<block::Node, String> {
    let bad = |_| format!("{text}: not a size");
    let read_only_too = |disk: testkit::MemDisk| -> block::Node {
        Arc::new(disk.with_geometry(|g| g.read_only = read_only))
    };
    if let Some(file) = text.strip_prefix("copy=") {
        let bytes = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
        return Ok(read_only_too(testkit::MemDisk::from_bytes(bytes)));
    }
    let size = match (text.strip_suffix('M'), text.strip_prefix("size=")) {
        (Some(mib), _) => mib.parse::<u64>().map_err(bad)? << 20,
        (_, Some(bytes)) => bytes.parse().map_err(bad)?,
        _ => return Err(format!("{text}: no such disk")),
    };
    Ok(read_only_too(testkit::MemDisk::new(size)))
}

fn attach_one(source: &str, rest: &[&str]) -> Result<(), String> {
    let source = match source.contains("://") {
        true => Source::Remote(source.to_owned()),
        false => Source::Local(source.to_owned()),
    };
    let mut request = AttachRequest::new(source);
    let mut words = rest.iter().copied();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} takes a value"));
        match word {
            "--mount" => request.mount = Some(value()?.into()),
            "--mkfs" => request.mkfs = Some(value()?.to_owned()),
            "--via" => request.via = value()?.parse()?,
            "--name" => request.name = Some(value()?.to_owned()),
            "--for-root" => request.for_root = true,
            "--shared" => request.shared = true,
            "--read-only" => request.read_only = true,
            other => return Err(format!("{other}: unknown")),
        }
    }
    let attached = attach::start(&request, &[BACKGROUND.into()]).map_err(|e| e.to_string())?;
    println!("{}", attached.device.display());
    if let Some(mount) = attached.mount {
        println!("{}", mount.dir.display());
    }
    Ok(())
}

fn detach(which: &str, rest: &[&str]) -> Result<(), String> {
    let options = DetachOptions {
        timeout: Duration::from_secs(5),
        force: rest.contains(&"--force"),
    };
    let which = match which {
        "--all" => DetachTarget::All,
        path => DetachTarget::Path(path.into()),
    };
    let mut failures = Vec::new();
    for detached in attach::detach(&which, &options).map_err(|e| e.to_string())? {
        match detached.result {
            Ok(leftovers) if leftovers.is_clean() => println!("{} detached", detached.device),
            Ok(leftovers) => failures.push(format!(
                "{} detached; lost: {}; left: {}",
                detached.device,
                leftovers.lost.join(", "),
                leftovers.left.join(", ")
            )),
            Err(e) => failures.push(e.to_string()),
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

fn status() -> Result<(), String> {
    for one in attach::status().map_err(|e| e.to_string())? {
        let json = serde_json::to_string(&one).map_err(|e| e.to_string())?;
        println!("{json}");
    }
    Ok(())
}
