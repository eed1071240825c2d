//! Which array a command is about.
//!
//! | words | mean |
//! |---|---|
//! | one that is an export, an array's name or its UUID at a server here | that array |
//! | disks: paths, expressions | the array that they are members of, which may not be open elsewhere |
//!
//! A word that is both is refused, with how to say either. A path that begins with `/`, `./` or `../` is
//! never a name.

use std::path::{Path, PathBuf};

use crate::arrays::member_checks::is_same;
use crate::arrays::report::ArrayReport;
use crate::completion;
use crate::control::client::{self, ControlError};
use crate::control::{ArrayRequest, ArrayStep, ControlAnswer, ControlRequest, place};
use crate::failure::Failure;
use crate::graph::absolute;

/// Place of these options: behind those of the command itself.
const BEHIND: usize = 800;

/// The array of a command.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ArrayArgs {
    /// The array: its name, its export's or its UUID, if a server here runs it; else its members
    #[arg(value_name = "ARRAY|MEMBER", required = true, add = completion::arrays())]
    pub(super) array: Vec<String>,

    #[command(flatten)]
    pub(super) how: How,
}

/// How it is found and opened.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct How {
    /// Which server, if several run an array of that name: its name or process, or its control socket
    #[arg(long, value_name = "NAME", display_order = BEHIND, add = completion::servers())]
    pub(super) server: Option<String>,

    /// Given members: open the array although some are missing that worked when it was used last
    #[arg(long, display_order = BEHIND)]
    pub(super) run: bool,

    /// Given members that were written apart from each other: the one whose data counts
    #[arg(long, value_name = "MEMBER", display_order = BEHIND)]
    pub(super) prefer: Option<String>,

    /// The backup file that its rows are restored from, where the command takes one.
    #[arg(skip)]
    pub(super) backup_file: Option<String>,
}

/// An array that was found.
#[derive(Debug)]
pub(super) enum ArrayTarget {
    /// A server runs it.
    Served(Box<Served>),
    /// It is that of these disks.
    Members(Vec<String>),
}

/// An array that a server runs.
#[derive(Debug, Clone)]
pub(super) struct Served {
    /// The server's control socket.
    pub(super) socket: PathBuf,
    /// How it is.
    pub(super) report: ArrayReport,
}

impl ArrayArgs {
    /// Finds it.
    pub(super) fn find(&self) -> Result<ArrayTarget, Failure> {
        find(&self.array, &self.how)
    }
}

fn find(words: &[String], how: &How) -> Result<ArrayTarget, Failure> {
    let servers = servers(how)?;
    let target = choose(words, &servers, how.server.is_some(), &|path| path.exists())?;
    let opens = how.run || how.prefer.is_some() || how.backup_file.is_some();
    if let (ArrayTarget::Served(_), true) = (&target, opens) {
        let what =
            "--run, --prefer and --backup-file are for opening an array, and this one is open";
        return Err(Failure::usage(what).next("leave them away"));
    }
    Ok(target)
}

/// A server and its arrays.
pub(super) type Server = (PathBuf, Vec<ArrayReport>);

/// The servers that are queried: the one that is named, or all.
pub(super) fn servers(how: &How) -> Result<Vec<Server>, Failure> {
    if let Some(named) = &how.server {
        let socket = place::named(named)?;
        let arrays = arrays_of(&socket).map_err(Failure::new)?;
        return Ok(vec![(socket, arrays)]);
    }
    let mut servers = Vec::new();
    for socket in place::with_arrays() {
        match arrays_of(&socket) {
            Ok(arrays) => servers.push((socket, arrays)),
            // Left behind by a process that was killed.
            Err(ControlError::NotListening(_)) => place::sweep(&socket),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    Ok(servers)
}

fn arrays_of(socket: &Path) -> Result<Vec<ArrayReport>, ControlError> {
    match client::request(socket, ControlRequest::Arrays)? {
        ControlAnswer::Arrays(arrays) => Ok(arrays),
        _ => Err(ControlError::Answer {
            path: socket.to_owned(),
            why: "another question".to_owned(),
        }),
    }
}

/// What the words mean, if `exists` says which files are there. Pure.
pub(super) fn choose(
    words: &[String],
    servers: &[Server],
    only_servers: bool,
    exists: &dyn Fn(&Path) -> bool,
) -> Result<ArrayTarget, Failure> {
    let named = |word: &str| -> Vec<Served> {
        if is_path(word) {
            return Vec::new();
        }
        let all = servers.iter().flat_map(|(socket, arrays)| {
            let found = arrays.iter().filter(|report| is_called(report, word));
            found.map(move |report| Served {
                socket: socket.clone(),
                report: report.clone(),
            })
        });
        all.collect()
    };
    let is_disk = |word: &str| is_path(word) || is_expression(word) || exists(Path::new(word));
    let [word] = words else {
        if let Some(word) = words
            .iter()
            .find(|word| !is_disk(word) && !named(word).is_empty())
        {
            let what = format!("`{word}` is an array that a server runs, and stands beside others");
            let next = "name one array; what is done with it is said by an option, see --help";
            return Err(Failure::usage(what).next(next));
        }
        return members(words, only_servers);
    };
    match (named(word).as_slice(), is_disk(word)) {
        ([only], false) => Ok(ArrayTarget::Served(Box::new(only.clone()))),
        ([], true) => members(words, only_servers),
        ([], false) => Err(unknown(word, servers)),
        ([first, ..], true) => {
            let server = place::name(&first.socket);
            let what = format!("`{word}` is an array of the server {server}, and a file here too");
            let uuid = &first.report.uuid;
            Err(Failure::usage(what)
                .next(format!("write ./{word} for the file, {uuid} for the array")))
        }
        (several, false) => {
            let all = several.iter().map(|one| {
                let export = one.report.export.as_deref().unwrap_or_default();
                format!(
                    "{} (export {export:?} of {})",
                    one.report.uuid,
                    place::name(&one.socket)
                )
            });
            let all: Vec<String> = all.collect();
            let what = format!("`{word}` may be {}", all.join(" or "));
            Err(Failure::usage(what).next("say which: its UUID, or --server NAME"))
        }
    }
}

fn members(words: &[String], only_servers: bool) -> Result<ArrayTarget, Failure> {
    if only_servers {
        let what = "--server is for an array by its name, and these are disks";
        return Err(Failure::usage(what).next("leave it away, or give the array's name"));
    }
    Ok(ArrayTarget::Members(words.to_vec()))
}

fn unknown(word: &str, servers: &[Server]) -> Failure {
    let reports = servers.iter().flat_map(|(_, arrays)| arrays);
    let names: Vec<&str> = reports.map(ArrayReport::short_name).collect();
    let what = format!("`{word}` is no array that a server here runs, and no file");
    Failure::new(what).next(match names.as_slice() {
        [] => "none is run; name the members of one: files, devices".to_owned(),
        names => format!("these are run: {}", names.join(", ")),
    })
}

/// Whether a word can be nothing but a path.
fn is_path(word: &str) -> bool {
    ["/", "./", "../"].iter().any(|head| word.starts_with(head))
}

/// Whether a word can be nothing but a disk that is no plain file.
fn is_expression(word: &str) -> bool {
    word.contains('(') || word.contains("://")
}

fn is_called(report: &ArrayReport, word: &str) -> bool {
    let names = [Some(&report.name), report.export.as_ref()];
    names.into_iter().flatten().any(|name| name == word)
        || report.short_name() == word
        || plain(&report.uuid) == plain(word)
}

/// The digits of a UUID, however they are grouped.
fn plain(uuid: &str) -> String {
    let digits = uuid.chars().filter(|c| !matches!(c, ':' | '-'));
    digits.collect::<String>().to_lowercase()
}

impl Served {
    /// Has the server do something, and takes its word for how the array is then.
    pub(super) fn ask(&mut self, step: ArrayStep) -> Result<(), Failure> {
        let ask = ArrayRequest {
            export: self.report.export.clone().unwrap_or_default(),
            uuid: self.report.uuid.clone(),
            step,
        };
        match client::request(&self.socket, ControlRequest::Array(ask)).map_err(Failure::new)? {
            ControlAnswer::Array(report) => self.report = *report,
            _ => return Err(crate::commands::reload::unexpected_answer()),
        }
        Ok(())
    }

    /// Looks again.
    pub(super) fn look(&mut self) -> Result<(), Failure> {
        let arrays = arrays_of(&self.socket).map_err(Failure::new)?;
        let is_same = |report: &ArrayReport| {
            report.uuid == self.report.uuid && report.export == self.report.export
        };
        let found = arrays.into_iter().find(is_same);
        self.report = found.ok_or_else(|| {
            let name = self.report.short_name();
            Failure::new(format!("the server does not run the array {name} any more"))
        })?;
        Ok(())
    }
}

/// The member that is meant: of that very name, or the only one with that path.
pub(super) fn member(report: &ArrayReport, said: &str) -> Result<String, Failure> {
    let names: Vec<&str> = report
        .members
        .iter()
        .map(|member| member.name.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    if names.contains(&said) {
        return Ok(said.to_owned());
    }
    let same = |name: &&&str| is_same(name, said);
    if let [only] = names.iter().filter(same).collect::<Vec<_>>().as_slice() {
        return Ok((**only).to_owned());
    }
    let what = format!("{} has no member {said}", report.short_name());
    Err(Failure::new(what).next(format!("its members are {}", names.join(", "))))
}

/// A disk as another process understands it: its paths are absolute.
pub(super) fn lasting(disk: &str) -> Result<String, Failure> {
    let named = crate::commands::inspect::unnamed(disk)?;
    absolute(&named).map_err(|error| Failure::because(format!("cannot use {disk}"), &error))
}
