//! Every console of README.md and docs/guide is run, and prints what the page shows.
//!
//! A console is a code block with a prompt ([`markdown`]). Each runs on a host of its own, several hosts where its prompts name them ([`host`]),
//! against the binary under test, and what it prints is compared with the page (by the rules at the head of [`compare`]). A comment of HTML
//! before a console says what the page does not show:
//!
//! ```text
//! <!-- session NAME needs=fuse,mdadm in=/home/me names=nas.lan times=compared
//! truncate -s 100M disk.img
//! backup$ outboard serve b.img
//! -->
//! <!-- not run: REASON -->
//! ```
//!
//! The keys are those of [`markdown::SessionMark`]. In a comment `stop` stops the server that was started last. A command that serves
//! goes on until the session ends, and must end with status 0 then; `^C` as its first output line interrupts a command. A `status` is
//! read again for some seconds until it is what the page shows.
//!
//! Consoles of one page with one NAME are one session, in their order. Without a comment a console is a session of its own, in an empty
//! folder: so a new console is either run or has a reason, which the test prints and counts.
//!
//! Sessions need root, as what they show does, and are skipped without. That every command and option that a page writes exists is
//! checked everywhere ([`options`]).

mod compare;
mod host;
mod markdown;
mod options;
mod session;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use session::{Session, Verdict};

/// Sessions that run at once: they wait more than they compute.
const AT_ONCE: usize = 6;

/// The repository.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// README.md and the guides: path from the repository, and text.
pub(crate) fn pages() -> Vec<(String, String)> {
    let root = repository();
    let guides = fs::read_dir(root.join("docs/guide")).expect("the guides");
    let guides = guides.map(|entry| entry.expect("a guide").file_name());
    let mut paths: Vec<String> = guides
        .map(|name| format!("docs/guide/{}", name.to_string_lossy()))
        .collect();
    paths.push("README.md".to_owned());
    paths.sort();
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).expect("a page in UTF-8");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// `OUTBOARD_GUIDE=faults` runs the sessions with that in their title.
#[test]
fn every_console_of_readme_and_guides_prints_what_the_page_shows() {
    let only = std::env::var("OUTBOARD_GUIDE").unwrap_or_default();
    let mut sessions = Vec::new();
    let mut not_run = Vec::new();
    for (path, text) in pages() {
        let consoles = markdown::consoles(&text).unwrap_or_else(|e| panic!("{path}, {e}"));
        let (of_page, reasons) = session::of_page(&path, consoles);
        sessions.extend(of_page);
        not_run.extend(reasons);
    }
    sessions.retain(|session| session.title.contains(&only));
    sessions.sort_by_key(|session| std::cmp::Reverse(session.weight()));
    for reason in &not_run {
        eprintln!("not run: {reason}");
    }
    let wrong = run_all(sessions);
    eprintln!("{} consoles are not run", not_run.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs sessions side by side; what was wrong.
fn run_all(sessions: Vec<Session>) -> Vec<String> {
    let wrong = Mutex::new(Vec::new());
    let queue = Mutex::new(sessions.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic under it").next();
                    let Some(session) = next else { break };
                    match session.run() {
                        Verdict::Good(commands) => {
                            eprintln!("ran: {}, {commands} commands", session.title)
                        }
                        Verdict::Skipped => eprintln!("skipped: {}", session.title),
                        Verdict::Wrong(what) => {
                            let text = format!("{}:\n{}", session.title, what.join("\n"));
                            wrong.lock().expect("no panic under it").push(text);
                        }
                    }
                }
            });
        }
    });
    wrong.into_inner().expect("no panic under it")
}
