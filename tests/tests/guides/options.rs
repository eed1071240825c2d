//! Every command and option that README.md and the guides write exists.
//!
//! Commands are those of code blocks, with a prompt or without, and of code in sentences that begins with `outboard `. What exists
//! is what `--help` of the command lists.

use std::collections::BTreeMap;
use std::process::Command;

use outboard_tests::said;

use crate::markdown;
use crate::pages;

/// Places of commands in a page: line and text.
fn commands(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for block in markdown::code_blocks(page) {
        let whole = block.lines.join("\n").replace("\\\n", " ");
        for line in whole.lines() {
            let start = line.find("outboard ").filter(|at| is_start(&line[..*at]));
            if let Some(start) = start {
                found.push((block.line, line[start..].to_owned()));
            }
        }
    }
    for (number, line) in (1..).zip(page.lines()) {
        let spans = line.split('`').skip(1).step_by(2);
        let spans = spans.filter(|span| span.starts_with("outboard "));
        found.extend(spans.map(|span| (number, span.to_owned())));
    }
    found
}

/// Commands of a feature, with the page that says so, and those that link to it: a binary without it has none of them.
const OF_FEATURES: [(&str, &[&str]); 1] = [(
    "bucket",
    &[
        "docs/guide/bucket.md",
        "docs/guide/config.md",
        "docs/guide/lab.md",
    ],
)];

/// Whether what stands before `outboard` on a line of code leaves it a command.
fn is_start(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty() || before.ends_with(['$', '#', '&', '|', ';']) || before == "sudo"
}

/// The `--help` of each command, printed once.
#[derive(Debug, Default)]
struct Helps(BTreeMap<String, String>);

impl Helps {
    fn of(&mut self, path: &[&str]) -> &str {
        self.0.entry(path.join(" ")).or_insert_with(|| {
            let args = [path, &["--help"]].concat();
            let mut command: Command = said::outboard(&args);
            said::run(&mut command).ok()
        })
    }

    /// What of a command does not exist, if anything.
    fn missing(&mut self, command: &str) -> Option<String> {
        let command = command
            .split(['\\', '|', '&', ';', '#', '>'])
            .next()
            .unwrap_or_default();
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let mut path: Vec<&str> = Vec::new();
        for word in words.iter().filter(|word| !word.starts_with('-')) {
            let subcommands = subcommands(self.of(&path));
            if subcommands.is_empty() {
                break;
            }
            if !subcommands.iter().any(|name| name == word) {
                return Some(format!("there is no command `{word}`"));
            }
            path.push(word);
        }
        let help = self.of(&path).to_owned();
        let written = words
            .iter()
            .map(|word| word.trim_matches(['[', ']', ',', '.']));
        let mut options = written
            .filter_map(|word| word.split(['=', '[']).next())
            .filter(|word| word.starts_with("--"));
        let unknown = options.find(|option| !lists(&help, option))?;
        Some(format!(
            "`outboard {}` has no option {unknown}",
            path.join(" ")
        ))
    }
}

/// The names below `Commands:`.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Whether a help text has an option, as a whole word.
fn lists(help: &str, option: &str) -> bool {
    help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .any(|word| word == option)
}

/// Whether it is a command of a feature, on the page of it, that this binary was built without.
fn is_of_a_feature(helps: &mut Helps, page: &str, command: &str) -> bool {
    OF_FEATURES.iter().any(|(name, of)| {
        let is_it = command.split_whitespace().nth(1) == Some(name) && of.contains(&page);
        is_it && !subcommands(helps.of(&[])).iter().any(|one| one == name)
    })
}

#[test]
fn every_command_and_option_that_a_page_writes_exists() {
    let mut helps = Helps::default();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for (line, command) in commands(&text) {
            count += 1;
            if is_of_a_feature(&mut helps, &path, &command) {
                continue;
            }
            let missing = helps.missing(&command);
            wrong.extend(missing.map(|what| format!("{path}:{line}: {what}: {command}")));
        }
    }
    eprintln!("{count} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_or_an_option_that_does_not_exist_is_found() {
    let mut helps = Helps::default();
    assert!(helps.missing("outboard serve x --listne y").is_some());
    assert!(helps.missing("outboard clinet list").is_some());
    assert_eq!(helps.missing("outboard serve 'a=b' --listen y &"), None);
}
