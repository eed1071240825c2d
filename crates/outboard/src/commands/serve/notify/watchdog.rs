//! systemd's watchdog (`WatchdogSec=`, sd_watchdog_enabled(3)): reports that every core of the engine still works.
//!
//! # Invariants
//!
//! * A report is sent only after each core ran a task that was handed to it since the last one: a core that stands still
//!   ends the reports, and systemd restarts the service.
//! * A disk that does not answer is no reason: its requests wait on threads of their own, and the cores work on.

use std::env::VarError;
use std::time::Duration;

use engine::clock;
use tokio::sync::mpsc;

use super::send;

/// Reports until the engine ends, if the service manager expects it.
pub(super) fn start(handle: &engine::Handle) {
    let limit = limit(std::process::id(), |name| std::env::var(name));
    if let Some(limit) = limit {
        // It ends with the engine.
        drop(engine::spawn(report(handle.clone(), limit, || {
            send("WATCHDOG=1");
        })));
    }
}

/// The longest time without a report; none if this process is not watched.
fn limit(process: u32, variable: impl Fn(&str) -> Result<String, VarError>) -> Option<Duration> {
    let meant = match variable("WATCHDOG_PID") {
        Ok(id) => id.parse() == Ok(process),
        Err(_) => true,
    };
    let micros: u64 = variable("WATCHDOG_USEC").ok()?.parse().ok()?;
    (meant && micros > 0).then(|| Duration::from_micros(micros))
}

/// Calls `alive` twice in each `limit`, while all cores work.
async fn report(handle: engine::Handle, limit: Duration, alive: impl Fn() + Send) {
    loop {
        every_core(&handle).await;
        alive();
        clock::sleep(limit / 2).await;
    }
}

/// Waits until each core has run a task.
async fn every_core(handle: &engine::Handle) {
    let (ran, mut done) = mpsc::channel(engine::CORES_MAX);
    for core in 0..handle.cores() {
        let ran = ran.clone();
        handle.spawn_on(core, move || async move {
            // The channel has room for each core.
            ran.send(()).await.ok();
        });
    }
    drop(ran);
    for _ in 0..handle.cores() {
        done.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc as threads};

    use engine::{BackendChoice, Config};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    fn limit_with(variables: &[(&str, &str)]) -> Option<Duration> {
        limit(7, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found
                .map(|(_, value)| (*value).to_owned())
                .ok_or(VarError::NotPresent)
        })
    }

    #[test]
    fn it_is_for_the_process_that_is_watched() {
        let usec = ("WATCHDOG_USEC", "60000000");
        assert_eq!(limit_with(&[]), None);
        assert_eq!(limit_with(&[usec]), Some(Duration::from_mins(1)));
        assert_eq!(
            limit_with(&[usec, ("WATCHDOG_PID", "7")]),
            Some(Duration::from_mins(1))
        );
        assert_eq!(limit_with(&[usec, ("WATCHDOG_PID", "8")]), None);
        assert_eq!(limit_with(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(limit_with(&[("WATCHDOG_USEC", "soon")]), None);
    }

    #[test]
    fn a_core_that_stands_still_ends_the_reports() {
        let config = Config {
            backend: BackendChoice::Threads,
            cores: 2,
        };
        let ran = engine::run(&config, async |handle: engine::Handle| {
            let reports = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&reports);
            drop(engine::spawn(report(handle.clone(), LIMIT, move || {
                counted.fetch_add(1, Ordering::SeqCst);
            })));
            while reports.load(Ordering::SeqCst) < 3 {
                clock::sleep(LIMIT).await;
            }
            let (stands, standing) = tokio::sync::oneshot::channel();
            let (release, held) = threads::channel::<()>();
            handle.spawn_on(1, move || async move {
                stands.send(()).expect("the test waits");
                held.recv().expect_err("nothing is sent");
            });
            standing.await.expect("core 1 works");
            let before = reports.load(Ordering::SeqCst);
            clock::sleep(LIMIT * 10).await;
            // One may have been under way.
            let after = reports.load(Ordering::SeqCst);
            drop(release);
            while reports.load(Ordering::SeqCst) <= after {
                clock::sleep(LIMIT).await;
            }
            (before, after)
        });
        let (before, after) = ran.expect("an engine of threads");
        assert!(after <= before + 1, "{before} reports, then {after}");
    }
}
