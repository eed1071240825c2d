//! Completion of the command line in bash, zsh and fish: the shell's script starts the program with [`VARIABLE`] set, and the
//! program answers with the words that may come next.
//!
//! # Invariants
//!
//! * Nothing is written but standard output, and nothing is changed: values come from the state of attachments and from
//!   the status of servers.
//! * What cannot be read gives no candidates, and no message in the middle of a command line.
//!
//! # What it does not do
//!
//! Paths are left to the shell, and so are disk expressions.

use std::ffi::OsStr;

use attach::AttachmentStatus;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::cli::definition;
use crate::control::ServerStatus;
use crate::control::client::statuses;

/// The variable that makes the program answer a shell.
pub(crate) const VARIABLE: &str = "OUTBOARD_COMPLETE";

/// Answers a shell that requests completions; whether one does.
pub(crate) fn answer_shell() -> Result<bool, clap::Error> {
    let arguments = std::env::args_os();
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(definition)
        .var(VARIABLE)
        .try_complete(arguments, directory.as_deref())
}

/// A value that a user may mean, and what it is.
type Candidate = (String, Option<String>);

/// Candidates of an argument that begin with what stands there.
fn completer(values: fn() -> Vec<Candidate>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let Some(current) = current.to_str() else {
            return Vec::new();
        };
        matching(values(), current)
            .into_iter()
            .map(|(value, help)| CompletionCandidate::new(value).help(help.map(Into::into)))
            .collect()
    })
}

/// The candidates that begin with `current`, each once.
fn matching(values: Vec<Candidate>, current: &str) -> Vec<Candidate> {
    let mut values: Vec<Candidate> = values
        .into_iter()
        .filter(|(value, _)| value.starts_with(current))
        .collect();
    values.sort();
    values.dedup_by(|one, other| one.0 == other.0);
    values
}

/// Devices of attachments, and the directories where they are mounted.
pub(crate) fn attachments() -> ArgValueCompleter {
    completer(|| {
        let attached = attach::status().unwrap_or_default();
        attached.iter().flat_map(places).collect()
    })
}

fn places(one: &AttachmentStatus) -> Vec<Candidate> {
    let device = one.device.as_deref();
    let mount = one.mount.as_ref().map(|mount| mount.dir.as_path());
    let paths = device.into_iter().chain(mount);
    paths
        .map(|path| (path.display().to_string(), Some(one.source.clone())))
        .collect()
}

/// Servers of this machine, by name.
pub(crate) fn servers() -> ArgValueCompleter {
    completer(|| {
        let about = |server: ServerStatus| (server.name, Some(server.listen.join(", ")));
        statuses().into_iter().map(about).collect()
    })
}

/// Exports of the servers of this machine.
pub(crate) fn exports() -> ArgValueCompleter {
    completer(|| {
        let exports = statuses().into_iter().flat_map(|server| {
            let exports = server.figures.exports.into_iter();
            exports.map(move |export| (export.name, Some(server.name.clone())))
        });
        exports.filter(|(name, _)| !name.is_empty()).collect()
    })
}

/// Clients of the servers of this machine, by number.
pub(crate) fn clients() -> ArgValueCompleter {
    completer(|| {
        let exports = statuses()
            .into_iter()
            .flat_map(|server| server.figures.exports);
        let clients = exports.flat_map(|export| {
            let clients = export.clients.into_iter();
            clients.map(move |client| {
                let about = format!("{} of {}", client.peer, export.name);
                (client.id.to_string(), Some(about))
            })
        });
        clients.collect()
    })
}

/// Arrays of the servers of this machine, by name.
pub(crate) fn arrays() -> ArgValueCompleter {
    completer(|| {
        let arrays = statuses().into_iter().flat_map(|server| server.arrays);
        let named = arrays.map(|array| (array.short_name().to_owned(), Some(array.level.clone())));
        named.collect()
    })
}

/// Plans that come with the lab.
pub(crate) fn plans() -> ArgValueCompleter {
    completer(|| {
        let plans = lab::plan::list().unwrap_or_default().into_iter();
        plans.map(|plan| (plan.name, Some(plan.summary))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_begin_with_what_stands_there_and_come_once() {
        let value = |name: &str, help: &str| (name.to_owned(), Some(help.to_owned()));
        let values = vec![value("media", "b"), value("root", "a"), value("media", "a")];
        assert_eq!(matching(values.clone(), "m"), [value("media", "a")]);
        assert_eq!(matching(values.clone(), "").len(), 2);
        assert!(matching(values, "x").is_empty());
    }

    /// The names of the options without candidates that `command` and those below it have.
    fn without_candidates(command: &clap::Command, found: &mut Vec<String>) {
        let named = command.get_arguments().filter(|argument| {
            let is_name = matches!(argument.get_long(), Some("server" | "export"));
            is_name && argument.get::<ArgValueCompleter>().is_none()
        });
        found.extend(
            named.map(|argument| format!("{} --{}", command.get_name(), argument.get_id())),
        );
        for below in command.get_subcommands() {
            without_candidates(below, found);
        }
    }

    #[test]
    fn options_that_name_a_server_or_an_export_of_it_have_candidates() {
        let mut found = Vec::new();
        without_candidates(&definition(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    /// A plan is found by its name alone, so one without an explanation would be of no use in a list.
    #[test]
    fn the_plans_of_the_lab_are_candidates_with_what_they_are() {
        let found = plans().complete(OsStr::new("qui"));
        let found: Vec<_> = found.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(found, ["quick"]);
    }
}
