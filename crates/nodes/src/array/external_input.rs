//! What superblocks are given from outside the array: calendar time, and UUIDs of random bytes.
//!
//! # Invariants
//!
//! * Nothing else in the array reads the date or random bytes. A test that gives both here plays the same array
//!   again, byte for byte.

use std::time::SystemTime;

/// A UUID of random bytes, as mdadm makes them.
pub(super) fn random_uuid() -> [u8; 16] {
    #[cfg(test)]
    if let Some(uuid) = given::uuid() {
        return uuid;
    }
    let mut uuid = [0; 16];
    let filled = rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(uuid.len()), "the kernel has random bytes");
    uuid
}

/// Seconds since 1970.
pub(super) fn seconds() -> u64 {
    #[cfg(test)]
    if let Some(seconds) = given::seconds() {
        return seconds;
    }
    let since = engine::clock::wall().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// What a test gives instead, to the arrays of its thread.
#[cfg(test)]
pub(super) mod given {
    use std::cell::RefCell;
    use std::time::Instant;

    use engine::clock;

    /// When it begins, in seconds since 1970.
    const BEGIN: u64 = 1_795_288_091;

    thread_local! {
        static GIVEN: RefCell<Option<State>> = const { RefCell::new(None) };
    }

    struct State {
        began: Instant,
        rng: fastrand::Rng,
    }

    /// As long as this is there, UUIDs come from its seed, and the calendar goes with the clock of the runtime.
    #[derive(Debug)]
    pub(in crate::array) struct Given(());

    impl Given {
        pub(in crate::array) fn by(seed: u64) -> Self {
            let state = State {
                began: clock::now(),
                rng: fastrand::Rng::with_seed(seed),
            };
            GIVEN.set(Some(state));
            Self(())
        }
    }

    impl Drop for Given {
        fn drop(&mut self) {
            GIVEN.set(None);
        }
    }

    pub(super) fn uuid() -> Option<[u8; 16]> {
        GIVEN.with_borrow_mut(|given| {
            let mut uuid = [0; 16];
            given.as_mut()?.rng.fill(&mut uuid);
            Some(uuid)
        })
    }

    pub(super) fn seconds() -> Option<u64> {
        let passed = |given: &State| clock::now().saturating_duration_since(given.began);
        GIVEN.with_borrow(|given| Some(BEGIN + passed(given.as_ref()?).as_secs()))
    }
}
