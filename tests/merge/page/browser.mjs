// A page in the distribution's Chromium, without a display and without a network.
import { createRequire } from "node:module";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.TRAPLINE_PAGE_MODULES, "package.json"));
const { chromium } = require("playwright-core");
export const axeSource = require("axe-core").source;

export const kChromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

const kPatience = 120_000; // ms, on a machine that does other things

// One browser serves all cases, started for the first page: starting one takes 0.7 s.
let started;
const browser = () => (started ??= chromium.launch({ executablePath: kChromium, args: ["--no-sandbox"], timeout: kPatience }));
export const close_browser = async () => (await started)?.close();

// Opens the file in a context of its own; `faults` collects what a page must not do: log, fail, or ask for anything.
export async function open(file, { hash = "", theme = "light", width = 1240, height = 900 } = {}) {
  const context = await (await browser()).newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce" });
  context.setDefaultTimeout(kPatience);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) faults.push(`request: ${request.url()}`);
  });
  await page.goto(pathToFileURL(file).href + hash);
  await page.waitForSelector("#table tbody tr, #changes tbody tr, #timeline svg");
  return { page, faults, close: () => context.close() };
}

// Until every view shows what is chosen.
export const settled = (page) => page.waitForFunction(() => !("drawing" in document.documentElement.dataset));

// The CPU time of each frame that the page's scripts drew during `action`, in ms, the shortest first.
export async function frames_of(page, action) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await session.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "devtools.timeline"] } });
  await action();
  const complete = new Promise((done) => session.once("Tracing.tracingComplete", done));
  await session.send("Tracing.end");
  await complete;
  const place = ({ pid, tid }) => `${pid} ${tid}`;
  const main = new Set(events.filter(({ ph, name, args }) => ph === "M" && name === "thread_name" && args.name === "CrRendererMain").map(place));
  const of = (name) => events.filter((event) => event.ph === "X" && event.name === name && main.has(place(event)));
  const drawn = of("FireAnimationFrame");
  const has = (task) => drawn.some((one) => place(one) === place(task) && one.ts >= task.ts && one.ts < task.ts + task.dur);
  return of("ThreadControllerImpl::RunTask").filter(has).map(({ tdur }) => tdur / 1000).sort((a, b) => a - b);
}

// The JSON in the page's file.
export const jsonOf = (file) => JSON.parse(/<script type="application\/json" id="data">([^]*?)<\/script>/.exec(readFileSync(file, "utf8"))[1]);

// The first recording in the page's file: its head, notes and tables, and what is packed in tables, read as
// docs/formats/page.md says, not by the page's own code.
export function dataOf(file) {
  const { head, notes, tables } = jsonOf(file).recordings[0], { texts } = tables.worst;
  const objects = ({ columns, rows }) => rows.map((row) => Object.fromEntries(row.map((value, i) => [columns[i], value])));
  const named = ["vcpu", "reason", "detail", "device", "function", "preempted_by"];
  const worst = objects(tables.worst);
  for (const exit of worst) {
    for (const key of named) exit[key] = texts[exit[key]];
    exit.waits = Array.from({ length: exit.waits.length / 4 }, (_, i) => exit.waits.slice(4 * i, 4 * i + 4));
  }
  const cells = tables.cells.rows.map((flat) => {
    const left = [...flat], list = [];
    for (let time = 0; left.length; ) {
      const first = left.shift();
      time += Math.floor(first / 8192);
      const given = (bit, none) => ((first >> bit) % 2 ? left.shift() : none);
      const count = given(0, 1), total = left.shift();
      list.push({ time, latency: Math.floor(first / 32) % 256, count, total, user: given(1, 0), preempted: given(2, 0), blocked: given(3, 0), halted: given(4, 0) });
    }
    return list;
  });
  const neighbourhoods = tables.neighbourhoods.rows.map(([from, length, left_out, flatSpans, flatEvents]) => {
    const spans = [], events = [];
    for (let left = [...flatSpans], at = from; left.length; ) {
      const kind = ["guest", "kernel", "user", "preempted", "blocked", "halted", "handler"][left.shift()];
      at += left.shift();
      const span = { kind, begin: at, end: at + left.shift() };
      if (kind === "handler") span.text = texts[left.shift()];
      spans.push(span);
    }
    for (let left = [...flatEvents], at = from; left.length; ) {
      const lane = left.shift();
      at += left.shift();
      events.push({ lane, at, text: texts[left.shift()], whose: texts[left.shift()] });
    }
    return { from, to: from + length, left_out, spans, events };
  });
  return { ...head, notes, tables, texts, worst, cells, neighbourhoods };
}

// What the table shows: the key and, by column, the exact figures of the cells' hover texts.
export const rowsOf = (page) => page.evaluate(() => [...document.querySelectorAll("#table tbody tr[data-key]")].map((row) => {
  // "–": not known.
  const number = (cell) => (cell.textContent.endsWith("–") ? null : Number((cell.title || cell.textContent).replace(/[^\d.]/g, "")));
  const [count, total, , mean, p50, p90, p99, max] = [...row.querySelectorAll("td.number")].map(number);
  return { key: row.dataset.key, count, total, mean, p50, p90, p99, max };
}));
