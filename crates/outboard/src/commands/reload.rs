//! `outboard reload`: a running server reads its configuration again.

use crate::commands::serve::live::summary;
use crate::completion;
use crate::control::client::{self, choose};
use crate::control::{ControlAnswer, ControlRequest, Reloaded};
use crate::failure::Failure;
use crate::output::Format;

/// Which of the servers of this machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WhichServer {
    /// Which server, if several run: its name or process (see `status`), or its control socket
    #[arg(long, value_name = "NAME", add = completion::servers())]
    server: Option<String>,
}

impl WhichServer {
    /// Sends it a request.
    pub(crate) fn request(&self, request: ControlRequest) -> Result<ControlAnswer, Failure> {
        let path = choose(self.server.as_deref())?;
        client::request(&path, request).map_err(Failure::new)
    }
}

/// The server sent an answer to another request.
pub(crate) fn unexpected_answer() -> Failure {
    Failure::new("the server answered another request").next("is it of another version?")
}

/// Reloads, and prints the changes.
pub(crate) fn run(which: &WhichServer, format: Format) -> Result<(), Failure> {
    let ControlAnswer::Reloaded(done) = which.request(ControlRequest::Reload)? else {
        return Err(unexpected_answer());
    };
    format.print(&done, || summary(&done))?;
    done.refuse_warnings()
}

impl Reloaded {
    /// Fails where something was not done as it should.
    pub(crate) fn refuse_warnings(&self) -> Result<(), Failure> {
        match self.warnings.as_slice() {
            [] => Ok(()),
            warnings => Err(Failure::new(warnings.join("; ")).next("the rest was done")),
        }
    }
}
