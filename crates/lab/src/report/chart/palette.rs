//! Which colour, shape and dash is which target, and the hatching of what is invalid.
//!
//! Invariants: up to [`COLOURS`] x [`SHAPES`] targets differ in colour or shape, since the two numbers
//! have no common factor; the first seven differ in colour, shape and dash. Colours are the style
//! sheet's, from the palette of Okabe and Ito (2008) darkened until each has a contrast of 3 to its ground.

use maud::{Markup, html};

use super::{path, px};

/// Colours of the style sheet: `t0` and on.
pub(super) const COLOURS: usize = 7;
/// Shapes that [`outline`] knows.
const SHAPES: usize = 8;

/// The class that has a target's colour and dash.
pub(in crate::report) fn class(target: usize) -> String {
    format!("t{}", target % COLOURS)
}

/// Patterns that all charts of a page use.
pub(in crate::report) fn patterns() -> Markup {
    html! {
        svg class="patterns" width="0" height="0" aria-hidden="true" {
            defs {
                @for colour in 0..COLOURS {
                    pattern id={ "hatch-" (colour) } patternUnits="userSpaceOnUse" width="6" height="6"
                        patternTransform=(if colour % 2 == 0 { "rotate(45)" } else { "rotate(-45)" }) {
                        rect class={ "t" (colour) " hatch-ground" } width="6" height="6" {}
                        line class={ "t" (colour) " hatch-line" } x1="0" y1="0" x2="0" y2="6" {}
                    }
                }
            }
        }
    }
}

/// The class of a bar, hatched where it is not counted.
pub(super) fn bar(target: usize, counted: bool) -> String {
    let class = class(target);
    match counted {
        true => format!("{class} bar"),
        false => format!("{class} bar hatched-{}", target % COLOURS),
    }
}

/// The mark of a target; hollow where it is not counted.
pub(super) fn mark(target: usize, x: f64, y: f64, size: f64, counted: bool, tip: &str) -> Markup {
    let out = if counted { "" } else { " out" };
    let class = format!("{} mark{out}", class(target));
    html! {
        @match target % SHAPES {
            0 => circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(size)) { title { (tip) } },
            1 => rect class=(class) x=(px(x - size)) y=(px(y - size)) width=(px(size * 2.0)) height=(px(size * 2.0)) {
                title { (tip) }
            },
            shape => polygon class=(class) points=(placed(outline(shape), x, y, size)) { title { (tip) } },
        }
    }
}

/// The mark in a key.
pub(in crate::report) fn swatch(target: usize) -> Markup {
    html! {
        svg class="swatch" viewBox="0 0 16 14" aria-hidden="true" {
            line class={ (class(target)) " line" } x1="0" x2="16" y1="7" y2="7" {}
            (mark(target, 8.0, 7.0, 5.0, true, ""))
        }
    }
}

/// Corners of a shape about as large as the square of -1 to 1.
const fn outline(shape: usize) -> &'static [(f64, f64)] {
    match shape {
        2 => &[(0.0, -1.25), (1.2, 0.95), (-1.2, 0.95)],
        3 => &[(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)],
        4 => &[(0.0, 1.25), (1.2, -0.95), (-1.2, -0.95)],
        5 => &[
            (-0.45, -1.25),
            (0.45, -1.25),
            (0.45, -0.45),
            (1.25, -0.45),
            (1.25, 0.45),
            (0.45, 0.45),
            (0.45, 1.25),
            (-0.45, 1.25),
            (-0.45, 0.45),
            (-1.25, 0.45),
            (-1.25, -0.45),
            (-0.45, -0.45),
        ],
        6 => &[
            (-0.65, -1.1),
            (0.65, -1.1),
            (1.25, 0.0),
            (0.65, 1.1),
            (-0.65, 1.1),
            (-1.25, 0.0),
        ],
        _ => &[
            (-1.2, -1.2),
            (0.0, -0.5),
            (1.2, -1.2),
            (0.5, 0.0),
            (1.2, 1.2),
            (0.0, 0.5),
            (-1.2, 1.2),
            (-0.5, 0.0),
        ],
    }
}

fn placed(corners: &[(f64, f64)], x: f64, y: f64, size: f64) -> String {
    let corners: Vec<(f64, f64)> = corners
        .iter()
        .map(|(dx, dy)| (x + dx * size, y + dy * size))
        .collect();
    path(&corners)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn fifty_six_targets_look_different() {
        let looks: BTreeSet<(usize, usize)> = (0..COLOURS * SHAPES)
            .map(|target| (target % COLOURS, target % SHAPES))
            .collect();
        assert_eq!(looks.len(), 56);
        let shapes: BTreeSet<String> = (0..SHAPES)
            .map(|target| {
                mark(target, 0.0, 0.0, 4.0, true, "")
                    .into_string()
                    .replace(&class(target), "")
            })
            .collect();
        assert_eq!(shapes.len(), SHAPES);
    }

    #[test]
    fn what_is_not_counted_is_hatched_or_hollow() {
        assert_eq!(bar(8, true), "t1 bar");
        assert_eq!(bar(8, false), "t1 bar hatched-1");
        let patterns = patterns().into_string();
        assert!((0..COLOURS).all(|colour| patterns.contains(&format!("id=\"hatch-{colour}\""))));
        let hollow = mark(3, 0.0, 0.0, 4.0, false, "left out").into_string();
        assert!(hollow.contains("t3 mark out") && hollow.contains("<title>left out</title>"));
    }
}
