//! [`Phase`]: something that members must know before, or only after, something else happens. Pure.
//!
//! ```text
//!              wanted          in a commit          durable
//!   Clear ───► Setting ──────► SettingNow ────────► Set
//!     ▲                                              │
//!     └─────── ClearingNow ◄── Clearing ◄────────────┘
//! ```
//!
//! # Invariants
//!
//! * [`Phase::Set`] is reached only while all members have it durably.
//! * What is wanted again while it is being cleared is set again, by the commit after that one.

/// How far the members know of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// No member says so, as far as that can be trusted.
    #[default]
    Clear,
    /// The next commit writes it.
    Setting,
    /// The commit that is under way writes it.
    SettingNow,
    /// All members say so, durably.
    Set,
    /// The next commit takes it back.
    Clearing,
    /// The commit that is under way takes it back.
    ClearingNow,
}

impl Phase {
    /// It must be set before something happens.
    pub(super) const fn want(&mut self) {
        *self = match *self {
            Self::Clear | Self::ClearingNow => Self::Setting,
            Self::Clearing => Self::Set,
            other => other,
        };
    }

    /// It need not be set any longer.
    pub(super) const fn let_go(&mut self) {
        if matches!(self, Self::Set) {
            *self = Self::Clearing;
        }
    }

    /// It must not be taken back after all.
    pub(super) const fn keep(&mut self) {
        if matches!(self, Self::Clearing) {
            *self = Self::Set;
        }
    }

    /// A commit begins: whether it changes this, and to what.
    pub(super) const fn begin(&mut self) -> Option<bool> {
        let (next, to) = match *self {
            Self::Setting => (Self::SettingNow, true),
            Self::Clearing => (Self::ClearingNow, false),
            _ => return None,
        };
        *self = next;
        Some(to)
    }

    /// The commit that changed it is durable.
    pub(super) const fn end(&mut self) {
        *self = match *self {
            Self::SettingNow => Self::Set,
            Self::ClearingNow => Self::Clear,
            other => other,
        };
    }

    /// The commit that should have changed it failed: which members say what is not known.
    pub(super) const fn undo(&mut self) {
        *self = match *self {
            Self::SettingNow | Self::ClearingNow => Self::Setting,
            other => other,
        };
    }

    /// Whether what waits for it may happen.
    pub(super) const fn is_set(self) -> bool {
        matches!(self, Self::Set)
    }

    /// Whether the members say so, or will.
    pub(super) const fn is_wanted(self) -> bool {
        matches!(self, Self::Setting | Self::SettingNow | Self::Set)
    }
}
