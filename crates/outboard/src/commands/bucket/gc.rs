//! `outboard bucket gc`: overwritten data of a volume is deleted, and what is left of objects is moved before where that is wanted.

use bucket::{GcOptions, GcReport, RelocateOptions, RelocatedPart, RelocationReport, gc, relocate};
use indicatif::HumanBytes;
use serde::Serialize;

use super::{BucketTarget, failed, objects_text};
use crate::failure::Failure;
use crate::output::{Format, columns};

/// The collection of the overwritten data of a volume.
#[derive(Debug, clap::Args)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// List the objects, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// First write the data of objects again of which less than this part is used, in percent: 75 without a number
    ///
    /// Then nothing refers to these objects any more, and a later `gc` deletes them. The server that has the volume open does it; both
    /// copies are in the store until then. Objects of which a snapshot or a clone needs anything stay.
    #[arg(
        long,
        value_name = "PERCENT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "75",
        value_parser = relocated_part,
    )]
    relocate: Option<RelocatedPart>,

    /// Open the volume for writing to relocate its data, if no server answers: one that has it open loses it
    #[arg(long, requires = "relocate")]
    take_over: bool,
}

fn relocated_part(text: &str) -> Result<RelocatedPart, &'static str> {
    let percent = text.parse().ok().and_then(RelocatedPart::new);
    percent.ok_or("not a number from 1 to 100")
}

/// What a collection found, and what was relocated before.
#[derive(Debug, Serialize)]
struct Collected {
    #[serde(flatten)]
    collection: GcReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    relocation: Option<RelocationReport>,
}

/// Does it.
pub(super) async fn run(args: &GcArgs, format: Format) -> Result<(), Failure> {
    let collected = collect(args).await?;
    format.print(&collected, || {
        let relocation = collected.relocation.as_ref();
        gc_text(&collected.collection) + &relocation.map_or_else(String::new, relocation_text)
    })
}

async fn collect(args: &GcArgs) -> Result<Collected, Failure> {
    let (uri, options) = (&args.target.uri, args.target.options());
    let dry_run = args.dry_run;
    let relocation = match args.relocate {
        Some(part) => {
            let how = RelocateOptions {
                part,
                dry_run,
                take_over: args.take_over,
            };
            Some(relocate(uri, &options, how).await.map_err(failed)?)
        }
        None => None,
    };
    let collection = gc(uri, &options, GcOptions { dry_run }).await;
    Ok(Collected {
        collection: collection.map_err(failed)?,
        relocation,
    })
}

fn relocation_text(report: &RelocationReport) -> String {
    let percent = report.percent;
    if report.objects == 0 {
        return format!(
            "\n  no object is to be vacated: {percent} % of each are used, or a snapshot needs it"
        );
    }
    let objects = objects_text(report.objects, report.bytes);
    let used = HumanBytes(report.used_bytes);
    match report.dry_run {
        true => format!("\n  {objects} would be vacated: {used} of them are used"),
        false => {
            format!("\n  {objects} were vacated: {used} of them were used, and were written again")
        }
    }
}

fn gc_text(report: &GcReport) -> String {
    let uri = &report.uri;
    let deleted = objects_text(report.deleted, report.deleted_bytes);
    let waiting = objects_text(report.waiting, report.waiting_bytes);
    let minutes = report.wait_s.div_ceil(60);
    if report.dry_run {
        let mut text = format!("{uri}: {deleted} would be deleted, {waiting} later");
        let rows = report.objects.iter().map(|object| {
            let when = match (object.recorded, object.wait_s) {
                (false, _) => "found now".to_owned(),
                (true, 0) => "to be deleted".to_owned(),
                (true, wait) => format!("in {} min", wait.div_ceil(60)),
            };
            let size = HumanBytes(object.bytes).to_string();
            [format!("  {}", object.name), size, when]
        });
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() {
            text.push('\n');
            text.push_str(&columns(&rows));
        }
        text.push_str(&held_text(report));
        text.push_str(&probes_text(report, "would be"));
        return text;
    }
    let mut text = format!("{uri}: {deleted} were deleted");
    if report.waiting > 0 {
        text.push_str(&format!(
            "\n  {waiting} hold nothing that is used either: the same command deletes them in {minutes} minutes or later"
        ));
    }
    text.push_str(&held_text(report));
    if report.manifests > 0 {
        text.push_str(&format!(
            "\n  {} old manifests of the index were deleted",
            report.manifests
        ));
    }
    text.push_str(&probes_text(report, "were"));
    text
}

fn held_text(report: &GcReport) -> String {
    match report.held_s {
        0 => String::new(),
        held => format!(
            "\n  readers, or commands that were interrupted, may hold more: they expire in {} minutes or are renewed",
            held.div_ceil(60)
        ),
    }
}

fn probes_text(report: &GcReport, verb: &str) -> String {
    match report.probes {
        0 => String::new(),
        count => format!("\n  {count} objects of interrupted probes of the store {verb} deleted"),
    }
}
