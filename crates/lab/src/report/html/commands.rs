//! Every command, those that differ in the seed alone together.

use maud::{Markup, html};

use crate::store::RunRecord;

pub(super) fn commands(run: &RunRecord) -> Markup {
    html! {
        @for (line, seeds) in by_seed(run.commands.iter().map(|command| command.line.as_str())) {
            pre {
                code { (line) }
                @if !seeds.is_empty() { span class="soft" { "\n# and with --randseed=" (seeds.join(", ")) } }
            }
        }
    }
}

/// Commands that differ in nothing but the seed, as one with the other seeds.
fn by_seed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines {
        let (head, seed, tail) = around_seed(line);
        let known = groups.iter_mut().find(|(first, _)| {
            let (same_head, _, same_tail) = around_seed(first);
            (same_head, same_tail) == (head, tail)
        });
        match known {
            Some((_, seeds)) => seeds.push(seed),
            None => groups.push((line, Vec::new())),
        }
    }
    groups
}

/// What is before the seed, the seed, what is after it.
fn around_seed(line: &str) -> (&str, &str, &str) {
    const KEY: &str = "--randseed=";
    let Some(at) = line.find(KEY) else {
        return (line, "", "");
    };
    let (head, rest) = line.split_at(at + KEY.len());
    let end = rest.find(' ').unwrap_or(rest.len());
    (head, &rest[..end], &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_differ_in_the_seed_alone_are_shown_together() {
        let lines = [
            "fio --rw=read --randseed=1 --x",
            "fio --rw=write --randseed=1 --x",
            "fio --rw=read --randseed=2 --x",
            "sync",
        ];
        let groups = by_seed(lines.into_iter());
        assert_eq!(
            groups,
            [
                (lines[0], vec!["2"]),
                (lines[1], vec![]),
                (lines[3], vec![]),
            ]
        );
    }
}
