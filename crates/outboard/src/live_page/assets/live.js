// The live page of `outboard serve --http`: draws each snapshot that /api/events sends, and reconnects.

import * as actions from "./actions.js";
import { arrays, fillArrays } from "./arrays.js";
import { Charts, History } from "./charts.js";
import { drawGraph } from "./graph.js";
import { LiveTable } from "./tables.js";
import * as text from "./text.js";

// Pause before the page reconnects where the browser does not.
const RECONNECT_MS = 2000;

const find = (id) => document.getElementById(id);
const history = new History();
const charts = new Charts(history);
const chosen = find("chosen");
let hasActions = false;
let latest = null;

const rate = (field, format) => (one) => format(one.rates?.[field]);
const rates = [
  { title: "Reads/s", text: rate("reads", text.count) },
  { title: "Read", text: rate("read_bytes", text.throughput) },
  { title: "Writes/s", text: rate("writes", text.count) },
  { title: "Written", text: rate("written_bytes", text.throughput) },
  { title: "p50", text: rate("p50_us", text.latency) },
  { title: "p99", text: rate("p99_us", text.latency) },
];

/** A button with the name of an export, which shows its load and its graph. */
function exportButton(one) {
  const button = text.element("button", { type: "button", className: "name" }, text.exportName(one.name));
  button.addEventListener("click", () => {
    choose(one.name);
    find("load").scrollIntoView();
    chosen.focus({ preventScroll: true });
  });
  return button;
}

function disconnectButton(client) {
  const button = text.element("button", { type: "button", ariaLabel: `Disconnect client ${client.id}` }, "Disconnect");
  button.client = client;
  button.addEventListener("click", () => {
    // After a restart of the server the row is another client's with the same number.
    const { id, peer, export: name } = button.client;
    actions.confirm({
      title: `Disconnect client ${id}?`,
      text: `${peer} on ${text.exportName(name)}: its requests in flight are completed first. Most clients reconnect by themselves.`,
      verb: "Disconnect",
      body: () => ({ disconnect: { client: id } }),
    });
  });
  return button;
}

function makeTables() {
  const table = (id, title, columns, key, filter = false) => {
    // A section with several tables has a heading for each.
    if (id === "volumes") find(id).append(text.element("h3", {}, title));
    return new LiveTable(find(id), { title, columns, key, filter });
  };
  const name = (one) => text.exportName(one.name);
  const quota = (one) => (one.quota === null ? "–" : text.bytes(one.quota));
  return {
    exports: table("exports", "Exports", [
      { title: "Export", text: name, make: exportButton, isText: true },
      { title: "Size", text: (one) => text.bytes(one.size) },
      { title: "Clients", text: (one) => text.count(one.clients) },
      ...rates,
      { title: "In flight", text: (one) => text.count(one.in_flight) },
      { title: "Errors", text: (one) => text.count(one.errors) },
      { title: "Writer", text: (one) => one.writer ?? (one.read_only ? "read-only" : "–"), isText: true },
    ], (one) => one.name, true),
    clients: table("clients", "Clients", [
      { title: "Client", text: (one) => String(one.id) },
      { title: "From", text: (one) => (one.certificate ? `${one.peer} (${one.certificate})` : one.peer), isText: true },
      { title: "Export", text: (one) => text.exportName(one.export), isText: true },
      { title: "Connected", text: (one) => text.duration(one.connected_seconds) },
      ...rates,
      { title: "Action", make: disconnectButton, update: (button, one) => { button.client = one; button.hidden = !hasActions; } },
    ], (one) => one.id, true),
    overlays: table("overlays", "Overlays of clients", [
      { title: "Client", text: (one) => one.client },
      { title: "Export", text: (one) => text.exportName(one.export), isText: true },
      { title: "Used", text: (one) => (one.bytes === null ? "–" : text.bytes(one.bytes)) },
      { title: "Quota", text: quota },
      { title: "Fill level", make: meter, update: (node, one) => setMeter(node, one.bytes ?? 0, one.quota) },
      { title: "Connections", text: (one) => text.count(one.connections) },
      { title: "Image", text: (one) => (one.is_older ? "replaced" : "current"), isText: true },
    ], (one) => `${one.export}\n${one.client}\n${one.is_older}`, true),
    groups: table("volumes", "Volume groups", [
      { title: "Group", text: (one) => one.name },
      { title: "Size", text: (one) => text.bytes(one.size) },
      { title: "Free", text: (one) => (one.free === null ? "?" : text.bytes(one.free)) },
      { title: "Fill level", make: meter, update: (node, one) => setMeter(node, one.size - (one.free ?? one.size), one.size) },
      { title: "Move of extents", text: (one) => one.move ?? "–", isText: true },
    ], (one) => one.name),
    volumes: table("volumes", "Volumes", [
      { title: "Volume", text: (one) => `${one.group}/${one.name}` },
      { title: "Type", text: (one) => one.kind, isText: true },
      { title: "Size", text: (one) => text.bytes(one.size) },
      { title: "State", text: (one) => (one.is_open ? "open" : "not open"), isText: true },
    ], (one) => `${one.group}/${one.name}`),
    pools: table("volumes", "Thin pools", [
      { title: "Pool", text: (one) => `${one.group}/${one.name}` },
      { title: "Data", text: (one) => text.bytes(one.data) },
      { title: "Used", text: (one) => text.bytes(one.data_used) },
      { title: "Fill level", make: meter, update: (node, one) => setMeter(node, one.data_used, one.data) },
      { title: "Metadata", text: (one) => text.bytes(one.metadata) },
      { title: "Used metadata", text: (one) => text.bytes(one.metadata_used) },
      { title: "Fill level of metadata", make: meter, update: (node, one) => setMeter(node, one.metadata_used, one.metadata) },
    ], (one) => `${one.group}/${one.name}`),
    snapshots: table("volumes", "Snapshots", [
      { title: "Snapshot", text: (one) => `${one.group}/${one.name}` },
      { title: "Origin", text: (one) => one.origin, isText: true },
      { title: "State", text: (one) => (one.why ? `${one.state}: ${one.why}` : one.state), isText: true },
      { title: "Store", text: (one) => text.bytes(one.store_size) },
      { title: "Used", text: (one) => text.share(one.per_mille) },
      { title: "Fill level", make: meter, update: (node, one) => setMeter(node, one.per_mille ?? 0, 1000) },
    ], (one) => `${one.group}/${one.name}`),
    caches: table("caches", "Cache files", [
      { title: "File", text: (one) => one.file },
      { title: "Cached", text: (one) => text.bytes(one.cached) },
      { title: "Holds at most", text: (one) => text.bytes(one.capacity) },
      { title: "Fill level", make: meter, update: (node, one) => setMeter(node, one.cached, one.capacity) },
      { title: "Hits", text: (one) => text.count(one.hits) },
      { title: "Misses", text: (one) => text.count(one.misses) },
      { title: "Read ahead", text: (one) => text.bytes(one.prefetched) },
      { title: "State", text: (one) => (one.failure ? `out of use: ${one.failure}` : "in use"), isText: true },
    ], (one) => one.file),
    buckets: table("buckets", "Volumes on object stores", [
      { title: "Volume", text: (one) => one.uri },
      { title: "Gets", text: (one) => text.count(operation(one, "get").requests) },
      { title: "Puts", text: (one) => text.count(operation(one, "put").requests) },
      { title: "Lists", text: (one) => text.count(operation(one, "list").requests) },
      { title: "Deletes", text: (one) => text.count(operation(one, "delete").requests) },
      { title: "Received", text: (one) => text.bytes(one.received) },
      { title: "Sent", text: (one) => text.bytes(one.sent) },
      { title: "Not in the store yet", text: (one) => text.bytes(one.unwritten) },
      { title: "Time of a get", text: (one) => meanTime(operation(one, "get")) },
      { title: "Time of a put", text: (one) => meanTime(operation(one, "put")) },
      { title: "Failed requests", text: (one) => text.count(one.operations.reduce((sum, of) => sum + of.failures, 0)) },
      { title: "State", text: bucketState, isText: true },
    ], (one) => `${one.uri}\n${one.is_writer}`),
    attachments: table("attachments", "Attachments", [
      { title: "Device", text: (one) => one.device ?? "–" },
      { title: "Mounted on", text: (one) => one.mounted_on ?? "–", isText: true },
      { title: "Size", text: (one) => text.bytes(one.size) },
      { title: "Via", text: (one) => one.via, isText: true },
      { title: "Disk", text: (one) => one.disk, isText: true },
      { title: "State", text: (one) => (one.read_only ? `${one.state}, read-only` : one.state), isText: true },
      { title: "Last lab verdict", text: (one) => (one.verdict ? verdict(one.verdict) : "–"), isText: true },
    ], (one) => `${one.device}\n${one.disk}`),
    events: table("events", "Events", [
      { title: "Time", text: (one) => text.moment(one.at) },
      { title: "Event", text: (one) => one.event, isText: true },
      { title: "Subject", text: (one) => one.subject, isText: true },
      { title: "Member", text: (one) => one.member ?? "–", isText: true },
      { title: "What happened", text: (one) => one.text, isText: true },
    ], (one) => one.number),
  };
}

/** Requests of one kind of a volume on an object store. */
function operation(volume, name) {
  return volume.operations.find((one) => one.operation === name) ?? { requests: 0, failures: 0, nanos: 0 };
}

/** The mean since the volume was opened. */
function meanTime({ requests, nanos }) {
  return text.latency(requests > 0 ? Math.round(nanos / requests / 1000) : null);
}

function bucketState(volume) {
  if (volume.failure) return `out of use: ${volume.failure}`;
  return volume.is_writer ? "open for writing" : "open for reading";
}

function meter() {
  return text.element("meter", { min: 0, max: 1, high: 0.8 });
}

function setMeter(node, used, size) {
  node.hidden = !size;
  const value = size ? Math.min(used / size, 1) : 0;
  if (node.value !== value || !node.ariaLabel) {
    node.value = value;
    node.ariaLabel = `${Math.round(value * 100)} % full`;
  }
}

const tables = makeTables();

function choose(name) {
  chosen.value = `=${name}`;
  drawLoad();
}

/** The export that is shown; null for all. */
function chosenName() {
  return chosen.value === "" ? null : chosen.value.slice(1);
}

function fillChoice(exports) {
  const names = exports.map((one) => one.name);
  if (chosen.dataset.names === JSON.stringify(names)) return;
  chosen.dataset.names = JSON.stringify(names);
  const before = chosen.value;
  const options = names.map((name) => text.element("option", { value: `=${name}` }, text.exportName(name)));
  chosen.replaceChildren(text.element("option", { value: "" }, "all exports"), ...options);
  chosen.value = [...chosen.options].some((one) => one.value === before) ? before : "";
}

function drawLoad() {
  const name = chosenName();
  charts.draw(name);
  const one = latest?.exports.find((one) => one.name === name);
  find("details").hidden = !one;
  if (!one) return;
  text.setText(find("details-title"), text.exportName(one.name));
  text.setFacts(find("details-facts"), [
    ["Description", one.description],
    ["Size", text.bytes(one.size)],
    ["Clients", text.count(one.clients)],
    ["Writer", one.writer],
    ["Errors", text.count(one.errors)],
    ["Last lab verdict", one.verdict && verdict(one.verdict)],
  ]);
  drawGraph(find("graph"), one, latest.arrays);
}

/** A verdict of the lab and where it is from. */
function verdict({ run, plan, at_ms, text: line }) {
  return `${line} (run ${run} of plan ${plan}, ${text.moment(at_ms / 1000)}; outboard lab report ${run})`;
}

function show(id, isThere) {
  find(id).hidden = !isThere;
  document.querySelector(`[data-for=${id}]`).hidden = !isThere;
}

function draw(status) {
  // While the configuration changes there are no graphs: those of before are kept.
  const before = new Map(latest?.exports.map((one) => [one.name, one.outline]));
  status.exports.forEach((one) => (one.outline ??= before.get(one.name) ?? null));
  latest = status;
  hasActions = status.has_actions;
  const { server } = status;
  document.title = `${server.name} – outboard`;
  text.setText(find("server"), server.name);
  text.setText(find("program"), server.program);
  text.setFacts(find("facts"), [
    ["Listens on", server.listen.join(", ")],
    ["Configuration", server.config],
    ["Process", `${server.process}, for ${text.duration(server.up_seconds)}`],
    ["Connections", `${server.connections} (${server.accepted} accepted, ${server.refused} refused)`],
    ["In flight", text.bytes(server.memory)],
  ]);
  history.append(status);
  fillChoice(status.exports);
  drawLoad();
  tables.exports.update(status.exports);
  tables.clients.update(status.clients, status.clients_count);
  tables.overlays.update(status.overlays, status.overlays_count);
  show("overlays", status.overlays_count > 0);
  const moves = new Map(status.moves.map((move) => [move.group, `${move.state}: ${text.bytes(move.copied)} of ${text.bytes(move.bytes)}`]));
  tables.groups.update(status.groups.map((group) => ({ ...group, move: moves.get(group.name) })));
  tables.volumes.update(status.groups.flatMap((group) => group.volumes.map((one) => ({ ...one, group: group.name }))));
  tables.snapshots.update(status.snapshots);
  tables.pools.update(status.groups.flatMap((group) => group.pools.map((one) => ({ ...one, group: group.name }))));
  show("volumes", status.groups.length > 0);
  tables.caches.update(status.caches);
  show("caches", status.caches.length > 0);
  tables.buckets.update(status.bucket_volumes);
  show("buckets", status.bucket_volumes.length > 0);
  tables.attachments.update(status.attachments);
  show("attachments", status.attachments.length > 0);
  tables.events.update(status.events);
  fillArrays(status.arrays, hasActions);
  show("arrays", status.arrays.length > 0);
}

function setConnection(isLive) {
  const node = find("connection");
  node.className = isLive ? "live" : "lost";
  text.setText(node, isLive ? "live" : "no connection to the server; reconnecting…");
}

function connect() {
  const source = new EventSource("/api/events");
  source.addEventListener("message", (event) => {
    setConnection(true);
    draw(JSON.parse(event.data));
    document.body.dataset.snapshots = String(Number(document.body.dataset.snapshots ?? 0) + 1);
  });
  source.addEventListener("error", () => {
    setConnection(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RECONNECT_MS);
  });
}

chosen.addEventListener("change", drawLoad);
arrays.parent = find("arrays");
actions.start();
connect();
