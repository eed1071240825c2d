//! Planes: zero stays zero, hollow stays hollow, ticks are powers of two and flags stay on the paper.

use proptest::prelude::*;

use super::*;

const LABEL: Label<'static> = Label {
    title: "a plane",
    desc: "",
};

fn doubling(low: f64, high: f64) -> Along {
    Along::Doubling {
        of: "block size",
        is_bytes: true,
        ends: (low, high),
    }
}

fn plane(floor: Floor, values: &[f64]) -> Plane {
    let points = (0u16..).zip(values).map(|(index, value)| Point {
        ends: Some((value * 0.9, value * 1.1)),
        ..Point::of(2f64.powi(i32::from(index) + 9), *value)
    });
    Plane {
        along: doubling(512.0, 4_194_304.0),
        panels: vec![Panel {
            name: "MB/s".into(),
            floor,
            lines: vec![Line {
                name: "a".into(),
                points: points.collect(),
                ..Line::default()
            }],
            limit: None,
        }],
        flags: Vec::new(),
        spans: Vec::new(),
    }
}

fn texts(along: &Along) -> Vec<String> {
    along.ticks().into_iter().map(|(_, text)| text).collect()
}

#[test]
fn block_sizes_have_powers_of_two_as_ticks() {
    assert_eq!(
        texts(&doubling(512.0, 65_536.0)),
        ["512", "1K", "2K", "4K", "8K", "16K", "32K", "64K"]
    );
    assert_eq!(
        texts(&doubling(512.0, 4_194_304.0)),
        ["512", "2K", "8K", "32K", "128K", "512K", "2M"]
    );
    let depths = Along::Doubling {
        of: "depth",
        is_bytes: false,
        ends: (1.0, 64.0),
    };
    assert_eq!(texts(&depths), ["1", "2", "4", "8", "16", "32", "64"]);
    let places = Along::TargetPlace {
        end: 4.0 * 1024f64.powi(3),
    };
    assert_eq!(texts(&places), ["0", "1G", "2G", "3G", "4G"]);
}

#[test]
fn a_panel_from_zero_has_zero_as_its_first_tick_and_a_near_one_has_not() {
    let ticks = |floor| {
        let plane = plane(floor, &[60.0, 62.0, 66.0]);
        heights(&plane.panels[0], 0.0, 100.0).1
    };
    assert_eq!(ticks(Floor::Zero)[0].0, 0.0);
    assert!(ticks(Floor::Near)[0].0 >= 50.0);
    assert!(ticks(Floor::Log).iter().all(|(tick, _)| *tick > 40.0));
}

#[test]
fn what_is_invalid_is_hollow_and_off_the_line() {
    let mut drawn = plane(Floor::Zero, &[1.0, 2.0, 3.0]);
    drawn.panels[0].lines[0].points[1].counted = false;
    let text = drawn.draw(&LABEL).into_string();
    assert_eq!(text.matches("t0 mark out").count(), 1);
    assert!(text.contains("2.00, invalid"));
    let line = text.split("t0 line\" points=\"").nth(1).unwrap();
    let points = line.split('"').next().unwrap();
    assert_eq!(points.split(' ').count(), 2);
}

#[test]
fn a_fit_is_a_line_of_its_own_and_a_flag_has_its_words() {
    let mut drawn = plane(Floor::Zero, &[1.0, 2.0, 3.0]);
    drawn.panels[0].lines[0].fit = vec![(512.0, 1.0), (2048.0, 3.0)];
    for (x, text) in [(1024.0, "95 % at 1 KiB"), (4_000_000.0, "knee <here>")] {
        drawn.flags.push(Flag {
            x,
            text: text.into(),
            look: Some(1),
        });
    }
    let text = drawn.draw(&LABEL).into_string();
    assert_eq!(text.matches("class=\"t0 fit\"").count(), 1);
    assert!(text.contains(">95 % at 1 KiB<") && text.contains("knee &lt;here&gt;"));
    // The one at the right has its words at its left.
    assert_eq!(text.matches("text-anchor=\"start\"").count(), 1);
}

#[test]
fn long_courses_have_no_marks() {
    let mut drawn = plane(Floor::Zero, &[1.0]);
    drawn.along = Along::Time { end: 100.0 };
    drawn.panels[0].lines[0].points = (0..100u8)
        .map(|second| Point::of(f64::from(second), 1.0))
        .collect();
    drawn.spans.push((1, 10.0, 20.0));
    let text = drawn.draw(&LABEL).into_string();
    assert!(!text.contains("mark") && text.contains("t1 span"));
}

#[test]
fn a_plane_of_nothing_is_drawn() {
    for floor in [Floor::Zero, Floor::Near, Floor::Log] {
        let text = plane(floor, &[]).draw(&LABEL).into_string();
        assert!(text.contains("<svg") && !text.contains("NaN"), "{text}");
    }
}

proptest! {
    #[test]
    fn no_values_leave_the_paper(values in prop::collection::vec(0.0f64..1e12, 0..30)) {
        for floor in [Floor::Zero, Floor::Near, Floor::Log] {
            let drawn = plane(floor, &values);
            let (scale, ticks) = heights(&drawn.panels[0], 10.0, 90.0);
            prop_assert!(values.iter().all(|value| (10.0..=90.0).contains(&scale.at(*value))));
            prop_assert!(ticks.len() <= 40);
            let text = drawn.draw(&LABEL).into_string();
            prop_assert!(!text.contains("NaN") && !text.contains("inf"));
        }
    }
}
