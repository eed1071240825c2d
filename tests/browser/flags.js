// How Chromium is started: it draws without a screen, and requests nothing by itself.
"use strict";

module.exports = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
