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
            p class="soft" { "Each as it was run, once. Before each measurement: sync, then the page cache was dropped as far as permitted." }
            @for command in &run.commands { pre { code { (command.line) } } }
        }
    }
}
