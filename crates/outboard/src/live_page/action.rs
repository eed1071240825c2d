//! [`PageAction`]: what can be done from the live page, and the request of the control socket that does it. Pure.
//!
//! # What it does not do
//!
//! It has no action that the control socket lacks.

use serde::Deserialize;

use crate::control::{ArrayRequest, ArrayStep, ControlRequest};

/// Longest action, bytes.
pub(super) const ACTION_MAX: usize = 16 << 10;

/// An action.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum PageAction {
    /// Disconnect a client.
    Disconnect {
        /// Its number.
        client: u64,
    },
    /// Declare a member failed.
    Fail {
        export: String,
        uuid: String,
        member: String,
    },
    /// Make a disk a member.
    Add {
        export: String,
        uuid: String,
        /// An expression.
        disk: String,
    },
    /// Compare all copies.
    Scrub {
        export: String,
        uuid: String,
        /// Repair differences.
        repair: bool,
    },
    /// End a scrub early.
    StopScrub { export: String, uuid: String },
}

impl PageAction {
    /// Its name and what it is applied to, for the log and the list of events.
    pub(super) fn words(&self) -> (&'static str, String) {
        match self {
            Self::Disconnect { client } => ("Disconnect", format!("client {client}")),
            Self::Fail { export, member, .. } => ("Fail", format!("{member} of {export}")),
            Self::Add { export, disk, .. } => ("Add", format!("{disk} to {export}")),
            Self::Scrub { export, .. } => ("Scrub", export.clone()),
            Self::StopScrub { export, .. } => ("StopScrub", export.clone()),
        }
    }

    /// The request that does it.
    pub(super) fn into_request(self) -> ControlRequest {
        let (export, uuid, step) = match self {
            Self::Disconnect { client } => return ControlRequest::Disconnect { client },
            Self::Fail {
                export,
                uuid,
                member,
            } => (export, uuid, ArrayStep::Fail { member }),
            Self::Add { export, uuid, disk } => {
                let step = ArrayStep::Add {
                    disk,
                    write_mostly: false,
                    fail_fast: false,
                    // What is on a disk is overwritten by the command alone.
                    force: false,
                };
                (export, uuid, step)
            }
            Self::Scrub {
                export,
                uuid,
                repair,
            } => (export, uuid, ArrayStep::Scrub { repair }),
            Self::StopScrub { export, uuid } => (export, uuid, ArrayStep::StopScrub),
        };
        ControlRequest::Array(ArrayRequest { export, uuid, step })
    }
}

#[cfg(test)]
mod tests {
    //! Tests of actions as the page sends them.

    use super::*;

    fn read(text: &str) -> Option<PageAction> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn an_action_is_a_request_of_the_control_socket() {
        let action = read(r#"{"disconnect":{"client":7}}"#).expect("an action");
        assert_eq!(
            action.into_request(),
            ControlRequest::Disconnect { client: 7 }
        );
        let action = r#"{"fail":{"export":"media","uuid":"1:2:3:4","member":"b.img"}}"#;
        let request = ArrayRequest {
            export: "media".to_owned(),
            uuid: "1:2:3:4".to_owned(),
            step: ArrayStep::Fail {
                member: "b.img".to_owned(),
            },
        };
        let action = read(action).expect("an action");
        assert_eq!(action.into_request(), ControlRequest::Array(request));
    }

    #[test]
    fn nothing_else_is_an_action() {
        for text in [
            "",
            "{}",
            r#""reload""#,
            r#"{"stop":{"export":"a","uuid":"b","force":true}}"#,
            r#"{"disconnect":{"client":7,"force":true}}"#,
            r#"{"disconnect":{"client":-1}}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
