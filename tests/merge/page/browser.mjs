// A page in the distribution's Chromium, without a display and without a network.
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.TRAPLINE_PAGE_MODULES, "package.json"));
const { chromium } = require("playwright-core");
export const axeSource = require("axe-core").source;

export const kChromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

export async function browser() {
  return chromium.launch({ executablePath: kChromium, args: ["--no-sandbox"] });
}

// Opens the file; `faults` collects what a page must not do: log, fail, or ask for anything.
export async function open(chrome, file, { hash = "", theme = "light", width = 1240, height = 900 } = {}) {
  const context = await chrome.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) faults.push(`request: ${request.url()}`);
  });
  await page.goto(pathToFileURL(file).href + hash);
  await page.waitForSelector("#table tbody tr");
  return { page, faults, close: () => context.close() };
}

// The data in the page.
export const dataOf = (page) => page.evaluate(() => JSON.parse(document.getElementById("data").textContent).recordings[0]);

// What the table shows: the key and, by column, the exact figures of the cells' hover texts.
export const rowsOf = (page) => page.evaluate(() => [...document.querySelectorAll("#table tbody tr[data-key]")].map((row) => {
  const number = (cell) => Number((cell.title || cell.textContent).replace(/[^\d.]/g, ""));
  const [count, total, , mean, p50, p90, p99, max] = [...row.querySelectorAll("td.number")].map(number);
  return { key: row.querySelector("th .name").textContent, count, total, mean, p50, p90, p99, max };
}));
