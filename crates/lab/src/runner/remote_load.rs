//! [`RemoteLoad`]: the fio of an agent's machine, which makes a run's load in place of ours.
//!
//! The targets are directories of that machine. Its agent starts fio's server and makes a folder in each
//! of them; our fio sends its jobs there and writes down their results, so all else of a run is as ever.
//!
//! Invariants: all targets are there or none is. Jobs are sent between equal versions only. The folders,
//! and fio with them, are gone when this is dropped, or when we are.
//!
//! What it deliberately does not do: other tools have no server, and a plan's own targets are built here.

use std::path::Path;

use super::prepare::{Prepared, Tools};
use super::request::{RunRequest, TargetSpec};
use crate::LabError;
use crate::agent::{About, RemoteFio};
use crate::checks::Finding;
use crate::fio::command;
use crate::host::TargetPlace;
use crate::units::{Bytes, MIB};

/// Left free besides the test files.
const RESERVE: Bytes = Bytes(32 * MIB);

/// fio on another machine, as long as this is held.
#[derive(Debug)]
pub(super) struct RemoteLoad {
    remote: RemoteFio,
    about: About,
    place: String,
}

/// Refuses what cannot be made by a fio that is elsewhere.
pub(super) fn check(request: &RunRequest) -> Result<(), LabError> {
    let bad = |what: String| Err(LabError::BadRequest(what));
    let Some(index) = request.fio_on else {
        return match request
            .targets
            .iter()
            .find(|target| there(target).is_some())
        {
            Some(target) => bad(format!(
                "{} is on another machine: say which agent is to run fio there",
                target.place
            )),
            None => Ok(()),
        };
    };
    if index >= request.agents.len() {
        return bad("fio is to run on an agent's machine, and that agent is not given".into());
    }
    if !request.plan.targets.is_empty() {
        let plan = &request.plan.name;
        return bad(format!(
            "the plan {plan} builds its targets, which is done on this machine only"
        ));
    }
    if let Some(test) = request
        .plan
        .workloads
        .iter()
        .find(|test| test.fio().is_none())
    {
        let title = &test.title;
        return bad(format!(
            "{title} is not made by fio, and only fio can be sent to another machine"
        ));
    }
    for directory in request.targets.iter().map(there) {
        let Some(directory) = directory else {
            return bad("fio runs on one machine: all targets are directories there".into());
        };
        if !directory.is_absolute() || !command::can_be_sent(directory) {
            return Err(unsendable(directory));
        }
    }
    Ok(())
}

fn unsendable(directory: &Path) -> LabError {
    LabError::BadRequest(format!(
        "{} cannot be sent to another machine: give a path from / on without quotes, $, ; and #",
        directory.display()
    ))
}

/// The directory of a target that is on another machine.
fn there(target: &TargetSpec) -> Option<&Path> {
    match &target.place {
        TargetPlace::There { directory, .. } => Some(directory),
        _ => None,
    }
}

impl RemoteLoad {
    /// Has the agent start fio, if the request wants it, and has ours send its jobs to it.
    pub(super) fn connect(
        request: &RunRequest,
        tools: &mut Tools,
    ) -> Result<Option<Self>, LabError> {
        let Some(spec) = request.fio_on.and_then(|index| request.agents.get(index)) else {
            return Ok(None);
        };
        let place = spec.address.dial.place();
        let failed = |reason: String| LabError::Agent {
            place: place.clone(),
            reason,
        };
        let directories: Vec<&Path> = request.targets.iter().filter_map(there).collect();
        let about = spec
            .address
            .about()
            .map_err(|error| failed(error.to_string()))?;
        let remote = spec
            .address
            .fio(&directories)
            .map_err(|error| failed(error.to_string()))?;
        let found = Self {
            remote,
            about,
            place: place.clone(),
        };
        if let Some(fio) = &mut tools.fio {
            let (ours, theirs) = (&fio.version, found.remote.version());
            if ours != theirs {
                return Err(failed(format!(
                    "it has {theirs}, here is {ours}, and fio sends jobs between equal versions only"
                )));
            }
            fio.client = Some(found.remote.argument());
        }
        found.check_folders(request)?;
        Ok(Some(found))
    }

    /// Refuses a folder of a name that fio would read otherwise, and a filesystem without room for its
    /// test files.
    fn check_folders(&self, request: &RunRequest) -> Result<(), LabError> {
        let folders = self.remote.folders();
        for (folder, target) in folders.iter().zip(&request.targets) {
            if !command::can_be_sent(&folder.path) {
                return Err(unsendable(&folder.path));
            }
            let on_this = folders.iter().filter(|other| other.device == folder.device);
            let files = request
                .plan
                .data
                .size
                .0
                .saturating_mul(on_this.count() as u64);
            let needed = Bytes(files.saturating_add(RESERVE.0));
            if folder.free < needed {
                return Err(LabError::NoSpace {
                    path: target.place.to_string().into(),
                    free: folder.free,
                    needed,
                });
            }
        }
        Ok(())
    }

    /// The request with the folders that the agent has made.
    pub(super) fn placed(&self, request: &RunRequest) -> RunRequest {
        let mut request = request.clone();
        for (target, folder) in request.targets.iter_mut().zip(self.remote.folders()) {
            target.folder = Some(folder.clone());
        }
        request
    }

    /// What the agent knows of the targets, and what a reader has to.
    pub(super) fn notify(&self, request: &RunRequest, prepared: &mut Prepared) {
        for (ready, target) in prepared.targets.iter_mut().zip(&request.targets) {
            let Some(folder) = &target.folder else {
                continue;
            };
            let facts = &mut ready.facts;
            facts.filesystem.clone_from(&folder.filesystem);
            facts.source.clone_from(&folder.source);
            facts.options.clone_from(&folder.options);
            // These are of this machine's memory and sockets.
            facts.ceilings.clear();
        }
        let place = &self.place;
        let mut say = |text: String| {
            let finding = Finding::of_run(text);
            prepared.findings.push(finding);
        };
        say(format!(
            "fio ran on {}, the machine of the agent {place}: load and processor time of this machine \
             have nothing to do with it",
            self.about.machine.hostname
        ));
        if !self.about.drops_caches {
            say(format!(
                "the page cache of {place} was not dropped, since its agent may not do that"
            ));
        }
    }
}
