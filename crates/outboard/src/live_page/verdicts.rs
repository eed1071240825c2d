//! Which verdict of the lab is about which disk of the page. Pure.
//!
//! # Invariants
//!
//! * A verdict belongs to an export only if its target was a URI of this server: the same name on another machine is
//!   another disk. An export that is attached on this machine has the verdicts about its device and its mount, too.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use lab::host::TargetPlace;
use lab::report::PlaceVerdict;
use nbd::client::{Address, Target};
use serde::Serialize;

use super::status::{AttachmentLine, Surroundings};

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct VerdictLine {
    /// The run's number.
    run: i64,
    plan: String,
    /// When the run began, milliseconds since 1970.
    at_ms: u64,
    text: String,
}

impl From<&PlaceVerdict> for VerdictLine {
    fn from(of: &PlaceVerdict) -> Self {
        Self {
            run: of.run.0,
            plan: of.plan.clone(),
            at_ms: of.started_unix_ms,
            text: of.text.clone(),
        }
    }
}

/// The last verdict about an attachment.
pub(super) fn of_attachment(
    attachment: &AttachmentLine,
    verdicts: &[PlaceVerdict],
) -> Option<VerdictLine> {
    let found = verdicts.iter().find(|one| is_at(&one.place, attachment));
    found.map(VerdictLine::from)
}

/// The last verdicts about exports of the server that listens at `listen`, by their names.
pub(super) fn by_export(
    listen: &[String],
    surroundings: &Surroundings,
) -> HashMap<String, VerdictLine> {
    let mut found = HashMap::new();
    for one in surroundings.verdicts.iter() {
        let attached = surroundings.attachments.iter();
        let attached = attached.filter(|attachment| is_at(&one.place, attachment));
        let uris = attached.map(|attachment| attachment.disk.as_str());
        let own = match &one.place {
            TargetPlace::Uri(uri) => Some(uri.as_str()),
            _ => None,
        };
        for export in own
            .into_iter()
            .chain(uris)
            .filter_map(|uri| export_of(uri, listen))
        {
            // They are sorted: the latest first.
            found
                .entry(export)
                .or_insert_with(|| VerdictLine::from(one));
        }
    }
    found
}

/// Whether a place is the device or below the mount of an attachment.
fn is_at(place: &TargetPlace, attachment: &AttachmentLine) -> bool {
    match place {
        TargetPlace::Directory(path) => {
            let mount = attachment.mounted_on.as_ref();
            mount.is_some_and(|mount| path.starts_with(mount))
        }
        TargetPlace::Device(path) => attachment.device.as_ref() == Some(path),
        TargetPlace::Uri(uri) => *uri == attachment.disk,
        TargetPlace::There { .. } => false,
    }
}

/// The name of the export that `uri` means, if it is one of the server that listens at `listen`.
fn export_of(uri: &str, listen: &[String]) -> Option<String> {
    let target: Target = uri.parse().ok()?;
    let is_place = |place: &String| target.addresses().any(|address| is_place(address, place));
    let is_own = listen.iter().any(is_place);
    is_own.then_some(target.export)
}

fn is_place(address: &Address, listen: &str) -> bool {
    match address {
        Address::Unix(path) => listen.strip_prefix("unix:").map(Path::new) == Some(path),
        Address::Vsock(_) => false,
        Address::Tcp { host, port } => {
            let Ok(at) = listen.parse::<SocketAddr>() else {
                return false;
            };
            let ip = host.parse::<IpAddr>();
            let is_loopback = host == "localhost" || ip.as_ref().is_ok_and(IpAddr::is_loopback);
            let reaches = at.ip().is_unspecified() || at.ip().is_loopback();
            at.port() == *port && (ip == Ok(at.ip()) || (is_loopback && reaches))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of which disk a verdict is about.

    use std::sync::Arc;

    use lab::RunId;

    use super::*;

    fn verdict(run: i64, place: TargetPlace) -> PlaceVerdict {
        PlaceVerdict {
            place,
            run: RunId(run),
            plan: "quick".to_owned(),
            started_unix_ms: 0,
            text: "a is faster than b".to_owned(),
        }
    }

    fn uri(text: &str) -> TargetPlace {
        TargetPlace::Uri(text.to_owned())
    }

    fn found(verdicts: Vec<PlaceVerdict>, attachments: Vec<AttachmentLine>) -> Option<i64> {
        let surroundings = Surroundings {
            verdicts: Arc::new(verdicts),
            attachments,
            ..Surroundings::default()
        };
        let listen = ["0.0.0.0:10809", "unix:/run/a.sock"].map(str::to_owned);
        let found = by_export(&listen, &surroundings);
        found.get("media").map(|one| one.run)
    }

    #[test]
    fn a_verdict_about_a_uri_of_this_server_is_the_exports() {
        for own in [
            "nbd://localhost/media",
            "nbd://127.0.0.1:10809/media",
            "nbd+unix:///media?socket=/run/a.sock",
        ] {
            assert_eq!(
                found(vec![verdict(1, uri(own))], Vec::new()),
                Some(1),
                "{own}"
            );
        }
        for other in [
            "nbd://nas.lan/media",
            "nbd://localhost:10810/media",
            "nbd://localhost/other",
            "nbd+unix:///media?socket=/run/b.sock",
            "no URI",
        ] {
            assert_eq!(
                found(vec![verdict(1, uri(other))], Vec::new()),
                None,
                "{other}"
            );
        }
    }

    #[test]
    fn a_verdict_about_a_mount_of_the_export_is_the_exports_too_and_the_last_one_counts() {
        let attachment = |disk: &str| AttachmentLine {
            device: Some("/dev/nbd0".into()),
            mounted_on: Some("/mnt/media".into()),
            size: 1,
            via: "kernel".to_owned(),
            disk: disk.to_owned(),
            read_only: false,
            state: "connected".to_owned(),
            verdict: None,
        };
        let verdicts = vec![
            verdict(3, TargetPlace::Directory("/mnt/media/test".into())),
            verdict(2, uri("nbd://localhost/media")),
        ];
        let own = attachment("nbd://localhost/media");
        assert_eq!(of_attachment(&own, &verdicts).map(|one| one.run), Some(3));
        assert_eq!(found(verdicts.clone(), vec![own]), Some(3));
        let other = attachment("nbd://nas.lan/media");
        assert_eq!(found(verdicts, vec![other]), Some(2));
    }
}
