//! [`Live`]: the running server as its control socket and SIGHUP see it.
//!
//! # Invariants
//!
//! * Changes are made one after the other.
//! * If the configuration cannot be read or its new disks cannot be opened, nothing changes. A disk that only exports
//!   to be removed block is opened after these are closed; if that fails, the old disk is served again.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use nbd::server::{ChangeError, Control, Export, ExportDisk, ServerFigures};
use nodes::array::Array;
use tokio::sync::{Mutex, MutexGuard};

use super::notify;
use super::open_export::{OpenExport, Opening};
use super::overlays::{changed_images, drop_overlays};
use crate::arrays::Arrays;
use crate::caches;
use crate::config::{self, Changes, ExportPlan, ServerPlan};
use crate::control::server::{AnswerFuture, ControlHandler};
use crate::control::{ControlAnswer, ControlRequest, Reloaded, ServerStatus};
use crate::failure::Failure;
use crate::metrics::MetricSources;
use crate::snapshots::Snapshots;

/// What does not change while it runs.
#[derive(Debug, Clone)]
pub(super) struct About {
    /// What the server is called here.
    pub(super) name: String,
    /// Its configuration.
    pub(super) config: Option<PathBuf>,
    /// The control socket of the command line, which overrides that of the configuration.
    pub(super) socket: Option<PathBuf>,
    /// Where it listens.
    pub(super) listen: Vec<String>,
    /// Where its metrics are.
    pub(super) metrics: Option<String>,
    /// When it started.
    pub(super) since: Instant,
}

/// The running server.
#[derive(Debug)]
pub(super) struct Live {
    about: About,
    pub(super) control: Control,
    tls: Option<nbd::tls::ServerTls>,
    pub(super) arrays: Arc<Arrays>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) running: Mutex<ActiveConfig>,
}

/// What runs, and the files it writes.
#[derive(Debug)]
pub(super) struct ActiveConfig {
    pub(super) plan: ServerPlan,
    pub(super) open: Vec<OpenExport>,
}

impl Live {
    pub(super) fn new(
        about: About,
        control: Control,
        tls: Option<nbd::tls::ServerTls>,
        sources: MetricSources,
        running: ActiveConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            about,
            control,
            tls,
            arrays: sources.arrays,
            snapshots: sources.snapshots,
            running: Mutex::new(running),
        })
    }

    /// Reads the configuration again and does what it says.
    pub(super) async fn reload(&self) -> Result<Reloaded, String> {
        let mut running = self.running.lock().await;
        notify::send(&notify::reloading());
        let result = self.reload_as(&mut running).await;
        notify::send("READY=1");
        match &result {
            Ok(done) => tracing::info!("configuration read again: {}", summary(done)),
            Err(why) => tracing::error!("{why}"),
        }
        result
    }

    async fn reload_as(
        &self,
        running: &mut MutexGuard<'_, ActiveConfig>,
    ) -> Result<Reloaded, String> {
        let Some(path) = &self.about.config else {
            return Err("this server has no configuration: it was started with disks".to_owned());
        };
        let path = path.clone();
        let read = engine::blocking(move || config::read(&path)).await;
        let new = read.map_err(|e| format!("nothing was changed: {e}"))?;
        let new = new.with_socket(self.about.socket.clone());
        let new = new.with_added(&running.plan);
        let new = new.map_err(|e| format!("nothing was changed: {e}"))?;
        let changes = config::changes(&running.plan, &new);
        let leaving = leaving(&changes);
        let (renewed, warnings) = changed_images(&running.open, &new, &changes).await;
        let changes = Changes {
            renew: [changes.renew, renewed].concat(),
            ..changes
        };
        let renewing = changes.renew.iter().map(|export| export.name.clone());
        let others: Vec<String> = leaving.iter().cloned().chain(renewing).collect();
        let mut opening = Opening::with_claims_of(&running.open, &others);
        let mut late = Vec::new();
        let opened = changes.add.iter().chain(&changes.replace);
        for export in opened.chain(&changes.renew) {
            match opening.open(export).await {
                Ok(()) => {}
                Err(e) if e.is_own_conflict() && !leaving.is_empty() => late.push(export.clone()),
                Err(e) => {
                    let e = Failure::from(e);
                    return Err(format!("nothing was changed: {}", e.text()));
                }
            }
        }
        let certificates = match &self.tls {
            // Certificates are renewed far more often than anything else here changes.
            Some(tls) => tls
                .reload()
                .map_err(|e| format!("nothing was changed: {e}"))?,
            None => false,
        };
        let mut done = self.apply(running, new, changes, opening, late).await;
        done.warnings.extend(warnings);
        done.certificates = certificates;
        Ok(done)
    }

    /// Does what cannot be refused any more.
    async fn apply(
        &self,
        running: &mut ActiveConfig,
        new: ServerPlan,
        changes: Changes,
        opening: Opening,
        late: Vec<ExportPlan>,
    ) -> Reloaded {
        let mut done = Reloaded::default();
        let mut opened = opening.done();
        for name in &changes.remove {
            let ending = self.control.remove(name);
            self.end_export(name, running, ending, &mut done).await;
            done.removed.push(name.clone());
        }
        for export in &changes.replace {
            let ready = opened.iter_mut().find(|open| open.name == export.name);
            let disk = ready.and_then(OpenExport::take);
            let ending = async {
                let Some(disk) = disk else {
                    return self.control.remove(&export.name).await;
                };
                let (export, rules) = offer(export, disk);
                self.control.replace(export, rules).await
            };
            self.end_export(&export.name, running, ending, &mut done)
                .await;
            done.replaced.push(export.name.clone());
        }
        self.renew(&changes.renew, &mut opened, &mut done);
        let mut gone = leaving(&changes);
        gone.extend(done.renewed.iter().cloned());
        forget(&mut running.open, &gone);
        self.watch(&mut opened);
        running.open.append(&mut opened);
        for export in &changes.add {
            let ready = running
                .open
                .iter_mut()
                .find(|open| open.name == export.name);
            if let Some(disk) = ready.and_then(OpenExport::take) {
                let (export, rules) = offer(export, disk);
                note(self.control.add(export, rules), &mut done);
            }
            done.added.push(export.name.clone());
        }
        let old = std::mem::replace(&mut running.plan, new);
        for export in late {
            self.open_late(running, &old, export, &mut done).await;
        }
        for export in changes.update.iter().chain(&changes.renew) {
            let rules = export.rules.clone();
            let result = self
                .control
                .update(&export.name, &export.description, rules);
            note(result, &mut done);
        }
        done.updated = changes.update.iter().map(|e| e.name.clone()).collect();
        let names: Vec<String> = running
            .plan
            .exports
            .iter()
            .map(|e| e.name.clone())
            .collect();
        self.control.arrange(&names);
        done.later = changes.later.iter().map(|key| (*key).to_owned()).collect();
        done
    }

    /// Gives new clients overlays over other images.
    fn renew(&self, exports: &[ExportPlan], opened: &mut [OpenExport], done: &mut Reloaded) {
        for export in exports {
            let ready = opened.iter_mut().find(|open| open.name == export.name);
            if let Some(ExportDisk::PerClient(overlays)) = ready.and_then(OpenExport::take) {
                note(self.control.renew(&export.name, overlays), done);
            }
            // Clients that are connected read on from the old ones.
            self.arrays.forget(&export.name);
            done.renewed.push(export.name.clone());
        }
    }

    /// Opens a disk on a file that an export had which has been removed by now; on failure, reopens the old disk.
    async fn open_late(
        &self,
        running: &mut ActiveConfig,
        old: &ServerPlan,
        export: ExportPlan,
        done: &mut Reloaded,
    ) {
        let before = old.exports.iter().find(|e| e.name == export.name).cloned();
        let name = export.name.clone();
        let mut found = None;
        for candidate in [Some(export), before].into_iter().flatten() {
            let mut opening = Opening::with_claims_of(&running.open, &[]);
            match opening.open(&candidate).await {
                Ok(()) => {
                    let mut opened = opening.done();
                    self.watch(&mut opened);
                    running.open.append(&mut opened);
                    found = Some(candidate);
                    break;
                }
                Err(e) => done.warnings.push(Failure::from(e).text()),
            }
        }
        let opened = running.open.iter_mut().find(|open| open.name == name);
        let disk = opened.and_then(OpenExport::take);
        let at = running.plan.exports.iter().position(|e| e.name == name);
        match (found, disk, at) {
            (Some(found), Some(disk), Some(at)) => {
                let (export, rules) = offer(&found, disk);
                note(self.control.add(export, rules), done);
                running.plan.exports[at] = found;
            }
            (_, _, at) => {
                done.warnings.push(format!("export {name:?} is not served"));
                // The next reload tries again.
                at.map(|at| running.plan.exports.remove(at));
            }
        }
    }

    /// Waits for `ending`, which ends an export; then closes the caches and stops the arrays below it.
    pub(super) async fn end_export(
        &self,
        export: &str,
        running: &ActiveConfig,
        ending: impl Future<Output = Result<(), ChangeError>>,
        done: &mut Reloaded,
    ) {
        // Arrays of RAID volumes are stopped only if no other export that is open has their group.
        let heir = |array: &Arc<Array>| {
            let sets = self.snapshots.sets();
            let set = sets.iter().find(|set| set.has_array(array))?;
            let group = &set.group().group.id;
            let mut others = running.open.iter().filter(|one| one.name != export);
            let heir = others.find(|one| one.has_group(group))?;
            Some(heir.name.clone())
        };
        self.end_with_heirs((export, heir), running, ending, done)
            .await;
    }

    /// The same, with the export that takes over an array instead of its stop.
    pub(super) async fn end_with_heirs(
        &self,
        (export, heir): (&str, impl Fn(&Arc<Array>) -> Option<String>),
        running: &ActiveConfig,
        ending: impl Future<Output = Result<(), ChangeError>>,
        done: &mut Reloaded,
    ) {
        let others = running.plan.exports.iter();
        let others = others.filter(|other| other.name != export);
        // They are dropped with the disk otherwise, before they are closed.
        let caches = caches::open_without(others.map(|other| &other.disk.disk));
        let ended = ending.await;
        // A client still writes to it: it is stopped with the server.
        if !matches!(ended, Err(ChangeError::Busy { .. })) {
            caches::close(&caches).await;
            let problems = self.arrays.stop(export, heir).await;
            done.warnings.extend(problems);
            // Those that are members of the arrays.
            caches::close(&caches).await;
        }
        note(ended, done);
    }

    pub(super) fn watch(&self, opened: &mut [OpenExport]) {
        watch(&self.arrays, &self.snapshots, opened);
    }

    async fn status(&self) -> ServerStatus {
        let control = self.control.clone();
        // Overlays are looked for in their folders.
        let figures = engine::blocking(move || control.figures()).await;
        self.status_with(figures)
    }

    /// The status with these figures.
    pub(super) fn status_with(&self, figures: ServerFigures) -> ServerStatus {
        let up = engine::clock::now().saturating_duration_since(self.about.since);
        ServerStatus {
            name: self.about.name.clone(),
            process: std::process::id(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            config: self.about.config.clone(),
            listen: self.about.listen.clone(),
            metrics: self.about.metrics.clone(),
            up_seconds: up.as_secs(),
            figures,
            disks: self.disks(),
            directory: std::env::current_dir().unwrap_or_default(),
            arrays: self.arrays.reports(),
            snapshots: self.snapshots.reports(),
            moves: self.snapshots.moves(),
            caches: caches::reports(),
            bucket_volumes: crate::buckets::figures(),
        }
    }

    /// What is served, as it was written; nothing while that changes.
    fn disks(&self) -> BTreeMap<String, String> {
        let Ok(running) = self.running.try_lock() else {
            return BTreeMap::new();
        };
        let exports = running.plan.exports.iter();
        let whole = exports.filter(|export| export.overlay.is_none());
        whole
            .map(|export| (export.name.clone(), export.disk.text.clone()))
            .collect()
    }

    async fn resize(&self, export: &str) -> Result<ControlAnswer, String> {
        let _one_at_a_time = self.running.lock().await;
        let resized = self.control.resize(export).await;
        let resized = resized.map_err(|e| e.to_string())?;
        if resized.from != resized.to {
            let (from, to) = (resized.from, resized.to);
            tracing::info!(export, "resized from {from} to {to} bytes");
        }
        Ok(ControlAnswer::Resized {
            from: resized.from,
            to: resized.to,
        })
    }
}

impl ControlHandler for Live {
    fn handle(self: Arc<Self>, request: ControlRequest) -> AnswerFuture {
        Box::pin(async move {
            match request {
                ControlRequest::Status => Ok(ControlAnswer::Status(Box::new(self.status().await))),
                ControlRequest::Reload => self.reload().await.map(ControlAnswer::Reloaded),
                ControlRequest::Export(request) => {
                    let changed = self.change_exports(request).await;
                    changed.map(ControlAnswer::Reloaded)
                }
                ControlRequest::Resize { export } => self.resize(&export).await,
                ControlRequest::Disconnect { client } if self.control.disconnect(client) => {
                    Ok(ControlAnswer::Disconnected)
                }
                ControlRequest::Disconnect { client } => {
                    Err(format!("there is no client {client}"))
                }
                ControlRequest::DropOverlay(which) => {
                    let _one_at_a_time = self.running.lock().await;
                    drop_overlays(&self.control, which).await
                }
                ControlRequest::Arrays => Ok(ControlAnswer::Arrays(self.arrays.reports())),
                ControlRequest::Array(request) => self.array(request).await,
                ControlRequest::VolumeGroups => {
                    Ok(ControlAnswer::VolumeGroups(self.volume_groups()))
                }
                ControlRequest::Snapshot(request) => self.snapshot(request).await,
                ControlRequest::Moves => Ok(ControlAnswer::Moves(self.snapshots.moves())),
                ControlRequest::MoveExtents(request) => self.move_extents(request).await,
            }
        })
    }
}

/// Takes the arrays and the volume groups of disks that were opened in.
pub(super) fn watch(arrays: &Arrays, snapshots: &Snapshots, opened: &mut [OpenExport]) {
    for opened in opened {
        snapshots.add(opened.groups());
        arrays.add(&opened.name.clone(), opened.take_arrays());
    }
}

/// Forgets exports that have ended. What they have claimed of a group that others keep open is these others'.
pub(super) fn forget(open: &mut Vec<OpenExport>, gone: &[String]) {
    let all = std::mem::take(open);
    let (ended, staying) = all.into_iter().partition(|one| gone.contains(&one.name));
    *open = staying;
    for one in &ended {
        if let Some(heir) = open.iter_mut().find(|heir| heir.shares_group(one)) {
            heir.keep_claims(one);
        }
    }
}

/// The exports with disks that `changes` closes.
fn leaving(changes: &Changes) -> Vec<String> {
    let replaced = changes.replace.iter().map(|export| export.name.clone());
    changes.remove.iter().cloned().chain(replaced).collect()
}

/// What is served of a plan.
pub(super) fn offer(export: &ExportPlan, disk: ExportDisk) -> (Export, nbd::server::Rules) {
    let served = Export {
        name: export.name.clone(),
        description: export.description.clone(),
        disk,
    };
    (served, export.rules.clone())
}

pub(super) fn note(result: Result<(), ChangeError>, done: &mut Reloaded) {
    if let Err(e) = result {
        tracing::error!("{e}");
        done.warnings.push(e.to_string());
    }
}

/// What a reload did, in one line.
pub(crate) fn summary(done: &Reloaded) -> String {
    let all = [
        ("added", &done.added),
        ("removed", &done.removed),
        ("replaced", &done.replaced),
        ("another image for new clients of", &done.renewed),
        ("updated", &done.updated),
        ("only seen at the next start:", &done.later),
    ];
    let changes = all.into_iter().filter(|(_, names)| !names.is_empty());
    let mut changes: Vec<String> = changes
        .map(|(what, names)| format!("{what} {}", names.join(", ")))
        .collect();
    if done.certificates {
        changes.push("other certificates or revocation list".to_owned());
    }
    if changes.is_empty() {
        return "nothing is different".to_owned();
    }
    changes.join("; ")
}
