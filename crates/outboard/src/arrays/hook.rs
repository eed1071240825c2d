//! [`Hook`]: runs the user's program at each array event, as `mdadm --monitor` does.
//!
//! ```text
//! PROGRAM… EVENT ARRAY [MEMBER]       and the same, and more, in OUTBOARD_… variables
//! ```
//!
//! # Invariants
//!
//! * One process at a time, in the order of the events. At most [`WAITING_MAX`] events are queued; more are dropped
//!   and logged.
//! * No shell: names of arrays and members are passed as arguments, unescaped.
//! * A program that does not end within [`TIME_MAX`] is ended, with all that it started.
//! * Only the shutdown of outboard waits for it, for [`LAST_TIME`] at most.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::clock;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::event_log::EventLog;

/// Events in the queue.
const WAITING_MAX: usize = 64;
/// Timeout of one run of the program.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How long shutdown waits for queued events.
const LAST_TIME: Duration = Duration::from_secs(5);
/// Interval at which the child is polled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One event, as the program receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookEvent {
    /// `Fail`, `SpareActive`… as mdadm calls them.
    pub(crate) event: &'static str,
    /// The array's name.
    pub(crate) array: String,
    /// The member, where there is one.
    pub(crate) member: Option<String>,
    /// More, for `OUTBOARD_…` variables.
    pub(crate) more: Vec<(&'static str, String)>,
}

impl HookEvent {
    /// The event in words.
    fn text(&self) -> &str {
        let text = self.more.iter().find(|(name, _)| *name == "OUTBOARD_TEXT");
        text.map_or("", |(_, text)| text)
    }
}

/// Runs the program, and keeps the events for the live page. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Hook(Arc<HookInner>);

#[derive(Debug)]
struct HookInner {
    /// `None` without a program, and once [`Hook::finish`] was called.
    queue: Mutex<Option<Sender<HookEvent>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    log: Option<EventLog>,
}

impl Hook {
    /// One that runs `command`: a program and its first arguments. Call on the engine.
    pub(crate) fn start(command: Vec<String>) -> Self {
        let (queue, waiting) = channel(WAITING_MAX);
        let worker = engine::spawn(work(command, waiting));
        Self(Arc::new(HookInner {
            queue: Mutex::new(Some(queue)),
            worker: Mutex::new(Some(worker)),
            log: None,
        }))
    }

    /// The same, if there is a `command`, with a log that gets each event. Call on the engine.
    pub(crate) fn with_log(command: Option<Vec<String>>, log: EventLog) -> Self {
        let started = command.map(Self::start);
        let inner = started.and_then(|hook| Arc::into_inner(hook.0));
        let inner = inner.unwrap_or_else(|| HookInner {
            queue: Mutex::default(),
            worker: Mutex::default(),
            log: None,
        });
        Self(Arc::new(HookInner {
            log: Some(log),
            ..inner
        }))
    }

    /// Queues an event for the program.
    pub(crate) fn send(&self, hook_event: HookEvent) {
        if let Some(log) = &self.0.log {
            let HookEvent { event, array, .. } = &hook_event;
            log.append(
                event,
                array,
                hook_event.member.as_deref(),
                hook_event.text(),
            );
        }
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = &*queue else {
            return;
        };
        if let Err(TrySendError::Full(hook_event)) = queue.try_send(hook_event) {
            let (event, array) = (hook_event.event, &hook_event.array);
            tracing::error!(
                "on_event: {event} of {array} is dropped: {WAITING_MAX} events are queued"
            );
        }
    }

    /// Waits until the queue is empty, for [`LAST_TIME`] at most. Later events are dropped.
    pub(crate) async fn finish(&self) {
        let close = |queue: &Mutex<Option<Sender<HookEvent>>>| {
            drop(queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        };
        close(&self.0.queue);
        let worker = self
            .0
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(worker) = worker else {
            return;
        };
        if clock::timeout(LAST_TIME, worker).await.is_err() {
            tracing::error!(
                "on_event: shutdown timeout: some events were not passed to the program"
            );
        }
    }
}

async fn work(command: Vec<String>, mut waiting: Receiver<HookEvent>) {
    while let Some(hook_event) = waiting.recv().await {
        let (event, array) = (hook_event.event, hook_event.array.clone());
        if let Err(why) = run(&command, &hook_event).await {
            let program = command.first().map_or("", String::as_str);
            tracing::error!("on_event: {program} {event} {array}: {why}");
        }
    }
}

/// Runs the program and waits for it.
async fn run(command: &[String], hook_event: &HookEvent) -> Result<(), String> {
    let mut child =
        start(command, hook_event).map_err(|error| format!("cannot be run: {error}"))?;
    let begin = clock::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return judged(status),
            Ok(None) => {}
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
        if clock::now().saturating_duration_since(begin) > TIME_MAX {
            end(child).await;
            return Err(format!("ended by force after {} s", TIME_MAX.as_secs()));
        }
        clock::sleep(LOOK_EVERY).await;
    }
}

fn start(command: &[String], hook_event: &HookEvent) -> io::Result<Child> {
    let (program, first) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(first)
        .arg(hook_event.event)
        .arg(&hook_event.array);
    command.args(&hook_event.member);
    command.env("OUTBOARD_EVENT", hook_event.event);
    command.env("OUTBOARD_ARRAY", &hook_event.array);
    command.env(
        "OUTBOARD_MEMBER",
        hook_event.member.as_deref().unwrap_or_default(),
    );
    for (name, value) in &hook_event.more {
        command.env(name, value);
    }
    // Variables of the service manager that are for this process only.
    for own in [
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
    ] {
        command.env_remove(own);
    }
    // Standard output is for answers, and may be a client's socket.
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    command.stdin(Stdio::null()).stdout(errors).process_group(0);
    command.spawn()
}

fn judged(status: ExitStatus) -> Result<(), String> {
    match status.success() {
        true => Ok(()),
        false => Err(format!("it ended with {status}")),
    }
}

/// Ends the program and all that it started.
async fn end(mut child: Child) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(Err(error)) = id.map(|id| kill_process_group(id, Signal::KILL)) {
        tracing::warn!("on_event: {error}");
    }
    drop(engine::blocking(move || child.wait()).await);
}
