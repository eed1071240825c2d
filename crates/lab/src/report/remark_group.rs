//! Remarks that differ only in numbers and names, as one line with their ranges. Pure.
//!
//! A name is that of a test or of a target, a word with a digit or a slash in it (`loop0`, `/mnt/a`), or what a
//! number in brackets follows (a process). All other words are equal in a group.

use crate::store::RunRecord;
use crate::units::ungrouped;

/// Names of one place that are listed.
const NAMES_MAX: usize = 3;

/// What follows a number, and how much of the first of its kind it is.
const UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
];

/// Remarks of one shape.
#[derive(Debug, Clone)]
pub(super) struct RemarkGroup {
    first: String,
    tokens: Vec<RemarkToken>,
    count: usize,
    is_uniform: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum RemarkToken {
    Word(String),
    Number {
        before: String,
        least: RemarkFigure,
        greatest: RemarkFigure,
        after: String,
    },
    Name {
        texts: Vec<String>,
        after: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
struct RemarkFigure {
    value: f64,
    text: String,
}

/// Names of a run's tests and targets, the longest first.
#[derive(Debug, Default)]
pub(super) struct RunNames(Vec<String>);

impl RunNames {
    pub(super) fn of(run: &RunRecord) -> Self {
        let tests = run.plan.workloads.iter().map(|test| test.title.clone());
        let targets = run.manifest.targets.iter();
        let targets = targets.map(|facts| facts.label.clone());
        let mut names: Vec<String> = tests.chain(targets).collect();
        names.retain(|name| !name.is_empty());
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self(names)
    }
}

impl RemarkGroup {
    /// A group of one.
    pub(super) fn of(text: &str, names: &RunNames) -> Self {
        Self {
            first: text.to_owned(),
            tokens: tokens(without_part(text), names),
            count: 1,
            is_uniform: true,
        }
    }

    /// Takes `other` in, if it has the same shape.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let has_same_shape = self.tokens.len() == other.tokens.len()
            && self
                .tokens
                .iter()
                .zip(&other.tokens)
                .all(|(one, other)| one.is_alike(other));
        if !has_same_shape {
            return false;
        }
        for (one, other) in self.tokens.iter_mut().zip(&other.tokens) {
            one.extend(other);
        }
        self.is_uniform &= other.is_uniform && self.first == other.first;
        self.count += other.count;
        true
    }

    /// The remark, or what several have in common; how many there are of `noun`.
    pub(super) fn text(&self, noun: &str) -> String {
        if self.is_uniform {
            return self.first.clone();
        }
        let tokens: Vec<String> = self.tokens.iter().map(RemarkToken::text).collect();
        format!("{} ({} {noun})", tokens.join(" "), self.count)
    }
}

/// Texts, those of one shape as one.
pub(super) fn grouped<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    names: &RunNames,
) -> Vec<String> {
    let mut groups: Vec<RemarkGroup> = Vec::new();
    for text in texts {
        let one = RemarkGroup::of(text, names);
        if !groups.iter_mut().any(|group| group.merge(&one)) {
            groups.push(one);
        }
    }
    groups.iter().map(|group| group.text("remarks")).collect()
}

/// A text without the blocks that it is of: ` (3 of 6 blocks)`.
fn without_part(text: &str) -> &str {
    let is_part = |part: &str| {
        let words: Vec<&str> = part.split(' ').collect();
        matches!(words.as_slice(), [some, "of", all, "blocks)"]
            if some.parse::<u32>().is_ok() && all.parse::<u32>().is_ok())
    };
    match text.rsplit_once(" (") {
        Some((rest, part)) if is_part(part) => rest,
        _ => text,
    }
}

fn tokens(text: &str, names: &RunNames) -> Vec<RemarkToken> {
    let mut tokens: Vec<RemarkToken> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let known = names.0.iter().find(|name| is_at(rest, name));
        let from = known.map_or(0, String::len);
        let end = rest[from..].find(' ').map_or(rest.len(), |end| from + end);
        let (word, behind) = rest.split_at(end);
        let unit = unit(&tokens, word);
        match (known, unit) {
            (Some(name), _) => tokens.push(RemarkToken::Name {
                texts: vec![name.clone()],
                after: word[from..].to_owned(),
            }),
            (None, Some((name, factor, end))) => append_unit(&mut tokens, name, factor, end),
            (None, None) => tokens.push(token(word)),
        }
        mark_process(&mut tokens);
        rest = behind.trim_start();
    }
    tokens
}

/// Whether `text` begins with `name` as a whole.
fn is_at(text: &str, name: &str) -> bool {
    let behind = text.strip_prefix(name);
    behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric() || c == '/'))
}

/// The unit that `word` is, with what follows it, where a bare number comes before it.
fn unit<'a>(tokens: &[RemarkToken], word: &'a str) -> Option<(&'static str, f64, &'a str)> {
    let Some(RemarkToken::Number { after, .. }) = tokens.last() else {
        return None;
    };
    let end = word.trim_end_matches([',', ':', ';', '.', ')']).len();
    let (core, behind) = word.split_at(end);
    let found = UNITS.iter().find(|(name, _)| *name == core);
    found
        .filter(|_| after.is_empty())
        .map(|(name, factor)| (*name, *factor, behind))
}

fn append_unit(tokens: &mut [RemarkToken], name: &str, factor: f64, behind: &str) {
    if let Some(RemarkToken::Number {
        least,
        greatest,
        after,
        ..
    }) = tokens.last_mut()
    {
        least.value *= factor;
        least.text = format!("{} {name}", least.text);
        *greatest = least.clone();
        behind.clone_into(after);
    }
}

/// A word before a number in brackets is the name of a process.
fn mark_process(tokens: &mut [RemarkToken]) {
    let [.., word, RemarkToken::Number { before, after, .. }] = tokens else {
        return;
    };
    if before == "("
        && after.starts_with(')')
        && let RemarkToken::Word(name) = word
    {
        *word = RemarkToken::Name {
            texts: vec![std::mem::take(name)],
            after: String::new(),
        };
    }
}

fn token(word: &str) -> RemarkToken {
    let core = word.trim_start_matches(['(', '[']);
    let before = &word[..word.len() - core.len()];
    let end = core
        .trim_end_matches([')', ']', ',', ':', ';', '.', '%', '×'])
        .len();
    let (core, after) = core.split_at(end);
    if let Ok(value) = ungrouped(core).parse::<f64>() {
        let figure = RemarkFigure {
            value,
            text: core.to_owned(),
        };
        return RemarkToken::Number {
            before: before.to_owned(),
            least: figure.clone(),
            greatest: figure,
            after: after.to_owned(),
        };
    }
    if core.contains(|c: char| c.is_ascii_digit() || c == '/') {
        return RemarkToken::Name {
            texts: vec![format!("{before}{core}")],
            after: after.to_owned(),
        };
    }
    RemarkToken::Word(word.to_owned())
}

impl RemarkToken {
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Word(one), Self::Word(other)) => one == other,
            (
                Self::Number { before, after, .. },
                Self::Number {
                    before: other_before,
                    after: other_after,
                    ..
                },
            ) => (before, after) == (other_before, other_after),
            (Self::Name { after, .. }, Self::Name { after: other, .. }) => after == other,
            _ => false,
        }
    }

    fn extend(&mut self, other: &Self) {
        match (self, other) {
            (
                Self::Number {
                    least, greatest, ..
                },
                Self::Number {
                    least: other_least,
                    greatest: other_greatest,
                    ..
                },
            ) => {
                if other_least.value < least.value {
                    *least = other_least.clone();
                }
                if other_greatest.value > greatest.value {
                    *greatest = other_greatest.clone();
                }
            }
            (Self::Name { texts, .. }, Self::Name { texts: more, .. }) => {
                for text in more {
                    if !texts.contains(text) {
                        texts.push(text.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Number {
                before,
                least,
                greatest,
                after,
            } if least.text == greatest.text => format!("{before}{}{after}", least.text),
            Self::Number {
                before,
                least,
                greatest,
                after,
            } => format!("{before}{} to {}{after}", least.text, greatest.text),
            Self::Name { texts, after } => {
                let listed = &texts[..texts.len().min(NAMES_MAX)];
                let more = match texts.len() - listed.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{}{more}{after}", listed.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> RunNames {
        RunNames(vec![
            "Loop on the disk".into(),
            "Random read".into(),
            "/mnt".into(),
        ])
    }

    #[test]
    fn remarks_that_differ_in_numbers_units_and_processes_are_one_with_ranges() {
        let texts = [
            "the machine was under load: other programs took 0.53 cores, python3 (123) alone 0.20 (3 of 6 blocks)",
            "the machine was under load: other programs took 0.18 cores, cc (7) alone 0.10",
            "the machine was under load: other programs took 1.20 cores, cc (7) alone 0.90 (1 of 6 blocks)",
            "12.0 MiB in flight, 900 KiB allowed",
            "900 KiB in flight, 900 KiB allowed",
            "from sector 65\u{202f}537 on",
            "from sector 9 on",
        ];
        assert_eq!(
            grouped(texts, &names()),
            [
                "the machine was under load: other programs took 0.18 to 1.20 cores, python3, cc (7 to 123) alone \
                 0.10 to 0.90 (3 remarks)",
                "900 KiB to 12.0 MiB in flight, 900 KiB allowed (2 remarks)",
                "from sector 9 to 65\u{202f}537 on (2 remarks)"
            ]
        );
    }

    #[test]
    fn names_of_tests_and_targets_may_differ_and_no_other_word_may() {
        let texts = [
            "Random read on /mnt: 3 of 5 failed",
            "Random read on Loop on the disk: 5 of 5 failed",
            "Random read on /mnt: 3 of 5 succeeded",
            "the server's cache was not dropped",
            "the client's cache was not dropped",
        ];
        let found = grouped(texts, &names());
        assert_eq!(
            found[0],
            "Random read on /mnt, Loop on the disk: 3 to 5 of 5 failed (2 remarks)"
        );
        assert_eq!(found[1..], texts[2..]);
    }

    #[test]
    fn a_remark_alone_and_equal_ones_keep_their_words() {
        let text = "it took 3  of 4 blocks (2 of 6 blocks)";
        assert_eq!(grouped([text], &names()), [text]);
        assert_eq!(grouped([text; 4], &names()), [text]);
    }

    #[test]
    fn many_names_are_cut() {
        let texts: Vec<String> = (0..9)
            .map(|disk| format!("sd{disk} has no serial"))
            .collect();
        let found = grouped(texts.iter().map(String::as_str), &names());
        assert_eq!(
            found,
            ["sd0, sd1, sd2 and 6 more has no serial (9 remarks)"]
        );
    }
}
