//! The machine, the targets, and every command.

use maud::{Markup, html};

use crate::store::RunRecord;
use crate::units::significant;

pub(in crate::report::html) fn machine(run: &RunRecord) -> Markup {
    let machine = &run.manifest.machine;
    html! {
        section {
            h2 { "Machine and targets" }
            div class="panels" {
                div class="card" { h3 { (machine.hostname) } dl {
                    (item("processor", &machine.processor))
                    (item("cores", &format!("{} ({})", machine.cores, machine.architecture)))
                    (item("memory", &machine.memory.to_string()))
                    (item("kernel", &machine.kernel))
                    (item("system", &machine.system))
                    (item("load before", &significant(machine.load)))
                    (item("fio", &run.manifest.fio))
                    (item("outboard", &run.manifest.outboard))
                } }
                @for target in &run.manifest.targets {
                    div class="card" { h3 { (target.label) } dl {
                        (item("directory", &target.directory.display().to_string()))
                        (item("filesystem", &format!("{} on {}", target.filesystem, target.source)))
                        (item("options", &target.options))
                        @if let Some(device) = &target.device {
                            (item("device", &format!("{device}{}{}", target.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default(),
                                match target.rotational { Some(true) => ", rotating", _ => "" })))
                        }
                        @if let Some(align) = target.dio_align { (item("direct I/O needs", &format!("{} B", align.offset))) }
                        @if let Some(peer) = target.peer { (item("server", &peer.to_string())) }
                        @for ceiling in &target.ceilings { (item("ceiling", &format!("{} by {}", ceiling.rate, ceiling.describe()))) }
                    } }
                }
            }
        }
    }
}

fn item(name: &str, value: &str) -> Markup {
    html! { dt { (name) } dd { (value) } }
}

pub(in crate::report::html) fn commands(run: &RunRecord) -> Markup {
    html! {
        section {
            h2 { "Every command" }
            p class="soft" { "Each as it was run. Before each measurement: sync, then the page cache was dropped as far as permitted." }
            @for (line, seeds) in by_seed(run.commands.iter().map(|command| command.line.as_str())) {
                pre {
                    code { (line) }
                    @if !seeds.is_empty() { span class="soft" { "\n# and with --randseed=" (seeds.join(", ")) } }
                }
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
