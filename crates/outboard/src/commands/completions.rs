//! `outboard completions`: the script that makes a shell complete outboard's command lines.

use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::completion::VARIABLE;
use crate::failure::Failure;
use crate::output;

/// The program, as shells find it and as it is called there.
const PROGRAM: &str = "outboard";

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Shells that ask programs for completions.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
        }
    }
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    args.shell
        .completer()
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|error| Failure::from_error(&error))?;
    output::print(String::from_utf8_lossy(&script).trim_end())
}
