//! [`AgentError`]: why a request to an agent failed.

use std::io;

/// One line each; the caller knows which agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It cannot be reached, or hung up.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It knows another token.
    #[error("it knows another token; give the file that it was started with")]
    Token,
    /// It may not.
    #[error("it was not started with the right to do that: {0}")]
    Forbidden(String),
    /// It says no.
    #[error("it answers {status}: {reason}")]
    Refused {
        /// HTTP's status.
        status: u16,
        /// Its own words.
        reason: String,
    },
    /// It says something that is no answer.
    #[error("it is no agent of this version: {0}")]
    Answer(String),
}

impl AgentError {
    pub(super) fn answer(what: impl Into<String>) -> Self {
        Self::Answer(what.into())
    }
}
