//! What happens to an array: into the log, and to the program of `on_event`.

use std::sync::Arc;

use nodes::array::{Array, ArrayEvent, SyncKind};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::hook::{Hook, HookEvent};
use super::report::{SyncOperation, short_name, uuid};

/// What is watched.
#[derive(Debug, Clone)]
pub(super) struct ArrayWatch {
    pub(super) array: String,
    pub(super) uuid: String,
    pub(super) export: String,
}

/// Watches an array from here on, until it is closed. Call on the engine.
pub(super) fn start(export: &str, array: &Arc<Array>, hook: Option<Hook>) {
    // First the events, then the state: nothing falls between the two.
    let events = array.events();
    let status = array.status();
    let watched = ArrayWatch {
        array: short_name(&status.name).to_owned(),
        uuid: uuid(&status.uuid),
        export: export.to_owned(),
    };
    if status.working < status.parts {
        watched.report(&ArrayEvent::DegradedArray, hook.as_ref());
    }
    drop(engine::spawn(watch(watched, events, hook)));
}

async fn watch(watched: ArrayWatch, mut events: Receiver<ArrayEvent>, hook: Option<Hook>) {
    loop {
        match events.recv().await {
            Ok(event) => watched.report(&event, hook.as_ref()),
            Err(RecvError::Lagged(missed)) => {
                tracing::error!("array {}: {missed} events were missed", watched.array);
            }
            Err(RecvError::Closed) => return,
        }
    }
}

impl ArrayWatch {
    fn report(&self, event: &ArrayEvent, hook: Option<&Hook>) {
        let array = &self.array;
        let line = in_words(event);
        match event {
            ArrayEvent::Fail { .. } | ArrayEvent::TakenOver(_) => {
                tracing::error!("array {array}: {line}")
            }
            ArrayEvent::BadBlocks { .. } | ArrayEvent::ReshapePaused { .. } => {
                tracing::error!("array {array}: {line}");
            }
            ArrayEvent::DegradedArray => tracing::warn!("array {array}: {line}"),
            ArrayEvent::RebuildFinished { mismatches, .. } if *mismatches > 0 => {
                tracing::warn!("array {array}: {line}");
            }
            _ => tracing::info!("array {array}: {line}"),
        }
        if let Some(hook) = hook {
            hook.send(self.hook_event(event));
        }
    }

    /// The event by mdadm's names.
    pub(super) fn hook_event(&self, event: &ArrayEvent) -> HookEvent {
        let mut more = vec![
            ("OUTBOARD_ARRAY_UUID", self.uuid.clone()),
            ("OUTBOARD_EXPORT", self.export.clone()),
            ("OUTBOARD_TEXT", in_words(event)),
        ];
        let kind = |kind: &SyncKind| {
            (
                "OUTBOARD_KIND",
                SyncOperation::from(*kind).name().to_owned(),
            )
        };
        let (event, member) = match event {
            ArrayEvent::Fail { member, .. } => ("Fail", Some(member)),
            ArrayEvent::SpareActive { member } => ("SpareActive", Some(member)),
            ArrayEvent::TakenOver(of) => ("TakenOver", Some(&of.member)),
            ArrayEvent::DegradedArray => ("DegradedArray", None),
            ArrayEvent::RebuildStarted(of) => {
                more.push(kind(of));
                ("RebuildStarted", None)
            }
            ArrayEvent::RebuildFinished {
                kind: of,
                mismatches,
            } => {
                more.push(kind(of));
                more.push(("OUTBOARD_MISMATCHES", mismatches.to_string()));
                ("RebuildFinished", None)
            }
            ArrayEvent::BadBlocks { place } => {
                more.push(("OUTBOARD_PLACE", format!("{}+{}", place.offset, place.len)));
                ("BadBlocks", None)
            }
            ArrayEvent::ReshapePaused { .. } => ("ReshapePaused", None),
            ArrayEvent::MemberBack { member } => ("MemberBack", Some(member)),
        };
        HookEvent {
            event,
            array: self.array.clone(),
            member: member.cloned(),
            more,
        }
    }
}

fn in_words(event: &ArrayEvent) -> String {
    let name = |kind: &SyncKind| SyncOperation::from(*kind).name();
    match event {
        ArrayEvent::Fail { member, why } => format!("{member} failed: {why}"),
        ArrayEvent::SpareActive { member } => format!("{member} is in sync"),
        ArrayEvent::TakenOver(of) => of.to_string(),
        ArrayEvent::DegradedArray => "it is degraded: parts are missing".to_owned(),
        ArrayEvent::RebuildStarted(kind) => format!("{} begins", name(kind)),
        ArrayEvent::RebuildFinished {
            kind,
            mismatches: 0,
        } => format!("{} ended", name(kind)),
        ArrayEvent::RebuildFinished { kind, mismatches } => {
            format!("{} ended: {mismatches} sectors differed", name(kind))
        }
        ArrayEvent::BadBlocks { place } => {
            let (at, len) = (place.offset, place.len);
            format!("{len} bytes at byte {at} are on no member any more: they are bad blocks")
        }
        ArrayEvent::ReshapePaused { why } => format!("the reshape is paused: {why}"),
        ArrayEvent::MemberBack { member } => format!("{member} has rejoined"),
    }
}
