//! A session: consoles of one page that share hosts, run from its first command to its last.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::requires;

use crate::compare;
use crate::host::{self, Host, Outcome};
use crate::markdown::{Console, Mark, SessionMark, Step};

/// What a server prints once clients can come.
const READY: [&str; 2] = ["://", "Listening on"];

/// How long what it prints besides may take.
const REST: Duration = Duration::from_secs(5);

/// In a comment: stops the server that was started last.
const STOP: &str = "stop";

/// How the output of a command that cannot do its work begins.
const FAILURE: &str = "outboard: ";

/// A key of a terminal, as a page shows it: the command is interrupted.
const INTERRUPT: &str = "^C\n";

/// After what time a command is interrupted the first time.
const INTERRUPT_FIRST: Duration = Duration::from_millis(30);

/// Consoles that share hosts.
#[derive(Debug)]
pub(crate) struct Session {
    /// Page, line and name.
    pub(crate) title: String,
    page: String,
    mark: SessionMark,
    parts: Vec<Part>,
}

/// A console and what runs before it.
#[derive(Debug)]
struct Part {
    before: Vec<Step>,
    steps: Vec<Step>,
    /// Whether it shows output: a console without any lists commands.
    shows: bool,
}

/// What came of a session.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// As many commands ran as shown.
    Good(usize),
    /// The machine cannot run it; why was printed.
    Skipped,
    /// What differs.
    Wrong(Vec<String>),
}

/// A session while it runs.
struct Run<'a> {
    session: &'a Session,
    hosts: Vec<(String, Host)>,
    /// Devices of the page and of this run.
    devices: Vec<(String, String)>,
    wrong: Vec<String>,
}

/// The sessions of a page, and the reasons of consoles that are not run.
pub(crate) fn of_page(page: &str, consoles: Vec<Console>) -> (Vec<Session>, Vec<String>) {
    let mut sessions: Vec<Session> = Vec::new();
    let mut not_run = Vec::new();
    for console in consoles {
        let mark = match console.mark {
            Mark::NotRun(reason) => {
                not_run.push(format!("{page}:{}: {reason}", console.line));
                continue;
            }
            Mark::Session(mark) => mark,
            Mark::Unmarked => SessionMark {
                name: format!("line-{}", console.line),
                ..SessionMark::default()
            },
        };
        let mut part = Part {
            before: mark.before.clone(),
            shows: console.steps.iter().any(|step| !step.shown.is_empty()),
            steps: console.steps,
        };
        if let Some((from, to)) = &mark.replace {
            for step in &mut part.steps {
                step.command = step.command.replace(from, to);
                step.shown = step.shown.replace(from, to);
            }
        }
        match sessions
            .iter_mut()
            .find(|session| session.mark.name == mark.name)
        {
            Some(session) => session.parts.push(part),
            None => sessions.push(Session {
                title: format!("{page}:{} ({})", console.line, mark.name),
                page: page.to_owned(),
                mark,
                parts: vec![part],
            }),
        }
    }
    (sessions, not_run)
}

impl Session {
    /// How long it may take concurrently with others, for the order: those that wait for times come first, then those of many commands.
    pub(crate) fn weight(&self) -> (bool, usize) {
        let commands = self.parts.iter().map(|part| part.steps.len()).sum();
        (self.mark.compares_times, commands)
    }

    /// Runs it.
    pub(crate) fn run(&self) -> Verdict {
        if !self.is_possible() {
            return Verdict::Skipped;
        }
        let folder = match TempDir::new_in(env!("CARGO_TARGET_TMPDIR")) {
            Ok(folder) => folder,
            Err(e) => return Verdict::Wrong(vec![format!("no folder for it: {e}")]),
        };
        match self.run_in(folder.path()) {
            Ok(wrong) if wrong.is_empty() => {
                Verdict::Good(self.parts.iter().map(|part| part.steps.len()).sum())
            }
            Ok(wrong) => Verdict::Wrong(wrong),
            Err(e) => Verdict::Wrong(vec![compare::without_log(&e)]),
        }
    }

    fn is_possible(&self) -> bool {
        let always = ["unshare", "nsenter", "ip", "bash", "pgrep"].map(requires::command);
        let mut needs = vec![requires::root(), host::are_possible()];
        needs.extend(always);
        for need in &self.mark.needs {
            match &**need {
                "fuse" => needs.extend([
                    requires::fuse(),
                    requires::loop_device(),
                    requires::command("fusermount3"),
                ]),
                command => needs.push(requires::command(command)),
            }
        }
        requires::all(&needs)
    }

    fn run_in(&self, folder: &Path) -> Result<Vec<String>, String> {
        let mut run = Run {
            session: self,
            hosts: self.start_hosts(folder)?,
            devices: Vec::new(),
            wrong: Vec::new(),
        };
        let outcome = run.run_parts();
        for (_, host) in std::mem::take(&mut run.hosts) {
            if let Err(e) = host.stop() {
                run.wrong.push(e);
            }
        }
        outcome?;
        Ok(run.wrong)
    }

    /// What is wrong with an output, by the rules of this session's comment.
    fn difference(&self, shown: &str, found: &str) -> Option<String> {
        let mark = &self.mark;
        let is_sorted = mark.any_order && !shown.contains('…');
        let [shown, found] = [shown, found].map(|text| {
            let text = compare::without_log(text);
            let text = if mark.any_sizes {
                compare::without_sizes(&text)
            } else {
                text
            };
            let mut lines: Vec<&str> = text.lines().collect();
            if is_sorted {
                lines.sort_by_cached_key(|line| compare::sorted_by(line));
            }
            lines.join("\n")
        });
        compare::difference(&shown, &found)
    }

    /// The hosts of all prompts, in their order; each knows the names of all.
    fn start_hosts(&self, folder: &Path) -> Result<Vec<(String, Host)>, String> {
        let mut names: Vec<&str> = Vec::new();
        for step in self
            .parts
            .iter()
            .flat_map(|part| part.before.iter().chain(&part.steps))
        {
            if !names.contains(&&*step.host) {
                names.push(&step.host);
            }
        }
        let many = names.len() > 1;
        let mut table = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for (number, name) in names.iter().enumerate() {
            let address = if many {
                host::address(number)
            } else {
                "127.0.0.1".to_owned()
            };
            let own = self.mark.names.iter().filter(|_| number == 0);
            for name in own
                .map(String::as_str)
                .chain([*name])
                .filter(|name| !name.is_empty())
            {
                writeln!(table, "{address} {name}").expect("a String");
            }
        }
        let cwd = self.mark.folder.as_deref().unwrap_or("/srv");
        let mut hosts = Vec::new();
        for (number, name) in names.into_iter().enumerate() {
            let called = self.mark.names.first().filter(|_| number == 0);
            let called = called.map_or(if name.is_empty() { "vm" } else { name }, String::as_str);
            let folder = folder.join(number.to_string());
            hosts.push((name.to_owned(), Host::start(&folder, called, cwd, &table)?));
        }
        if many {
            let all: Vec<&Host> = hosts.iter().map(|(_, host)| host).collect();
            host::connect(&all)?;
        }
        Ok(hosts)
    }
}

impl Run<'_> {
    fn run_parts(&mut self) -> Result<(), String> {
        for part in &self.session.parts {
            for step in &part.before {
                let outcome = self.perform(step, false)?;
                if outcome.status.is_some_and(|status| status != 0) {
                    let Outcome { output, .. } = outcome;
                    return Err(format!(
                        "before the console, `{}` failed: {output}",
                        step.command
                    ));
                }
            }
            for step in &part.steps {
                let outcome = self.perform(step, part.shows)?;
                self.judge(step, &outcome, part.shows);
            }
        }
        Ok(())
    }

    /// Runs one command, or starts it and waits until it has printed what the page shows.
    fn perform(&mut self, step: &Step, shows: bool) -> Result<Outcome, String> {
        let command = self.with_devices(&step.command);
        let session = self.session;
        let host = self.hosts.iter_mut().find(|(name, _)| *name == step.host);
        let (_, host) = host.ok_or("a host for each prompt was started")?;
        if command == STOP {
            host.stop_server()?;
            return Ok(Outcome {
                output: String::new(),
                status: Some(0),
            });
        }
        if let Some(shown) = step.shown.strip_prefix(INTERRUPT) {
            return interrupt_until(host, &command, |outcome| {
                session.difference(shown, &outcome.output).is_none()
            });
        }
        if !is_server(&command) {
            let has_to_match = shows && is_status(&command);
            return run_until(host, &command, |outcome| {
                !has_to_match || session.difference(&step.shown, &outcome.output).is_none()
            });
        }
        let started = host.start_server(command.trim_end().trim_end_matches('&'))?;
        if step.shown.starts_with(FAILURE) {
            host.forget(&started);
            return host.wait_for_end(&started);
        }
        let mut outcome = host.wait_until(&started, host::LIMIT, |outcome| {
            READY.iter().any(|text| outcome.output.contains(text))
        })?;
        if shows && outcome.status.is_none() {
            outcome = host.wait_until(&started, REST, |outcome| {
                compare::difference(&step.shown, &outcome.output).is_none()
            })?;
        }
        if outcome.status.is_some() {
            host.forget(&started);
        }
        Ok(outcome)
    }

    fn judge(&mut self, step: &Step, outcome: &Outcome, shows: bool) {
        let shown = step.shown.strip_prefix(INTERRUPT).unwrap_or(&step.shown);
        let mut wrong = match shows {
            true => self.session.difference(shown, &outcome.output),
            false => None,
        };
        if self.session.mark.compares_times {
            wrong = wrong.or_else(|| compare::difference_of_times(shown, &outcome.output));
        }
        if shown.is_empty() && outcome.status.is_some_and(|status| status != 0) {
            wrong = Some(format!(
                "it ended with status {}",
                outcome.status.unwrap_or_default()
            ));
        }
        match wrong {
            Some(wrong) => self.wrong.push(format!(
                "{}:{}: {wrong}\n  $ {}\n-- the page shows\n{shown}-- it printed\n{}",
                self.session.page,
                step.line,
                step.command,
                compare::without_log(&outcome.output)
            )),
            None => self.note_devices(shown, &outcome.output),
        }
    }

    /// Learns which devices of this run are those of the page.
    fn note_devices(&mut self, shown: &str, found: &str) {
        for (page, ours) in devices(shown).zip(devices(found)) {
            self.devices.retain(|(known, _)| *known != page);
            self.devices.push((page, ours));
        }
    }

    /// A command of the page with the devices of this run.
    fn with_devices(&self, command: &str) -> String {
        let mut rest = command;
        let mut text = String::new();
        for device in devices(command) {
            let (before, after) = rest.split_once(&*device).unwrap_or((rest, ""));
            let known = self.devices.iter().find(|(page, _)| *page == device);
            text += before;
            text += known.map_or(&*device, |(_, ours)| ours);
            rest = after;
        }
        text + rest
    }
}

/// The loop devices that a text names, in order.
fn devices(text: &str) -> impl Iterator<Item = String> {
    const NAME: &str = "/dev/loop";
    text.split(NAME).skip(1).filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then(|| format!("{NAME}{digits}"))
    })
}

/// Runs a command, and runs it again, for [`REST`] at most, until its output is as expected: what a page shows of work in the background
/// is one moment of it, and the first run may come before the work has begun.
#[expect(clippy::disallowed_methods, reason = "programs run in real time")]
fn run_until(
    host: &mut Host,
    command: &str,
    is_expected: impl Fn(&Outcome) -> bool,
) -> Result<Outcome, String> {
    let deadline = Instant::now() + REST;
    loop {
        let outcome = host.run(command)?;
        if is_expected(&outcome) || Instant::now() > deadline {
            return Ok(outcome);
        }
    }
}

/// Runs a command and interrupts it, later each time until its output is as expected: how long it takes until it has something to interrupt
/// depends on the machine. The caller gets the last outcome also when none was.
fn interrupt_until(
    host: &mut Host,
    command: &str,
    is_expected: impl Fn(&Outcome) -> bool,
) -> Result<Outcome, String> {
    let mut delay = INTERRUPT_FIRST;
    loop {
        let outcome = host.run_interrupted(command, delay)?;
        delay *= 2;
        if is_expected(&outcome) || delay > REST {
            return Ok(outcome);
        }
    }
}

/// Whether a command prints the state of something that runs.
fn is_status(command: &str) -> bool {
    command.starts_with("outboard ") && command.split_whitespace().any(|word| word == "status")
}

/// Whether a command goes on until it is stopped.
fn is_server(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let serves = matches!(words[..], ["outboard", "serve" | "agent", ..]);
    (serves || command.ends_with('&')) && !words.contains(&"--check")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown;

    fn sessions(page: &str) -> (Vec<Session>, Vec<String>) {
        of_page("page.md", markdown::consoles(page).unwrap())
    }

    #[test]
    fn a_console_without_a_comment_is_a_session_and_one_with_a_reason_is_counted() {
        let page = "    $ ls\n\n<!-- session a -->\n\n    $ one\n\n<!-- not run: it is slow -->\n\n    \
                    $ sleep 9\n\n<!-- session a -->\n\n    $ two\n";
        let (sessions, not_run) = sessions(page);
        let titles: Vec<&str> = sessions.iter().map(|session| &*session.title).collect();
        assert_eq!(titles, ["page.md:1 (line-1)", "page.md:5 (a)"]);
        assert_eq!(sessions[1].parts.len(), 2);
        assert_eq!(not_run, ["page.md:9: it is slow"]);
    }

    #[test]
    fn a_page_that_shows_something_else_or_a_command_that_fails_is_found() {
        let verdict = |page: &str| sessions(page).0[0].run();
        match verdict("    $ echo a\n    a\n    $ echo b >/mnt/b; cat /mnt/b\n    b\n") {
            Verdict::Good(commands) => assert_eq!(commands, 2),
            Verdict::Skipped => return,
            Verdict::Wrong(wrong) => panic!("{wrong:?}"),
        }
        for page in [
            "    $ echo a\n    b\n",
            "    $ false\n",
            "    $ echo a\n    a\n    b\n",
        ] {
            assert!(matches!(verdict(page), Verdict::Wrong(_)), "{page}");
        }
        assert!(
            !Path::new("/mnt/b").exists(),
            "a host has folders of its own"
        );
    }

    #[test]
    fn a_status_is_read_again_until_it_is_what_the_page_shows() {
        assert!(is_status("outboard array status media"));
        assert!(!is_status("cat status"));
        let (_folder, mut host) = match sessions("    $ echo a\n").0[0].is_possible() {
            true => {
                let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                let host =
                    Host::start(folder.path(), "vm", "/srv", "127.0.0.1 localhost\n").unwrap();
                (folder, host)
            }
            false => return,
        };
        let command = "echo >>/srv/looks; wc -l </srv/looks";
        let third = run_until(&mut host, command, |outcome| outcome.output == "3\n").unwrap();
        assert_eq!(third.output, "3\n");
        let next = run_until(&mut host, command, |_| true).unwrap();
        assert_eq!(next.output, "4\n");
        host.stop().unwrap();
    }

    #[test]
    fn a_device_of_the_page_is_another_one_here() {
        assert_eq!(
            devices("a /dev/loop0 /dev/loop-control /dev/loop12").collect::<Vec<_>>(),
            ["/dev/loop0", "/dev/loop12"]
        );
    }
}
