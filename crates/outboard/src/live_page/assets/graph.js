// The disks that an export is made of, as nested lists that are drawn as a tree.

import { element } from "./text.js";

/** Draws the graph of `one`, an export, with the states of members of its arrays. Nothing changes if it is the same. */
export function drawGraph(place, one, arrays) {
  const own = arrays.filter((array) => array.export === one.name);
  const states = own.flatMap((array) => array.members.map((member) => [member.name, member.state]));
  const shown = JSON.stringify([one.outline, states]);
  if (place.dataset.shown === shown) return;
  place.dataset.shown = shown;
  const members = new Map(states);
  const graph = one.outline && element("ul", { className: "graph", ariaLabel: "Disks of the export" }, item(one.outline, members));
  place.replaceChildren(...(graph ? [graph] : []));
}

function item(outline, members) {
  const node = element("span", { className: "node" }, element("strong", {}, outline.kind), outline.text);
  const state = members.get(outline.text) ?? members.get(outline.text.split("/").at(-1));
  if (state) node.append(" ", element("span", { className: `state-${state}` }, state.replaceAll("_", " ")));
  const below = outline.children.map((child) => item(child, members));
  return element("li", {}, node, ...(below.length > 0 ? [element("ul", {}, ...below)] : []));
}
