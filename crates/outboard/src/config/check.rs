//! [`File`] -> [`ServerPlan`]: what each value means, and whether they fit together.

use std::collections::HashSet;
use std::net::SocketAddr;

use nbd::client::DiskId;
use nbd::server::{Access, Limits, NamedBy, Rules};
use nbd::tls::{ClientCertificates, Demand, ServerTlsFiles, TlsVersion};
use toml::Spanned;

use super::error::Slip;
use super::file::{self, ExportTable, File, LimitsTable, Tls};
use super::overlay::overlay;
use super::page::page;
use super::standby::{StandbyOptions, standby};
use super::values::Values;
use super::writers::writers;
use super::{ExportPlan, ServerPlan, TlsPlan};
use crate::commands::serve::listen::ListenPlace;
use crate::graph::{NamedDisk, resolve};

/// Most exports of one server.
pub(super) const EXPORTS_MAX: usize = 4096;
/// Names and descriptions, bytes (proto.md, "Strings").
pub(super) const STRING_MAX: usize = 4096;
/// Bounds of counts: a server's memory, not an int, is what ends them.
const COUNT_MAX: usize = 1 << 20;
/// A server must take requests of this size: some clients send no smaller ones.
const PAYLOAD_MIN: u64 = 64 << 10;

/// Understands a configuration.
pub(crate) fn parse(text: &str) -> Result<ServerPlan, Slip> {
    let file: File = toml::from_str(text).map_err(|error| Slip::of_toml(text, &error))?;
    let values = Values(text);
    let mut listen = Vec::new();
    for place in &file.listen {
        let parsed = place.get_ref().parse::<ListenPlace>();
        listen.push(parsed.map_err(|e| values.slip(place, e))?);
    }
    let mut exports: Vec<ExportPlan> = Vec::new();
    let mut names = HashSet::new();
    for table in &file.export {
        let export = export(values, table.get_ref())?;
        let name = &table.get_ref().name;
        if !names.insert(export.name.clone()) {
            return Err(values.slip(name, format!("a second export named {:?}", export.name)));
        }
        if let Some(other) = same_record(&exports, &export) {
            let what = format!("the same writer file as that of {other:?}");
            return Err(values.slip(name, what));
        }
        if exports.len() == EXPORTS_MAX {
            return Err(values.slip(name, format!("more than {EXPORTS_MAX} exports")));
        }
        exports.push(export);
    }
    if exports.is_empty() {
        let what = "nothing to serve: write [[export]] with a name and a disk";
        return Err(Slip::at(text, text.len(), what));
    }
    let http = page(values, &file)?;
    let plan = ServerPlan {
        listen,
        insecure: file.insecure,
        exports,
        limits: limits(values, &file.limits)?,
        tls: file.tls.as_ref().map(tls),
        control: file.control,
        metrics: file
            .metrics
            .map(|at| address(values, &at, "127.0.0.1:9109"))
            .transpose()?,
        http,
        user: file.user.map(|user| self::user(values, user)).transpose()?,
        on_event: file.on_event.map(|of| on_event(values, of)).transpose()?,
        store_prices: file.store_prices,
    };
    certificates_need_tls(values, &file.export, &plan)?;
    Ok(plan)
}

fn export(values: Values<'_>, table: &ExportTable) -> Result<ExportPlan, Slip> {
    let name = string(values, &table.name)?;
    let description = table.description.as_ref();
    let description = description.map(|text| string(values, text)).transpose()?;
    let disk = disk(values, &table.disk)?;
    let overlay = overlay(values, table)?;
    if overlay.is_some() && !disk.disk.is_image() {
        let what = "no image to put overlays over: it would be empty at each start";
        return Err(values.slip(&table.disk, what));
    }
    if let Some(overlay) = &overlay {
        let checked = overlay.place.check(&disk.disk);
        checked.map_err(|why| values.slip(&table.disk, why))?;
    }
    if table.read_only && !disk.disk.can_be_read_only() {
        let what = "it cannot be read-only: nothing would ever be on it";
        return Err(values.slip(&table.disk, what));
    }
    let mut rules = Rules {
        writers: writers(values, table, &disk.disk)?,
        identity: identity(values, table)?,
        ..Rules::default()
    };
    if let Some(allow) = &table.allow {
        let origin = |text: &Spanned<String>| {
            let parsed = text.get_ref().parse();
            parsed.map_err(|e: nbd::server::OriginError| values.slip(text, e))
        };
        let origins = allow.iter().map(origin).collect::<Result<Vec<_>, Slip>>()?;
        rules.access.origins = Some(origins);
    }
    if let Some(names) = &table.allow_certificates {
        let name = |text: &Spanned<String>| match text.get_ref().as_str() {
            "" => Err(values.slip(text, "a certificate's name is not empty")),
            name => Ok(name.to_owned()),
        };
        let names = names.iter().map(name).collect::<Result<Vec<_>, Slip>>()?;
        rules.access = Access {
            certificates: Some(names),
            ..rules.access
        };
    }
    if let Some(max) = &table.connections_max {
        rules.connections_max = Some(values.count(max, 1..=COUNT_MAX)?);
    }
    let options = StandbyOptions {
        read_only: table.read_only,
        has_overlays: overlay.is_some(),
        has_record: rules.writers.record.is_some(),
    };
    if table.standby {
        let allowed = standby(&disk.disk, options);
        allowed.map_err(|why| values.slip(&table.disk, why))?;
    }
    Ok(ExportPlan {
        name,
        description: description.unwrap_or_default(),
        disk,
        read_only: table.read_only,
        rules,
        overlay,
        is_standby: table.standby,
        is_added: false,
    })
}

/// The identity that copies of a disk have in common. A copy that is written is one no longer.
fn identity(values: Values<'_>, table: &ExportTable) -> Result<Option<DiskId>, Slip> {
    let Some(text) = &table.identity else {
        return Ok(None);
    };
    if !table.read_only || table.overlay.is_some() {
        let what = "an identity is for copies that nothing writes: set read_only = true, without an overlay";
        return Err(values.slip(text, what));
    }
    let parsed = text.get_ref().parse();
    let what = "an identity has 1 to 255 printable ASCII characters, and no blank";
    parsed.map(Some).map_err(|_| values.slip(text, what))
}

/// The export that records its writers where `export` does.
pub(super) fn same_record<'a>(exports: &'a [ExportPlan], export: &ExportPlan) -> Option<&'a str> {
    let record = export.rules.writers.record.as_ref()?;
    let mut others = exports.iter();
    let other = others.find(|other| other.rules.writers.record.as_ref() == Some(record));
    other.map(|other| other.name.as_str())
}

fn string(values: Values<'_>, text: &Spanned<String>) -> Result<String, Slip> {
    if text.get_ref().len() > STRING_MAX {
        return Err(values.slip(text, format!("longer than {STRING_MAX} bytes")));
    }
    Ok(text.get_ref().clone())
}

fn disk(values: Values<'_>, text: &Spanned<String>) -> Result<NamedDisk, Slip> {
    let disk = resolve(text.get_ref()).map_err(|error| {
        let what = format!("in the disk `{}`, {error}", text.get_ref());
        values.slip(text, what)
    })?;
    match &disk.name {
        Some(name) => {
            let what = format!("the name {name:?} belongs to the key `name`; write the disk alone");
            Err(values.slip(text, what))
        }
        None => Ok(disk),
    }
}

fn tls(tls: &Tls) -> TlsPlan {
    let mut files = ServerTlsFiles::in_folder(&tls.directory);
    files.clients = match (tls.clients, files.clients) {
        (file::Clients::Ignored, _) => ClientCertificates::Ignored,
        (file::Clients::Welcome, ClientCertificates::Required { authority }) => {
            ClientCertificates::Welcome { authority }
        }
        (_, clients) => clients,
    };
    files.minimum = match tls.minimum {
        file::Minimum::Tls12 => TlsVersion::Tls12,
        file::Minimum::Tls13 => TlsVersion::Tls13,
    };
    let demand = match tls.demand {
        file::Demand::Optional => Demand::Optional,
        file::Demand::Network => Demand::Network,
        file::Demand::All => Demand::All,
    };
    TlsPlan { files, demand }
}

pub(super) fn address(
    values: Values<'_>,
    at: &Spanned<String>,
    like: &str,
) -> Result<SocketAddr, Slip> {
    let parsed = at.get_ref().parse::<SocketAddr>();
    parsed.map_err(|_| values.slip(at, format!("not an address with a port, like {like:?}")))
}

fn user(values: Values<'_>, user: Spanned<String>) -> Result<String, Slip> {
    if user.get_ref().is_empty() {
        return Err(values.slip(&user, "not a user's name or number"));
    }
    Ok(user.into_inner())
}

/// A program is given by its absolute path: a search by `PATH` would depend on how the server was started.
fn on_event(values: Values<'_>, command: Spanned<file::EventCommand>) -> Result<Vec<String>, Slip> {
    let (program, arguments) = match command.get_ref() {
        file::EventCommand::Program(program) => (program.clone(), Vec::new()),
        file::EventCommand::WithArguments(words) => match words.split_first() {
            Some((program, arguments)) => (program.clone(), arguments.to_vec()),
            None => return Err(values.slip(&command, "no program")),
        },
    };
    if !program.starts_with('/') {
        let what = format!(
            "{program:?} is no absolute path of a program; arguments go into a list: \
             [\"/usr/bin/logger\", \"-t\", \"arrays\"]"
        );
        return Err(values.slip(&command, what));
    }
    Ok(std::iter::once(program).chain(arguments).collect())
}

fn limits(values: Values<'_>, table: &LimitsTable) -> Result<Limits, Slip> {
    let mut limits = Limits::default();
    let counts = [
        (&table.connections_max, &mut limits.connections_max),
        (
            &table.connections_per_address_max,
            &mut limits.connections_per_address_max,
        ),
        (
            &table.in_flight_requests_max,
            &mut limits.in_flight_requests_max,
        ),
    ];
    for (value, limit) in counts {
        if let Some(value) = value {
            *limit = values.count(value, 1..=COUNT_MAX)?;
        }
    }
    let times = [
        (&table.handshake_timeout, &mut limits.handshake_timeout),
        (&table.stall_timeout, &mut limits.stall_timeout),
        (&table.stop_timeout, &mut limits.stop_timeout),
    ];
    for (value, limit) in times {
        if let Some(value) = value {
            *limit = values.time(value)?;
        }
    }
    if let Some(value) = &table.payload_max {
        let cap = u64::from(Limits::default().payload_max);
        let payload = values.size(value, PAYLOAD_MIN..=cap)?;
        limits.payload_max = u32::try_from(payload).unwrap_or(limits.payload_max);
    }
    let payload = u64::from(limits.payload_max);
    let memory = u64::try_from(isize::MAX).unwrap_or(u64::MAX);
    let sizes = [
        (
            &table.in_flight_bytes_max,
            payload,
            &mut limits.in_flight_bytes_max,
        ),
        (
            &table.in_flight_bytes_total_max,
            2 * payload,
            &mut limits.in_flight_bytes_total_max,
        ),
    ];
    for (value, min, limit) in sizes {
        if let Some(value) = value {
            let bytes = values.size(value, min..=memory)?;
            *limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
    }
    Ok(limits)
}

/// Only clients under TLS have certificates: without TLS the rule would refuse every client.
fn certificates_need_tls(
    values: Values<'_>,
    tables: &[Spanned<ExportTable>],
    plan: &ServerPlan,
) -> Result<(), Slip> {
    let tls = plan.tls.as_ref();
    if tls.is_some_and(|tls| tls.files.clients != ClientCertificates::Ignored) {
        return Ok(());
    }
    let needs = " needs [tls] with a directory, and its clients not ignored";
    for (table, export) in tables.iter().zip(&plan.exports) {
        let name = &table.get_ref().name;
        if table.get_ref().allow_certificates.is_some() {
            return Err(values.slip(name, format!("allow_certificates{needs}")));
        }
        let overlay = export.overlay.as_ref();
        if overlay.is_some_and(|overlay| overlay.named_by == NamedBy::Certificate) {
            let what = format!("overlay_name = \"certificate\"{needs}");
            return Err(values.slip(name, what));
        }
    }
    Ok(())
}
