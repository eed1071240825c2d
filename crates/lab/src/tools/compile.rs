//! compile: C sources made for it, turned into objects and a program by make and the C compiler.
//!
//! It imitates the paper's compilation of Linux: many small files read, a processor that is busy all
//! the time, objects written. The sources are generated, the same ones each time, and they and the
//! objects are on the target; the compiler and what it includes of its own are where the system has
//! them. Its rate is that of the processor: the check *generator* says so, and that is the point.
//!
//! What it deliberately does not do: it builds no kernel. A real tree would have to be fetched, and
//! takes half an hour on a small board.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{check_cancelled, make_folder, remove_folder};
use super::result::{ToolFigure, ToolResult};
use super::{
    Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes,
};
use crate::plan::bounds;
use crate::stats::Rng;
use crate::units::{Bytes, Nanos};

/// What has to be installed, besides [`COMPILER`].
pub const PROGRAM: Program = Program {
    name: "make",
    package: "make",
    version_args: &["--version"],
};
/// What make starts.
pub(crate) const COMPILER: Program = Program {
    name: "cc",
    package: "gcc",
    version_args: &["--version"],
};
/// The most files of one tree.
pub const FILES_MAX: u32 = 10_000;
/// The most compilers at once.
pub(crate) const JOBS_MAX: u32 = 256;
/// The sources on the target.
const SOURCES: &str = "sources";
/// What is made of them.
const OBJECTS: &str = "objects";
/// What is there only once all sources are.
const COMPLETE: &str = "sources.complete";
/// Functions of one file: about as many as files of a kernel have.
const FUNCTIONS: u32 = 24;

/// Make's rules: an object for each source, then the program.
const MAKEFILE: &str = "\
OBJECTS := $(patsubst %.c,../objects/%.o,$(wildcard *.c))
../objects/program: $(OBJECTS)
\tcc -o $@ $(OBJECTS)
../objects/%.o: %.c shared.h
\tcc -O2 -c -o $@ $<
";
/// What every source includes.
const SHARED: &str = "\
static inline unsigned mix(unsigned a, unsigned b) {
  a ^= b + 0x9e3779b9u + (a << 6) + (a >> 2);
  return (a << 13) | (a >> 19);
}
";

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileOptions {
    /// Sources.
    pub files: u32,
    /// Compilers at once; one for each core when 0.
    #[serde(default)]
    pub jobs: u32,
}

impl CompileOptions {
    /// The sources: one has less than this.
    pub(super) const fn sources_max(&self) -> Bytes {
        const ONE: u64 = 32 << 10;
        Bytes((self.files as u64 + 2) * ONE)
    }

    /// An object for each source, and all of them once more in the program.
    pub(super) const fn objects_max(&self) -> Bytes {
        const ONE: u64 = 64 << 10;
        const OF_LIBRARIES: u64 = 1 << 20;
        Bytes(self.files as u64 * ONE * 2 + OF_LIBRARIES)
    }

    fn compilers(&self) -> usize {
        match self.jobs {
            0 => crate::sensors::read::cores().len().max(1),
            jobs => jobs as usize,
        }
    }
}

/// The commands: the program, and that all of it is on the disk.
#[must_use]
pub fn commands(jobs: usize, installed: &Installed, directory: &Path) -> [Invocation; 2] {
    let make = [
        "--silent".into(),
        "--jobs".into(),
        jobs.to_string().into(),
        "--directory".into(),
        directory.join(SOURCES).into_os_string(),
    ];
    let objects = directory.join(OBJECTS).into_os_string();
    [
        Invocation::new(&installed.program, make),
        Invocation::new(Path::new("sync"), ["--file-system".into(), objects]),
    ]
}

fn made(options: &CompileOptions) -> String {
    format!("# {} C sources are made in {SOURCES}", options.files)
}

/// Source number `number` of `files`; the same text each time. The first one has `main`, which uses
/// all the others.
#[must_use]
pub fn source(number: u32, files: u32) -> String {
    let mut rng = Rng::new(u64::from(number) + 1);
    let mut text = "#include \"shared.h\"\n".to_owned();
    for function in 0..FUNCTIONS {
        text += &of_function(function, &mut rng);
    }
    text += &format!("unsigned unit_{number}(unsigned x, const unsigned *t) {{\n  return 0");
    for function in 0..FUNCTIONS {
        text += &format!(" ^ f{function}(x, t)");
    }
    text += ";\n}\n";
    if number == 0 {
        text += &main_of(files);
    }
    text
}

fn of_function(function: u32, rng: &mut Rng) -> String {
    let [start, step, first, second] = [(); 4].map(|()| rng.below(1 << 16));
    let turns = 8 + rng.below(56);
    format!(
        "static unsigned f{function}(unsigned x, const unsigned *t) {{\n  \
           unsigned s = {start}u;\n  \
           for (unsigned i = 0; i < {turns}u; i++) {{\n    \
             s = mix(s ^ t[(i * {step}u + x) % 64u], x + i);\n    \
             switch (s % 5u) {{\n    \
               case 0: s += {first}u; break;\n    \
               case 1: s ^= x << (s % 31u); break;\n    \
               case 2: s *= {second}u | 1u; break;\n    \
               case 3: if (t[s % 64u] > x) s -= t[x % 64u]; break;\n    \
               default: s = mix(s, {second}u);\n    \
             }}\n  \
           }}\n  \
           return s;\n\
         }}\n"
    )
}

fn main_of(files: u32) -> String {
    let mut text = String::new();
    for number in 1..files {
        text += &format!("unsigned unit_{number}(unsigned x, const unsigned *t);\n");
    }
    text += "int main(int count, char **words) {\n  unsigned t[64] = {0}, s = 0;\n  (void)words;\n";
    for number in 0..files {
        text += &format!("  s ^= unit_{number}((unsigned)count, t);\n");
    }
    text + "  return (int)(s & 1u);\n}\n"
}

/// The figures: files over time, and what was read and written over time, as the paper counts.
#[must_use]
pub fn figures(
    options: &CompileOptions,
    sources: Bytes,
    written: Bytes,
    elapsed: Nanos,
) -> Vec<ToolFigure> {
    let seconds = elapsed.seconds().max(f64::MIN_POSITIVE);
    let moved = (sources.0 + written.0) as f64;
    vec![
        ToolFigure::per_second("files compiled", f64::from(options.files) / seconds),
        ToolFigure::rate("read and written", moved / seconds),
    ]
}

/// All files of a folder of ours.
fn bytes(folder: &Path) -> Result<Bytes, ToolError> {
    let failed = |error| ToolError::system(format!("look at {}", folder.display()), error);
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        sum += entry
            .and_then(|entry| entry.metadata())
            .map_err(failed)?
            .len();
    }
    Ok(Bytes(sum))
}

impl ToolKind for CompileOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn name(&self) -> &'static str {
        "compile"
    }

    fn check(&self) -> Result<(), String> {
        bounds::within("files", self.files, 1..=FILES_MAX)?;
        bounds::at_most("jobs", self.jobs, JOBS_MAX)
    }

    /// Ten files a second.
    fn usual(&self) -> Nanos {
        Nanos::from_ms(u64::from(self.files) * 100 + 1000)
    }

    fn at_once(&self) -> Option<u32> {
        (self.jobs > 0).then_some(self.jobs)
    }

    fn writes(&self) -> Writes {
        Writes::AtMost(self.objects_max())
    }

    fn laid_out(&self) -> Bytes {
        self.sources_max()
    }

    /// What is made before it, and both commands.
    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let commands = commands(self.compilers(), installed, place.directory);
        let made = std::iter::once(made(self));
        made.chain(commands.each_ref().map(Invocation::shown))
            .collect()
    }

    /// Writes the sources onto the target if they are not there yet; see [`ToolKind::prepare`].
    fn prepare(&self, place: &ToolDirs<'_>, tick: Tick<'_>) -> Result<Option<String>, ToolError> {
        super::find(COMPILER)?;
        let said = made(self);
        let complete = place.directory.join(COMPLETE);
        if fs::read_to_string(&complete).is_ok_and(|files| files == self.files.to_string()) {
            return Ok(Some(said));
        }
        // Left by one that was stopped, or of a test with another number of files.
        let folder = place.directory.join(SOURCES);
        remove_folder(&folder)?;
        make_folder(&folder)?;
        let failed =
            |path: PathBuf, error| ToolError::system(format!("make {}", path.display()), error);
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| failed(path, error))
        };
        write("Makefile", MAKEFILE)?;
        write("shared.h", SHARED)?;
        for number in 0..self.files {
            check_cancelled(tick)?;
            write(&format!("unit_{number:05}.c"), &source(number, self.files))?;
        }
        fs::write(&complete, self.files.to_string()).map_err(|error| failed(complete, error))?;
        Ok(Some(said))
    }

    fn run(&self, mut start: Start<'_>) -> Result<Ran, ToolError> {
        let compiler = super::find(COMPILER)?;
        let objects = start.place.directory.join(OBJECTS);
        remove_folder(&objects)?;
        make_folder(&objects)?;
        let commands = commands(self.compilers(), start.installed, start.place.directory);
        let made = start.run_all(&commands);
        let linked = objects.join("program").exists();
        let sources = bytes(&start.place.directory.join(SOURCES));
        let written = bytes(&objects);
        remove_folder(&objects)?;
        let (elapsed, output) = made?;
        if !linked {
            return Err(PROGRAM.failed("there is no program"));
        }
        let (sources, written) = (sources?, written?);
        Ok(Ran {
            result: ToolResult {
                bytes: Some(Bytes(sources.0 + written.0)),
                subject: Some(format!(
                    "{} generated C files ({sources}), cc {}",
                    self.files, compiler.version
                )),
                ..start.result(figures(self, sources, written, elapsed), elapsed)
            },
            output,
            commands: commands.each_ref().map(Invocation::shown).into(),
            findings: Vec::new(),
        })
    }
}
