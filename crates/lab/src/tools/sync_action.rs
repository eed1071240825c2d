//! [`SyncAction`]: what an array copies for while it is used. Pure.

use serde::{Deserialize, Serialize};

/// What an array copies for, by our commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncAction {
    /// A member that was pulled rejoins: what it missed is copied, by the bitmap.
    #[default]
    ReAdd,
    /// A drive that counts as new takes the place of a member that was pulled: all of it is rebuilt.
    Add,
    /// One more drive becomes a member, and data are spread over all (level 4, 5 or 6).
    Grow,
}

impl SyncAction {
    /// The headline: how long that takes.
    pub(super) const fn headline(self, level: u32) -> &'static str {
        match self {
            Self::Grow => "until all is spread over one more",
            _ if level == 1 => "until both are alike",
            _ => "until the member is in sync",
        }
    }

    /// What is copied, by that time.
    pub(super) const fn rate(self) -> &'static str {
        match self {
            Self::ReAdd => "made good of what it missed",
            Self::Add => "rebuilt of the member",
            Self::Grow => "spread of the array's data",
        }
    }
}
