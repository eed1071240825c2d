//! `outboard lab run`.

use std::net::IpAddr;
use std::path::PathBuf;

use lab::host::Role;
use lab::plan::{self, Plan};
use lab::{Cancel, RunRequest, Store, report};

use super::agents::AgentArgs;
use super::attached::{self, Target};
use super::build::TargetBuilder;
use super::progress::Bar;
use super::{StoreArgs, behind};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{self, Format};

/// Arguments of `lab run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A plan of `lab list`, or a TOML file
    plan: String,

    /// The directory to measure, or a disk with a filesystem, which is mounted for the run; the lab
    /// works in a directory below it and removes that
    #[arg(value_name = "DIR|DISK")]
    target: PathBuf,

    /// A directory or a disk to hold it against
    #[arg(long, value_name = "DIR|DISK")]
    against: Option<PathBuf>,

    /// Make a filesystem first on a disk that holds nothing known
    #[arg(long, value_name = "TYPE")]
    mkfs: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// The server's process, for its CPU time [default: found out, if it runs here]
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,

    /// The client's process, for its CPU time [default: the owner of the attachment]
    #[arg(long, value_name = "PID")]
    client_pid: Option<u32>,

    /// The server's address, which tells the wire [default: that of the attachment]
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,

    /// The serial of a disk that the plan may write without a filesystem, for an export its URI; all
    /// that is on it is lost
    #[arg(long, value_name = "SERIAL")]
    write_serial: Vec<String>,

    /// Orders the blocks and the random requests [default: drawn]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Make the plan as short as it goes: to see that all of it can be made here, not to measure
    #[arg(long)]
    small: bool,

    #[command(flatten)]
    agents: AgentArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// Makes the run and prints its table.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let mut plan = plan(&args.plan)?;
    if args.small {
        plan = plan.small();
    }
    if args.dry_run {
        let targets = directories(&args)?;
        let request = request(&args, plan, &targets)?;
        let told = lab::runner::dry_run(&request, &TargetBuilder::new()).map_err(Failure::new)?;
        return format.print(&told, || told.to_string());
    }
    let interrupt = Interrupt::watch()?;
    let targets = attached(&args)?;
    let request = request(&args, plan, &targets)?;
    let made = measured(&request, &interrupt, format);
    let closed = targets.into_iter().map(Target::close);
    let closed = closed.collect::<Vec<_>>().into_iter().collect();
    made.and(closed)
}

fn measured(request: &RunRequest, interrupt: &Interrupt, format: Format) -> Result<(), Failure> {
    let cancel = Cancel::from_flag(interrupt.flag());
    let mut bar = Bar::new();
    let made = lab::run(request, &mut TargetBuilder::new(), &mut bar, &cancel);
    drop(bar);
    let run = made.map_err(Failure::new)?;
    let store = Store::open(&request.store).map_err(Failure::new)?;
    let record = store.load(run).map_err(Failure::new)?;
    match format {
        Format::Json => output::print(report::json(&record).map_err(Failure::new)?.trim_end()),
        Format::Text => output::print(report::table(&record).trim_end()),
    }
}

/// What was named, the target first.
fn named(args: &Args) -> impl Iterator<Item = &PathBuf> {
    [&args.target].into_iter().chain(&args.against)
}

/// The targets, of which none has to be attached.
fn directories(args: &Args) -> Result<Vec<Target>, Failure> {
    if let Some(disk) = named(args).find(|target| attached::is_disk(target)) {
        let what = format!("{} would have to be attached for that", disk.display());
        return Err(Failure::usage(what).next("attach it with --mount and give the directory"));
    }
    Ok(named(args).cloned().map(Target::Directory).collect())
}

/// The targets, with disks attached.
fn attached(args: &Args) -> Result<Vec<Target>, Failure> {
    let numbered = named(args).enumerate();
    let found = numbered.map(|(n, target)| Target::find(target, n, args.mkfs.as_deref()));
    found.collect()
}

fn request(args: &Args, plan: Plan, targets: &[Target]) -> Result<RunRequest, Failure> {
    let [target, against @ ..] = targets else {
        return Err(Failure::usage("nothing to measure"));
    };
    if !plan.targets.is_empty() {
        let mut request = RunRequest::new(plan, args.store.path()?);
        request.base = Some(target.path().to_owned());
        request.seed = args.seed;
        return Ok(request);
    }
    let found = behind::find(target.path());
    let mut spec = target.spec();
    spec.peer = args.peer.or(found.peer);
    let server = args.server_pid.or(found.server_pid);
    let client = args.client_pid.or(found.client_pid);
    for (role, pid) in [(Role::Server, server), (Role::Client, client)] {
        spec = match pid {
            Some(pid) => spec.with(role, pid),
            None => spec,
        };
    }
    let mut request = RunRequest::new(plan, args.store.path()?).on(spec);
    if let Some(against) = against.first() {
        request = request.against(against.spec());
    }
    request.agents = args.agents.specs(found.port)?;
    request.seed = args.seed;
    request.write_serials.clone_from(&args.write_serial);
    Ok(request)
}

/// A plan that comes with the program, or one of the user's.
fn plan(name: &str) -> Result<Plan, Failure> {
    if !name.contains('/') && !name.ends_with(".toml") {
        return plan::builtin(name).map_err(Failure::usage);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| Failure::because(format!("cannot read the plan {name}"), &error))?;
    Plan::parse(&text).map_err(|error| Failure::new(format!("{name}: {error}")))
}
