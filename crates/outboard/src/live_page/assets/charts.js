// Charts of the last minutes, drawn by uPlot. The history is kept here, by export and for all of them.

import { bytes, clockTime, element, latency, setText, throughput } from "./text.js";

// Snapshots that are kept, and the seconds that a chart shows: five minutes.
const POINTS_MAX = 300;
const SERIES = ["read_bytes", "written_bytes", "p50_us", "p99_us"];
const CHARTS = {
  throughput: { series: ["read_bytes", "written_bytes"], names: ["read", "written"], format: throughput, axis: bytes, least: 1 << 20 },
  latency: { series: ["p50_us", "p99_us"], names: ["p50", "p99"], format: latency, axis: latency, least: 100 },
};
// The history of all exports together.
const ALL = Symbol("all");

/** Rates by export over time. */
export class History {
  constructor() {
    this.times = [];
    this.lines = new Map();
  }

  /** Appends a snapshot. After a pause (the server was restarted, the machine slept) the line is interrupted. */
  append(status) {
    const last = this.times.at(-1);
    if (last !== undefined && status.at_ms / 1000 <= last) {
      // The server's clock was set back.
      this.times = [];
      this.lines.clear();
    } else if (last !== undefined && status.at_ms / 1000 - last > 5) this.push(last + 1, []);
    const rates = status.exports.map((one) => [one.name, one.rates]);
    this.push(status.at_ms / 1000, [[ALL, status.rates], ...rates]);
  }

  push(time, rates) {
    for (const [name, value] of rates) {
      if (value && !this.lines.has(name)) this.lines.set(name, SERIES.map(() => this.times.map(() => null)));
    }
    this.times.push(time);
    const values = new Map(rates);
    const isFull = this.times.length > POINTS_MAX;
    if (isFull) this.times.shift();
    for (const [name, line] of this.lines) {
      const now = values.get(name);
      line.forEach((series, index) => {
        series.push(now?.[SERIES[index]] ?? null);
        if (isFull) series.shift();
      });
      if (!now && line[0].every((value) => value === null)) this.lines.delete(name);
    }
  }

  /** The points of these series of an export; of all exports if it is null. */
  data(name, series) {
    const line = this.lines.get(name ?? ALL);
    return [this.times, ...series.map((one) => line?.[SERIES.indexOf(one)] ?? this.times.map(() => null))];
  }
}

/** The two charts of the page. */
export class Charts {
  constructor(history) {
    Object.assign(this, { history, chosen: null, plots: {}, keys: {} });
    for (const id of Object.keys(CHARTS)) {
      this.keys[id] = makeKey(id);
      new ResizeObserver(() => this.resize(id)).observe(document.getElementById(id));
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restart());
  }

  /** Draws the history of `chosen`: the name of an export, or null. */
  draw(chosen) {
    this.chosen = chosen;
    for (const [id, { series, format }] of Object.entries(CHARTS)) {
      const data = this.history.data(chosen, series);
      if (this.plots[id]) this.plots[id].setData(data);
      else this.plots[id] = plot(id, data);
      this.keys[id].forEach((value, index) => setText(value, format(data[index + 1].at(-1))));
    }
  }

  resize(id) {
    const width = document.getElementById(id).clientWidth;
    if (this.plots[id] && width > 0) this.plots[id].setSize({ width, height: this.plots[id].height });
  }

  restart() {
    Object.values(this.plots).forEach((one) => one.destroy());
    this.plots = {};
    this.draw(this.chosen);
  }
}

function plot(id, data) {
  const place = document.getElementById(id);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const { names, axis, least } = CHARTS[id];
  const axes = {
    stroke: color("--soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: color("--grid"), width: 1 },
    ticks: { stroke: color("--grid"), width: 1 },
  };
  const lines = [
    { label: names[0], stroke: color("--a"), width: 2, points: { show: false } },
    { label: names[1], stroke: color("--c1"), width: 2, dash: [7, 4], points: { show: false } },
  ];
  const options = {
    width: Math.max(place.clientWidth, 120),
    height: place.clientHeight,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, __, max) => [max - POINTS_MAX, max] },
      y: { range: (_, __, max) => [0, Math.max(max * 1.1, least)] },
    },
    axes: [{ ...axes, space: 80, values: (_, ticks) => ticks.map(clockTime) }, { ...axes, size: 74, values: (_, ticks) => ticks.map(axis) }],
    series: [{}, ...lines],
  };
  return new globalThis.uPlot(options, data, place);
}

/** The key of a chart: a swatch, a name and the latest value of each line. */
function makeKey(id) {
  return CHARTS[id].names.map((name, index) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", `swatch t${index}`);
    svg.setAttribute("viewBox", "0 0 22 10");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    Object.entries({ x1: 0, x2: 22, y1: 5, y2: 5 }).forEach(([at, value]) => line.setAttribute(at, value));
    svg.append(line);
    const value = element("span", {}, "–");
    document.getElementById(`${id}-now`).append(element("li", {}, svg, `${name} `, value));
    return value;
  });
}
