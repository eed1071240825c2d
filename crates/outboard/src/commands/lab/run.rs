//! `outboard lab run`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lab::host::{Role, TargetPlace};
use lab::plan::{self, Plan};
use lab::units::Bytes;
use lab::{Cancel, RunId, RunRequest, Store, TargetSpec, report};
use lab_drivers::agent::AgentHost;
use lab_drivers::attachment;
use lab_drivers::build::TargetBuilder;

use super::agents::AgentArgs;
use super::disk_access::OwnDisks;
use super::disk_targets::{self, RunTarget};
use super::progress::Bar;
use super::{StoreArgs, chosen};
use crate::abandonable;
use crate::completion;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::interrupt::Interrupt;
use crate::output::{self, Format};

/// Arguments of `lab run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A plan of `lab list`, or a TOML file
    #[arg(required_unless_present = "resume", add = completion::plans())]
    plan: Option<String>,

    /// The directory to measure, or a disk with a filesystem, which is mounted for the run; the lab
    /// works in a directory below it and removes that. A plan with targets of its own builds them there
    #[arg(value_name = "DIR|DISK", required_unless_present = "resume")]
    target: Option<PathBuf>,

    /// A directory or a disk to compare it with; may be given several times, everything is compared
    /// with the first one
    #[arg(long, value_name = "DIR|DISK")]
    against: Vec<PathBuf>,

    /// Make a filesystem first on a disk that holds nothing known
    #[arg(long, value_name = "TYPE")]
    mkfs: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Go on with a run that was stopped or failed, with the blocks left [default: the latest]; without
    /// a plan and a target, with those that it had
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true, conflicts_with = "dry_run")]
    resume: Option<Option<RunId>>,

    /// The server's process, for its CPU time [default: found out, if it runs here]
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,

    /// The client's process, for its CPU time [default: the owner of the attachment]
    #[arg(long, value_name = "PID")]
    client_pid: Option<u32>,

    /// The server's address, which identifies the wire [default: that of the attachment]
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,

    /// The serial of a disk that the plan may write without a filesystem, for an export its URI; all
    /// that is on it is lost
    #[arg(long, value_name = "SERIAL")]
    write_serial: Vec<String>,

    /// The most that fio may write to all targets together, test files included [default: what the plan
    /// says, 1G for `quick`]
    #[arg(long, value_name = "SIZE", conflicts_with = "resume")]
    written_max: Option<ByteSize>,

    /// Orders the blocks and the random requests [default: drawn]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Make the plan as short as it goes: to see that all of it can be made here, not to measure
    #[arg(long)]
    small: bool,

    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        requires = "agent",
        conflicts_with_all = ["mkfs", "server_pid", "client_pid", "peer", "write_serial"],
        help = "Have fio run on the machine of this agent, and not here: DIR and --against are directories \
                there"
    )]
    fio_on: Option<AgentHost>,

    #[command(flatten)]
    agents: AgentArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// Makes the run and prints its table.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let resumed = args.resume.map(|run| resumed(&args, run)).transpose()?;
    let mut plan = match (&args.plan, &resumed) {
        (Some(name), _) => plan_text(name)?.1,
        (None, Some((_, request))) => request.plan.clone(),
        (None, None) => return Err(Failure::usage("no plan was given")),
    };
    if args.small {
        plan = plan.small();
    }
    if let Some(most) = args.written_max {
        plan.budget.written_max = Some(Bytes(most.0));
    }
    check(&args, &plan)?;
    if !args.dry_run {
        args.store.check()?;
    }
    if args.dry_run {
        let targets = directories(&args)?;
        let mut request = request(&args, plan, &targets)?;
        request.small = args.small;
        let told = lab::runner::dry_run(&request, &TargetBuilder::new(Box::new(OwnDisks)))
            .map_err(Failure::new)?;
        return format.print(&told, || told.to_string());
    }
    let Some(interrupt) = abandonable::watch()? else {
        return Ok(());
    };
    let targets = attached(&args)?;
    let number = resumed.as_ref().map(|(run, _)| *run);
    let mut request = match resumed {
        Some((_, request)) if targets.is_empty() => request,
        _ => request(&args, plan, &targets)?,
    };
    request.small = args.small;
    let made = measured(&request, number, &interrupt, format);
    let closed = targets.into_iter().map(RunTarget::close);
    let closed = closed.collect::<Vec<_>>().into_iter().collect();
    made.and(closed)
}

/// What the command line and the plan alone show to be wrong: before a disk is attached or formatted.
fn check(args: &Args, plan: &Plan) -> Result<(), Failure> {
    if !args.against.is_empty() && args.target.is_none() {
        let what = "--against without a target: a run that goes on has what it is held against";
        return Err(Failure::usage(what).next("leave it away, or give plan and target as before"));
    }
    if !args.against.is_empty() && !plan.targets.is_empty() {
        let what = format!(
            "--against is for plans without targets of their own: {} has targets of its own, and says what they \
             are held against",
            plan.name
        );
        return Err(Failure::usage(what).next("leave --against away"));
    }
    Ok(())
}

/// The run to go on with, and the request that does.
fn resumed(args: &Args, run: Option<RunId>) -> Result<(RunId, RunRequest), Failure> {
    let store = args.store.open()?;
    let run = chosen(&store, run).map_err(Failure::new)?;
    let record = store.load(run).map_err(Failure::new)?;
    let path = args.store.path()?;
    let mut request = RunRequest::again(&record, path).map_err(Failure::new)?;
    let mut port = None;
    for target in &mut request.targets {
        if let TargetPlace::Directory(directory) = &target.place {
            port = port.or(attachment::find(directory).port);
            *target = target.clone().with_processes(args, directory);
        }
    }
    request.agents = args.agents.specs(port)?;
    let fio_on = args.fio_on.as_ref();
    request.fio_on = fio_on
        .map(|agent| args.agents.index_of(agent))
        .transpose()?;
    request.write_serials.clone_from(&args.write_serial);
    Ok((run, request))
}

fn measured(
    request: &RunRequest,
    resumed: Option<RunId>,
    interrupt: &Interrupt,
    format: Format,
) -> Result<(), Failure> {
    let cancel = Cancel::from_flag(interrupt.flag());
    let mut builder = TargetBuilder::new(Box::new(OwnDisks));
    let mut bar = Bar::new(format);
    let made = match resumed {
        Some(run) => lab::resume(request, run, &mut builder, &mut bar, &cancel),
        None => lab::run(request, &mut builder, &mut bar, &cancel),
    };
    drop(bar);
    let run = made.map_err(|error| {
        let kept = error.kept_run();
        let failure = Failure::new(error);
        match kept {
            Some(run) => failure.next(goes_on(request, run)),
            None => failure,
        }
    })?;
    print(&request.store, run, format)
}

/// Prints a run that was kept.
pub(super) fn print(store: &Path, run: RunId, format: Format) -> Result<(), Failure> {
    let store = Store::look(store).map_err(Failure::new)?;
    let record = store.load(run).map_err(Failure::new)?;
    match format {
        Format::Json => output::print(report::json(&record).map_err(Failure::new)?.trim_end()),
        Format::Text => output::print(report::table(&record).trim_end()),
    }
}

/// How a run that was stopped goes on.
fn goes_on(request: &RunRequest, run: RunId) -> String {
    let is_usual = lab::store::default_path().is_ok_and(|path| path == request.store);
    let store = match is_usual {
        true => String::new(),
        false => format!(" --store {}", request.store.display()),
    };
    let others = match (request.fio_on, request.agents.as_slice()) {
        (Some(_), _) => ", with --fio-on and its --agent as before",
        (None, [_, ..]) => ", with its --agent as before",
        (None, []) => "",
    };
    format!("`outboard lab run --resume={run}{store}` goes on with it{others}")
}

/// What was named, the target first.
fn named(args: &Args) -> impl Iterator<Item = &PathBuf> {
    args.target.iter().chain(&args.against)
}

/// The targets, of which none has to be attached.
fn directories(args: &Args) -> Result<Vec<RunTarget>, Failure> {
    if args.fio_on.is_some() {
        return Ok(Vec::new());
    }
    if let Some(disk) = named(args).find(|target| disk_targets::is_disk(target)) {
        let what = format!("{} would have to be attached for that", disk.display());
        return Err(Failure::usage(what).next("attach it with --mount and give the directory"));
    }
    Ok(named(args).cloned().map(RunTarget::Directory).collect())
}

/// The targets, with disks attached.
fn attached(args: &Args) -> Result<Vec<RunTarget>, Failure> {
    if args.fio_on.is_some() {
        return Ok(Vec::new());
    }
    let numbered = named(args).enumerate();
    let found = numbered.map(|(n, target)| RunTarget::find(target, n, args.mkfs.as_deref()));
    found.collect()
}

fn request(args: &Args, plan: Plan, targets: &[RunTarget]) -> Result<RunRequest, Failure> {
    if let Some(agent) = &args.fio_on {
        return request_there(args, plan, agent);
    }
    let [target, against @ ..] = targets else {
        return Err(Failure::usage("nothing to measure"));
    };
    let builds = !plan.targets.is_empty();
    let mut request = RunRequest::new(plan, args.store.path()?);
    request.seed = args.seed;
    request.agents = args.agents.specs(attachment::find(target.path()).port)?;
    request.write_serials.clone_from(&args.write_serial);
    if builds {
        request.base = Some(target.path().to_owned());
        return Ok(request);
    }
    let spec = target.spec().with_processes(args, target.path());
    Ok(all_against(
        request.on(spec),
        against.iter().map(RunTarget::spec),
    ))
}

/// The same request with other targets: the first one is the baseline.
fn all_against(request: RunRequest, others: impl Iterator<Item = TargetSpec>) -> RunRequest {
    let numbered = others.enumerate();
    numbered.fold(request, |request, (number, other)| match number {
        0 => request.against(other),
        _ => request.on(other.named(format!("against-{}", number + 1))),
    })
}

/// The request for a run with fio on another machine, on directories of its own.
fn request_there(args: &Args, plan: Plan, agent: &AgentHost) -> Result<RunRequest, Failure> {
    let mut request = RunRequest::new(plan, args.store.path()?);
    request.seed = args.seed;
    request.agents = args.agents.specs(None)?;
    request.fio_on = Some(args.agents.index_of(agent)?);
    let there = |directory: &PathBuf| {
        TargetSpec::at(TargetPlace::There {
            machine: agent.to_string(),
            directory: directory.clone(),
        })
    };
    if let Some(target) = &args.target {
        request = request.on(there(target));
    }
    Ok(all_against(request, args.against.iter().map(there)))
}

/// What is known of the server and the client of a target.
trait WithProcesses {
    fn with_processes(self, args: &Args, directory: &Path) -> Self;
}

impl WithProcesses for TargetSpec {
    fn with_processes(mut self, args: &Args, directory: &Path) -> Self {
        let found = attachment::find(directory);
        self.peer = args.peer.or(found.peer).or(self.peer);
        let server = args.server_pid.or(found.server_pid);
        let client = args.client_pid.or(found.client_pid);
        for (role, pid) in [(Role::Server, server), (Role::Client, client)] {
            self = match pid {
                Some(pid) => self.with(role, pid),
                None => self,
            };
        }
        self
    }
}

/// A plan that comes with the program, or one of the user's, with its text.
pub(super) fn plan_text(name: &str) -> Result<(String, Plan), Failure> {
    if !name.contains('/') && !name.ends_with(".toml") {
        let text = plan::source(name).map_err(Failure::usage)?;
        let plan = Plan::parse(text).map_err(Failure::new)?;
        return Ok((text.to_owned(), plan));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| Failure::because(format!("cannot read the plan {name}"), &error))?;
    let plan = Plan::parse(&text).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    Ok((text, plan))
}
