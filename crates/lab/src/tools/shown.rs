//! What one start of a tool would run and write, for a dry run. Pure.

use super::{
    Installed, Tool, ToolDirs, bonnie, clients, compile, dbench, iperf3, pull, resync, stress_ng,
    tar, together,
};
use crate::plan::Direction;
use crate::units::Bytes;

/// What one start writes to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Nothing.
    Nothing,
    /// So much at most, what its filesystem writes besides not counted.
    AtMost(Bytes),
    /// As much as the target takes in the time that it is given.
    AsMuchAsItCan,
}

impl Tool {
    /// What one start writes.
    #[must_use]
    pub const fn writes(&self) -> Writes {
        match self {
            Self::StressNg(_) | Self::Iperf3(_) => Writes::Nothing,
            Self::Dbench(_) | Self::Resync(_) => Writes::AsMuchAsItCan,
            Self::Together(options) => match options.direction {
                Direction::Write => Writes::AsMuchAsItCan,
                Direction::Read => Writes::Nothing,
            },
            Self::Compile(options) => Writes::AtMost(options.objects_max()),
            Self::Bonnie(options) => Writes::AtMost(options.written_max()),
            Self::Tar(options) => Writes::AtMost(options.archive_max()),
            Self::Clients(options) => Writes::AtMost(options.bytes),
            Self::Pull(options) => Writes::AtMost(options.images()),
        }
    }

    /// What is written once to each target, before the first start.
    #[must_use]
    pub(crate) const fn laid_out(&self) -> Bytes {
        match self {
            Self::Tar(options) => options.bytes_max,
            Self::Compile(options) => options.sources_max(),
            Self::Together(options) => options.bytes,
            _ => Bytes(0),
        }
    }

    /// The commands of one start in `place`, as far as they are known before it, as they can be pasted into
    /// a shell.
    #[must_use]
    pub fn shown(&self, place: &ToolDirs<'_>) -> Vec<String> {
        let installed = Installed {
            program: self.program().name.into(),
            version: String::new(),
        };
        match self {
            Self::Dbench(options) => vec![dbench::command(options, &installed, place).shown()],
            Self::Bonnie(options) => {
                let is_root = rustix::process::geteuid().is_root();
                vec![bonnie::command(options, &installed, place, is_root).shown()]
            }
            Self::Tar(options) => tar::shown(options, &installed, place),
            Self::Compile(options) => compile::shown(options, &installed, place),
            Self::Together(options) => {
                vec![together::command(options, &installed, together::directories(place)).shown()]
            }
            Self::StressNg(options) => {
                let figures = stress_ng::figures_file(place);
                vec![stress_ng::command(options, &installed, &figures).shown()]
            }
            Self::Iperf3(options) => iperf3::shown(options, &installed),
            Self::Clients(options) => clients::shown(options, &installed, place),
            Self::Pull(options) => pull::shown(options, place),
            Self::Resync(options) => resync::shown(options, &installed, place),
        }
    }
}
