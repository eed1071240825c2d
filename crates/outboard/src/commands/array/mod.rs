//! `outboard array …`: Linux software RAID (md), served by a server of this machine or lying here.
//!
//! ```text
//! outboard array add media --disk /srv/c.img       an array that a server runs, by its name
//! outboard array add a.img b.img --disk c.img      one that no process has open, by its members
//! ```
//!
//! # Invariants
//!
//! * What stands without an option is the array, and only that; what is done with it is an option. So a
//!   word too many is never taken for a member.
//! * A word that may mean two things is refused, and so is a disk that is open elsewhere ([`target`]).
//! * An array that was opened here is stopped again, also after a failure and Ctrl-C.

mod add;
mod create;
mod grow;
mod member_step;
mod offline;
mod outcome;
mod progress;
mod re_add;
mod replace;
mod scrub;
mod size;
mod status;
mod stop;
mod target;
#[cfg(test)]
mod tests;
mod wait;
mod words;

use clap::Subcommand;

use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// What can be done with arrays.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an array of disks: a mirror (1, 10), with parity (4, 5, 6), a stripe (0) or linear
    Create(create::Args),
    /// How arrays and their members are
    Status(status::Args),
    /// Make a disk a member: what is missing is copied to it, else it waits as a spare
    Add(add::Args),
    /// Declare a member failed: the array goes on without it
    Fail(member_step::Args),
    /// Forget a member that failed, or a spare
    Remove(member_step::Args),
    /// Take a member back that was away: only what was written meanwhile is copied
    ReAdd(re_add::Args),
    /// Make a spare a copy of a member that still works, and give it that member's place
    Replace(replace::Args),
    /// Read all copies and compare them
    Scrub(scrub::Args),
    /// Change copies, members, chunk, layout, level or consistency policy of an array
    Grow(grow::Args),
    /// Use all of the members, after they were enlarged
    Size(size::Args),
    /// Wait until nothing is done in the background
    Wait(wait::Args),
    /// Mark an array clean and close it
    Stop(stop::Args),
}

/// Does it.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(&args, format),
        Command::Status(args) => status::run(&args, format),
        Command::Add(args) => add::run(args, format),
        Command::Fail(args) => member_step::run(&args, |member| ArrayStep::Fail { member }, format),
        Command::Remove(args) => {
            member_step::run(&args, |member| ArrayStep::Remove { member }, format)
        }
        Command::ReAdd(args) => re_add::run(args, format),
        Command::Replace(args) => replace::run(args, format),
        Command::Scrub(args) => scrub::run(&args, format),
        Command::Grow(args) => grow::run(&args, format),
        Command::Size(args) => size::run(&args, format),
        Command::Wait(args) => wait::run(&args, format),
        Command::Stop(args) => stop::run(&args, format),
    }
}
