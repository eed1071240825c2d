// The live page of an installed server in headless Chromium: `node newcomer.js CHROMIUM URL`. Its export `media` is shown
// with what is read from it. Ends with 1 if not.
"use strict";

const assert = require("node:assert/strict");
const { chromium } = require("playwright-core");
const FLAGS = require("./flags.js");

const WAIT_MS = 30_000;

async function main([executablePath, url]) {
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(WAIT_MS);
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) errors.push(message.text());
    });
    const begin = performance.now();
    await page.goto(url);
    await page.waitForFunction(() => Number(document.body.dataset.snapshots ?? 0) >= 1);
    const took = performance.now() - begin;
    const row = page.locator("#exports tbody tr", { hasText: "media" });
    await row.waitFor();
    const reads = async () => Number((await row.locator("td").nth(2).innerText()).replaceAll(",", "").replace("–", "0"));
    const end = performance.now() + WAIT_MS;
    let shown = 0;
    while (shown === 0 && performance.now() < end) {
      await page.waitForTimeout(500);
      shown = await reads();
    }
    assert.ok(shown > 0, "no reads are shown");
    assert.equal(await page.locator("#clients tbody tr").count() > 0, true, "no client is shown");
    assert.deepEqual(errors, []);
    console.log(`page: shown in ${took.toFixed(0)} ms, ${shown} reads a second from media`);
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
