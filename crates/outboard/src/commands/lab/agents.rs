//! The options that name the agents of a run.

use std::path::PathBuf;
use std::sync::Arc;

use lab::agent::AgentAddress;
use lab::runner::AgentSpec;
use lab_drivers::agent::{AgentDialer, AgentHost, read};
use nbd::tls::{ClientTls, TlsVersion, VerifyPeer};

use crate::failure::Failure;

/// What of a command is about agents.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AgentArgs {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        help = "Another machine, on which `outboard agent` runs; may be given several times"
    )]
    agent: Vec<AgentHost>,

    /// The file with the agent's token; one for each agent, or one for all
    #[arg(long, value_name = "FILE", requires = "agent")]
    agent_token_file: Vec<PathBuf>,

    /// Speak TLS with agents; DIR holds the ca-cert.pem that vouches for them
    #[arg(long, value_name = "DIR", requires = "agent")]
    agent_tls: Option<PathBuf>,

    /// Show the token to agents of other machines without TLS: it can be read on the network
    #[arg(long, requires = "agent")]
    agent_insecure: bool,

    /// The TCP port of the measured server on the agent's machine [default: that of the attachment]
    #[arg(long, value_name = "PORT", requires = "agent")]
    agent_server_port: Option<u16>,
}

impl AgentArgs {
    /// Which of the agents is at `place`.
    pub(crate) fn index_of(&self, place: &AgentHost) -> Result<usize, Failure> {
        let found = self.agent.iter().position(|agent| agent == place);
        found.ok_or_else(|| {
            Failure::usage(format!("{place} is none of the agents"))
                .next(format!("add --agent {place}"))
        })
    }

    /// The agents. `server_port` is the measured server's, as far as it is known.
    pub(crate) fn specs(&self, server_port: Option<u16>) -> Result<Vec<AgentSpec>, Failure> {
        let files = self.agent_token_file.len();
        if files != self.agent.len() && (files != 1 || self.agent.is_empty()) {
            let next = "give --agent-token-file for each --agent, or once for all";
            return match self.agent.is_empty() {
                true => Ok(Vec::new()),
                false => Err(Failure::usage("an agent needs its token").next(next)),
            };
        }
        let specs = self.agent.iter().enumerate().map(|(index, place)| {
            let file = &self.agent_token_file[index.min(files - 1)];
            Ok(AgentSpec {
                address: AgentAddress {
                    dial: Arc::new(self.dialler(place)?),
                    token: read(file)?,
                    cancel: lab::Cancel::default(),
                },
                server_port: self.agent_server_port.or(server_port),
            })
        });
        specs.collect()
    }

    fn dialler(&self, place: &AgentHost) -> Result<AgentDialer, Failure> {
        let tls = self.agent_tls.as_deref();
        let tls = tls
            .map(|folder| {
                ClientTls::load(
                    &place.host,
                    Some(folder),
                    VerifyPeer::Yes,
                    TlsVersion::default(),
                )
            })
            .transpose()
            .map_err(|error| Failure::from_error(&error))?;
        Ok(AgentDialer {
            place: place.clone(),
            tls,
            insecure: self.agent_insecure,
        })
    }
}
