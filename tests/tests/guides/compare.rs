//! Whether a program printed what a page shows, apart from what changes from run to run.
//!
//! Both texts are reduced by the same rules and must then be equal:
//!
//! * Blanks and ends of lines do not count: tables are as wide as their cells, and pages wrap long lines.
//! * `…` in a page stands for any text, on a line or over many.
//! * Log lines of level INFO do not count; those of other levels count without their time.
//! * Each of [`VARYING`] becomes a word in `<>`.
//! * In a table with one of the columns [`COUNTERS`] their cells do not count.
//! * A console that shows no output at all lists commands: what they print does not count.
//!
//! Sizes, percentages, names, addresses, ports below 32768 and all other numbers are compared as they stand.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What differs from run to run: a pattern and what it becomes. The first that matches counts.
const VARYING: &[(&str, &str)] = &[
    // UUIDs of filesystems and partitions, of md arrays, of LVM; a FAT's serial number.
    ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<UUID>"),
    ("[0-9a-f]{8}(:[0-9a-f]{8}){3}", "<UUID>"),
    (
        "[A-Za-z0-9]{6}(-[A-Za-z0-9]{4}){5}-[A-Za-z0-9]{6}",
        "<UUID>",
    ),
    ("\\b[0-9A-F]{4}-[0-9A-F]{4}\\b", "<SERIAL>"),
    // Before the next one: the fraction may have as many digits.
    ("\"seconds\":[0-9.]+", "\"seconds\":<TIME>"),
    ("\\b[0-9a-f]{16}\\b", "<NUMBER>"),
    // Dates, durations and rates.
    (
        "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(:[0-9]{2})? UTC",
        "<DATE>",
    ),
    ("\\b[0-9][0-9.,]* ?[KMGT]?i?B/s", "<RATE>"),
    (
        "\\b[0-9][0-9.]* ?(ns|us|µs|ms|s|second|seconds|minute|minutes)\\b",
        "<TIME>",
    ),
    ("\\b(just now|now)\\b", "<TIME> ago"),
    // Processes, devices, ports that the system chose.
    ("\\bserve-[0-9]+", "serve-<PROCESS>"),
    ("\\bprocess [0-9]+", "process <PROCESS>"),
    ("/dev/loop[0-9]+", "/dev/<LOOP>"),
    (":(3[3-9]|[4-6][0-9])[0-9]{3}\\b", ":<PORT>"),
    // How far work in the background is.
    (
        "([━─]+|resync|recovery) +[0-9.]+ %, [0-9.]+ [KMGT]?i?B of",
        "<PROGRESS> of",
    ),
    // What the machine's own disk is.
    ("rotational +(yes|no)", "rotational <ANY>"),
    (" ROTATIONAL\\b", ""),
    // Where the machine's filesystem put a file, and ext4 the files of a guide.
    (
        "\\btakes +[0-9.]+ [KMGT]?i?B \\([0-9]+ bytes\\) of its",
        "takes <SIZE> of its",
    ),
    ("(\\bmnt/[0-9]{2}\\s+){3,}mnt/[0-9]{2}\\b", "<FILES>"),
    // How far an array's bookkeeping is depends on when it is looked at.
    ("\\b[0-9]+ events", "<COUNT> events"),
    ("\\bthe array [0-9]+", "the array <COUNT>"),
    ("\\b[0-9]+ of ([0-9]+) chunks", "<COUNT> of $1 chunks"),
];

/// Columns of tables that count what clients and caches happened to do.
const COUNTERS: &[&str] = &[
    "READS", "READ", "WRITES", "WRITTEN", "P99", "FROM", "CLIENT", "CHANGED",
];

/// A duration in a page and in the output of the same command, in seconds.
const TIMES: &str = " in ([0-9.]+) s\\b";

/// Durations from this on are compared on both sides, seconds. Shorter ones depend on the machine.
const COMPARED_FROM: f64 = 1.0;

/// How much longer a loaded machine may take: so many times what is shown, and a second.
const SLOWER: f64 = 3.0;

/// How much shorter it may be: what delays and throttles add is never less than they say.
const FASTER: f64 = 1.5;

/// How long a shorter one may take, seconds.
const SHORT_MAX: f64 = 20.0;

struct Rules {
    log: Regex,
    info: Regex,
    varying: Vec<(Regex, &'static str)>,
    times: Regex,
    sizes: Regex,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let regex = |pattern: &str| Regex::new(pattern).expect("a pattern of this file");
    Rules {
        info: regex("(?m)^[0-9-]{10}T[0-9:.]+Z +INFO .*\n?"),
        log: regex("(?m)^[0-9-]{10}T[0-9:.]+Z +"),
        varying: VARYING
            .iter()
            .map(|(from, to)| (regex(from), *to))
            .collect(),
        times: regex(TIMES),
        sizes: regex("\\b[0-9.]+ ([KMGT]iB|B|chunks)\\b"),
    }
});

/// What is wrong with `found`, if anything.
pub(crate) fn difference(shown: &str, found: &str) -> Option<String> {
    let (shown, found) = (reduced(shown), reduced(found));
    let parts: Vec<&str> = shown.split('…').collect();
    let mut rest = &*found;
    for (number, part) in parts.iter().enumerate() {
        let is_last = number + 1 == parts.len();
        let at = match number {
            0 => rest.starts_with(part).then_some(0),
            _ if is_last => rest.ends_with(part).then(|| rest.len() - part.len()),
            _ => rest.find(part),
        };
        match at {
            Some(at) => rest = &rest[at + part.len()..],
            None => return Some(first_difference(part, rest)),
        }
    }
    (!rest.is_empty()).then(|| format!("more was printed: {}", head(rest)))
}

/// A text without the lines of the log that do not count.
pub(crate) fn without_log(text: &str) -> String {
    RULES.info.replace_all(text, "").into_owned()
}

/// What lines are sorted by where their order does not count: a table's header comes first, and numbers and times are left out.
pub(crate) fn sorted_by(line: &str) -> (bool, String) {
    let is_row = !is_heading(line.split("  ").next().unwrap_or_default());
    let kept = line
        .split_whitespace()
        .filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()))
        .filter(|word| !["just", "now", "second", "seconds", "ago"].contains(word));
    (is_row, kept.collect())
}

/// A text without the numbers of sizes like `4.00 KiB`, and of chunks.
pub(crate) fn without_sizes(text: &str) -> String {
    RULES.sizes.replace_all(text, "<SIZE>").into_owned()
}

/// What is wrong with the durations, if anything.
pub(crate) fn difference_of_times(shown: &str, found: &str) -> Option<String> {
    let seconds = |text: &str| -> Vec<f64> {
        let all = RULES.times.captures_iter(text);
        all.filter_map(|found| found[1].parse().ok()).collect()
    };
    let both = seconds(shown).into_iter().zip(seconds(found));
    let mut wrong = both.filter(|(shown, found)| !is_about(*shown, *found));
    let (shown, found) = wrong.next()?;
    Some(format!("it took {found} s, and the page shows {shown} s"))
}

fn is_about(shown: f64, found: f64) -> bool {
    if shown < COMPARED_FROM {
        return found <= SHORT_MAX;
    }
    (shown / FASTER..=shown * SLOWER + 1.0).contains(&found)
}

/// A text by the rules of this file.
fn reduced(text: &str) -> String {
    let text = RULES.info.replace_all(text, "");
    let text = RULES.log.replace_all(&text, "");
    let text = without_counters(&text);
    let text = RULES.varying.iter().fold(text, |text, (from, to)| {
        from.replace_all(&text, |found: &Captures<'_>| {
            let mut became = String::new();
            found.expand(to, &mut became);
            became
        })
        .into_owned()
    });
    text.split_whitespace().collect()
}

/// Tables with a header that has one of [`COUNTERS`] without the cells of those columns.
fn without_counters(text: &str) -> String {
    let mut dropped: Vec<bool> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let is_header = cells.len() > 2 && cells.iter().all(|cell| is_heading(cell));
        if is_header {
            dropped = cells.iter().map(|cell| COUNTERS.contains(cell)).collect();
        } else if cells.len() == dropped.len() && dropped.contains(&true) {
            let kept = cells.iter().zip(&dropped).filter(|(_, dropped)| !**dropped);
            lines.push(kept.map(|(cell, _)| *cell).collect::<Vec<_>>().join("  "));
            continue;
        }
        lines.push(line.to_owned());
    }
    lines.join("\n")
}

fn is_heading(cell: &str) -> bool {
    cell.chars()
        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ')
}

fn first_difference(shown: &str, found: &str) -> String {
    let same = shown.chars().zip(found.chars()).take_while(|(a, b)| a == b);
    let at: usize = same.map(|(c, _)| c.len_utf8()).sum();
    format!(
        "shown `{}`, printed `{}`",
        head(&shown[at..]),
        head(&found[at..])
    )
}

/// The first characters of a text, for a message.
fn head(text: &str) -> String {
    const LEN: usize = 60;
    let short: String = text.chars().take(LEN).collect();
    if short.len() < text.len() {
        short + " …"
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_is_equal_and_what_does_not_is_compared() {
        let same = |shown, found| difference(shown, found).is_none();
        assert!(same("a.img: 1 GiB in 0.2 s", "a.img:  1 GiB\nin 17 s\n"));
        assert!(!same("a.img: 1 GiB in 0.2 s", "a.img: 2 GiB in 0.2 s"));
        assert!(same("/dev/loop0", "/dev/loop17"));
        assert!(same("serve-7 (process 7)", "serve-31 (process 31)"));
        assert!(!same("nbd://127.0.0.1:10998/a", "nbd://127.0.0.1:10809/a"));
        assert!(same("on 127.0.0.1:47854", "on 127.0.0.1:33000"));
        assert!(!same("2 of 3 parts", "1 of 3 parts"));
        assert!(same(
            "mnt/1 mnt/12 mnt/13 mnt/14 mnt/15",
            "mnt/1 mnt/07 mnt/13 mnt/14 mnt/15 mnt/16"
        ));
        assert!(!same("mnt/12 mnt/13 mnt/14 mnt/15", "mnt/12"));
        let takes = "takes 5.04 MiB (5283840 bytes) of its filesystem";
        assert!(same(takes, &takes.replace("5283840", "5287936")));
    }

    #[test]
    fn an_ellipsis_stands_for_any_text_and_nothing_else_does() {
        assert_eq!(difference("a\n…\nz", "a\nb\nc\nz\n"), None);
        assert_eq!(difference("…", ""), None);
        assert!(difference("a … z", "a b").is_some());
        assert!(difference("", "more").is_some());
    }

    #[test]
    fn lines_of_the_log_count_from_warnings_on_and_without_their_time() {
        let log =
            "2026-11-23T00:36:08.081460Z  INFO started\n2026-11-23T00:36:08.081460Z  WARN odd\n";
        assert_eq!(difference("WARN odd", log), None);
        assert!(difference("", log).is_some());
    }

    #[test]
    fn counters_of_tables_do_not_count_and_their_other_columns_do() {
        let shown = "EXPORT  SIZE  CLIENTS  READS  P99\nmedia   20G   4        55     5.0µs\n";
        let found = "EXPORT  SIZE  CLIENTS  READS  P99\nmedia   20G   4        7123   -\n";
        assert_eq!(difference(shown, found), None);
        assert!(difference(shown, &found.replace("20G", "21G")).is_some());
    }

    #[test]
    fn a_duration_is_compared_within_wide_factors() {
        let about = |shown: &str, found: &str| difference_of_times(shown, found).is_none();
        assert!(about("100 MiB in 5.0 s:", "100 MiB in 13.9 s:"));
        assert!(!about("100 MiB in 2.0 s:", "100 MiB in 8.0 s:"));
        assert!(!about("100 MiB in 5.3 s:", "100 MiB in 25.4 s:"));
        assert!(!about("100 MiB in 5.0 s:", "100 MiB in 0.4 s:"));
        assert!(about("100 MiB in 0.2 s:", "100 MiB in 4.1 s:"));
    }
}
