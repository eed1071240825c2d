//! Import: files of fio's JSON, from any machine and from fio 2 and 3, as a run.
//!
//! Invariants: direction and sizes are those counted in the file, never those of a name or a heading.
//! What a file does not say is `unknown` and a remark on the run, never a guess: where it was made, on
//! what, and whether caches were dropped. The checks that need only figures are made.
//!
//! What it deliberately does not do: it measures nothing and reads no other program's output.

mod concurrent;
mod job;

use std::collections::BTreeMap;

use crate::LabError;
use crate::checks::cache::Server;
use crate::checks::{self, Finding};
use crate::host::{Machine, TargetFacts, TargetPlace};
use crate::plan::{Budget, Data, Direction, FioJob, Job, Pattern, Plan, Workload};
use crate::store::{Cell, Evidence, Manifest, NewRun, Outcome, RunId, Status, Store};
use crate::units::{Bytes, Nanos};

use job::Imported;

/// The value of what a file does not say.
const UNKNOWN: &str = "unknown";
/// The most files of one import.
pub const FILES_MAX: usize = 10_000;
/// The largest file.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file of fio.
#[derive(Debug, Clone)]
pub struct ImportFile {
    /// What it is called in messages.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What is to be imported.
#[derive(Debug, Clone)]
pub struct Import {
    /// In the order of their blocks: of two with the same job the second is block 2.
    pub sources: Vec<ImportFile>,
    /// The name of the target; when not given, fio's file name.
    pub label: Option<String>,
    /// Milliseconds since 1970, for files without their time.
    pub now_unix_ms: u64,
}

/// Everything of a run, ready to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    run: NewRun,
    cells: Vec<(Cell, String)>,
    findings: Vec<Finding>,
}

/// A test of the run as it grows.
#[derive(Debug, Default)]
struct Tests {
    workloads: Vec<Workload>,
    targets: Vec<String>,
    /// How often each test on each target was seen.
    blocks: BTreeMap<(usize, usize), u32>,
}

/// Reads fio's files.
///
/// # Errors
/// [`LabError::BadImport`] naming the first file that is none of fio's, or that counted nothing.
pub fn read(import: &Import) -> Result<Read, LabError> {
    let bad = |source: &ImportFile, reason: String| LabError::BadImport {
        file: source.name.clone(),
        reason,
    };
    let mut tests = Tests::default();
    let mut cells = Vec::new();
    let mut findings = vec![Finding::of_run(
        "it was imported: on what machine, and whether anything was in a cache, is not known",
    )];
    let mut versions: Vec<String> = Vec::new();
    let mut begun = None;
    for source in &import.sources {
        let file = job::read(&source.text).map_err(|reason| bad(source, reason))?;
        for found in file.jobs {
            for remark in &found.remarks {
                note(&mut findings, format!("{}: {remark}", source.name));
            }
            cells.push((cell(&mut tests, import, found), source.text.clone()));
        }
        begun = begun.or(file.unix_ms);
        if !versions.contains(&file.version) {
            versions.push(file.version);
        }
    }
    if cells.is_empty() {
        return Err(LabError::BadRequest("no file of fio was given".into()));
    }
    let run = NewRun {
        manifest: manifest(&tests, &cells, versions.join(", ")),
        plan: plan(tests.workloads),
        seed: 0,
        started_unix_ms: begun.unwrap_or(import.now_unix_ms),
    };
    Ok(Read {
        run,
        cells,
        findings,
    })
}

/// The same remark once.
fn note(findings: &mut Vec<Finding>, text: String) {
    let finding = Finding::of_run(text);
    if !findings.contains(&finding) {
        findings.push(finding);
    }
}

/// Keeps what was read as a run that has ended.
///
/// # Errors
/// [`LabError::Store`] and the like.
pub fn keep(store: &mut Store, read: &Read) -> Result<RunId, LabError> {
    let run = store.begin(&read.run)?;
    for (cell, raw) in &read.cells {
        store.add_cell(run, cell, raw, &[])?;
    }
    for finding in &read.findings {
        store.add_finding(run, finding)?;
    }
    let elapsed = read.cells.iter().map(|(cell, _)| cell.elapsed.0).sum();
    store.finish(run, &Status::Imported, Nanos(elapsed))?;
    Ok(run)
}

fn cell(tests: &mut Tests, import: &Import, found: Imported) -> Cell {
    let label = import.label.clone().unwrap_or_else(|| found.target.clone());
    let (workload, target) = (tests.workload(&found), tests.target(label));
    let block = tests.blocks.entry((workload, target)).or_default();
    *block += 1;
    let result = &found.result;
    let mut findings = found.findings.clone();
    if let Some(job) = tests.workloads[workload].fio() {
        findings.extend(checks::imported(job, result));
    }
    Cell {
        block: *block - 1,
        position: 0,
        workload,
        target,
        started: Nanos(0),
        elapsed: result.runtime,
        evidence: Evidence::default(),
        findings,
        outcome: Outcome::Fio(found.result),
    }
}

impl Tests {
    /// The index of the test that this job is one of: same name, way and options.
    fn workload(&mut self, found: &Imported) -> usize {
        let job = FioJob {
            bytes_max: Bytes(0),
            pattern: found.pattern,
            direction: found.result.direction,
            block_size: found.block_size,
            depth: found.result.depth,
            jobs: found.jobs,
            runtime_ms: found.limit_ms,
            offset: Bytes(0),
            place: 0,
            extent: found.size,
            time_based: false,
            buffered: !found.result.direct,
            options: found.options.clone(),
        };
        let is_it =
            |workload: &Workload| workload.title == found.title && workload.fio() == Some(&job);
        if let Some(index) = self.workloads.iter().position(is_it) {
            return index;
        }
        self.workloads.push(Workload {
            name: format!("test-{}", self.workloads.len() + 1),
            title: found.title.clone(),
            on: Vec::new(),
            series: None,
            job: Job::Fio(job),
        });
        self.workloads.len() - 1
    }

    fn target(&mut self, label: String) -> usize {
        if let Some(index) = self.targets.iter().position(|known| *known == label) {
            return index;
        }
        self.targets.push(label);
        self.targets.len() - 1
    }
}

/// The jobs as a plan. It need not be one that could be run: it describes what was done.
fn plan(workloads: Vec<Workload>) -> Plan {
    Plan {
        name: "imported".into(),
        summary: "Results from files of fio.".into(),
        repeats: None,
        baseline: None,
        data: Data {
            size: Bytes(0),
            layout_ms: 0,
        },
        budget: Budget {
            written_max: None,
            blocks_min: 1,
            blocks_max: 1,
            time_ms: 0,
            limit_ms: 0,
            precision: 0.03,
        },
        targets: Vec::new(),
        workloads,
    }
}

fn manifest(tests: &Tests, cells: &[(Cell, String)], fio: String) -> Manifest {
    let target = |(index, label): (usize, &String)| TargetFacts {
        name: format!("target-{}", index + 1),
        label: label.clone(),
        place: TargetPlace::Directory(label.into()),
        filesystem: UNKNOWN.into(),
        source: UNKNOWN.into(),
        options: String::new(),
        device: None,
        model: None,
        rotational: None,
        dio_align: None,
        data: None,
        identity: None,
        interface: None,
        server: Server::None,
        peer: None,
        processes: Vec::new(),
        ceilings: Vec::new(),
    };
    let made = |workload, target| {
        cells
            .iter()
            .any(|(cell, _)| (cell.workload, cell.target) == (workload, target))
    };
    let skipped = (0..tests.workloads.len())
        .flat_map(|workload| (0..tests.targets.len()).map(move |target| (workload, target)))
        .filter(|(workload, target)| !made(*workload, *target))
        .map(|(workload, target)| crate::store::Skipped {
            workload,
            target,
            reason: None,
        });
    Manifest {
        machine: Machine {
            hostname: UNKNOWN.into(),
            kernel: UNKNOWN.into(),
            architecture: UNKNOWN.into(),
            system: UNKNOWN.into(),
            processor: UNKNOWN.into(),
            cores: 0,
            memory: Bytes(0),
            load: 0.0,
        },
        agents: Vec::new(),
        outboard: env!("CARGO_PKG_VERSION").into(),
        fio: Some(fio),
        engine: None,
        direct: cells
            .iter()
            .filter_map(|(cell, _)| cell.fio())
            .all(|result| result.direct),
        size: Bytes(0),
        base: None,
        targets: tests.targets.iter().enumerate().map(target).collect(),
        baseline: None,
        left_out: Vec::new(),
        skipped: skipped.collect(),
    }
}

/// For people: what the job did, by what was counted.
fn title(name: &str, pattern: Pattern, direction: Direction) -> String {
    let pattern = match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    };
    format!("{name} ({pattern} {})", direction.as_str())
}

#[cfg(test)]
mod tests;
