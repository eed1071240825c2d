//! `outboard lab run`.

use std::net::IpAddr;
use std::path::PathBuf;

use lab::plan::{self, Plan};
use lab::{Cancel, RunRequest, Store, TargetSpec, report};

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

    /// The directory to measure; the lab works in one below it and removes that
    #[arg(value_name = "DIR")]
    target: PathBuf,

    /// A directory to hold it against
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,

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

    /// Orders the blocks and the random requests [default: drawn]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    #[command(flatten)]
    store: StoreArgs,
}

/// Makes the run and prints its table.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let dry = args.dry_run;
    let request = request(args)?;
    if dry {
        let told = lab::runner::dry_run(&request).map_err(Failure::new)?;
        return format.print(&told, || told.to_string());
    }
    let interrupt = Interrupt::watch()?;
    let cancel = Cancel::from_flag(interrupt.flag());
    let mut bar = Bar::new();
    let made = lab::run(&request, &mut bar, &cancel);
    drop(bar);
    let run = made.map_err(Failure::new)?;
    let store = Store::open(&request.store).map_err(Failure::new)?;
    let record = store.load(run).map_err(Failure::new)?;
    match format {
        Format::Json => output::print(report::json(&record).map_err(Failure::new)?.trim_end()),
        Format::Text => output::print(report::table(&record).trim_end()),
    }
}

fn request(args: Args) -> Result<RunRequest, Failure> {
    let plan = plan(&args.plan)?;
    let found = behind::find(&args.target);
    let mut request = RunRequest::new(plan, TargetSpec::new(&args.target), args.store.path()?);
    request.against = args.against.map(TargetSpec::new);
    request.server_pid = args.server_pid.or(found.server_pid);
    request.client_pid = args.client_pid.or(found.client_pid);
    request.peer = args.peer.or(found.peer);
    request.seed = args.seed;
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
