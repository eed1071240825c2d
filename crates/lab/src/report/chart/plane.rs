//! Panels one above the other over one x axis: sweeps over a block size or a depth, and courses over time.
//!
//! Invariants: a panel that starts at zero starts at zero; what is not counted is hollow; an interval is
//! a whisker; a fit is dashed and never passes for what was measured; a flag (a knee, "95 % at", the
//! beginning of throttling) is a line with its words, so it needs no colour.

mod axis;

use maud::{Markup, html};

pub(in crate::report) use axis::Along;

use super::palette::{class, mark};
use super::scale::{Scale, linear_ticks, log_ticks};
use super::{Label, WIDTH, frame, path, px, x_grid, y_grid};
use crate::units::significant;

const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 12.0;
/// Height of one panel's drawing.
const PANEL: f64 = 124.0;
/// Above a panel, for its name.
const HEAD: f64 = 22.0;
/// Height of a flag's words.
const FLAG: f64 = 15.0;
/// Of the y axis of a panel.
const TICKS_MAX: usize = 6;
/// Lines with more points than this have no marks.
const MARKS_MAX: usize = 40;

/// Everything of one drawing.
#[derive(Debug, Clone)]
pub(in crate::report) struct Plane {
    pub(in crate::report) along: Along,
    pub(in crate::report) panels: Vec<Panel>,
    pub(in crate::report) flags: Vec<Flag>,
    /// Target, beginning and end of what was being measured.
    pub(in crate::report) spans: Vec<(usize, f64, f64)>,
}

/// One quantity.
#[derive(Debug, Clone)]
pub(in crate::report) struct Panel {
    pub(in crate::report) name: String,
    pub(in crate::report) floor: Floor,
    pub(in crate::report) lines: Vec<Line>,
    /// A ceiling or threshold with its name.
    pub(in crate::report) limit: Option<(f64, String)>,
}

/// Where the y axis begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Floor {
    /// At zero.
    Zero,
    /// A little below the least value, for what has no meaningful zero.
    Near,
    /// Even factors.
    Log,
}

/// One line.
#[derive(Debug, Clone, Default)]
pub(in crate::report) struct Line {
    /// The target that gives it colour, shape and dash.
    pub(in crate::report) look: usize,
    pub(in crate::report) name: String,
    pub(in crate::report) points: Vec<Point>,
    /// What a model says, if there is one.
    pub(in crate::report) fit: Vec<(f64, f64)>,
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::report) struct Point {
    pub(in crate::report) x: f64,
    pub(in crate::report) y: f64,
    /// The interval.
    pub(in crate::report) ends: Option<(f64, f64)>,
    /// Whether it may be believed.
    pub(in crate::report) counted: bool,
}

impl Point {
    /// A value of a course, which has no interval.
    pub(in crate::report) const fn of(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            ends: None,
            counted: true,
        }
    }
}

/// Something that happened, or was found, at one place of the x axis.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Flag {
    pub(in crate::report) x: f64,
    pub(in crate::report) text: String,
    /// The target that it marks; none is a warning.
    pub(in crate::report) look: Option<usize>,
}

impl Plane {
    /// The drawing.
    pub(in crate::report) fn draw(&self, label: &Label<'_>) -> Markup {
        let flags = f64::from(u32::try_from(self.flags.len()).unwrap_or(u32::MAX)) * FLAG;
        let tops: Vec<f64> = std::iter::successors(Some(flags), |top| Some(top + HEAD + PANEL))
            .take(self.panels.len())
            .collect();
        let bottom = tops.last().copied().unwrap_or(0.0) + HEAD + PANEL;
        let x = self.along.scale(LEFT, RIGHT);
        let strip = if self.spans.is_empty() { 0.0 } else { 9.0 };
        let body = html! {
            @for (panel, top) in self.panels.iter().zip(&tops) { (draw_panel(panel, &x, *top)) }
            @for (target, from, to) in &self.spans {
                rect class={ (class(*target)) " span" } x=(px(x.at(*from))) y=(px(bottom + 3.0)) height="6"
                    width=(px((x.at(*to) - x.at(*from)).max(0.4))) {}
            }
            (x_grid(&x, &self.along.ticks(), bottom + strip, bottom + strip))
            text class="unit" x=(px(RIGHT)) y=(px(bottom + strip + 31.0)) text-anchor="end" { (self.along.unit()) }
            @for (flag, row) in self.flags.iter().zip(0u16..) { (draw_flag(flag, &x, f64::from(row) * FLAG + 11.0, bottom)) }
        };
        frame(bottom + strip + 37.0, label, &body)
    }
}

fn draw_panel(panel: &Panel, x: &Scale, top: f64) -> Markup {
    let (upper, lower) = (top + HEAD, top + HEAD + PANEL - 8.0);
    let (y, ticks) = heights(panel, upper, lower);
    html! {
        text class="name" x="4" y=(px(top + 14.0)) { (panel.name) }
        (y_grid(&y, &ticks, LEFT, RIGHT))
        @if let Some((value, name)) = &panel.limit {
            line class="ceiling" x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(y.at(*value))) y2=(px(y.at(*value))) { title { (name) } }
            text class="unit" x=(px(RIGHT)) y=(px(y.at(*value) - 4.0)) text-anchor="end" { (name) }
        }
        @for line in &panel.lines { (draw_line(line, x, &y)) }
    }
}

/// The y axis that holds every value, end and limit of a panel.
fn heights(panel: &Panel, upper: f64, lower: f64) -> (Scale, Vec<(f64, String)>) {
    let points = || panel.lines.iter().flat_map(|line| line.points.iter());
    let all = || {
        points()
            .flat_map(|point| {
                let (low, high) = point.ends.unwrap_or((point.y, point.y));
                [point.y, low, high]
            })
            .chain(panel.limit.iter().map(|(value, _)| *value))
            .filter(|value| value.is_finite())
    };
    let high = all().fold(0.0, f64::max);
    let low = all().fold(f64::INFINITY, f64::min);
    match panel.floor {
        Floor::Log if high > 0.0 => {
            let positive = all().filter(|value| *value > 0.0);
            let from = positive.fold(high, f64::min) * 0.8;
            let to = high * 1.25;
            let ticks = log_ticks(from, to, TICKS_MAX);
            let ticks = ticks.into_iter().map(|tick| (tick, short_figure(tick)));
            (Scale::log((from, to), (lower, upper)), ticks.collect())
        }
        Floor::Near if low.is_finite() && high > low => {
            let margin = (high - low) * 0.08;
            let step = linear_ticks(high - low, 4.0);
            let step = step.get(1).map_or(1.0, |(value, _)| *value);
            let first = (low / step).ceil();
            let ticks = (0..12u8)
                .map(|index| (first + f64::from(index)) * step)
                .filter(|tick| *tick <= high + margin)
                .map(|tick| (tick, short_figure(tick)));
            let scale = Scale::linear((low - margin, high + margin), (lower, upper));
            (scale, ticks.collect())
        }
        Floor::Zero | Floor::Near | Floor::Log => {
            let top = if high > 0.0 { high * 1.06 } else { 1.0 };
            let scale = Scale::linear((0.0, top), (lower, upper));
            let ticks = linear_ticks(top, 4.0).into_iter();
            let ticks = ticks.map(|(value, text)| match value >= 10_000.0 {
                true => (value, short_figure(value)),
                false => (value, text),
            });
            (scale, ticks.collect())
        }
    }
}

/// `1.5 k`, `20 M`; whole where it is whole.
fn short_figure(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    if (value - value.round()).abs() < 1e-6 {
        return format!("{}{unit}", crate::units::grouped(value));
    }
    let figure = significant(value);
    format!(
        "{}{unit}",
        figure.trim_end_matches('0').trim_end_matches('.')
    )
}

fn draw_line(line: &Line, x: &Scale, y: &Scale) -> Markup {
    let at = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let places: Vec<(f64, f64)> = points.map(|(px, py)| (x.at(px), y.at(py))).collect();
        path(&places)
    };
    let counted = || line.points.iter().filter(|point| point.counted);
    html! {
        @if !line.fit.is_empty() {
            polyline class={ (class(line.look)) " fit" } points=(at(&mut line.fit.iter().copied())) {}
        }
        polyline class={ (class(line.look)) " line" } points=(at(&mut counted().map(|point| (point.x, point.y)))) {}
        @for point in line.points.iter().filter(|point| point.ends.is_some()) {
            @let (low, high) = point.ends.unwrap_or((point.y, point.y));
            line class="interval" x1=(px(x.at(point.x))) x2=(px(x.at(point.x))) y1=(px(y.at(low))) y2=(px(y.at(high))) {}
        }
        @if line.points.len() <= MARKS_MAX {
            @for point in &line.points {
                (mark(line.look, x.at(point.x), y.at(point.y), 3.6, point.counted, &tip(line, point)))
            }
        }
    }
}

fn tip(line: &Line, point: &Point) -> String {
    let invalid = if point.counted { "" } else { ", invalid" };
    format!("{}: {}{invalid}", line.name, significant(point.y))
}

fn draw_flag(flag: &Flag, x: &Scale, y: f64, bottom: f64) -> Markup {
    let at = x.at(flag.x);
    let is_left = at > f64::midpoint(LEFT, RIGHT);
    let look = flag.look.map_or_else(|| "warning".into(), class);
    html! {
        line class={ "flag " (look) } x1=(px(at)) x2=(px(at)) y1=(px(y - 9.0)) y2=(px(bottom)) {}
        text class={ "flag " (look) } x=(px(if is_left { at - 5.0 } else { at + 5.0 })) y=(px(y))
            text-anchor=(if is_left { "end" } else { "start" }) { (flag.text) }
    }
}

#[cfg(test)]
mod tests;
