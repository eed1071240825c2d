// The lab's report in headless Chromium: `node report.js CHROMIUM FOLDER`. FOLDER has pages with their JSON
// beside them (`1.html`, `1.json`). Prints a line for each check and ends with 1 when one fails.
//
// The pages are checked concurrently; what has a limit of time is checked afterwards, one page at a time.
//
// What it does not do: it does not judge how a page looks; that takes eyes.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");
const FLAGS = require("./flags.js");

const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
// The mark: a page is there within this time.
const OPENS_WITHIN_MS = 1000;
// Opened so often; the best counts, since others use the machine too.
const TRIES = 5;
const WIDTHS = [400, 1280, 1920];

/** Opens a page and notes whatever it asks for and complains of. */
async function open(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const seen = { requests: [], errors: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
  return { page, seen, close: () => context.close() };
}

async function asksForNothing({ file, browser }) {
  const opened = await open(browser, file);
  await opened.page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  await opened.page.waitForTimeout(200);
  assert.deepEqual(opened.seen.requests, [pathToFileURL(file).href]);
  assert.deepEqual(opened.seen.errors, []);
  await opened.close();
}

async function isCompleteWithoutScript({ file, browser }) {
  const [without, alike] = [await open(browser, file, { javaScriptEnabled: false }), await open(browser, file)];
  assert.equal(await without.page.locator("svg.chart").count(), await alike.page.locator("svg.chart").count());
  assert.equal(await alike.page.locator("script").count(), 0);
  assert.ok((await without.page.locator("h1").innerText()).length > 3);
  await without.close();
  await alike.close();
}

async function hasEveryFigure({ page, figures }) {
  const shown = await page.evaluate(() => ({
    cells: [...document.querySelectorAll("td, th, dt, dd")].map((cell) => cell.textContent),
    text: document.body.textContent,
  }));
  const cells = new Set(shown.cells);
  let count = 0;
  for (const section of figures.report) {
    for (const text of section.texts) assert.ok(shown.text.includes(text), text);
    for (const figure of section.figures) {
      for (const cell of figure.rows.flat()) {
        assert.ok(cells.has(cell), `${figure.title}: ${JSON.stringify(cell)} is not on the page`);
        count += 1;
      }
    }
  }
  assert.ok(count > 50, `only ${count} figures`);
  for (const sentence of [...figures.verdict, ...figures.sentences]) assert.ok(shown.text.includes(sentence), sentence);
  // Medians straight from the summary, which the tables were not made of.
  for (const row of figures.summary.rows) {
    if (!row.rate) continue;
    for (const value of [row.rate.median, row.rate.low, row.rate.high]) {
      const texts = [value.toFixed(0), String(Number(value.toPrecision(6)))];
      assert.ok(texts.some((text) => cells.has(text)), `${row.title}: ${value} is not on the page`);
    }
  }
  return `${count} figures`;
}

async function isReachedByKeyboard({ page }) {
  await page.keyboard.press("Tab");
  const first = await page.evaluate(() => document.activeElement.textContent);
  assert.match(first, /skip/i);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => location.hash), "#main");
  const wanted = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], summary, [tabindex='0']")];
    // What is in closed details is not to be reached.
    return all.filter((one) => one.tagName === "SUMMARY" || !one.closest("details:not([open])")).length;
  });
  await page.evaluate(() => {
    document.activeElement.blur();
    location.hash = "";
    getSelection().removeAllRanges();
    window.scrollTo(0, 0);
  });
  await page.reload();
  const reached = new Set();
  for (let step = 0; step < wanted * 2; step += 1) {
    await page.keyboard.press("Tab");
    const one = await page.evaluate(() => {
      const active = document.activeElement;
      if (active === document.body) return null;
      const all = [...document.querySelectorAll("a[href], summary, [tabindex='0']")];
      const style = getComputedStyle(active);
      return { index: all.indexOf(active), seen: style.outlineStyle !== "none" };
    });
    if (one === null) break;
    assert.ok(one.seen, `what has the focus shows it: element ${one.index}`);
    reached.add(one.index);
  }
  assert.equal(reached.size, wanted);
  // Enter opens a table.
  const summary = page.locator("summary").first();
  await summary.focus();
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("details").first().evaluate((one) => one.open));
  return `${wanted} places`;
}

async function hasNamesForScreenReaders({ page }) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const named = { image: 0, region: 0, table: 0, link: 0, columnheader: 0, list: 0 };
  for (const node of nodes.filter((one) => !one.ignored)) {
    const role = node.role?.value === "img" ? "image" : node.role?.value;
    if (!(role in named)) continue;
    // A list says its items; those that stand for drawings are named by what is before them.
    assert.ok(role === "list" || (node.name?.value ?? "").trim() !== "", `a ${role} has no name`);
    if (role === "image") assert.ok((node.description?.value ?? "").trim() !== "", `${node.name.value}: no description`);
    named[role] += 1;
  }
  assert.equal(named.image, await page.locator("svg.chart").count());
  for (const [role, count] of Object.entries(named)) assert.ok(count > 0, `no ${role}`);
  const levels = await page.evaluate(() => [...document.querySelectorAll("h1,h2,h3,h4")].map((one) => +one.tagName[1]));
  levels.reduce((before, level) => {
    assert.ok(level <= before + 1, `a heading of level ${level} follows one of ${before}`);
    return level;
  }, 0);
  const unscoped = await page.locator("th:not([scope])").count();
  assert.equal(unscoped, 0, "table headers without scope");
  return `${named.image} drawings, ${named.table} tables`;
}

async function fits({ file, browser }) {
  for (const width of WIDTHS) {
    for (const colorScheme of ["light", "dark"]) {
      const opened = await open(browser, file, { viewport: { width, height: 900 }, colorScheme });
      const found = await opened.page.evaluate(() => {
        const ground = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
        const right = document.documentElement.clientWidth;
        const out = [...document.querySelectorAll("h1, h2, p, figure, .card, svg.chart, li, pre")]
          .filter((one) => !one.closest(".wide, nav, .unseen, .skip"))
          .filter((one) => one.getBoundingClientRect().right > right + 1)
          .map((one) => one.outerHTML.slice(0, 80));
        const small = [...document.querySelectorAll("svg.chart text")]
          .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)
          .reduce((least, size) => Math.min(least, size), 99);
        return { ground, out, small, over: document.documentElement.scrollWidth - right };
      });
      assert.deepEqual(found.out, [], `${width} px`);
      assert.ok(found.over <= 0, `${width} px: ${found.over} px too wide`);
      assert.ok(found.small >= 9, `${width} px: letters of ${found.small} px`);
      const light = found.ground.slice(0, 3).reduce((sum, part) => sum + part, 0) / 3;
      assert.ok(colorScheme === "light" ? light > 200 : light < 60, `${colorScheme}: the ground is ${found.ground}`);
      await opened.close();
    }
  }
}

/** What axe finds with everything open, in light and dark. */
async function hasNoViolation({ file, browser }) {
  let passes = 0;
  for (const colorScheme of ["light", "dark"]) {
    const opened = await open(browser, file, { colorScheme });
    await opened.page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
    await opened.page.evaluate(AXE);
    // Each rule is applied to each element; the elements that pass are not described.
    const found = await opened.page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
    const texts = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 90)).join("; ")}`);
    assert.deepEqual(texts, [], colorScheme);
    passes += found.passes.length;
    await opened.close();
  }
  assert.ok(passes > 20, `only ${passes} rules were applied`);
  return `${passes} rules`;
}

async function prints({ page }) {
  const pdf = await page.pdf({ format: "A4", printBackground: true });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  const sheets = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  assert.ok(sheets >= 2, `${sheets} sheets`);
  assert.ok(pdf.length > 20_000, `${pdf.length} bytes`);
  // A4 less the default margins is 718 px wide: what is wider is cut off.
  await page.setViewportSize({ width: 718, height: 1000 });
  await page.emulateMedia({ media: "print", colorScheme: "light" });
  const cut = await page.evaluate(() => {
    const all = [...document.querySelectorAll("table, figure, .card, pre, svg.chart")];
    return all
      .filter((one) => one.offsetParent !== null || one.tagName === "svg")
      .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`);
  });
  assert.deepEqual(cut, []);
  return `${sheets} sheets`;
}

async function opensQuickly({ file, browser }) {
  let best = Infinity;
  for (let attempt = 0; attempt < TRIES && best >= OPENS_WITHIN_MS / 2; attempt += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    const start = process.hrtime.bigint();
    await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
    // Drawn, not only read.
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e6);
    await context.close();
  }
  assert.ok(best < OPENS_WITHIN_MS, `${best.toFixed(0)} ms`);
  return `${best.toFixed(0)} ms`;
}

const CHECKS = {
  "asks for nothing and complains of nothing": asksForNothing,
  "is complete without script": isCompleteWithoutScript,
  "has every figure of the JSON": hasEveryFigure,
  "is reached by keyboard": isReachedByKeyboard,
  "has names for screen readers": hasNamesForScreenReaders,
  "has no violation that axe finds in light and dark": hasNoViolation,
  "fits 400, 1280 and 1920 px in light and dark": fits,
  "prints with nothing cut off": prints,
};
const TIMED_CHECKS = { "opens within a second": opensQuickly };

/** Applies checks to a page; how many failed. */
async function judge(browser, folder, name, checks) {
  const file = path.resolve(folder, name);
  const figures = JSON.parse(fs.readFileSync(file.replace(/html$/, "json"), "utf8"));
  let failed = 0;
  for (const [what, check] of Object.entries(checks)) {
    const opened = await open(browser, file);
    try {
      const more = await check({ browser, file, figures, page: opened.page });
      console.log(`${name} ${what}${more ? ` (${more})` : ""}: ok`);
    } catch (error) {
      failed += 1;
      console.log(`${name} ${what}: FAILED: ${error.message}`);
    }
    await opened.close();
  }
  return failed;
}

async function main() {
  const [executablePath, folder] = process.argv.slice(2);
  const pages = fs.readdirSync(folder).filter((name) => name.endsWith(".html")).sort();
  assert.ok(pages.length > 0, `no pages in ${folder}`);
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const counts = await Promise.all(pages.map((name) => judge(browser, folder, name, CHECKS)));
  for (const name of pages) counts.push(await judge(browser, folder, name, TIMED_CHECKS));
  const failed = counts.reduce((sum, count) => sum + count, 0);
  await browser.close();
  console.log(failed === 0 ? "all checks pass" : `${failed} checks failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

main().catch((error) => {
  console.log(String(error.stack ?? error));
  process.exitCode = 1;
});
