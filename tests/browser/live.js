// The live page of `serve --http` in headless Chromium: `node live.js CHROMIUM OUTBOARD FOLDER`. Starts its servers in
// FOLDER, puts screenshots there, prints a line for each check and ends with 1 when one fails.
//
// What it does not do: it does not judge how the page looks; that takes eyes.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync, spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { chromium } = require("playwright-core");
const FLAGS = require("./flags.js");
const { connect, readOn } = require("./nbd_clients.js");

const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
// The mark: with so many exports and clients the page is interactive after this much processor time of page and server, as it
// is within this time where nothing else uses the machine.
const INTERACTIVE_WITHIN_MS = 1000;
const [EXPORTS, CLIENTS] = [200, 1000];
// Opened so often; the best counts, since others use the machine's caches too.
const [TRIES, TRIES_MAX] = [5, 20];
const WAIT_MS = 20_000;
const WIDTHS = [400, 1280];

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Servers that run: a check that fails leaves its own. */
const running = new Set();

/** A server with its page. `token` is that which it printed, if it did. */
async function serve({ outboard, folder }, disks, ports = null, more = []) {
  const [port, http] = ports ?? [await freePort(), await freePort()];
  const options = [`--listen=127.0.0.1:${port}`, `--http=127.0.0.1:${http}`, "--http-admin", "--json", ...more];
  const process = spawn(outboard, ["serve", ...disks, ...options], {
    cwd: folder,
    env: { ...globalThis.process.env, OUTBOARD_RUNTIME_DIR: path.join(folder, "run") },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const token = await new Promise((resolve, reject) => {
    let text = "";
    process.stdout.on("data", (data) => {
      text += data;
      const line = text.split("\n").find((line) => line.includes('"token"') && line.endsWith("}"));
      if (line) resolve(JSON.parse(line).token);
    });
    process.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  const stop = () =>
    new Promise((resolve) => {
      running.delete(stop);
      process.removeAllListeners("exit");
      process.on("exit", resolve);
      if (!process.kill("SIGTERM")) resolve();
    });
  running.add(stop);
  return { port, http, token, url: `http://127.0.0.1:${http}/`, pid: process.pid, stop };
}

/** Opens the page, and records what it requests and complains of. */
async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const seen = { requests: [], errors: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  await page.goto(url);
  await snapshots(page, 2);
  return { page, seen, close: () => context.close() };
}

/** Waits until the page has drawn so many snapshots. */
function snapshots(page, count) {
  return page.waitForFunction((count) => Number(document.body.dataset.snapshots ?? 0) >= count, count);
}

async function requestsNothingElse({ browser, server }) {
  const opened = await open(browser, server.url);
  await snapshots(opened.page, 4);
  for (const url of opened.seen.requests) assert.ok(url.startsWith(server.url), url);
  assert.deepEqual(opened.seen.errors, []);
  const response = await opened.page.request.get(server.url);
  const policy = response.headers()["content-security-policy"];
  assert.ok(policy.startsWith("default-src 'none'") && !policy.includes("unsafe"), policy);
  assert.equal(await opened.page.locator("script:not([src]), style, [style*=':'] [onclick]").count(), 0);
  await opened.close();
  return `${opened.seen.requests.length} requests`;
}

async function showsReadsLive({ browser, server }) {
  const client = await connect(server.port, "scratch");
  readOn(client);
  const opened = await open(browser, server.url);
  const cell = opened.page.locator("#exports tbody tr", { hasText: "scratch" }).locator("td").nth(2);
  const reads = async () => Number((await cell.innerText()).replaceAll(",", "").replace("–", "0"));
  const drawn = await opened.page.evaluate(() => Number(document.body.dataset.snapshots));
  await snapshots(opened.page, drawn + 3);
  const shown = await reads();
  assert.ok(shown > 10, `${shown} reads a second`);
  await opened.page.selectOption("#chosen", { label: "scratch" });
  const key = await opened.page.locator("#latency-now li").first().innerText();
  assert.match(key, /p50 [\d.]+ (µs|ms)/);
  const graph = await opened.page.locator("#graph").innerText();
  assert.match(graph, /delay[^]*memory/);
  const inked = await opened.page.evaluate(() => {
    const canvas = document.querySelector("#throughput canvas");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.filter((value, index) => index % 4 === 3 && value > 0).length;
  });
  assert.ok(inked > 500, `${inked} pixels drawn`);
  assert.equal(await opened.page.locator("#clients tbody tr").count(), 1);
  client.socket.destroy();
  await opened.page.waitForFunction(() => document.querySelectorAll("#clients tbody tr").length === 0);
  await opened.close();
  return `${shown} reads a second`;
}

/** No violation of accessibility that users would meet. */
async function axeFindsNothing(page, where) {
  await page.evaluate(AXE);
  // Each rule is applied to each element; the elements that pass are not described.
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  const texts = serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 90)).join("; ")}`);
  assert.deepEqual(texts, [], where);
}

async function fits({ browser, server, folder }) {
  const client = await connect(server.port, "photos");
  readOn(client);
  for (const width of WIDTHS) {
    for (const colorScheme of ["light", "dark"]) {
      const opened = await open(browser, server.url, { viewport: { width, height: 900 }, colorScheme });
      await opened.page.selectOption("#chosen", { label: "photos" });
      await snapshots(opened.page, 4);
      const found = await opened.page.evaluate(() => {
        const right = document.documentElement.clientWidth;
        const ground = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
        const out = [...document.querySelectorAll("h1, h2, p, figure, .card, .plot, li, dl, button, select")]
          .filter((one) => !one.closest(".wide table, nav, .skip, dialog"))
          .filter((one) => one.getBoundingClientRect().right > right + 1)
          .map((one) => one.outerHTML.slice(0, 80));
        return { out, ground, over: document.documentElement.scrollWidth - right };
      });
      assert.deepEqual(found.out, [], `${width} px`);
      assert.ok(found.over <= 0, `${width} px: ${found.over} px too wide`);
      const light = found.ground.slice(0, 3).reduce((sum, part) => sum + part, 0) / 3;
      assert.ok(colorScheme === "light" ? light > 200 : light < 60, `${colorScheme}: the ground is ${found.ground}`);
      await opened.page.screenshot({ path: path.join(folder, `live-${width}-${colorScheme}.png`), fullPage: true });
      await axeFindsNothing(opened.page, `${width} px, ${colorScheme}`);
      await opened.page.getByRole("button", { name: "Fail b.img" }).click();
      await axeFindsNothing(opened.page, `${width} px, ${colorScheme}, with the dialog`);
      await opened.close();
    }
  }
  client.socket.destroy();
}

async function isUsedByKeyboard({ browser, server }) {
  const { page, close } = await open(browser, server.url);
  const reached = new Set();
  for (let press = 0; press < 60; press += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const one = document.activeElement;
      const outline = getComputedStyle(one).outlineStyle;
      const name = one.ariaLabel ?? one.textContent.trim().slice(0, 30);
      return outline === "none" && !one.matches(".skip, main, body") ? `no outline: ${one.outerHTML.slice(0, 60)}` : name;
    });
    assert.ok(!name.startsWith("no outline"), name);
    reached.add(name);
  }
  for (const name of ["Skip to the content", "Exports", "Filter: Exports", "Fail b.img"]) {
    assert.ok(reached.has(name), `${name} is not reached: ${[...reached].join(", ")}`);
  }
  await page.getByRole("button", { name: "photos", exact: true }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#details-title").innerText(), "photos");
  await page.getByRole("button", { name: "Fail b.img" }).focus();
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("#dialog").evaluate((one) => one.open));
  await page.keyboard.press("Escape");
  assert.ok(!(await page.locator("#dialog").evaluate((one) => one.open)));
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Fail b.img");
  await close();
  return `${reached.size} stops`;
}

async function actsWithTheToken({ browser, server }) {
  const client = await connect(server.port, "scratch");
  client.socket.on("error", () => {});
  const closed = new Promise((resolve) => client.socket.on("close", resolve));
  const { page, close } = await open(browser, server.url);
  const act = async (button, token) => {
    await page.getByRole("button", { name: button }).click();
    await page.getByLabel("Token").fill(token);
    await page.locator("#confirm").click();
  };
  await act(/^Disconnect client/, "wrong");
  await page.locator("#dialog-error", { hasText: "token" }).waitFor();
  await page.locator("#cancel").click();
  await act(/^Disconnect client/, server.token);
  await closed;
  await act("Fail b.img", server.token);
  await page.locator("#arrays td", { hasText: "failed" }).first().waitFor();
  await page.locator("#events td", { hasText: "b.img failed" }).first().waitFor();
  await page.locator("#arrays dd", { hasText: "degraded" }).waitFor();
  await close();
}

async function showsVolumesAndSnapshots({ browser, server }) {
  const { page, close } = await open(browser, server.url);
  const text = await page.locator("#volumes").innerText();
  assert.match(text, /vg\/data[^]*vg\/before\s+data\s+valid/);
  assert.ok(!text.includes("snapshot0"), text);
  const labels = await page.locator("#volumes meter").evaluateAll((all) => all.map((one) => one.ariaLabel));
  assert.ok(labels.length === 2 && labels.every((label) => /^\d+ % full$/.test(label)), labels.join());
  await close();
}

/** A resync of hours, with its progress, and axe while it is shown. */
async function showsASync(context) {
  const server = await serve(context, ["slow=array(throttle(d.img, bytes=100K/s), e.img)"]);
  const { page, close } = await open(context.browser, server.url);
  const line = page.locator("#arrays p, #arrays span", { hasText: /resync: [\d.]+ %, .*\/s, .* left/ }).first();
  await line.waitFor();
  const bar = page.locator("#arrays progress");
  assert.match(await bar.evaluate((one) => one.ariaLabel), /^resync of (.*:)?slow$/);
  const begun = await bar.evaluate((one) => one.value);
  await page.waitForFunction((begun) => document.querySelector("#arrays progress").value > begun, begun);
  await axeFindsNothing(page, "a resync");
  const text = await line.innerText();
  await close();
  await server.stop();
  return text;
}

async function showsOverlaysOfClients(context) {
  const server = await serve(context, ["root=base.img"], null, ["--overlay-per-client=overlays"]);
  const client = await connect(server.port, "root");
  const { page, close } = await open(context.browser, server.url);
  const row = page.locator("#overlays tbody tr", { hasText: "127.0.0.1" });
  await row.waitFor();
  const text = (await row.innerText()).replaceAll(/\s+/g, " ");
  assert.ok(text.includes("root"), text);
  await axeFindsNothing(page, "overlays");
  client.socket.destroy();
  await close();
  await server.stop();
  return text;
}

async function showsCaches(context) {
  const server = await serve(context, ["root=cache(base.img, root.cache)"]);
  const { page, close } = await open(context.browser, server.url);
  const row = page.locator("#caches tbody tr", { hasText: "root.cache" });
  await row.waitFor();
  const text = (await row.innerText()).replaceAll(/\s+/g, " ");
  assert.ok(text.includes("in use"), text);
  await axeFindsNothing(page, "caches");
  await close();
  await server.stop();
  return text;
}

/** Of a server with volumes on object stores, which are added to a status: the program under test is built without them. */
async function showsVolumesOnObjectStores(context) {
  const server = await serve(context, ["root=memory(1M)"]);
  const { page, close } = await open(context.browser, server.url);
  const status = await (await page.request.get(new URL("/api/status", server.url).href)).json();
  assert.deepEqual(status.bucket_volumes, []);
  const of = (operation, requests, failures, nanos) => ({ operation, requests, failures, nanos });
  const volume = {
    uri: "s3://disks/lab/root",
    is_writer: true,
    failure: null,
    unwritten: 5 << 20,
    received: 3 * 2 ** 30,
    sent: 2048,
    operations: [of("get", 1200, 0, 18e9), of("put", 7, 2, 42e6), of("list", 0, 0, 0), of("delete", 1, 0, 0)],
  };
  const other = { ...volume, uri: "s3://disks/lab/old", failure: "another server has it" };
  const body = `data: ${JSON.stringify({ ...status, bucket_volumes: [volume, other] })}\n\n`;
  await page.route("**/api/events", (route) => route.fulfill({ contentType: "text/event-stream", body }));
  await page.reload();
  const rows = page.locator("#buckets tbody tr");
  await rows.nth(1).waitFor();
  const text = async (at) => (await rows.nth(at).innerText()).trim().split(/\s*\t\s*/);
  const shown = ["s3://disks/lab/root", "1,200", "7", "0", "1", "3.0 GiB", "2.0 KiB", "5.0 MiB", "15.0 ms", "6.00 ms", "2", "open for writing"];
  assert.deepEqual(await text(0), shown);
  assert.equal((await text(1)).at(-1), "out of use: another server has it");
  await axeFindsNothing(page, "volumes on object stores");
  await close();
  await server.stop();
  return shown.join(" ");
}

async function textOfTheServerIsNoHtml({ browser, server }) {
  const { page, close } = await open(browser, server.url);
  const name = "<img src=x onerror=alert(1)>";
  assert.equal(await page.getByRole("button", { name }).count(), 1);
  assert.equal(await page.locator("main img").count(), 0);
  await close();
}

async function reconnects(context) {
  const { browser } = context;
  const server = await serve(context, ["one=memory(1M)"]);
  const { page, close } = await open(browser, server.url);
  await server.stop();
  await page.locator("#connection.lost").waitFor();
  const again = await serve(context, ["one=memory(1M)", "two=memory(1M)"], [server.port, server.http]);
  await page.locator("#connection.live").waitFor();
  await page.getByRole("button", { name: "two" }).waitFor();
  // It stops at once although the page is open.
  const start = Date.now();
  await again.stop();
  const took = Date.now() - start;
  assert.ok(took < 5000, `${took} ms`);
  await close();
  return `stopped in ${took} ms with the page open`;
}

/** Processor time of a process, in ms: `utime` and `stime` of `/proc/PID/stat`, in ticks of 10 ms, also of threads that have ended. */
function processorTimeMs(pid) {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
  // Behind the name, which may have blanks.
  const [utime, stime] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13).map(Number);
  return (utime + stime) * 10;
}

async function isInteractiveQuickly(context) {
  const { browser } = context;
  const disks = Array.from({ length: EXPORTS }, (_, index) => `disk${index}=null(1G)`);
  const server = await serve(context, disks);
  const clients = [];
  for (let index = 0; index < CLIENTS; index += 1) clients.push(await connect(server.port, `disk${index % EXPORTS}`));
  let [best, bestTime] = [Infinity, Infinity];
  const isUndecided = (tried) => best >= (tried < TRIES ? INTERACTIVE_WITHIN_MS / 2 : INTERACTIVE_WITHIN_MS);
  for (let attempt = 0; attempt < TRIES_MAX && isUndecided(attempt); attempt += 1) {
    const browserContext = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await browserContext.newPage();
    const session = await browserContext.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const usedBefore = processorTimeMs(server.pid);
    const start = process.hrtime.bigint();
    await page.goto(server.url, { waitUntil: "commit" });
    await page.waitForFunction(() => document.querySelectorAll("#exports tbody tr").length > 0);
    // A click is answered.
    await page.selectOption("#chosen", "=disk7");
    await page.waitForFunction(() => document.getElementById("details-title").textContent === "disk7");
    bestTime = Math.min(bestTime, Number(process.hrtime.bigint() - start) / 1e6);
    const { metrics } = await session.send("Performance.getMetrics");
    const ofThePage = metrics.find((one) => one.name === "TaskDuration").value * 1e3;
    assert.ok(ofThePage > 1, "the browser gives no processor time of its page");
    best = Math.min(best, ofThePage + processorTimeMs(server.pid) - usedBefore);
    assert.match(await page.locator("#clients .tools").innerText(), new RegExp(`of ${CLIENTS}`));
    await page.locator("#exports .tools button").click();
    assert.equal(await page.locator("#exports tbody tr").count(), EXPORTS);
    await browserContext.close();
  }
  clients.forEach((client) => client.socket.destroy());
  await server.stop();
  const size = `${EXPORTS} exports and ${CLIENTS} clients`;
  const found = `${best.toFixed(0)} ms of processor time, ${bestTime.toFixed(0)} ms, with ${size}`;
  assert.ok(best < INTERACTIVE_WITHIN_MS, found);
  return found;
}

const CHECKS = {
  "requests nothing elsewhere and complains of nothing": requestsNothingElse,
  "shows reads while they run": showsReadsLive,
  "fits 400 and 1280 px in light and dark, axe finds nothing serious": fits,
  "is used by keyboard": isUsedByKeyboard,
  "shows volumes and snapshots": showsVolumesAndSnapshots,
  "shows a resync with the time left": showsASync,
  "shows overlays of clients": showsOverlaysOfClients,
  "shows caches": showsCaches,
  "shows volumes on object stores": showsVolumesOnObjectStores,
  "text of the server is no HTML": textOfTheServerIsNoHtml,
  "acts with the token alone": actsWithTheToken,
  "reconnects to a server that was restarted": reconnects,
  "is interactive after a second of processor time": isInteractiveQuickly,
};

async function main() {
  const [executablePath, outboard, folder] = process.argv.slice(2);
  for (const name of ["a.img", "b.img", "c.img", "d.img", "e.img", "base.img"]) {
    fs.closeSync(fs.openSync(path.join(folder, name), "w"));
    fs.truncateSync(path.join(folder, name), 48 << 20);
  }
  const run = (...words) => execFileSync(outboard, words, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  run("array", "create", "a.img", "b.img", "--level=1", "--assume-clean");
  run("array", "create", "d.img", "e.img", "--level=1", "--name=slow");
  run("volume", "create", "vg/data", "--disks", "c.img", "--size=8M", `--backup=${folder}`);
  run("volume", "snapshot", "create", "vg/data", "before", "c.img", "--size=4M", `--backup=${folder}`);
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const context = { browser, outboard, folder };
  const hostile = '"<img src=x onerror=alert(1)>"=memory(1M)';
  const disks = ["photos=array(a.img, b.img)", "scratch=delay(memory(64M), read=1ms)", "data=volume(c.img, name=vg/data)", hostile];
  context.server = await serve(context, disks);
  let failed = 0;
  for (const [what, check] of Object.entries(CHECKS)) {
    try {
      const more = await check(context);
      console.log(`live page ${what}${more ? ` (${more})` : ""}: ok`);
    } catch (error) {
      failed += 1;
      console.log(`live page ${what}: FAILED: ${error.message}`);
    }
  }
  await browser.close();
  await Promise.all([...running].map((stop) => stop()));
  console.log(failed === 0 ? "all checks pass" : `${failed} checks failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

main().catch((error) => {
  console.log(String(error.stack ?? error));
  process.exit(1);
});
