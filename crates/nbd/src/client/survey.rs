//! What a server has, without using any of it: [`list`], [`describe`], and both together,
//! [`survey`]; and whether it is outboard's, [`is_outboard`].
//!
//! Each question is a connection of its own that ends with the answer. No disk is opened for data, but where a server
//! describes an export without a size, as nbd-server does, [`survey`] opens it once to learn that.
//! Plain data comes out, for `outboard ls` and `outboard inspect` to print.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use nbd_proto::{ClientHandshakeConfig, ExportInfo, Framing, Goal, HandshakeStyle, Negotiated};

use crate::client::dial::{Shaken, shake};
use crate::client::{ClientError, Target, limits};

/// An export as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name; empty for the default export.
    pub name: String,
    /// A text for people; may be empty. Without control characters.
    pub description: String,
}

/// What a server says of one export, and what it agreed to on the way there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The export, on the server that answered.
    pub target: Target,
    /// Name, description, size, abilities and block sizes.
    pub export: ExportInfo,
    /// Which handshake the server speaks.
    pub style: HandshakeStyle,
    /// Whether all of this was sent under TLS.
    pub tls: bool,
    /// Whether replies come in chunks: a read may skip holes, an error comes with a text.
    pub structured: bool,
    /// Whether headers are extended: lengths have 64 bits.
    pub extended: bool,
    /// Names of the metadata contexts that the export has.
    pub contexts: Vec<String>,
}

/// Everything a server has.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The exports, in the server's order.
    pub exports: Vec<Surveyed>,
}

/// One export of a survey.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// As the server lists it.
    pub listed: Listed,
    /// As the server describes it; an export that is listed may be refused.
    pub described: Result<Description, ClientError>,
}

/// Queries the server of `target` for its exports. `timeout` limits all of it. Only inside
/// [`engine::run`].
///
/// # Errors
/// [`ClientError`], which names the target. A server may refuse to list.
pub async fn list(target: &Target, timeout: Duration) -> Result<Vec<Listed>, ClientError> {
    let (_, listed) = list_of_one(target, timeout).await?;
    Ok(listed)
}

/// The server that answered, and its exports.
async fn list_of_one(
    target: &Target,
    timeout: Duration,
) -> Result<(Target, Vec<Listed>), ClientError> {
    let (server, shaken) = ask(target, Goal::List, timeout).await?;
    let exports = match shaken {
        Shaken::Listed(exports) => exports,
        Shaken::Described(_) | Shaken::Finished(_) => Vec::new(),
    };
    let listed = exports.into_iter();
    let listed = listed.map(|(name, description)| Listed { name, description });
    Ok((server, listed.collect()))
}

/// Queries the export of `target`, without using it. `timeout` limits all of it. Only inside
/// [`engine::run`].
///
/// # Errors
/// [`ClientError`], which names the target.
pub async fn describe(target: &Target, timeout: Duration) -> Result<Description, ClientError> {
    match ask(target, Goal::Info, timeout).await? {
        (server, Shaken::Described(negotiated)) => Ok(Description::new(&server, *negotiated)),
        (target, Shaken::Finished(_) | Shaken::Listed(_)) => Err(ClientError::Closed { target }),
    }
}

/// Whether the server of `target` is outboard's: it reports an incarnation of the disk. `timeout` limits all of it. Only inside
/// [`engine::run`].
///
/// # Errors
/// [`ClientError`], which names the target.
pub async fn is_outboard(target: &Target, timeout: Duration) -> Result<bool, ClientError> {
    let config = ClientHandshakeConfig {
        identify: true,
        ..question(target, Goal::Info)
    };
    let (_, shaken) = shake(target, config, timeout).await?;
    let Shaken::Described(negotiated) = shaken else {
        return Ok(false);
    };
    Ok(negotiated.disk.incarnation.is_some())
}

/// Lists the exports of the server of `target` and describes each, some at a time. `timeout`
/// limits each question. Only inside [`engine::run`].
///
/// # Errors
/// [`ClientError`], if the server does not list. What it does not describe is in the answer.
pub async fn survey(target: &Target, timeout: Duration) -> Result<Survey, ClientError> {
    let (server, listed) = list_of_one(target, timeout).await?;
    let server = &server;
    let described = listed.into_iter().map(|listed| async move {
        let target = Target {
            export: listed.name.clone(),
            ..server.clone()
        };
        let described = describe_with_size(&target, timeout).await;
        Surveyed { listed, described }
    });
    let exports = stream::iter(described).buffered(limits::SURVEY_AT_ONCE);
    Ok(Survey {
        exports: exports.collect().await,
    })
}

/// [`describe`], and the size and the abilities by `GO` where `INFO` has none.
async fn describe_with_size(
    target: &Target,
    timeout: Duration,
) -> Result<Description, ClientError> {
    let mut described = describe(target, timeout).await?;
    if described.export.size == 0
        && let Ok((_, Shaken::Finished(dialed))) = ask(target, Goal::Go, timeout).await
    {
        let opened = dialed.export();
        described.export.size = opened.size;
        described.export.flags = opened.flags;
    }
    Ok(described)
}

impl Description {
    fn new(target: &Target, negotiated: Negotiated) -> Self {
        let contexts = negotiated.contexts.into_iter();
        Self {
            target: target.clone(),
            style: negotiated.style,
            tls: negotiated.tls,
            structured: negotiated.framing.is_chunked(),
            extended: negotiated.framing.is_extended(),
            contexts: contexts.map(|context| context.name).collect(),
            export: negotiated.export,
        }
    }
}

async fn ask(
    target: &Target,
    goal: Goal,
    timeout: Duration,
) -> Result<(Target, Shaken), ClientError> {
    shake(target, question(target, goal), timeout).await
}

fn question(target: &Target, goal: Goal) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        goal,
        framing: Framing::Extended,
        ..ClientHandshakeConfig::new(target.export.clone())
    }
}
