//! The machines and targets, and how warm, fast and waited for they were.

use super::timeline::{Timeline, courses, end, named, rows, spans};
use super::{Figure, ReportBlock, Section, Table};
use crate::host::Machine;
use crate::report::chart::{Along, Flag, Floor, Label, Panel, Plane};
use crate::sensors::Sample;
use crate::stats::thermal::{TemperatureReading, ThermalFit};
use crate::store::{AgentRecord, RunRecord};
use crate::units::significant;

/// Sensors of temperature, and cores whose clock is drawn.
const LINES_MAX: usize = 6;
/// Steps of a drawn model.
const FIT_STEPS: u32 = 60;

pub(super) fn machines(run: &RunRecord) -> Option<Section> {
    let mut parts = vec![machine(run)];
    parts.extend(run.manifest.agents.iter().map(agent));
    parts.extend((0..run.manifest.targets.len()).map(|index| target(run, index)));
    parts.extend(thermals(run).map(ReportBlock::Figure));
    parts.extend(pressure(run).map(ReportBlock::Figure));
    Some(Section::new("machines", "Machines and targets", parts))
}

fn item(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

fn machine(run: &RunRecord) -> ReportBlock {
    let machine = &run.manifest.machine;
    let mut items = hardware(machine);
    items.push(item(
        "fio",
        run.manifest.fio.as_deref().unwrap_or("not used"),
    ));
    items.push(item("outboard", &run.manifest.outboard));
    ReportBlock::Facts {
        title: machine.hostname.clone(),
        items,
    }
}

/// What every machine is described by.
fn hardware(machine: &Machine) -> Vec<(String, String)> {
    let cores = format!("{} ({})", machine.cores, machine.architecture);
    vec![
        item("processor", &machine.processor),
        item("cores", cores),
        item("memory", machine.memory),
        item("kernel", &machine.kernel),
        item("system", &machine.system),
        item("load before", significant(machine.load)),
    ]
}

/// Another machine that was watched.
fn agent(agent: &AgentRecord) -> ReportBlock {
    let machine = &agent.machine;
    let (ahead, error) = (
        agent.clock_offset_ns as f64 / 1e9,
        agent.clock_error.0 as f64 / 1e6,
    );
    let clock = format!("{ahead:.2} s ahead of ours, known to {error:.2} ms");
    let mut items = hardware(machine);
    items.extend([item("clock", clock), item("outboard", &agent.outboard)]);
    ReportBlock::Facts {
        title: format!("{}, agent at {}", machine.hostname, agent.address),
        items,
    }
}

fn target(run: &RunRecord, index: usize) -> ReportBlock {
    let target = &run.manifest.targets[index];
    let mut items = vec![
        item("place", &target.place),
        item(
            "filesystem",
            format!("{} on {}", target.filesystem, target.source),
        ),
        item("options", &target.options),
    ];
    if let Some(device) = &target.device {
        let model = target.model.as_ref().map(|model| format!(", {model}"));
        let rotating = match target.rotational {
            Some(true) => ", rotating",
            _ => "",
        };
        items.push(item(
            "device",
            format!("{device}{}{rotating}", model.unwrap_or_default()),
        ));
    }
    items.extend(
        target
            .dio_align
            .map(|align| item("direct I/O needs", format!("{} B", align.offset))),
    );
    items.extend(target.peer.map(|peer| item("server", peer)));
    let ceilings = target.ceilings.iter();
    items.extend(ceilings.map(|ceiling| {
        item(
            "ceiling",
            format!("{} by {}", ceiling.rate, ceiling.describe()),
        )
    }));
    ReportBlock::Facts {
        title: target.label.clone(),
        items,
    }
}

/// Temperature, clock, and when the machine slowed itself down; none where no sensor is.
fn thermals(run: &RunRecord) -> Option<Figure> {
    let mut warm = courses(&run.samples, "temperature", |_| true);
    let mut clocks = courses(&run.samples, "clock", |_| true);
    warm.sort_by(|a, b| b.peak().total_cmp(&a.peak()));
    warm.truncate(LINES_MAX);
    clocks.truncate(LINES_MAX);
    for clock in &mut clocks {
        clock.item = format!("core {}", clock.item);
    }
    if warm.is_empty() && clocks.is_empty() {
        return None;
    }
    let levels = warm.first_mut().and_then(warming).unwrap_or_default();
    let flags = throttled(&run.samples);
    let caption = format!(
        "{}{levels}{} n = {} points each. No interval: this is a course, not an estimate.",
        warm.first().map_or_else(String::new, |course| format!(
            "Hottest: {}, {} °C at most. ",
            course.item,
            significant(course.peak())
        )),
        match flags.is_empty() {
            true => "No throttling was seen.".to_owned(),
            false => flags
                .iter()
                .map(|flag| format!("{}.", flag.text))
                .collect::<Vec<_>>()
                .join(" "),
        },
        warm.iter()
            .chain(&clocks)
            .map(|course| course.points.len())
            .max()
            .unwrap_or(0)
    );
    let panels = [
        ("°C", Floor::Near, &warm, 1.0),
        ("clock in GHz", Floor::Zero, &clocks, 1e-9),
    ];
    Some(figure(
        run,
        "Temperature and clock",
        &panels,
        flags,
        caption,
        "thermals",
    ))
}

/// Draws through a course how it warms, and says where that ends; none where too little is seen.
fn warming(course: &mut Timeline) -> Option<String> {
    let readings: Vec<TemperatureReading> = course
        .points
        .iter()
        .map(|(seconds, celsius)| TemperatureReading {
            seconds: *seconds,
            celsius: *celsius,
        })
        .collect();
    let fit =
        ThermalFit::of(&readings).filter(|fit| fit.is_levelling() && fit.time_constant > 0.0)?;
    let last = course.points.last()?.0;
    course.fit = (0..=FIT_STEPS)
        .map(|step| last * f64::from(step) / f64::from(FIT_STEPS))
        .map(|at| (at, fit.at(at)))
        .collect();
    Some(format!(
        "It goes towards {} °C with a time constant of {:.0} s (dotted: {:.1} °C off on average). ",
        significant(fit.end),
        fit.time_constant,
        fit.error
    ))
}

/// A figure of panels over the run's time, each with its courses and what they are multiplied by.
pub(super) fn figure(
    run: &RunRecord,
    title: &str,
    panels: &[(&str, Floor, &Vec<Timeline>, f64)],
    flags: Vec<Flag>,
    caption: String,
    file: &'static str,
) -> Figure {
    let mut head = vec!["s".to_owned()];
    let mut columns: Vec<(&Timeline, f64)> = Vec::new();
    let mut key = Vec::new();
    let mut drawn = Vec::new();
    for (name, floor, courses, factor) in panels.iter().filter(|panel| !panel.2.is_empty()) {
        let mut lines = Vec::new();
        for course in courses.iter() {
            // A course of one name has one look in every panel.
            let look = key
                .iter()
                .find(|(_, known)| *known == course.item)
                .map_or(key.len(), |(look, _)| *look);
            if look == key.len() {
                key.push((look, course.item.clone()));
            }
            lines.push(course.line(look, *factor));
            head.push(format!("{}, {name}", course.item));
            columns.push((course, *factor));
        }
        drawn.push(Panel {
            name: (*name).to_owned(),
            floor: *floor,
            lines,
            limit: None,
        });
    }
    let plane = Plane {
        along: Along::Time { end: end(run) },
        panels: drawn,
        flags,
        spans: spans(run),
    };
    Figure {
        title: title.to_owned(),
        drawing: plane.draw(&Label {
            title: &format!("{title} over time"),
            desc: &caption,
        }),
        key,
        caption,
        table: Table {
            head,
            rows: rows(&columns),
        },
        file,
    }
}

/// When each kind of throttling began; what was only seen since boot is reported by the checks.
pub(super) fn throttled(samples: &[Sample]) -> Vec<Flag> {
    let now = |item: &str| !item.ends_with("-since-boot");
    let all = samples
        .iter()
        .filter(|sample| sample.sensor == "throttle" && sample.value > 0.0 && now(&sample.item));
    let mut flags: Vec<Flag> = Vec::new();
    for sample in all {
        let text = format!("⚠ {}", named(sample));
        if !flags.iter().any(|flag| flag.text.starts_with(&text)) {
            let at = sample.at.seconds();
            flags.push(Flag {
                x: at,
                text: format!("{text} from {at:.0} s"),
                look: None,
            });
        }
    }
    flags
}

/// For how long programs waited.
fn pressure(run: &RunRecord) -> Option<Figure> {
    let found = courses(&run.samples, "pressure", |item| item.ends_with("/some"));
    let means: Vec<String> = found
        .iter()
        .map(|course| format!("{} {:.0} %", course.item, course.mean() * 100.0))
        .collect();
    let caption = format!(
        "Part of the time in which something waited for a processor, a disk or memory; on average {}. \
         n = {} points each. No interval: this is a course, not an estimate.",
        means.join(", "),
        found.first()?.points.len()
    );
    let panels = [("% of the time", Floor::Zero, &found, 100.0)];
    let flags = Vec::new();
    Some(figure(run, "Waiting", &panels, flags, caption, "pressure"))
}
