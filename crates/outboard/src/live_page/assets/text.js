// Figures as text, and elements with text. Text of the server becomes text nodes, never HTML.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Bytes in the unit in which they have at most four digits. */
export function bytes(count) {
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** A number of requests a second, or a dash where it is not known. */
export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

/** Bytes a second, or a dash. */
export function throughput(value) {
  return value === null || value === undefined ? "–" : `${bytes(value)}/s`;
}

/** Microseconds in a unit that suits them, or a dash. */
export function latency(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toPrecision(3)} ms`;
  return `${(us / 1e6).toPrecision(3)} s`;
}

/** Seconds as the two largest units. */
export function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0 s";
  let rest = Math.floor(seconds);
  const shown = parts.slice(first, first + 2).map(([length, unit]) => {
    const whole = Math.floor(rest / length);
    rest -= whole * length;
    return whole > 0 ? `${whole} ${unit}` : "";
  });
  return shown.filter(Boolean).join(" ");
}

/** Tenths of a percent. */
export function share(perMille) {
  return perMille === null || perMille === undefined ? "?" : `${(perMille / 10).toFixed(1)} %`;
}

const two = (number) => String(number).padStart(2, "0");

/** Seconds since 1970 as a local time of the day. */
export function clockTime(seconds) {
  const at = new Date(seconds * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

/** Seconds since 1970 as a local date and time. */
export function moment(seconds) {
  const at = new Date(seconds * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clockTime(seconds)}`;
}

/** The name of an export: the default one has none. */
export function exportName(name) {
  return name === "" ? "(default)" : name;
}

/** An element with properties and children: elements or texts. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Changes the text of an element only if it differs: nothing is laid out again for the same text. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Writes pairs of a term and a text into a `dl`. Pairs without a text are left out. */
export function setFacts(list, pairs) {
  const shown = pairs.filter(([, text]) => text);
  const terms = shown.map(([term]) => term).join("\n");
  if (list.dataset.terms !== terms) {
    list.dataset.terms = terms;
    list.replaceChildren(...shown.flatMap(([term]) => [element("dt", {}, term), element("dd")]));
  }
  shown.forEach(([, text], index) => setText(list.children[2 * index + 1], text));
}
