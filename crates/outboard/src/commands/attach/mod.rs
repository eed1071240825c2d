//! `outboard attach`: a block device on this machine; and the background process that owns it.

mod file;
mod unit;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use attach::{
    AttachError, AttachRequest, Attachment, DiskSupervisor, LocalDisk, LocalDiskError, Source, Via,
};

use crate::arrays::attached_arrays::AttachedArrays;
use crate::buckets::AttachedVolumes;
use crate::caches::AttachedCaches;
use crate::failure::Failure;
use crate::graph::builder::{BuildError, Builder, lasting};
use crate::graph::{ByteSize, Disk, resolve, with_cache};
use crate::output::{Format, remark};

/// The drivers by name.
const VIAS: [&str; 3] = ["auto", "kernel", "fuse"];

/// Arguments of `attach`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The disk: nbd://HOST/EXPORT, or any other disk of this machine
    #[arg(value_name = "URI|DISK", required_unless_present = "config")]
    disk: Option<String>,

    /// Take the disk and the options from a file, as outboard-attach@NAME.service does from
    /// /etc/outboard/attach.d/NAME.toml
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "disk", "mount", "via", "connections", "read_only", "mkfs", "timeout", "wait", "shared", "name", "for_root",
            "print_unit", "cache", "cache_size", "cache_profile",
        ]
    )]
    config: Option<PathBuf>,

    /// Mount its filesystem on this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,

    /// Driver: the kernel's nbd, FUSE and loop, or the first that is available
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = VIAS)]
    via: String,

    /// Connections to the server
    #[arg(long, value_name = "N", default_value_t = attach::CONNECTIONS_DEFAULT)]
    connections: usize,

    /// Refuse writes
    #[arg(long)]
    read_only: bool,

    /// Answer what was read before from this local file, also after a restart
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,

    /// Bytes that the cache file takes, at most; without it the whole disk, or half of the free space
    #[arg(long, value_name = "SIZE", requires = "cache")]
    cache_size: Option<ByteSize>,

    /// Read ahead into the cache what this file names; where it does not exist, what is read in the first two minutes is
    /// recorded in it
    #[arg(long, value_name = "FILE", requires = "cache")]
    cache_profile: Option<PathBuf>,

    /// Make a filesystem first, if the disk holds nothing known
    #[arg(long, value_name = "TYPE")]
    mkfs: Option<String>,

    /// Seconds that requests wait for an unreachable server before they fail
    #[arg(long, value_name = "SECONDS", default_value_t = attach::TIMEOUT.as_secs())]
    timeout: u64,

    /// Seconds to retry if the server is unreachable at first
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,

    /// Allow other writers, coordinated by a cluster filesystem or an application
    #[arg(long)]
    shared: bool,

    /// A name of its own: the device is also /run/outboard-attach/by-name/NAME
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The root filesystem will be on it: outlive the initramfs and the end of all processes
    #[arg(long)]
    for_root: bool,

    /// Attach nothing; print a systemd unit, and a line for /etc/fstab, that do it at boot
    #[arg(long, conflicts_with_all = ["mkfs", "for_root"])]
    print_unit: bool,
}

/// The name of the command that the background process runs.
pub(crate) const BACKGROUND: &str = "attach-background";

/// Attaches and prints the device.
pub(crate) fn run(args: Args, verbose: u8, format: Format) -> Result<(), Failure> {
    let print_unit = args.print_unit;
    let args = match &args.config {
        Some(path) => file::args(path)?,
        None => args,
    };
    let request = request(args)?;
    // A request that makes no sense is the command line's fault.
    request.check().map_err(Failure::usage)?;
    if print_unit {
        let program = std::env::current_exe()
            .map_err(|error| Failure::because("cannot find the path of this program", &error))?;
        let boot = unit::at_boot(&request, &program).map_err(Failure::usage)?;
        return format.print(&boot, || boot.text());
    }
    let attached = attach(&request, verbose).map_err(Failure::new)?;
    if format == Format::Text {
        attached.warnings.iter().for_each(|text| remark(text));
        attached.partitions.iter().for_each(|one| {
            let size = ByteSize(one.size);
            let device = one.device.as_ref().map(|device| device.display());
            let device = device
                .map(|device| format!("{device}, "))
                .unwrap_or_default();
            remark(&format!("partition {}: {device}{size}", one.number));
        });
    }
    format.print(&attached, || attached.device.display().to_string())
}

/// Attaches, in a process of its own.
pub(crate) fn attach(request: &AttachRequest, verbose: u8) -> Result<Attachment, AttachError> {
    let mut background = vec![OsString::from(BACKGROUND)];
    background.extend((0..verbose).map(|_| OsString::from("--verbose")));
    attach::start(request, &background)
}

/// Owns the attachment until it is detached. Its request is on standard input.
pub(crate) fn background() -> Result<(), Failure> {
    attach::daemon::run(open).map_err(Failure::new)
}

/// Runs a worker process of a background process, or of `detach`.
pub(crate) fn worker() -> Result<(), Failure> {
    attach::run_worker().map_err(Failure::new)
}

async fn open(text: String, writable: bool) -> Result<LocalDisk, LocalDiskError> {
    let named = resolve(&text).map_err(|error| error.to_string())?;
    let mut builder = Builder::new(!writable);
    let built = Box::pin(builder.build(&named)).await;
    let disk = built.map_err(|error| LocalDiskError {
        is_of_the_server: matches!(error, BuildError::Remote { .. }),
        why: Failure::from(error).line(),
    })?;
    let supervisor =
        AttachedArrays::of(&text, builder).map(|kept| Box::new(kept) as Box<dyn DiskSupervisor>);
    let supervisor = AttachedVolumes::over(AttachedCaches::over(supervisor));
    Ok(LocalDisk { disk, supervisor })
}

/// The request of `outboard attach DISK` without options.
pub(crate) fn plain(disk: &str) -> Result<AttachRequest, Failure> {
    request(Args::of(disk.to_owned()))
}

impl Args {
    /// A disk without options.
    fn of(disk: String) -> Self {
        Self {
            disk: Some(disk),
            config: None,
            mount: None,
            via: VIAS[0].to_owned(),
            connections: attach::CONNECTIONS_DEFAULT,
            read_only: false,
            cache: None,
            cache_size: None,
            cache_profile: None,
            mkfs: None,
            timeout: attach::TIMEOUT.as_secs(),
            wait: 0,
            shared: false,
            name: None,
            for_root: false,
            print_unit: false,
        }
    }
}

fn request(args: Args) -> Result<AttachRequest, Failure> {
    let mut disk = args.disk.unwrap_or_default();
    let mut named = resolve(&disk)?;
    if let Some(name) = named.name {
        let failure = Failure::usage(format!(
            "`{name}=` names an export, and nothing is served here"
        ));
        return Err(failure.next("give the disk alone, in quotes if its path has a `=`"));
    }
    if let Some(file) = &args.cache {
        let file = text_of(file)?;
        let profile = args.cache_profile.as_deref().map(text_of).transpose()?;
        let remote = [
            ("connections", args.connections.to_string()),
            ("timeout", format!("{}s", args.timeout)),
        ];
        let size = args.cache_size.map(|size| size.0);
        disk = with_cache(&disk, &remote, (&file, size, profile.as_deref()))?;
        named = resolve(&disk)?;
    }
    if args.read_only && !named.disk.can_be_read_only() {
        let failure = Failure::usage(format!("the disk `{disk}` cannot be read-only"));
        return Err(failure.next("nothing would ever be on it: leave --read-only away"));
    }
    let cached = cached_export(&named.disk);
    let (mut connections, mut read_only) = (args.connections, args.read_only);
    let mut timeout = Duration::from_secs(args.timeout);
    let source = match named.disk {
        // Reading ahead is a node's: the kernel's own client would not know of it.
        Disk::Remote {
            target,
            connections: own,
            timeout: patience,
            read_ahead: None,
            read_only: never_written,
            ..
        } => {
            connections = own.unwrap_or(connections);
            timeout = patience.unwrap_or(timeout);
            read_only |= never_written;
            let target = lasting(target)
                .map_err(|error| Failure::because(format!("cannot use {disk}"), &error))?;
            Source::Remote(target.to_string())
        }
        _ => Source::Local(disk),
    };
    let via = args.via.parse::<Via>().map_err(Failure::usage)?;
    Ok(AttachRequest {
        mount: args.mount.as_deref().map(absolute).transpose()?,
        via,
        connections,
        read_only,
        mkfs: args.mkfs,
        timeout,
        wait: Duration::from_secs(args.wait),
        shared: args.shared,
        cached,
        name: args.name,
        for_root: args.for_root,
        ..AttachRequest::new(source)
    })
}

/// The export that a disk is a cache of: one writer at a time may have it, as without the cache.
fn cached_export(disk: &Disk) -> Option<String> {
    let Disk::Cache(cached) = disk else {
        return None;
    };
    match &*cached.disk {
        Disk::Remote { target, .. } => Some(target.to_string()),
        below => cached_export(below),
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let path = absolute(path)?.into_os_string().into_string();
    path.map_err(|path| Failure::usage(format!("the path {} is no UTF-8", path.display())))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::because(format!("cannot use {}", path.display()), &error))
}
