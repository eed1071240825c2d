//! The live page of a server: its options, and what it shows of [`Live`].

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use lab_drivers::agent::ServerToken;
use nodes::volume::edit::free_runs;
use nodes::volume::format::LogicalVolume;
use nodes::volume::open::VolumeSet;
use nodes::volume::thin::ThinPoolUsage;
use serde::Serialize;

use super::live::Live;
use crate::config::is_host_name;
use crate::event_log::EventLog;
use crate::failure::Failure;
use crate::graph::outline::DiskOutline;
use crate::http_thread::HttpThread;
use crate::live_page::{
    self, GroupLine, PageAdmin, PageInput, PagePlan, PageSource, PoolLine, VolumeLine,
};
use crate::output::Format;

/// Options of the live page.
#[derive(Debug, clap::Args)]
pub(super) struct PageArgs {
    /// Serve a page that shows exports, clients, arrays and events live, at this address
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "stdin")]
    http: Option<SocketAddr>,

    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "FILE",
        requires = "http",
        num_args = 0..=1,
        require_equals = true,
        help = "Permit actions on the page, with the token in FILE, or one that is printed once"
    )]
    http_admin: Option<Option<PathBuf>>,

    /// Another name of this machine under which the page is reached
    #[arg(long, value_name = "NAME", requires = "http", value_parser = host_name)]
    http_host: Vec<String>,
}

/// `--http-host`
fn host_name(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    match is_host_name(&name) {
        true => Ok(name),
        false => Err("not a name of a host, without a port".to_owned()),
    }
}

impl PageArgs {
    /// Where and how the page is served.
    pub(super) fn plan(&self) -> Option<PagePlan> {
        Some(PagePlan {
            address: self.http?,
            admin: match &self.http_admin {
                None => PageAdmin::Off,
                Some(None) => PageAdmin::Printed,
                Some(Some(path)) => PageAdmin::File(path.clone()),
            },
            hosts: self.http_host.clone(),
        })
    }
}

/// What is printed about the page.
#[derive(Debug, Serialize)]
struct PageAnnouncement<'a> {
    page: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

/// Serves the page, if there is one, and prints where, unless standard output may be another program's. Call on the
/// engine.
pub(super) fn start(
    page: Option<(TcpListener, PagePlan)>,
    token: Option<ServerToken>,
    live: &Arc<Live>,
    events: EventLog,
    announced: Option<Format>,
) -> Result<Option<HttpThread>, Failure> {
    let Some((listener, plan)) = page else {
        return Ok(None);
    };
    let address = listener.local_addr().unwrap_or(plan.address);
    if !address.ip().is_loopback() {
        tracing::warn!(
            "live page: every machine that reaches {address} can read the names of exports, their paths and their clients"
        );
    }
    let announcement = PageAnnouncement {
        page: format!("http://{address}/"),
        token: token.as_ref().and_then(|token| token.made()),
    };
    match announced {
        Some(format) => announcement.print(format)?,
        None if announcement.token.is_some() => {
            let what = "the token of the live page cannot be printed by a server that is started by its socket";
            return Err(Failure::new(what).next("--http-admin=FILE"));
        }
        None => tracing::info!("live page: {}", announcement.page),
    }
    live_page::start(listener, &plan, token, live.clone(), events).map(Some)
}

impl PageAnnouncement<'_> {
    fn print(&self, format: Format) -> Result<(), Failure> {
        let token = self
            .token
            .map(|token| format!("\ntoken for its actions: {token}"));
        let text = || format!("live page: {}{}", self.page, token.unwrap_or_default());
        format.print(self, text)
    }
}

impl PageSource for Live {
    fn page_input(&self) -> PageInput {
        let sets = self.snapshots.sets();
        PageInput {
            status: self.status_with(self.control.figures()),
            outlines: self.outlines(),
            groups: sets.iter().map(|set| group(set)).collect(),
        }
    }
}

impl Live {
    /// What the exports are made of; nothing while that changes.
    fn outlines(&self) -> BTreeMap<String, DiskOutline> {
        let Ok(running) = self.running.try_lock() else {
            return BTreeMap::new();
        };
        let exports = running.plan.exports.iter();
        exports
            .map(|export| (export.name.clone(), DiskOutline::of(&export.disk)))
            .collect()
    }
}

fn group(set: &VolumeSet) -> GroupLine {
    let assembled = set.group();
    let group = &assembled.group;
    let free = free_runs(group).ok();
    let free = free.map(|runs| group.bytes(runs.iter().map(|run| run.count).sum()));
    // What LVM keeps about a snapshot is a visible volume in its metadata; snapshots are listed by themselves.
    let is_listed = |volume: &&LogicalVolume| volume.is_visible() && volume.kind() != "snapshot";
    let listed = group.volumes.iter().filter(is_listed);
    GroupLine {
        name: group.name.clone(),
        size: group.size(),
        free,
        volumes: listed
            .map(|volume| VolumeLine {
                name: volume.name.clone(),
                kind: volume.kind().to_owned(),
                size: group.bytes(volume.extents()),
                is_open: set.is_open(&volume.name),
            })
            .collect(),
        pools: set.thin_pools().into_iter().map(pool).collect(),
    }
}

fn pool((name, usage): (String, ThinPoolUsage)) -> PoolLine {
    PoolLine {
        name,
        data: usage.data_bytes(),
        data_used: usage.data_bytes_used(),
        metadata: usage.metadata_bytes(),
        metadata_used: usage.metadata_bytes_used(),
    }
}
