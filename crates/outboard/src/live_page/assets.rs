//! The files of the live page, inside the binary.
//!
//! `assets/uPlot.js` and `assets/uPlot.css` are `dist/uPlot.iife.min.js` and `dist/uPlot.min.css` of uPlot 1.6.32 (npm), but for an end of line;
//! its license (MIT) is in `assets/LICENSE.uPlot`. `look.css` is the part of the style that the lab's report has, too.

/// A file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asset {
    pub(super) content_type: &'static str,
    pub(super) content: &'static str,
}

const fn asset(content_type: &'static str, content: &'static str) -> Asset {
    Asset {
        content_type,
        content,
    }
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// All of them, by their paths.
pub(super) const ALL: [(&str, Asset); 13] = [
    ("/", asset(HTML, include_str!("assets/index.html"))),
    ("/icon.svg", asset(IMAGE, include_str!("assets/icon.svg"))),
    ("/look.css", asset(STYLE, lab::report::LOOK)),
    ("/live.css", asset(STYLE, include_str!("assets/live.css"))),
    ("/live.js", asset(SCRIPT, include_str!("assets/live.js"))),
    ("/text.js", asset(SCRIPT, include_str!("assets/text.js"))),
    (
        "/tables.js",
        asset(SCRIPT, include_str!("assets/tables.js")),
    ),
    (
        "/arrays.js",
        asset(SCRIPT, include_str!("assets/arrays.js")),
    ),
    ("/graph.js", asset(SCRIPT, include_str!("assets/graph.js"))),
    (
        "/charts.js",
        asset(SCRIPT, include_str!("assets/charts.js")),
    ),
    (
        "/actions.js",
        asset(SCRIPT, include_str!("assets/actions.js")),
    ),
    ("/uPlot.js", asset(SCRIPT, include_str!("assets/uPlot.js"))),
    ("/uPlot.css", asset(STYLE, include_str!("assets/uPlot.css"))),
];
