//! `outboard array create`: the superblocks of a new array.
//!
//! # Invariants
//!
//! * Nothing is written before every disk was opened, found empty (or forced) and found fit.

use block::Node;
use indicatif::HumanBytes;
use nodes::array::format::{Level, Version};
use nodes::array::{ConsistencyChoice, CreateOptions, NewMember};
use serde::Serialize;

use super::offline::{MISSING, candidate};
use super::words;
use crate::arrays::report::uuid;
use crate::arrays::{self, member_checks};
use crate::commands::inspect::on_the_engine;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Room for a name in a superblock, bytes (`docs/formats/md.md`).
const NAME_MAX: usize = 32;
/// The default name of an array.
const NAME: &str = "array";
/// Why a new array of level 5 has partial parity logs.
const PPL_REASON: &str = "consistency policy: ppl (a power cut and a lost member together lose only what was being written; \
    `-k bitmap` instead for members that are often absent: a re-add then copies little)";
/// What a journal is worth.
const JOURNAL_REASON: &str = "consistency policy: journal (a power cut and lost members together lose only what was being \
    written; the array is only read while the journal's disk is missing)";
/// Most disks of one array: more are a slip of a `*`.
const MEMBERS_MAX: usize = 384;

/// Arguments of `array create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its members in order: files, devices or any other disks; `missing` for one that comes later
    #[arg(value_name = "MEMBER|missing", required = true)]
    members: Vec<String>,

    /// How data lie: 1 (mirror), 10 (stripe of mirrors), 5 or 4 (parity for one member that fails), 6 (for two), 0
    /// (stripe), linear
    #[arg(long, short, value_parser = words::level)]
    level: Level,

    /// Kind of superblock: 1.2, 1.1, 1.0 (at the end: the data begin at byte 0) or 0.90
    #[arg(long, short = 'e', value_name = "VERSION", default_value = "1.2", value_parser = words::version)]
    metadata: Version,

    /// Chunk of a stripe [default: 512K]
    #[arg(long, short, value_name = "SIZE")]
    chunk: Option<ByteSize>,

    /// Where copies of level 10 are: n2 (side by side), f2 (in other halves), o2 (a chunk further) [default: n2]; where
    /// parity of levels 5 and 6 is, by mdadm's names: left-symmetric, right-asymmetric, parity-last … [default:
    /// left-symmetric]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,

    /// What keeps the array consistent over a power cut: ppl (partial parity logs, level 5 only: closes the write
    /// hole), journal (closes it for levels 4, 5 and 6, on a disk of its own: --journal), bitmap (only what was being written
    /// is resynced) or resync (everything is) [default: journal with --journal, ppl for level 5, bitmap for the others]
    #[arg(long, short = 'k', value_name = "POLICY", value_parser = words::policy)]
    consistency_policy: Option<ConsistencyChoice>,

    /// What was written is noted, so that little is copied later: internal, none, or its chunk's size [default:
    /// internal, but for level 5]
    #[arg(long, value_name = "KIND", value_parser = words::bitmap)]
    bitmap: Option<ConsistencyChoice>,

    /// The disk of the journal, for levels 4, 5 and 6: all that is written is durable there first, so that a power cut and
    /// lost members together lose only what was being written (mdadm: --write-journal)
    #[arg(long, value_name = "DISK")]
    journal: Option<String>,

    /// Do not resync: copies are identical and parity fits, as on new files; or the content is irrelevant
    #[arg(long)]
    assume_clean: bool,

    /// What it is called
    #[arg(long, short = 'N', default_value = NAME)]
    name: String,

    /// Use only so much of each member
    #[arg(long, short = 'z')]
    size: Option<ByteSize>,

    /// A disk that waits for a member to fail
    #[arg(long, value_name = "DISK")]
    spare: Vec<String>,

    /// A member that is read from only if no other can be
    #[arg(long, value_name = "MEMBER")]
    write_mostly: Vec<String>,

    /// Fail members at their first error
    #[arg(long)]
    failfast: bool,

    /// Overwrite any content of the disks
    #[arg(long)]
    force: bool,
}

impl Args {
    /// The disks that are written.
    pub(crate) fn disks(&self) -> impl Iterator<Item = &str> {
        let here = self.members.iter().filter(|member| *member != MISSING);
        let others = self.spare.iter().chain(&self.journal);
        here.chain(others).map(String::as_str)
    }
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    name: &'a str,
    uuid: String,
    level: String,
    size: u64,
    /// By mdadm's names.
    consistency_policy: &'static str,
    members: &'a [String],
    spares: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<&'a str>,
    /// The disk expression that opens it.
    disk: String,
}

/// Makes it.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    check(args)?;
    let shape = (layout(args)?, consistency(args)?);
    let created = on_the_engine(async || Box::pin(create(args, shape)).await)?;
    for remark in &created.remarks {
        tracing::warn!("{remark}");
    }
    let disks: Vec<&str> = args.disks().collect();
    let made = Made {
        name: &args.name,
        uuid: uuid(&created.uuid),
        level: args.level.to_string(),
        size: created.size,
        consistency_policy: created.policy.name(),
        members: &args.members,
        spares: &args.spare,
        journal: args.journal.as_deref(),
        disk: format!("array({})", disks.join(", ")),
    };
    format.print(&made, || text(&made))
}

fn text(made: &Made<'_>) -> String {
    let count = made.members.len();
    let missing = made.members.iter().filter(|member| *member == MISSING);
    let missing = match missing.count() {
        0 => String::new(),
        missing => format!(", {missing} missing"),
    };
    let spares = match made.spares.len() {
        0 => String::new(),
        1 => ", 1 spare".to_owned(),
        spares => format!(", {spares} spares"),
    };
    let policy = match made.consistency_policy {
        "ppl" => format!("\n{PPL_REASON}"),
        "journal" => format!("\n{JOURNAL_REASON}"),
        _ => String::new(),
    };
    let size = HumanBytes(made.size);
    format!(
        "{}: {} of {count}{missing}{spares}, {size}, {}{policy}\nserve it:  outboard serve '{}={}'\nattach it: outboard attach '{}'",
        made.name, made.level, made.uuid, made.name, made.disk, made.disk
    )
}

/// What the command line alone shows to be wrong.
fn check(args: &Args) -> Result<(), Failure> {
    let all = args.members.iter().chain(&args.spare).chain(&args.journal);
    let all: Vec<&String> = all.collect();
    if all.len() > MEMBERS_MAX {
        return Err(Failure::usage(format!("more than {MEMBERS_MAX} disks")));
    }
    for (n, disk) in all.iter().enumerate() {
        if *disk != MISSING && all[..n].contains(disk) {
            let what = format!("{disk} is named twice");
            return Err(Failure::usage(what).next("each member is a disk of its own"));
        }
    }
    if args.journal.as_deref() == Some(MISSING) {
        return Err(Failure::usage("the journal cannot be missing").next("leave --journal out"));
    }
    if args.spare.iter().any(|spare| spare == MISSING) {
        return Err(Failure::usage("a spare cannot be missing").next("leave it away"));
    }
    let unknown = args.write_mostly.iter();
    let mut unknown = unknown.filter(|disk| !all.contains(disk) || *disk == MISSING);
    if let Some(unknown) = unknown.next() {
        let what = format!("--write-mostly {unknown}: it is none of the members");
        return Err(Failure::usage(what).next("write it as it stands among them"));
    }
    if args.name.is_empty() || args.name.len() > NAME_MAX || args.name.contains(':') {
        let what = format!("`{}` is no name of an array", args.name);
        let next = format!("up to {NAME_MAX} bytes, without a colon");
        return Err(Failure::usage(what).next(next));
    }
    Ok(())
}

/// What `--layout` says, as md's number.
fn layout(args: &Args) -> Result<Option<u32>, Failure> {
    let text = args.layout.as_deref();
    text.map(|text| words::layout_of(args.level, text))
        .transpose()
}

/// What `--consistency-policy` and `--bitmap` say.
fn consistency(args: &Args) -> Result<ConsistencyChoice, Failure> {
    words::consistency(args.consistency_policy, args.bitmap).ok_or_else(|| {
        let what = "--consistency-policy and --bitmap contradict each other";
        Failure::usage(what).next("leave --bitmap away")
    })
}

/// Layout by md's number, and consistency policy.
type Shape = (Option<u32>, ConsistencyChoice);

async fn create(args: &Args, shape: Shape) -> Result<nodes::array::Created, Failure> {
    let mut builder = Builder::new(false);
    let created = create_on(&mut builder, args, shape).await;
    // Members may be arrays, which the superblocks were written to.
    arrays::finish(created, builder.arrays()).await
}

async fn create_on(
    builder: &mut Builder,
    args: &Args,
    (layout, consistency): Shape,
) -> Result<nodes::array::Created, Failure> {
    let mut parts = Vec::with_capacity(args.members.len());
    for member in &args.members {
        parts.push(new_member(builder, args, member).await?);
    }
    let mut spares = Vec::with_capacity(args.spare.len());
    for spare in &args.spare {
        spares.push(new_member(builder, args, spare).await?);
    }
    let journal = match &args.journal {
        Some(journal) => Some(new_member(builder, args, journal).await?),
        None => None,
    };
    if !args.force {
        for member in parts.iter().chain(&spares).chain(&journal) {
            if let Some(disk) = &member.disk {
                member_checks::refuse_full(&member.name, disk, None).await?;
            }
        }
    }
    let options = CreateOptions {
        level: args.level,
        layout,
        chunk: args.chunk.map(|size| size.0),
        version: args.metadata,
        name: with_host(&args.name),
        consistency,
        assume_clean: args.assume_clean,
        size: args.size.map(|size| size.0),
        journal,
    };
    Ok(nodes::array::create(parts, spares, options).await?)
}

async fn new_member(builder: &mut Builder, args: &Args, text: &str) -> Result<NewMember, Failure> {
    let disk: Option<Node> = if text == MISSING {
        None
    } else {
        let candidate = Box::pin(candidate(builder, text)).await?;
        member_checks::refuse_unreached(&candidate)?;
        candidate.disk
    };
    Ok(NewMember {
        name: text.to_owned(),
        disk,
        write_mostly: args.write_mostly.iter().any(|named| named == text),
        fail_fast: args.failfast,
    })
}

/// The name with this machine's before it, as mdadm has it, where both have room: Linux then knows the
/// array for its own.
fn with_host(name: &str) -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_str().unwrap_or_default();
    let full = format!("{host}:{name}");
    if host.is_empty() || full.len() > NAME_MAX {
        return name.to_owned();
    }
    full
}
