//! `outboard inspect`: what disks are, and what is on them.
//!
//! # Invariants
//!
//! * Everything is opened read-only, and nothing is kept from being used: no lock is held.
//! * What is wrong on a disk becomes a remark; the rest is still reported.

mod content;
mod describe;
mod graph;
mod map;
mod qemu_contexts;
mod report;
mod signature;
mod tree;

use std::future::Future;

use nbd::client::Target;
use serde::Serialize;

pub(super) use self::content::Array;
pub(super) use self::content::DiskContent;
pub(super) use self::content::Group;
pub(crate) use self::content::array_uuid;
pub(super) use self::content::groups::Volume;
use self::content::scan::ContentScanner;
pub(super) use self::content::scan::{ContentSource, SourceBase};
use self::describe::ExportDetail;
use self::report::Report;
pub(crate) use self::signature::Probe;
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk, resolve};
use crate::output::Format;

/// Most disks that are looked at together.
const DISKS_MAX: usize = 256;

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A disk: nbd://HOST/EXPORT, a file, a device or any other; several for arrays and volumes across them
    #[arg(value_name = "URI|DISK", required = true)]
    disks: Vec<String>,

    /// Show which extents are data, holes and zeroes
    #[arg(long)]
    map: bool,

    /// Draw the graph of the disks that an expression opens
    #[arg(long, conflicts_with = "map")]
    graph: bool,

    /// With --graph: show where this byte is stored (sectors: 2048s)
    #[arg(long, value_name = "BYTE", requires = "graph")]
    offset: Option<graph::Offset>,
}

/// What was found on all disks.
#[derive(Debug, Serialize)]
struct Inspection {
    disks: Vec<Report>,
    arrays: Vec<Array>,
    volume_groups: Vec<Group>,
    /// What knew the signatures; none if nothing did.
    signatures: Option<String>,
    /// Why nothing knew them.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_signatures: Option<String>,
}

/// What was found on the only disk.
#[derive(Debug, Serialize)]
struct Only<'a> {
    #[serde(flatten)]
    report: &'a Report,
    arrays: &'a [Array],
    volume_groups: &'a [Group],
    signatures: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_signatures: &'a Option<String>,
}

/// Inspects.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let named: Vec<NamedDisk> = args
        .disks
        .iter()
        .map(|text| unnamed(text))
        .collect::<Result<_, _>>()?;
    if args.graph || args.map {
        let [only] = named.as_slice() else {
            let option = if args.graph { "--graph" } else { "--map" };
            return Err(Failure::usage(format!("{option} is for one disk")).next("name one"));
        };
        if args.graph {
            return on_the_engine(async || Box::pin(graph::print(only, args.offset, format)).await);
        }
    }
    if named.len() > DISKS_MAX {
        return Err(Failure::usage(format!(
            "more than {DISKS_MAX} disks at once"
        )));
    }
    let found = on_the_engine(async || Box::pin(inspect(&named, args.map)).await)?;
    match found.disks.as_slice() {
        [only] => format.print(&found.only(only), || found.text()),
        _ => format.print(&found, || found.text()),
    }
}

/// An expression of which nothing is served.
pub(super) fn unnamed(text: &str) -> Result<NamedDisk, Failure> {
    let named = resolve(text)?;
    match &named.name {
        None => Ok(named),
        Some(name) => {
            let what = format!("`{name}=` names an export, and nothing is served here");
            Err(Failure::usage(what).next("give the disk alone, in quotes if its path has a `=`"))
        }
    }
}

/// The server that a URI names, for commands that take no other disk.
pub(super) fn server(text: &str) -> Result<Target, Failure> {
    match unnamed(text)?.disk {
        Disk::Remote { target, .. } => Ok(target),
        _ => {
            let what = format!("{text} is no server");
            Err(Failure::usage(what).next("write nbd://HOST or nbd+unix:///?socket=PATH"))
        }
    }
}

/// Runs `main` on an engine of one core, for what moves little.
pub(super) fn on_the_engine<F, T>(main: impl FnOnce() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let config = engine::Config {
        backend: engine::BackendChoice::Auto,
        cores: 1,
    };
    engine::run(&config, |_| main()).map_err(|error| Failure::because("cannot start", &error))?
}

async fn inspect(named: &[NamedDisk], with_map: bool) -> Result<Inspection, Failure> {
    let probe = Probe::find().await;
    let (signatures, no_signatures) = match probe.program() {
        Ok(version) => (Some(version.clone()), None),
        Err(why) => (None, Some(why.clone())),
    };
    let mut looker = ContentScanner::new(probe);
    let mut disks = Vec::with_capacity(named.len());
    for named in named {
        disks.push(Box::pin(one(named, with_map, &mut looker)).await?);
    }
    let (arrays, volume_groups) = Box::pin(looker.together()).await;
    Ok(Inspection {
        disks,
        arrays,
        volume_groups,
        signatures,
        no_signatures,
    })
}

/// The content of each of these disks, and the arrays and groups that they form, for `serve --auto`. A disk that cannot be
/// opened is a failure.
pub(super) async fn contents(
    named: &[NamedDisk],
) -> Result<(Vec<DiskContent>, Vec<Array>, Vec<Group>), Failure> {
    let mut looker = ContentScanner::new(Probe::find().await);
    let mut contents = Vec::with_capacity(named.len());
    for named in named {
        let (_, seen) = describe::seen(named, ExportDetail::Properties).await?;
        contents.push(looker.look(&named.text, &seen.disk).await);
    }
    let (arrays, groups) = Box::pin(looker.together()).await;
    Ok((contents, arrays, groups))
}

/// The signature that blkid finds on the export `uri`, in the words of the lab's rules for raw writes.
///
/// # Errors
/// Why it could not be found out: then nothing may be assumed.
pub(super) fn signature_of(uri: &str) -> Result<Option<String>, String> {
    let found = on_the_engine(async || {
        let probe = Probe::find().await;
        probe.program().map_err(Failure::new)?;
        let (_, seen) = Box::pin(describe::seen(&unnamed(uri)?, ExportDetail::Properties)).await?;
        let signature = probe.signature(&seen.disk).await;
        signature.map_err(|error| Failure::from_error(&error))
    });
    let found = found.map_err(|failure| failure.line());
    let found = found.map_err(|failure| format!("what is on it cannot be found out: {failure}"))?;
    Ok(found.map(|signature| signature.content()))
}

/// Describes one disk and looks into it.
async fn one(
    named: &NamedDisk,
    with_map: bool,
    looker: &mut ContentScanner,
) -> Result<Report, Failure> {
    let (mut report, seen) = describe::seen(named, ExportDetail::QemuContexts).await?;
    // It may have grown since it was described.
    report.size = seen.disk.geometry().size;
    if with_map {
        report.map = Some(map::of(&seen.disk, report.has_known_map()).await?);
    }
    let mut content = looker.look(&named.text, &seen.disk).await;
    content.remarks.extend(seen.remark);
    report.content = Some(content);
    Ok(report)
}

impl Inspection {
    const fn only<'a>(&'a self, report: &'a Report) -> Only<'a> {
        Only {
            report,
            arrays: self.arrays.as_slice(),
            volume_groups: self.volume_groups.as_slice(),
            signatures: &self.signatures,
            no_signatures: &self.no_signatures,
        }
    }

    /// Each disk's own lines if there is only one, a tree of what all hold, and the map.
    fn text(&self) -> String {
        let mut texts = Vec::new();
        if let [only] = self.disks.as_slice() {
            texts.push(only.text());
        }
        texts.push(tree::draw(&self.disks, &self.arrays, &self.volume_groups));
        texts.extend(
            self.no_signatures
                .as_ref()
                .map(|why| format!("Filesystems, swap and the like are not shown: {why}.")),
        );
        if let [only] = self.disks.as_slice() {
            texts.extend(only.map.as_ref().map(map::Map::text));
        }
        texts.join("\n\n")
    }
}

/// A text from outside, for a terminal.
pub(crate) fn visible(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '·' } else { c });
    shown.collect()
}
