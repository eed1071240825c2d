//! The rows of our own generator: a thousand connections, and what structured replies cost.

use anyhow::Result;

use super::figures::Sample;
use super::generator::Generator;
use super::work::Crowd;
use super::{Args, Measured, disk, ready, rounds};
use crate::process;
use crate::servers::{Launcher, Server, Serving};
use crate::wire::Replies;

/// Many connections to our server and to qemu-nbd; nbdkit would need sixteen threads for each.
pub(super) fn measure(launcher: &Launcher, args: &Args, crowd: Crowd) -> Result<Vec<Measured>> {
    let path = disk(&launcher.folder)?;
    let disk = path.to_string_lossy();
    process::allow_files(crowd.connections)?;
    let servers: &[Server] = if args.quick {
        &[Server::Ours]
    } else {
        &[Server::Ours, Server::Qemu]
    };
    let serving: Vec<Serving> = servers
        .iter()
        .map(|server| launcher.start(*server, &disk))
        .collect::<Result<_>>()?;
    let names = servers.iter().map(ToString::to_string).collect();
    rounds(args, names, |which| {
        ready(&path)?;
        one(&serving[which], crowd, Replies::Structured, args.seconds)
    })
}

/// Both kinds of replies from one server of ours.
pub(super) fn replies(launcher: &Launcher, args: &Args, crowd: Crowd) -> Result<Vec<Measured>> {
    let disk = disk(&launcher.folder)?;
    let serving = launcher.start(Server::Ours, &disk.to_string_lossy())?;
    let names = ["structured", "simple"].map(str::to_owned).to_vec();
    rounds(args, names, |which| {
        ready(&disk)?;
        let replies = [Replies::Structured, Replies::Simple][which];
        one(&serving, crowd, replies, args.seconds)
    })
}

fn one(serving: &Serving, crowd: Crowd, replies: Replies, seconds: u32) -> Result<Sample> {
    let mut generator = Generator::connect(serving, crowd, replies)?;
    let before = process::cpu_seconds(serving.id())?;
    let outcome = generator.run(seconds)?;
    let spent = process::cpu_seconds(serving.id())? - before;
    let memory_kib = process::memory_kib(serving.id())?;
    drop(generator);
    Ok(Sample {
        server_cpu_us: Some(spent * 1e6 / outcome.requests),
        server_mib: Some(memory_kib / 1024.0),
        ..outcome.sample
    })
}
