//! The cost waterfall: what each layer adds to the time of the one below it.
//!
//! Invariants: bars are times and start at zero; the pale part is the layer below, the full part what is
//! added; a layer that is faster than the one below it has its gain outlined and says so, since that is
//! either a mistake or a cache; what is not counted is hatched.

use maud::{Markup, html};

use super::palette;
use super::scale::{Scale, linear_ticks};
use super::{Label, NAME_MAX, WIDTH, frame, px, x_grid};
use crate::report::{range, short};
use crate::stats::{Comparison, Interval, Verdict};
use crate::units::significant;

/// Height of one layer.
const ROW: f64 = 56.0;
/// Indentation of a layer against the one below it.
const INDENT: f64 = 12.0;
const RIGHT: f64 = WIDTH - 12.0;

/// One layer, after the one below it.
#[derive(Debug, Clone)]
pub(in crate::report) struct Layer {
    pub(in crate::report) name: String,
    /// Index of the layer below; none where nothing below was measured.
    pub(in crate::report) on: Option<usize>,
    /// Time for each MiB or operation.
    pub(in crate::report) time: Option<Interval>,
    /// Its time over that of the layer below, paired by block; faster means more time.
    pub(in crate::report) cost: Option<Comparison>,
    /// Whether it may be believed.
    pub(in crate::report) counted: bool,
}

/// The layers of one test, times in `unit`.
pub(in crate::report) fn waterfall(layers: &[Layer], unit: &str, label: &Label<'_>) -> Markup {
    let longest = layers
        .iter()
        .filter_map(|layer| layer.time)
        .map(|time| match time.is_known() {
            true => time.high,
            false => time.median,
        })
        .fold(f64::MIN_POSITIVE, f64::max);
    let scale = Scale::linear((0.0, longest * 1.04), (8.0, RIGHT));
    let bottom = 6.0 + ROW * layers.len() as f64;
    let body = html! {
        (x_grid(&scale, &linear_ticks(longest * 1.04, 5.0), 6.0, bottom))
        text class="unit" x=(px(RIGHT)) y=(px(bottom + 31.0)) text-anchor="end" { (unit) }
        @for (index, layer) in layers.iter().enumerate() { (row(layers, layer, &scale, 6.0 + ROW * index as f64)) }
    };
    frame(bottom + 37.0, label, &body)
}

fn row(layers: &[Layer], layer: &Layer, scale: &Scale, top: f64) -> Markup {
    let below = layer.on.and_then(|on| layers.get(on)?.time);
    let below = below.map_or(0.0, |time| time.median);
    let indent = depth(layers, layer) * INDENT;
    let (y, height) = (top + 34.0, 14.0);
    html! {
        text class="name" x=(px(8.0 + indent)) y=(px(top + 13.0)) {
            @if indent > 0.0 { "↳ " }
            (short(&layer.name, NAME_MAX))
        }
        text class="figure" x=(px(RIGHT)) y=(px(top + 29.0)) text-anchor="end" { (said(layer)) }
        @if let Some(time) = layer.time {
            @let (zero, end) = (scale.at(0.0), scale.at(time.median));
            @let base = scale.at(below.min(time.median));
            @if below > 0.0 {
                rect class="below" x=(px(zero)) y=(px(y)) width=(px(base - zero)) height=(px(height)) {}
            }
            @if below > time.median {
                rect class="gain" x=(px(end)) y=(px(y)) width=(px(scale.at(below) - end)) height=(px(height)) { title { "faster than what it stands on" } }
            }
            rect class=(palette::bar(0, layer.counted)) x=(px(if layer.counted { base } else { zero })) y=(px(y)) height=(px(height))
                width=(px((end - if layer.counted { base } else { zero }).max(0.8))) { title { (layer.name) ": " (significant(time.median)) } }
            @if time.is_known() {
                g class="whisker" {
                    line x1=(px(scale.at(time.low))) x2=(px(scale.at(time.high))) y1=(px(y + height / 2.0)) y2=(px(y + height / 2.0)) {}
                    @for end in [time.low, time.high] {
                        line x1=(px(scale.at(end))) x2=(px(scale.at(end))) y1=(px(y + 3.0)) y2=(px(y + height - 3.0)) {}
                    }
                }
            }
        }
    }
}

/// How many layers are below; a circle, which no plan has, ends the count.
fn depth(layers: &[Layer], layer: &Layer) -> f64 {
    let below = std::iter::successors(layer.on, |on| layers.get(*on)?.on);
    below.take(layers.len()).fold(0.0, |depth, _| depth + 1.0)
}

/// What a layer costs, in words.
pub(in crate::report) fn said(layer: &Layer) -> String {
    if !layer.counted {
        return "invalid".into();
    }
    let Some(time) = layer.time else {
        return "not measured".into();
    };
    let Some(cost) = layer.cost.filter(|_| layer.on.is_some()) else {
        return significant(time.median);
    };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if !cost.ratio.is_known() {
        return format!(
            "{} %, too few repeats",
            significant(percent(cost.ratio.median))
        );
    }
    let interval = range(percent(cost.ratio.low), percent(cost.ratio.high));
    match cost.verdict {
        Verdict::Same => "same within 3 %".into(),
        Verdict::CannotTell { .. } => format!("not significant ({interval} %)"),
        Verdict::Slower => format!(
            "{} % ({interval}): check",
            significant(percent(cost.ratio.median))
        ),
        Verdict::Faster => format!(
            "+{} % ({interval})",
            significant(percent(cost.ratio.median))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{compare, repeat_interval};

    const LABEL: Label<'static> = Label {
        title: "what layers cost",
        desc: "",
    };

    fn layer(name: &str, on: Option<usize>, time: f64, ratios: &[f64]) -> Layer {
        Layer {
            name: name.into(),
            on,
            time: repeat_interval(&[time, time * 1.01, time * 0.99, time, time]),
            cost: compare(ratios),
            counted: true,
        }
    }

    fn loops() -> Vec<Layer> {
        vec![
            layer("disk", None, 10.0, &[]),
            layer("loop", Some(0), 15.0, &[1.5, 1.49, 1.51, 1.5, 1.52]),
            layer(
                "loop on <loop>",
                Some(1),
                15.1,
                &[1.0, 1.01, 0.99, 1.0, 1.0],
            ),
            layer("fast?", Some(2), 12.0, &[0.8, 0.81, 0.79, 0.8, 0.8]),
        ]
    }

    #[test]
    fn every_layer_says_what_it_costs() {
        let said: Vec<String> = loops().iter().map(said).collect();
        assert_eq!(said[0], "10.0");
        assert_eq!(said[1], "+50.0 % (49.0 to 51.8)");
        assert_eq!(said[2], "same within 3 %");
        assert!(
            said[3].starts_with("-20.0 %") && said[3].ends_with("check"),
            "{}",
            said[3]
        );
    }

    #[test]
    fn layers_of_too_few_blocks_have_no_interval() {
        let mut layers = loops();
        layers[1].cost = compare(&[1.5, 1.49, 1.51]);
        assert_eq!(said(&layers[1]), "50.0 %, too few repeats");
        for layer in &mut layers {
            layer.time = repeat_interval(&[layer.time.unwrap().median; 3]);
        }
        let drawn = waterfall(&layers, "us/MiB", &LABEL).into_string();
        assert!(!drawn.contains("whisker"), "{drawn}");
    }

    #[test]
    fn bars_begin_at_zero_and_a_layer_stands_on_the_pale_part_of_the_one_below() {
        let drawn = waterfall(&loops(), "us/MiB", &LABEL).into_string();
        assert_eq!(
            drawn.matches("class=\"below\" x=\"8\"").count(),
            3,
            "{drawn}"
        );
        assert_eq!(drawn.matches("class=\"gain\"").count(), 1);
        assert_eq!(drawn.matches("↳").count(), 3);
        assert!(drawn.contains("loop on &lt;loop&gt;"));
    }

    #[test]
    fn an_invalid_layer_is_hatched_from_zero() {
        let mut layers = loops();
        layers[1].counted = false;
        let drawn = waterfall(&layers, "us/MiB", &LABEL).into_string();
        assert_eq!(drawn.matches("bar hatched-0\" x=\"8\"").count(), 1);
        assert!(drawn.contains(">invalid<"));
    }

    #[test]
    fn layers_in_a_circle_and_on_nothing_known_are_drawn() {
        let layers = [
            layer("a", Some(1), 1.0, &[1.0]),
            layer("b", Some(0), 1.0, &[1.0]),
            layer("c", Some(9), 1.0, &[1.0]),
        ];
        let drawn = waterfall(&layers, "us/MiB", &LABEL).into_string();
        assert!(!drawn.contains("NaN"));
    }
}
