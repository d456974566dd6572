// The page in a real browser, on real recordings: page_test.mjs CASE...
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { axeSource, close_browser, dataOf, frames_of, jsonOf, kChromium, open, rowsOf, settled } from "./browser.mjs";
import { small } from "./small_png.mjs";

const trapline = join(process.env.TRAPLINE_BINARY_DIR ?? "", "merge/trapline");
// The commands on the pages, and so on their pictures, name files of the source tree.
if (process.env.TRAPLINE_SOURCE_DIR) process.chdir(process.env.TRAPLINE_SOURCE_DIR);
const recordings = "tests/data";
const folder = mkdtempSync(join(tmpdir(), "trapline-page-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const run = (...words) => execFileSync(trapline, words, { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }).toString();
const document_of = (...words) => JSON.parse(run(...words, "--format", "json"));
const json = (words, ...more) => document_of("report", ...words, ...more).tables;
const report = (file, by, ...more) => json([join(recordings, file)], "--by", by, ...more);
// The page that a command writes, made once.
const written = new Map();
function page_of(...words) {
  const key = words.join(" "), html = written.get(key) ?? join(folder, `page-${written.size}.html`);
  if (!written.has(key)) run(...words, "--format", "html", "-o", html);
  written.set(key, html);
  return html;
}
const write = (file, ...more) => page_of("report", join(recordings, file), ...more);
const linux = "svm-linux-2vcpu.dat";
const cyclictest = { files: ["host.dat", "guest.dat", "sync.txt"].map((file) => join("tests/merge/cyclictest", file)), spec: "marker:hit latency threshold" };

// Changes what the page holds, as a hostile recording would.
function changed(html, change) {
  const text = readFileSync(html, "utf8");
  const [, before, data, after] = /^([^]*<script type="application\/json" id="data">)([^]*?)(<\/script>[^]*)$/.exec(text);
  const json = JSON.parse(data);
  change(json.recordings[0]);
  const out = join(folder, "changed.html");
  writeFileSync(out, before + JSON.stringify(json).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`) + after);
  return out;
}

async function with_page(html, options, use) {
  const { page, faults, close } = await open(html, options);
  try {
    await use(page);
    assert.deepEqual(faults, [], "the page logs, fails or asks for nothing");
  } finally {
    await close();
  }
}

// The words that name each recording; guest-clock has a guest's functions beside its host's kernel.
const guest_clock = ["host.dat", "uftrace.data", "sync.txt"].map((file) => join("tests/merge/guest-clock", file));
// On AMD, on Intel, on arm64, and with a guest's functions.
const four = [[join(recordings, linux)], ["tests/data/vmx/demo.dat"], ["tests/data/arm64/kvm-arm64-mono.dat"], guest_clock];
const others = () => [...readdirSync(recordings, { recursive: true }).sort().filter((file) => file.endsWith(".dat")).map((file) => [join(recordings, file)]),
  ["tests/merge/two-vms.trapline"]].filter(([file]) => !four.some(([one]) => one === file));

// Returns the part of the first such chart that has a colour of the page's style.
const painted = (page, chart, colour) => page.evaluate(([chart, colour]) => {
  const [canvas, over] = ["canvas", ".u-over"].map((one) => document.querySelector(`${chart} ${one}`));
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  [probe.canvas.width, probe.canvas.height] = [over.clientWidth, over.clientHeight];
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${colour}`);
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  probe.clearRect(0, 0, 1, 1);
  probe.drawImage(canvas, -parseFloat(over.style.left), -parseFloat(over.style.top));
  const { data } = probe.getImageData(0, 0, over.clientWidth, over.clientHeight);
  let found = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) ++found;
  return (found * 4) / data.length;
}, [chart, colour]);

// By the debugger's door: the page's own policy lets no other script in.
async function axe_finds_nothing(page, when) {
  const found = await page.evaluate(`(async () => { ${axeSource}; return axe.run(document, { resultTypes: ["violations"] }); })()`);
  const bad = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(bad.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`), [], when);
}

// Once it is drawn for the window, nothing is wider than that.
const fits = (page) => page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);

// Until the address has the interval that is shown: it is not written with every change.
const addressed = (page) => page.waitForFunction(() => {
  const time = /time=(\d+)-(\d+)/.exec(location.hash);
  return time && time[1] === document.querySelector("#time-from").value && time[2] === document.querySelector("#time-to").value;
});

const by_key = (a, b) => (a.key < b.key ? -1 : 1);
const rows_by = (words, by) => json(words, "--by", by).groups.rows.slice(0, 200).map((row) =>
  ({ key: row.key, count: row.count, total: row.total_ns, mean: row.mean_ns, p50: row.p50_ns, p90: row.p90_ns, p99: row.p99_ns, max: row.max_ns })).sort(by_key);

// The data of the tables by every dimension, to the last figure.
const sets_of = ({ tables }) => Object.keys(tables).filter((key) => key.startsWith("by_")).map((key) => tables[key]);
function sets_are_the_report(words, data) {
  assert.ok(sets_of(data).length > 3, `${words}`);
  for (const { by, columns, rows } of sets_of(data)) {
    const found = rows.map((row) => Object.fromEntries(["key", "count", "total", "mean", "p50", "p90", "p99", "max"].map((name) =>
      [name, row[columns.indexOf(columns.includes(name) ? name : `${name}_ns`)]])));
    assert.deepEqual(found.sort(by_key), rows_by(words, by), `${words} by ${by}`);
  }
}

// The table by each of the dimensions, to the last figure.
async function shows_the_report(page, words, dimensions) {
  for (const by of dimensions) {
    await page.selectOption("#by", by);
    await page.waitForFunction((text) => document.querySelector("#table thead button").textContent.startsWith(text), by.replace(/,/g, " / "));
    await settled(page);
    assert.deepEqual((await rowsOf(page)).sort(by_key), rows_by(words, by), `the table of ${words} by ${by}`);
  }
}

// Returns whether there are guest functions.
function sums_are_the_report(words, { tables, ...data }) {
  const whole = json(words, "--by", "reason", "--irq", "--halt", "--guest");
  const text = words.join(" ");
  // The vCPUs' states over time, to the nanosecond.
  for (const [i, vcpu] of whole.vcpus.rows.entries()) {
    const sum = (state) => tables.vcpus.rows[i].shares[state].reduce((a, b) => a + b, 0);
    for (const state of ["guest", "kernel", "user", "preempted", "blocked", "halted", "paused", "offline", "not_seen"]) {
      assert.equal(sum(state), vcpu[`${state}_ns`] ?? 0, `${text}: ${state}`);
    }
  }
  // The cells hold every exit that ended once.
  const cells = data.cells.flat();
  assert.equal(cells.reduce((n, cell) => n + cell.count, 0), whole.groups.rows.reduce((n, row) => n + row.count - row.cut - row.open, 0), text);
  for (const [of, key] of [["total", "total_ns"], ["user", "user_ns"], ["preempted", "preempted_ns"], ["blocked", "blocked_ns"], ["halted", "halted_ns"]]) {
    assert.equal(cells.reduce((n, cell) => n + cell[of], 0), whole.groups.rows.reduce((n, row) => n + row[key], 0), `${text}: ${of}`);
  }
  for (const key of ["irqs", "halts"]) assert.deepEqual(tables[key], whole[key], `${text}: ${key}`);
  const functions = tables.guest_functions.rows;
  assert.deepEqual(functions, whole.guest_functions?.rows ?? [], text);
  // The stacks' own time is the functions'.
  const own = new Map();
  const { columns, rows } = tables.guest_stacks;
  for (const row of rows) {
    const name = row[0].split(";").at(-1);
    const sums = own.get(name) ?? Object.fromEntries(columns.slice(1).map((key) => [key, 0]));
    columns.slice(1).forEach((key, i) => { sums[key] += row[i + 1]; });
    own.set(name, sums);
  }
  for (const [name, sums] of own) {
    const row = functions.find((one) => one.name === name);
    assert.ok(row, `${text}: ${name}`);
    for (const [key, ns] of Object.entries(sums)) assert.equal(ns, row[key] ?? 0, `${text}: ${key} of ${name}`);
  }
  for (const row of functions) assert.ok(own.has(row.name) || row.own_ns === 0, `${text}: ${row.name}`);
  return functions.length > 0 ? 1 : 0;
}

// The finding, the notes and each cell of the table that both have, as they are printed. Returns how many rows those are.
async function has_the_texts_words(page, words, data) {
  const text = run("report", ...words, "--by", "reason", "--irq", "--halt", "--guest").split("\n");
  if (data.finding) assert.equal(text[0], data.finding, `${words}`);
  if (data.finding) assert.equal(await page.locator(".finding").textContent(), text[0]);
  for (const note of data.notes) assert.ok(text.includes(`note: ${note}`) || text.includes(`INCOMPLETE: ${note}`), `${words}: ${note}`);
  const shown = new Map(await page.evaluate(() => [...document.querySelectorAll("#table tbody tr[data-key]")].map((row) => {
    const [exits, total, share, mean, p50, , p99, max] = [...row.querySelectorAll("td.number")].map((cell) => cell.textContent.replace("≈", "").replace("–", "-").trim());
    return [row.querySelector("th .name").textContent, { exits, total, share, mean, p50, p99, max }];
  })));
  const head = text.findIndex((line) => /^reason +exits /.test(line));
  const columns = text[head].split(/ {2,}/);
  let compared = 0;
  for (const line of text.slice(head + 1, text.indexOf("", head))) {
    const cells = line.split(/ {2,}/);
    const row = shown.get(cells[0]);
    if (!row) continue;  // the sum
    for (const [i, column] of columns.entries()) {
      if (i > 0 && column in row) assert.equal(row[column], cells[i], `${words}: ${column} of ${cells[0]}`);
    }
    ++compared;
  }
  return compared;
}

// Each recording's page: no log, error or request; small enough; nothing wider than the window; what it says and its
// tables show, and what the data sums to, are the report's words and figures.
async function are_their_reports(list, least) {
  const seen = { pages: 0, guest: 0, compared: 0 };
  for (const words of list) {
    let html;
    try {
      html = page_of("report", ...words);
    } catch {
      // Without exits there is no page; the report says so as well.
      assert.throws(() => run("report", ...words, "--by", "reason"), words.join(" "));
      continue;
    }
    const text = readFileSync(html, "utf8"), holds = text.indexOf("</script>") - text.indexOf('id="data">');
    assert.ok(holds < 400_000 && text.length - holds < 200_000, `${words}: ${holds} bytes of data, ${text.length - holds} of the page itself`);
    const data = dataOf(html);
    sets_are_the_report(words, data);
    seen.guest += sums_are_the_report(words, data);
    await with_page(html, { hash: "#by=reason&all=1" }, async (page) => {
      seen.compared += await has_the_texts_words(page, words, data);
      await shows_the_report(page, words, four.includes(words) ? sets_of(data).map(({ by }) => by) : ["reason"]);
      for (const width of [320, 390, 1600]) {
        await page.setViewportSize({ width, height: 900 });
        await fits(page);
      }
    });
    ++seen.pages;
  }
  console.log(`${seen.pages} pages, ${seen.guest} with guest functions, ${seen.compared} rows as printed`);
  for (const [what, number] of Object.entries(least)) assert.ok(seen[what] >= number, `${seen[what]} ${what}`);
}

const cases = {
  async four_recordings_are_their_reports() {
    await are_their_reports(four, { pages: 4, guest: 1, compared: 20 });
  },

  // The table is drawn by reason, and by the other dimensions its data is held against the report.
  async every_other_recording_is_its_report() {
    await are_their_reports(others(), { pages: 30, compared: 100 });
  },

  // TRAPLINE_PAGE_FILE, as of the demo's sessions (tests/system/demo_test.sh), in both themes.
  async a_given_page_opens_quietly() {
    for (const theme of ["light", "dark"]) {
      await with_page(process.env.TRAPLINE_PAGE_FILE, { theme, hash: "#exit=0" }, async (page) => {
        assert.match(await page.locator("#shares-title").textContent(), /^Of the (vCPU's|vCPUs') busy time, [\d.]+ \S+, the guest ran [\d.]+%/);
        assert.ok(await page.locator("#exit .near svg").first().isVisible());
        assert.ok((await page.locator("#recorded").textContent()).includes("Command"), "what session.json says");
        await axe_finds_nothing(page, theme);
      });
    }
  },

  async events_that_the_session_lacks_are_an_alert() {
    const session = join(folder, "lacking"), lacks = "7 pages of events could not be written";
    mkdirSync(session);
    writeFileSync(join(session, "trace.dat"), readFileSync(join(recordings, linux)));
    writeFileSync(join(session, "session.json"), JSON.stringify({ version: 1, closed: true, losses: [{ cpu: 0, unwritten_pages: 7 }] }));
    const html = page_of("report", session);
    await with_page(html, {}, async (page) => {
      const text = await page.locator("main").textContent();
      assert.ok(!text.includes("No events were lost"), text);
      assert.equal(text.split(lacks).length, 2, "once");
      assert.match(await page.locator("#answer .alert").textContent(), new RegExp(`INCOMPLETE: .*${lacks}`));
    });
  },

  async the_worst_exits_are_the_reports_slowest() {
    const html = write(linux);
    await with_page(html, {}, async (page) => {
      const data = dataOf(html);
      const slow = report(linux, "reason", "--slower-than", "1ns").slow_exits.rows.filter((exit) => exit.reason !== "hlt" && exit.halted_ns === 0);
      slow.sort((a, b) => b.total_ns - a.total_ns);
      assert.deepEqual(data.worst.slice(0, 100).map((exit) => exit.total_ns), slow.slice(0, 100).map((exit) => exit.total_ns));
      const start = BigInt(data.interval.start_ns);
      let whole = 0;
      for (const [i, exit] of data.worst.slice(0, 20).entries()) {
        const same = slow.find((one) => BigInt(one.start_ns) === start + BigInt(exit.start));
        for (const key of ["total_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "reason", "detail", "device", "function", "preempted_by", "tid"]) {
          assert.equal(exit[key], same[key] ?? "-", `${key} of exit ${i}`);
        }
        // Its parts are drawn, one after the other.
        const near = data.neighbourhoods[exit.neighbourhood];
        const inside = near.spans.filter(({ begin, end, kind }) => begin >= exit.start && end <= exit.start + exit.total_ns && kind !== "handler" && kind !== "guest");
        const drawn = inside.reduce((n, { begin, end }) => n + end - begin, 0);
        if (near.left_out === 0) assert.equal(drawn, exit.total_ns, `spans of exit ${i}`);
        else assert.ok(drawn <= exit.total_ns);
        whole += drawn === exit.total_ns ? 1 : 0;
        assert.ok(near.events.some(({ text }) => text.startsWith("kvm_entry")), `the entry that ended exit ${i}`);
      }
      assert.ok(whole >= 10, `${whole} exits are drawn whole`);
      await page.locator("#worst tbody button").first().press("Enter");
      await page.waitForSelector("#exit:not([hidden]) .near rect.p-kernel");
      assert.match(await page.locator("#exit h3").textContent(), /at \+/);
      // Zooming by keys narrows what is listed; 0 shows all again.
      const all = await page.locator("#exit .events li").count();
      await page.locator("#exit .near").focus();
      for (let i = 0; i < 12; ++i) await page.keyboard.press("+");
      assert.ok(await page.locator("#exit .events li").count() < all);
      await page.keyboard.press("0");
      assert.equal(await page.locator("#exit .events li").count(), all);
      await page.keyboard.press("Escape");
      await page.waitForSelector("#exit", { state: "hidden" });
    });
  },

  async choices_link_the_views_and_the_address_keeps_them() {
    const html = write(linux);
    await with_page(html, {}, async (page) => {
      const text = (selector) => page.locator(selector).textContent();
      await page.selectOption("#by", "reason");
      await page.waitForFunction(() => document.querySelector("#table thead button").textContent.startsWith("reason"));
      // The longest of all exits is a measured value, not the edge of its latency bin.
      const units = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
      const longest = async () => {
        const [, value, unit] = /the longest ([\d.,]+)\s(ns|µs|ms|s)(?:;|$)/.exec(await text("#latency-title"));
        return Number(value.replace(/,/g, "")) * units[unit];
      };
      const near = (got, max) => assert.ok(Math.abs(got - max) <= 0.005 * max, `${got} for ${max}`);
      const rows_by_reason = report(linux, "reason").groups.rows;
      near(await longest(), Math.max(...rows_by_reason.map((row) => row.max_ns)));
      // Sorting: every column, both ways, by keyboard.
      for (const [sort, of] of [["count", "count"], ["total", "total"], ["p99", "p99"], ["max", "max"]]) {
        await page.locator(`[data-sort="${sort}"]`).focus();
        await page.keyboard.press("Enter");
        await page.waitForFunction((s) => document.querySelector(`th[aria-sort] [data-sort="${s}"]`), sort);
        // Halts are below, either way.
        const halts = new Set(rows_by_reason.filter((row) => row.halts).map((row) => row.key));
        const others = async () => {
          const rows = await rowsOf(page);
          assert.ok(halts.size > 0 && rows.slice(-halts.size).every((row) => halts.has(row.key)));
          return rows.slice(0, -halts.size).map((row) => row[of] ?? 0);
        };
        const down = await others();
        const ascending = (await page.locator("th[aria-sort]").getAttribute("aria-sort")) === "ascending";
        assert.deepEqual(down, [...down].sort((a, b) => (ascending ? a - b : b - a)), sort);
        await page.keyboard.press("Enter");
        await page.waitForFunction((was) => document.querySelector("th[aria-sort]").getAttribute("aria-sort") !== was, ascending ? "ascending" : "descending");
        const up = await others();
        assert.deepEqual(up, [...up].sort((a, b) => (ascending ? b - a : a - b)), `${sort} the other way`);
      }
      // Finding.
      await page.fill("#find", "cr0");
      await page.waitForFunction(() => [...document.querySelectorAll("#table tbody tr[data-key]")].every((row) => row.dataset.key.includes("cr0")));
      await page.fill("#find", "");
      // A row chosen by keyboard: the histogram's heading and the worst exits follow.
      await page.locator('#table button[data-row="io"]').focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("#latency-title").textContent.startsWith("io:"));
      await settled(page);
      const io = report(linux, "reason").groups.rows.find((row) => row.key === "io");
      assert.ok((await text("#latency-title")).includes(io.count.toLocaleString("en-US")));
      near(await longest(), io.max_ns);
      assert.ok((await page.locator("#worst tbody tr td:nth-child(5)").allTextContents()).every((reason) => reason === "io"));
      // The device table shows only exits of that reason.
      await page.selectOption("#by", "device");
      await page.waitForFunction(() => document.querySelector("#table thead button").textContent.startsWith("device"));
      await settled(page);
      const devices = await rowsOf(page);
      const both = report(linux, "reason,device").groups.rows.filter((row) => row.key.startsWith("io / "));
      assert.deepEqual(new Map(devices.map((row) => [row.key, [row.count, row.total]]).sort()), new Map(both.map((row) => [row.key.slice(5), [row.count, row.total_ns]]).sort()));
      // An interval by drag, then by keyboard; the report of the same bins counts the same exits.
      await page.locator("#shares .strip .u-over").first().scrollIntoViewIfNeeded();
      const box = await page.locator("#shares .strip .u-over").first().boundingBox();
      await page.mouse.move(box.x + box.width * 0.3, box.y + 20);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 8 });
      await page.mouse.up();
      await settled(page);
      await addressed(page);
      const before = page.url();
      await page.locator("#time-to").focus();
      await page.keyboard.press("ArrowRight");
      await page.waitForFunction((was) => location.href !== was, before);
      await settled(page);
      await addressed(page);
      const data = dataOf(html);
      const [from, to] = new URL(page.url()).hash.match(/time=(\d+)-(\d+)/).slice(1).map(Number);
      const slow = report(linux, "reason", "--slower-than", "1ns").slow_exits.rows;
      const start = Number(data.interval.start_ns);
      const bin = (exit) => Math.floor((exit.start_ns - start - data.time.origin) / data.time.bin_ns);
      const within = slow.filter((exit) => exit.reason === "io" && bin(exit) >= from && bin(exit) < to);
      assert.equal((await rowsOf(page)).reduce((n, row) => n + row.count, 0), within.length);
      assert.equal((await rowsOf(page)).reduce((n, row) => n + row.total, 0), within.reduce((n, exit) => n + exit.total_ns, 0));
      // A bar of the histogram.
      await page.locator("#latency .bars").scrollIntoViewIfNeeded();
      const mark = await page.locator("#latency .mark").first().boundingBox();
      await page.mouse.click(mark.x, mark.y + mark.height - 3);
      await page.waitForFunction(() => location.hash.includes("latency="));
      await settled(page);
      // The address says it all: a second window shows the same.
      const views = ["#shares-title", "#table", "#latency-title", "#flame-title", "#worst-title", ".bar"];
      const shown = await Promise.all(views.map(text));
      const second = await open(html, { hash: new URL(page.url()).hash });
      assert.deepEqual(await Promise.all(views.map((view) => second.page.locator(view).textContent())), shown);
      await second.close();
      // The command prints the same interval.
      assert.match(await text("#command"), /^trapline report .* --by device --from [\d.]+ --to [\d.]+ --sort max$/);
      await page.click("#clear");
      await page.waitForFunction(() => !/time=|row=|latency=/.test(location.hash));
      // A flame graph's frame by keyboard, and back; the address has it.
      await page.locator(".frame").nth(1).focus();
      const frame = () => page.locator(".frame").first().getAttribute("aria-label");
      const top = await frame();
      await page.keyboard.press("Enter");
      await page.waitForFunction((was) => document.querySelector(".frame").getAttribute("aria-label") !== was, top);
      await page.waitForFunction(() => location.hash.includes("zoom="));
      const third = await open(html, { hash: new URL(page.url()).hash });
      assert.equal(await third.page.locator(".frame").first().getAttribute("aria-label"), await frame());
      await third.close();
      assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), await frame(), "the focus stays");
      await page.keyboard.press("Escape");
      await page.waitForFunction((was) => document.querySelector(".frame").getAttribute("aria-label") === was, top);
    });
  },

  // What a reader sees first: the sentence, a chart, and on a wide screen the table; from there each section can be reached.
  async the_first_screen_answers() {
    const many = changed(write(linux), ({ tables: { vcpus } }) => { vcpus.rows = Array.from({ length: 100 }, (_, i) => ({ ...vcpus.rows[i % 2], name: `vCPU ${i}` })); });
    for (const html of [write(linux), write("box/two-vms.dat"), write("svm-2vcpu-lost.dat"), many]) {
      for (const [width, height] of [[1440, 900], [390, 844]]) {
        await with_page(html, { width, height }, async (page) => {
          await settled(page);
          const ends = async (selector) => { const { y, height } = await page.locator(selector).first().boundingBox(); return y + height; };
          assert.ok(await ends(".finding") < await ends("#shares .strip"), "the sentence comes first");
          assert.ok(await ends("#shares .strip canvas") <= height, `a chart at ${width}`);
          if (width > 1000) assert.ok(await ends("#table tbody tr:nth-child(3)") <= height, `the table's first rows at ${width}`);
        });
      }
    }
    await with_page(write("box/two-vms.dat"), {}, async (page) => {
      const text = (selector) => page.locator(selector).textContent();
      assert.equal(await text("h1"), "two-vms.dat");
      assert.equal(await page.title(), "two-vms.dat");
      // The recording's facts are folded away, at the end.
      assert.equal(await page.locator("main > section").last().getAttribute("id"), "recorded");
      assert.equal(await page.locator("#recorded .facts").isVisible(), false);
      await page.click("#recorded summary");
      assert.ok(await page.locator("#recorded .facts").isVisible());
      const ids = await page.locator("main > section").evaluateAll((all) => all.map((one) => one.id));
      assert.deepEqual(await page.locator(".contents button").evaluateAll((all) => all.map((one) => one.dataset.to)), ids);
      for (const id of ids) {
        await page.click(`.contents button[data-to="${id}"]`);
        assert.ok(await page.locator(`#${id} h2`).evaluate((one) => { const { top, bottom } = one.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; }), `${id} is in sight`);
      }
      assert.equal(new URL(page.url()).hash, "", "the address keeps the choice only");
      // An empty section is one line: why, and what fills it.
      const empty = await page.locator("section.nothing").evaluateAll((all) => all.map((one) => [one.id, one.getBoundingClientRect().height, one.innerText]));
      assert.deepEqual(empty.map(([id]) => id), ["requests", "interrupts", "halts"]);
      for (const [id, height, text] of empty) assert.ok(height < 40 && /: trapline record --domain NAME|: trace-cmd record -e kvm$|(No|How) halts? ended/.test(text), `${id}: ${height} px, ${text}`);
    });
  },

  // Without a choice it is the report's sentence; of a choice it is the same figures, of the same whole as the table's shares.
  async the_sentence_follows_the_choice() {
    const html = write(linux);
    await with_page(html, { hash: "#by=reason" }, async (page) => {
      const { finding } = dataOf(html);
      const sentence = () => page.locator(".finding").textContent();
      assert.equal(await sentence(), finding);
      const choose = async (hash) => {
        const before = await sentence();
        await page.evaluate((to) => { location.hash = to; }, hash);
        await page.waitForFunction((was) => document.querySelector(".finding").textContent !== was, before);
        await settled(page);
      };
      const share = (key) => page.locator(`#table tr[data-key="${key}"] td.number`).nth(2).textContent();
      await choose("#by=reason&row=reason%3Dio");
      const [, busy, count, cost] = /busy for ([\d.]+ s) .*; the ([\d,]+) chosen exits cost ([\d.]+%)/.exec(await sentence());
      assert.ok(finding.includes(`busy for ${busy}`) && finding.includes(`io alone: ${cost}`), `${await sentence()}: ${finding}`);
      assert.equal(cost, await share("io"));
      assert.equal(count, report(linux, "reason").groups.rows.find(({ key }) => key === "io").count.toLocaleString("en-US"));
      assert.ok((await page.locator("#table-title").textContent()).startsWith(`io cost ${cost} of the busy time`));
      await choose("#by=reason&row=reason%3Dio&time=40-90");
      assert.match(await sentence(), /^In the chosen interval the vCPUs were busy for /);
      const [, guest] = /the guest ran ([\d.]+%)/.exec(await sentence());
      assert.match(await page.locator("#shares-title").textContent(), new RegExp(`^Of the vCPUs' busy time, [\\d.]+ \\S+, the guest ran ${guest}`));
      assert.equal(/chosen exits cost ([\d.]+%)/.exec(await sentence())[1], await share("io"));
      // Escape closes an exit, and then takes everything back.
      await page.locator("#worst tbody button").first().click();
      await page.waitForSelector("#exit:not([hidden])");
      await page.keyboard.press("Escape");
      await page.waitForSelector("#exit", { state: "hidden" });
      assert.notEqual(await sentence(), finding);
      await page.keyboard.press("Escape");
      await page.waitForFunction((text) => document.querySelector(".finding").textContent === text, finding);
      await page.waitForFunction(() => location.hash === "#by=reason");
      // The list of keys.
      await page.keyboard.press("?");
      assert.match(await page.locator("#keys").innerText(), /Escape/);
      await page.keyboard.press("Escape");
      await page.waitForSelector("#keys", { state: "hidden" });
    });
  },

  // The strips zoom by keys and wheel. The time before the VM ran is folded away, but not the losses in it.
  async the_strips_zoom_and_fold() {
    const html = changed(write(linux), ({ tables: { lost } }) => { lost.rows.push({ cpu: 0, from: 1_000_000, to: 1_002_000, count: 3 }); });
    await with_page(html, {}, async (page) => {
      const { time, duration_ns } = dataOf(html);
      const ticks = () => page.locator("#shares .strip").first().evaluate((strip) => strip.querySelector("canvas").toDataURL());
      const hash = () => page.evaluate(() => location.hash);
      const changes = async (act) => {
        const [before, address] = [await ticks(), await hash()];
        await act();
        await page.waitForFunction((was) => document.querySelector("#shares .strip canvas").toDataURL() !== was, before);
        await page.waitForFunction((was) => location.hash !== was, address); // it is written after a while
        await settled(page);
      };
      const view = async () => /view=(\d+)-(\d+)/.exec(await hash())?.slice(1).map(Number);
      const [, ms] = /^The first ([\d.]+) s, before a guest first ran, are folded away, with 1 loss in them/.exec(await page.locator("#before").textContent());
      const begin = Math.ceil((ms * 1e9 - time.origin) / time.bin_ns);
      const lost = page.locator("#shares .strip .lost").first();
      assert.ok(await lost.isVisible());
      assert.match(await lost.getAttribute("title"), /^CPU 0: 3 events lost in 2,000 ns, from \+0\.001000 s$/);
      await changes(() => page.keyboard.press("+"));
      const [from, to] = await view();
      assert.ok(Math.abs(to - from - (time.bins - begin) / 2) <= 2, `${from} to ${to} of ${begin} to ${time.bins}`);
      const box = await page.locator("#shares .strip .u-over").first().boundingBox();
      await page.mouse.move(box.x + 1, box.y + 5);
      await page.keyboard.down("Control");
      await changes(() => page.mouse.wheel(0, -100));
      await page.keyboard.up("Control");
      const [near, far] = await view();
      assert.ok(Math.abs(near - from) <= 1 && far < to, "about the pointer");
      await changes(() => page.keyboard.press("0"));
      assert.equal(await view(), undefined);
      await changes(() => page.locator("#before button").click());
      assert.deepEqual(await view(), [0, time.bins]);
      assert.match(await page.locator("#before").textContent(), /are shown, with 1 loss in them/);
      const place = await lost.evaluate((one) => parseFloat(one.style.left) / one.parentElement.clientWidth);
      assert.ok(Math.abs(place - 1e6 / duration_ns) < 0.01);
    });
  },

  // At three widths, in both themes, with a choice, an open exit and a filter; once with everything unfolded.
  async axe_finds_nothing_serious() {
    const with_spans = page_of("report", ...cyclictest.files, "--guest-span", cyclictest.spec);
    for (const [html, width] of [390, 1024, 1440].flatMap((width) => [[write("box/linux-irq.dat"), width], [with_spans, width]])) {
      for (const theme of ["light", "dark"]) {
        await with_page(html, { theme, width, hash: "#exit=0&row=reason%3Dio&time=3-200&find=o" }, async (page) => {
          if (theme === "dark") await page.click("#recorded summary");
          await axe_finds_nothing(page, `${theme} at ${width}`);
          await fits(page);
        });
      }
    }
  },

  async hostile_names_show_as_text_and_run_nothing() {
    const evil = [`<img src=x onerror=alert(1)>`, `</script><script>alert(2)</script>`, `"><svg onload=alert(3)>`, `'"\`\${alert(4)}`, `javascript:alert(5)`,
      `a\u202ereversed`, `bell\u0007null\u0000`, `<!--<script>`, `{{7*7}}`, `\u2028line`];
    const html = changed(write(linux), (data) => {
      const rename = (list) => evil.forEach((name, i) => { if (i < list.length) list[i] = name; });
      const { head, tables } = data;
      for (const list of Object.values(tables.combos.values)) rename(list);
      for (const [key, set] of Object.entries(tables)) if (key.startsWith("by_")) evil.forEach((name, i) => { if (set.rows[i]) set.rows[i][set.columns.indexOf("key")] = name; });
      tables.worst.texts = tables.worst.texts.map((_, i) => evil[i % evil.length]);
      tables.sources.rows[0].path = `/tmp/${evil[1]}'${evil[5]}`;
      head.words[1] = tables.sources.rows[0].path;
      tables.recorded.rows.push(["Command", evil.join(" ")]);
      data.notes.push(...evil);
      tables.irqs.rows[0].vector = evil[0];
      tables.requests.rows[0].key = evil[1];
      tables.vcpus.rows[0].name = evil[2];
    });
    await with_page(html, { hash: `#exit=0&find=${encodeURIComponent(evil[0])}` }, async (page) => {
      await page.fill("#find", "");
      await settled(page);
      assert.equal(await page.evaluate(() => document.querySelectorAll("img, iframe, object, embed, main script, a[href]").length), 0);
      assert.equal(await page.evaluate(() => document.scripts.length), 2);
      const shown = await page.locator("main").textContent();
      assert.ok(shown.includes(evil[0]) && shown.includes(evil[1]) && shown.includes(evil[2]), "markup is text");
      assert.ok(shown.includes("a\\u{202e}reversed") && shown.includes("bell\\u{7}null\\u{0}"), "what cannot be seen is written out");
      assert.ok(!/[\u0000-\u0008\u202a-\u202e\u2066-\u2069]/.test(shown));
      assert.match(await page.locator("#command").textContent(), /'\/tmp\/<\/script>.*'\\''/, "the command is quoted for a shell");
      // Nothing else may run either: the policy is in the page.
      const blocked = await page.evaluate(() => new Promise((done) => {
        document.addEventListener("securitypolicyviolation", (event) => done(event.violatedDirective), { once: true });
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
        setTimeout(() => done("ran"), 500);
      }));
      assert.match(blocked, /^script-src/);
      assert.equal(await page.evaluate(() => window.ran), undefined);
    }).catch((error) => {
      // Chromium reports what the policy stopped: that one line is what was asked for.
      if (!/Content Security Policy/.test(String(error.actual))) throw error;
      assert.equal(error.actual.length, 1, String(error.actual));
    });
  },

  // The same from bytes in the recording: device, comm, a guest's function, a file's name, session.json.
  async a_hostile_recording_shows_as_text_and_runs_nothing() {
    const session = join(folder, `<img src=x onerror=alert(1)>\u202e'"`);
    mkdirSync(session);
    const trace = join(session, "trace.dat"), elf = join(session, "guest.elf");
    execFileSync("trace-cmd", ["convert", "--file-version", "6", "--compression", "none", "-i", join(recordings, "vmx/demo.dat"), "-o", trace], { stdio: "ignore" });
    const patch = (from, to, changes) => {
      let data = readFileSync(from, "latin1");
      for (const [name, evil] of changes) {
        assert.equal(Buffer.from(evil, "latin1").length, name.length);
        assert.ok(data.includes(name), `${from} has ${name}`);
        data = data.replaceAll(name, evil);
      }
      writeFileSync(to, Buffer.from(data, "latin1"));
    };
    patch(trace, trace, [["isa-debugcon", `<b>\x1b"\\\xe2\x80\xae\xff;,`], ["qemu-system-x86", `</script>\x07!\xc0"\xe2\x80`]]);
    patch(join(recordings, "vmx/demo-guest.elf"), elf, [["cpuid_read", "<img src=x"], ["touch_page", "</script> "]]);
    writeFileSync(join(session, "session.json"), JSON.stringify({ closed: true, host: { machine: "<svg onload=alert(3)>", kernel: "\u0000\u202e", cpus: 2 },
      versions: { qemu: "</script><script>alert(4)</script>" }, command: ["qemu", "<iframe src=javascript:alert(5)>", "\u2028'\"`${alert(6)}"] }));
    const html = page_of("report", trace, "--symbols", elf);
    const of_session = page_of("report", session, "--symbols", elf);
    for (const file of [html, of_session]) {
      assert.equal(readFileSync(file, "utf8").match(/<script/g).length, 2, "the data ends no script and begins none");
      await with_page(file, { hash: "#by=function&exit=0" }, async (page) => {
        assert.equal(await page.evaluate(() => document.querySelectorAll("main :is(img, iframe, object, embed, script, b, a[href], [onerror], [onload])").length), 0);
        assert.equal(await page.evaluate(() => document.scripts.length), 2);
        const functions = await page.locator("#table").textContent();
        assert.ok(functions.includes("<img src=x") && functions.includes("</script>"), "functions are text");
        await page.selectOption("#by", "device");
        await page.waitForFunction(() => document.querySelector("#table thead button").textContent.startsWith("device"));
        await settled(page);
        assert.ok((await page.locator("#table").textContent()).includes("<b>"), "the device is text");
        const shown = await page.locator("main").textContent();
        assert.ok(!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(shown), "nothing that cannot be seen");
        if (file === of_session) assert.ok(shown.includes("<svg onload=alert(3)>") && shown.includes("<iframe src=javascript:alert(5)>"), "session.json is text");
      });
    }
    // The comparison's page: the same bytes on both of its sides, in its rows and in what it was recorded with.
    const compared = page_of("diff", session, session, "--by", "device,function", "--symbols", elf);
    assert.equal(readFileSync(compared, "utf8").match(/<script/g).length, 2, "the data ends no script and begins none");
    await with_page(compared, {}, async (page) => {
      assert.equal(await page.evaluate(() => document.querySelectorAll("main :is(img, iframe, object, embed, script, b, a[href], [onerror], [onload])").length), 0);
      assert.equal(await page.evaluate(() => document.scripts.length), 2);
      assert.ok((await page.locator("#changes").textContent()).includes("<b>"), "the device is text");
      const shown = await page.locator("main").textContent();
      assert.ok(shown.includes("<svg onload=alert(3)>") && shown.includes("<iframe src=javascript:alert(5)>"), "session.json is text");
      assert.ok(!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(shown), "nothing that cannot be seen");
    });
  },

  // In their order, with who had them; they are the whole exit, to the nanosecond.
  async an_exit_shows_its_steps() {
    const html = write(linux);
    await with_page(html, {}, async (page) => {
      const data = dataOf(html);
      const ns = async () => (await page.locator("#worst .steps li").evaluateAll((steps) => steps.map(({ title }) => Number(title.replace(/[^\d]/g, ""))))).reduce((a, b) => a + b, 0);
      assert.equal(await ns(), data.worst[0].total_ns, "the longest, where none is chosen");
      assert.match(await page.locator("#worst .steps ol").textContent(), /^kernel [\d.]+ µs <?[\d.]+%QEMU \(access to fwcfg\.dma\) [\d.]+ ms/);
      for (const [i, exit] of data.worst.slice(0, 20).entries()) {
        await page.evaluate((at) => { location.hash = `#exit=${at}`; }, i);
        await page.waitForFunction((text) => document.querySelector("#worst .steps figcaption").textContent.includes(text), `+${(exit.start / 1e9).toFixed(6)} s`);
        await settled(page);
        assert.equal(await ns(), exit.total_ns, `exit ${i}`);
        const steps = await page.locator("#worst .steps").textContent();
        const known = exit.waits.filter(([part]) => part === 2).sort((a, b) => b[3] - a[3])[0];
        if (i < 12 && known && known[3] > exit.total_ns / 4) assert.ok(steps.includes(data.texts[known[1]]), `${i}: ${steps}`);
      }
    });
  },

  // Exits without durations, and a kernel's part that holds QEMU's.
  async what_was_not_recorded_is_not_zero() {
    await with_page(write("box/demo-userspace-open.dat"), {}, async (page) => {
      const title = (id) => page.locator(`#${id}-title`).textContent();
      for (const id of ["shares", "table", "latency", "flame", "worst"]) {
        assert.match(await title(id), /not recorded/, id);
        assert.doesNotMatch(await title(id), /\b[01](\.00)? (%|ns)/, id);
      }
      for (const id of ["latency", "flame", "worst"]) assert.ok((await page.locator(`#${id}`).boundingBox()).height < 40, `${id} is one line`);
      assert.ok((await rowsOf(page)).every((row) => row.total === null && row.max === null));
      assert.match(await page.locator("#left-out").textContent(), /Time bins are [\d.]+ ms long/);
    });
    const html = changed(write(linux), ({ tables }) => tables.vcpus.rows.forEach((vcpu) => { vcpu.user_ns = null; }));
    await with_page(html, {}, async (page) => {
      assert.match(await page.locator("#shares-title").textContent(), /in kernel or QEMU/);
      assert.match(await page.locator("#shares .labels").first().textContent(), /kernel or QEMU/);
      assert.match(await page.locator("#latency-title").textContent(), /^All exits, with halts: /);
    });
  },

  // A state's colour takes the part of the strip that the state takes of the time.
  async the_strips_are_the_shares() {
    const html = write(linux);
    for (const theme of ["light", "dark"]) {
      await with_page(html, { theme }, async (page) => {
        const { tables: { vcpus: { rows: vcpus } }, duration_ns, time } = dataOf(html);
        // From the bin in which a vCPU ran first: the time before is folded away.
        const first = Math.min(...vcpus.flatMap(({ shares: { offline: _, paused: __, ...ran } }) => Object.values(ran).map((list) => list.findIndex((ns) => ns > 0)).filter((bin) => bin >= 0)));
        const shown = duration_ns - time.origin - first * time.bin_ns;
        assert.match(await page.locator("#before").textContent(), /^The first [\d.]+ s, before a guest first ran, are folded away/);
        await page.locator("#all-time").click();
        for (const state of ["guest", "kernel", "user", "preempted", "halted"]) {
          const share = vcpus[0].shares[state].reduce((a, b) => a + b, 0) / shown;
          const part = await painted(page, "#shares .strip", state);
          assert.ok(Math.abs(part - share) < 0.01, `${state} is ${part} of the picture, ${share} of the time`);
        }
      });
    }
  },

  // A page of many vCPUs draws the strips in sight, and all strips before it is printed.
  async strips_have_a_canvas_when_they_are_seen() {
    const kVcpus = 100;
    const html = changed(write(linux), ({ tables: { vcpus } }) => { vcpus.rows = Array.from({ length: kVcpus }, (_, i) => ({ ...vcpus.rows[i % 2], name: `vCPU ${i}` })); });
    await with_page(html, { hash: "#time=10-20" }, async (page) => {
      const drawn = () => page.locator("#shares .strip canvas").count();
      assert.ok(await drawn() < kVcpus / 2, `${await drawn()} canvases`);
      const late = page.locator("#shares figure", { hasText: "vCPU 90" });
      await late.scrollIntoViewIfNeeded();
      await late.locator("canvas").waitFor();
      assert.ok(await late.locator(".selected .u-select").isVisible(), "the interval is marked there too");
      await late.locator(".u-over").hover();
      await page.waitForFunction(() => document.querySelector("#shares .reading").textContent.startsWith("vCPU 90 at +"));
      assert.ok(await drawn() < kVcpus, "not all");
      await page.pdf();
      assert.equal(await drawn(), kVcpus);
    });
  },

  // Without halts: the share that the report's sentence tells, and in every strip.
  async the_busy_time_is_the_findings() {
    const html = write(linux);
    await with_page(html, {}, async (page) => {
      const data = dataOf(html);
      const [, busy, guest] = /busy for ([\d.]+ \w+).* Of the busy time the guest ran ([\d.]+)%/.exec(data.finding);
      await page.click("#busy-time");
      await page.waitForFunction(() => location.hash.includes("busy=1"));
      await settled(page);
      const title = await page.locator("#shares-title").textContent();
      assert.ok(title.startsWith(`Of the ${data.tables.vcpus.rows.length === 1 ? "vCPU's" : "vCPUs'"} busy time, ${busy}, the guest ran ${guest}%`), `${title}: ${data.finding}`);
      assert.equal(await page.locator("#busy-time").getAttribute("aria-pressed"), "true");
      assert.equal(await page.locator("#shares .b-halted").count(), 0);
      assert.equal(await painted(page, "#shares .strip", "halted"), 0);
      for (const [i, vcpu] of data.tables.vcpus.rows.entries()) {
        const sum = ["guest", "kernel", "user", "preempted", "blocked"].reduce((n, state) => n + vcpu.shares[state].reduce((a, b) => a + b, 0), 0);
        const told = await page.locator("#shares .labels").nth(i).evaluate((list) => [...list.children].reduce((n, { title }) => n + Number(title.replace(/[^\d]/g, "")), 0));
        assert.equal(told, sum, vcpu.name);
      }
      await page.click("#all-time");
      await page.waitForSelector("#shares .b-halted");
      assert.equal(await page.locator("#shares-title").textContent(), title, "shares are of the busy time, whatever the strips show");
    });
  },

  // What the waits' tables say is what report --waits prints.
  async the_waits_are_the_reports() {
    const html = write(linux);
    await with_page(html, {}, async (page) => {
      const data = dataOf(html);
      const waits = report(linux, "reason", "--waits"), shown_waits = [data.tables.preempted, data.tables.blocked];
      const figures = ({ culprit, ns, count, max_ns }) => `${culprit} ${ns} ${count} ${max_ns}`;
      for (const part of ["preempted", "blocked"]) {
        assert.equal(data.tables[part].total_ns, waits[part].total_ns);
        assert.ok(waits[part].rows.length > 0, part);
        assert.deepEqual(data.tables[part].rows.map(figures).sort(), waits[part].rows.slice(0, 30).map(figures).sort(), part);
        for (const row of data.tables[part].rows) {
          assert.equal(row.time.filter((_, i) => i % 2 === 1).reduce((a, b) => a + b, 0), row.ns, `${row.culprit} over time`);
        }
      }
      const first = waits.preempted.rows[0];
      const row = page.locator("#waits tbody tr", { has: page.getByText(first.culprit, { exact: true }) }).first();
      assert.equal(await row.locator("td.number").first().getAttribute("title"), `${first.ns.toLocaleString("en-US")} ns`);
      // Of one exit: its culprits' times are those of its parts, where all of them are kept.
      const exit = data.worst.find(({ waits, preempted_ns }) => preempted_ns > 0 && waits.length > 0 && waits.length < 12);
      const sum = (part) => exit.waits.filter(([of]) => of === part).reduce((n, [, , , length]) => n + length, 0);
      assert.equal(sum(2), exit.preempted_ns);
      assert.equal(sum(3), exit.blocked_ns);
      // An interval: the bins of the interval.
      const half = Math.floor(data.time.bins / 2);
      await page.evaluate((to) => { location.hash = `#time=0-${to}`; }, half);
      await page.waitForFunction(() => document.querySelector("#waits-title").textContent.endsWith("in the chosen interval"));
      await settled(page);
      for (const shown of await page.locator("#waits tbody tr").all()) {
        const culprit = await shown.locator("th .name").first().textContent();
        const ns = (await shown.locator("td.number").first().getAttribute("title")).replace(/[^\d]/g, "");
        const sums = shown_waits.flatMap(({ rows }) => rows.filter((one) => one.culprit === culprit)).map(({ time }) => {
          let bin = 0, sum = 0;
          for (let i = 0; i < time.length; i += 2) if ((bin += time[i]) < half) sum += time[i + 1];
          return sum;
        });
        assert.ok(sums.includes(Number(ns)), `${culprit} in the interval: ${ns} of ${sums}`);
      }
    });
  },

  // What is on the page is what trapline timeline prints of the same part.
  async a_part_of_the_timeline_is_a_page() {
    const part = ["timeline", join(recordings, linux), "--around", "max"], html = page_of(...part);
    const text = run(...part);
    await with_page(html, {}, async (page) => {
      const data = jsonOf(html);
      assert.equal(data.format, "trapline-timeline");
      assert.deepEqual(data.lanes, ["vCPU 0 guest", "vCPU 0 kernel", "vCPU 0 QEMU", "others"]);
      assert.equal(data.left_out, 0);
      // The longest exit, part by part; and as many exits and entries as the text has lines of them.
      const [, took] = / after ([\d.]+) ms: kernel [\d.]+ µs, user [\d.]+ ms; port 0x518 write, fwcfg.dma/.exec(text);
      const start = data.events.find(([, , of]) => data.texts[of].startsWith("kvm_exit") && data.texts[of].includes("5180040"));
      const parts = data.spans.filter(([lane, begin, length, kind]) => lane < 3 && kind > 0 && kind < 5 && length > 1e6);
      assert.ok(Math.abs(Math.max(...parts.map(([, , length]) => length)) / 1e6 - Number(took)) < 1, "the longest part");
      assert.ok(start);
      for (const [event, line] of [["kvm_exit ", /^[\d.]+ +vCPU \d +exit /gm], ["kvm_entry ", /^[\d.]+ +vCPU \d +entry/gm]]) {
        assert.equal(data.events.filter(([, , of]) => data.texts[of].startsWith(event)).length, text.match(line).length, event);
      }
      // The list has the height that is left, and each name is in one line.
      const list = await page.locator(".events").boundingBox(), under = await page.locator("footer").boundingBox();
      assert.ok(list.height > 400 && under.y + under.height <= 900, `${list.height} of 900`);
      const high = await page.locator(".events li .whose").evaluateAll((names) => Math.max(...names.map((one) => one.scrollWidth - one.clientWidth)));
      assert.equal(high, 0, "no name is wider than its column");
      await page.locator(".near").focus();
      const all = await page.locator(".events li").count();
      for (let i = 0; i < 8; ++i) await page.keyboard.press("+");
      assert.ok(await page.locator(".events li").count() < all);
      await page.keyboard.press("0");
      assert.equal(await page.locator(".events li").count(), all);
      await axe_finds_nothing(page);
    });
  },

  // Requests with their stages and vhost workers have lanes; what is on them is what the exports have.
  async the_timeline_has_requests_and_workers() {
    for (const [file, rows] of [["kvm-iothread.dat", "requests"], ["vhost-net.dat", "vhost"]]) {
      const recording = join("tests/merge/requests", file), html = page_of("timeline", recording, "--from", "+0s");
      const exported = run("export", recording, "--format", "jsonl", "--rows", rows, "-o", "-").trim().split("\n").map((line) => JSON.parse(line));
      await with_page(html, {}, async (page) => {
        const data = jsonOf(html);
        const of = (name) => data.spans.filter(([lane]) => data.lanes[lane].startsWith(name)).map(([, begin, length, kind, text]) => [begin + Number(data.start_ns), length, kind, data.texts[text]]).sort((a, b) => a[0] - b[0]);
        const sum = (spans, ...texts) => spans.filter(([, , , text]) => texts.includes(text)).reduce((n, [, length]) => n + length, 0);
        const add = (key) => exported.reduce((n, row) => n + key(row), 0);
        if (rows === "vhost") {
          const spans = of("vhost-");
          assert.equal(sum(spans, "runs"), add((row) => row.ran_ns));
          assert.equal(sum(spans, "waits for a CPU"), add((row) => row.ran_at_ns - row.start_ns + row.preempted_ns));
        } else {
          const spans = of("requests");
          const known = exported.filter((row) => row.completed_ns !== null);
          assert.ok(known.length > 40);
          assert.equal(sum(spans, "disk"), known.reduce((n, row) => n + row.completed_ns - row.issued_ns, 0));
          assert.equal(sum(spans, "to bio", "block layer", "disk", "to end"), known.reduce((n, row) => n + row.total_ns, 0));
          assert.equal(spans.filter(([, , kind]) => kind === 6).length, exported.length);
        }
      });
    }
  },

  // Of a page with as many cells as one of ten million events has. What a frame costs is the CPU time of
  // its task in the page's main thread: a busy machine makes frames late, but not dear.
  async opens_in_a_second_and_brushes_at_30_frames() {
    const html = process.env.TRAPLINE_PAGE_FILE ?? changed(write(linux), (data) => {
      const kTimes = 4;
      data.head.time.bins *= kTimes;
      data.head.duration_ns *= kTimes;
      const repeat = (list) => Array.from({ length: kTimes }, () => list).flat();
      data.tables.cells.rows = data.tables.cells.rows.map(repeat);
      for (const vcpu of data.tables.vcpus.rows) for (const state of Object.keys(vcpu.shares)) vcpu.shares[state] = repeat(vcpu.shares[state]);
    });
    await with_page(html, {}, async (page) => {
      const opened = await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd);
      await page.locator("#shares .strip .u-over").first().scrollIntoViewIfNeeded();
      const box = await page.locator("#shares .strip .u-over").first().boundingBox();
      const part = (list, share) => list[Math.floor(list.length * share)].toFixed(1);
      let frames = [];
      // What the machine does beside it makes frames fewer, and dearer: the first good one of three goes counts.
      for (let left = 3; left > 0; --left) {
        frames = await frames_of(page, async () => {
          await page.mouse.move(box.x + 20, box.y + 20);
          await page.mouse.down();
          for (let i = 0; i < 60; ++i) await page.mouse.move(box.x + 20 + (i * (box.width - 40)) / 60, box.y + 20);
          await page.mouse.up();
          await settled(page);
        });
        if (frames.length > 30 && part(frames, 0.5) < 50 && part(frames, 0.9) < 100) break;
        if (await page.locator("#clear").isVisible()) await page.click("#clear");
        await settled(page);
      }
      console.log(`opened in ${Math.round(opened)} ms; CPU time of ${frames.length} frames: median ${part(frames, 0.5)} ms, p90 ${part(frames, 0.9)} ms, at most ${frames.at(-1).toFixed(1)} ms`);
      assert.ok(frames.length > 30, `${frames.length} frames`);
      // The goal is 33 ms. Machines differ: with the same program p90 was below 50 ms on one, 50.4 on another.
      assert.ok(part(frames, 0.5) < 50, `half of the frames of brushing cost ${part(frames, 0.5)} ms`);
      assert.ok(part(frames, 0.9) < 100, `a frame of brushing costs ${part(frames, 0.9)} ms`);
      // Of opening, ten times the goal: that is wall time.
      assert.ok(opened < 10_000, `opened in ${opened} ms`);
    });
  },

  // Figures, intervals and distributions of both sides are those of trapline diff and trapline report.
  async two_recordings_are_one_page() {
    const files = [linux, "box/linux-irq.dat"].map((file) => join(recordings, file));
    const html = page_of("diff", ...files);
    const expected = document_of("diff", ...files), changes = expected.tables.changes.rows;
    await with_page(html, {}, async (page) => {
      const data = jsonOf(html);
      assert.equal(data.version, 3);
      assert.deepEqual(data.comparison, expected);
      assert.deepEqual(data.recordings.map(({ tables }) => tables.sources.rows[0].path), files);
      const shown = () => page.evaluate(() => [...document.querySelectorAll("#changes tr[data-key]")].map((row) => [row.dataset.key, ...[...row.querySelectorAll("td.number")].map((cell) => cell.textContent), row.lastChild.textContent]));
      const rows = await shown();
      assert.deepEqual(rows.map(([key]) => key), changes.map(({ key }) => key));
      for (const [i, [key, before, after, , , change, interval, verdict]] of rows.entries()) {
        const row = changes[i];
        assert.deepEqual([before, after], [row.before_count, row.after_count].map((n) => n.toLocaleString("en-US")), key);
        assert.equal(verdict, "", `${key}: one run of each side proves nothing`);
        const percents = (text) => [...text.replace(/−/g, "-").replace(/,/g, "").matchAll(/([+-][\d.]+)%/g)].map(([, n]) => Number(n) / 100);
        const near = (a, b) => Math.abs(a - b) <= Math.abs(b) * 0.006;
        const wanted = [row.mean.change, row.mean.low, row.mean.high].filter((n) => typeof n === "number");
        const found = [...percents(change), ...percents(interval)];
        if (typeof row.mean.change === "number") assert.ok(found.length === wanted.length && found.every((n, k) => near(n, wanted[k])), `${key}: ${found} for ${wanted}`);
      }
      const text = await page.locator("#changes").textContent();
      assert.ok(text.includes("Differences between these recordings") && !/(?<!nothing )\bproven/.test(text), text);
      // Another figure and another row, by keyboard; the address keeps them.
      await page.selectOption("#metric", "rate");
      await page.locator('#changes button[data-row="io"]').focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("#latency-title").textContent.startsWith("io:"));
      await settled(page);
      assert.equal(new URL(page.url()).hash, "#metric=rate&row=io");
      assert.match(await page.locator("#latency figcaption").textContent(), new RegExp(`before: ${changes.find(({ key }) => key === "io").before_count.toLocaleString("en-US")} exits`));
      assert.ok(await painted(page, "#latency .bars", "heat") > 0.005);
      await page.locator("#latency .u-over").hover();
      assert.match(await page.locator("#latency .reading").textContent(), / to .*% of the exits before, .*% of the exits after$/);
      assert.equal(await page.locator("#shares .strip canvas").count(), data.recordings.reduce((n, { tables }) => n + tables.vcpus.rows.length, 0));
      await axe_finds_nothing(page);
      await page.setViewportSize({ width: 390, height: 900 });
      await fits(page);
    });
    // Without kvm_userspace_exit.
    await with_page(changed(html, ({ tables }) => tables.vcpus.rows.forEach((vcpu) => { vcpu.user_ns = null; })), {}, async (page) => {
      assert.equal(await page.locator('#metric option[value="kernel"]').textContent(), "kernel or QEMU, mean");
    });
  },

  // With several runs of a side the table is of all, the pictures are of the first, and the page says so.
  async several_runs_are_one_page() {
    const [before, after] = [["hog", "lock", "vm"], ["disk", "halt", "storm"]].map((side) => side.map((name) => join(recordings, `../merge/planted/${name}.dat`)));
    const words = ["diff", "--before", ...before, "--after", ...after];
    const html = page_of(...words);
    const expected = document_of(...words);
    assert.equal(expected.head.method, "student");
    await with_page(html, {}, async (page) => {
      const data = jsonOf(html);
      assert.deepEqual(data.comparison, expected);
      assert.deepEqual(data.recordings.map(({ tables }) => tables.sources.rows[0].path), [before[0], after[0]]);
      assert.match(await page.locator("#shares").textContent(), /the first of 3 runs/);
      assert.match(await page.locator("#changes").textContent(), /3 runs before and 3 after: a change is proven where/);
      for (const metric of ["rate", "mean", "cost"]) {
        await page.selectOption("#metric", metric);
        await settled(page);
        const verdicts = await page.evaluate(() => [...document.querySelectorAll("#changes tr[data-key]")].map((row) => [row.dataset.key, row.lastChild.textContent]));
        assert.deepEqual(verdicts, expected.tables.changes.rows.map((row) => [row.key, !row[metric].tested ? "too little to tell" : row[metric].proven ? "proven" : "not proven"]));
      }
    });
  },

  // A phase's row has the report's figures, and choosing it narrows all views to its time.
  async phases_are_the_reports_and_can_be_chosen() {
    const html = write(linux, "--phases");
    const { phases } = report(linux, "reason", "--phases");
    await with_page(html, {}, async (page) => {
      const data = dataOf(html);
      const start = Number(data.interval.start_ns);
      assert.deepEqual(data.tables.phases.rows.map(({ start: at, ...rest }) => ({ start_ns: at + start, ...rest })).map((row) => JSON.stringify(Object.entries(row).sort())),
        phases.rows.map((row) => JSON.stringify(Object.entries(row).sort())));
      await settled(page);
      const rows = page.locator("#phases tbody tr");
      assert.equal(await rows.count(), phases.rows.length);
      for (const [i, phase] of phases.rows.entries()) {
        assert.equal(await rows.nth(i).locator("td.number").nth(1).getAttribute("title"), `${phase.ns.toLocaleString("en-US")} ns`);
        assert.equal(await rows.nth(i).locator("td.number").nth(2).textContent(), phase.exits.toLocaleString("en-US"));
      }
      await page.locator("#phases button").first().focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("#phases button[aria-pressed=true]"));
      await page.waitForFunction(() => location.hash.startsWith("#time=0-"));
      assert.match(await page.locator("#command").textContent(), /--phases .*--from/);
    });
  },

  // The kernel's flame graph has the stacks of export --kernel, which sum to the report's figure.
  async the_kernels_flame_graph_is_the_folded_stacks() {
    for (const [file, busiest] of [["functions.dat", /^kvm_tdp_page_fault\(\) in npf took [\d.]+%/], ["events.dat", /^after kvm_page_fault in npf took/]]) {
      const recording = join("tests/merge/inside-kernel", file), html = page_of("report", recording, "--kernel");
      const folded = run("export", recording, "--format", "folded", "--kernel", "-o", "-").trim().split("\n").map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]);
      const { total_ns: total, untraced_ns: untraced } = { ...json([recording], "--kernel").kernel, untraced_ns: folded.filter(([stack]) => stack.endsWith(";untraced")).reduce((n, [, ns]) => n + ns, 0) };
      assert.ok(untraced > 0);
      await with_page(html, {}, async (page) => {
        const stacks = dataOf(html).tables.kernel_stacks;
        assert.deepEqual([...stacks.rows].sort(), folded.sort());
        assert.equal(stacks.rows.reduce((n, [, ns]) => n + ns, 0), total);
        await settled(page);
        assert.match(await page.locator("#kernel-flame-title").textContent(), busiest);
        assert.equal((await page.locator("#kernel-flame .path").textContent()).includes("were not recorded"), file === "events.dat");
        // A reason is as wide as its part of the whole.
        const width = (key) => page.locator(`#kernel-flame [data-frame="${key}"] rect`).evaluate((rect) => Number(rect.getAttribute("width")) + 1);
        const npf = folded.filter(([stack]) => stack.startsWith("npf;")).reduce((n, [, ns]) => n + ns, 0);
        assert.ok(Math.abs(await width("reason:npf") / await width("") - npf / total) < 0.01);
        await page.locator('#kernel-flame [data-frame="reason:npf"]').press("Enter");
        await settled(page);
        assert.match(await page.locator("#kernel-flame .path").textContent(), /^the kernel in exits › npf/);
        assert.match(await page.locator("#command").textContent(), /--kernel/);
      });
    }
  },

  // Requests with their stages in the host's block layer, and vhost workers: each line is the report's.
  async requests_and_workers_are_the_reports() {
    for (const [file, section] of [["kvm-iothread.dat", "requests"], ["vhost-net.dat", "vhost"]]) {
      const recording = join("tests/merge/requests", file), html = page_of("report", recording);
      const { request_paths: { rows: paths }, vhost: { rows: vhost } = {} } = json([recording], "--by", "span");
      const expected = section === "vhost" ? vhost.flatMap((row) => [row.woken_to_run, row.ran, row.notify_to_interrupt, row.raise_to_injection])
        : paths.flatMap(({ block }) => (block ? [block.start_to_bio, block.bio_to_issue, block.issue_to_complete, block.complete_to_end] : []));
      assert.ok(expected.length >= 4, `${file} has some`);
      await with_page(html, {}, async (page) => {
        const lines = await page.locator(`#${section} tbody tr`).evaluateAll((rows, of_disk) => rows
          .filter((row) => !of_disk || /^2[a-d]\./.test(row.querySelector("td").textContent))
          .map((row) => [...row.querySelectorAll("td.number")].map((cell) => (cell.title || cell.textContent).replace(/[^\d–]/g, ""))), section === "requests");
        assert.deepEqual(lines, expected.map((d) => [d.count, ...(d.count ? [d.p50_ns, d.p90_ns, d.p99_ns, d.max_ns] : Array(4).fill("–"))].map((n) => (n === null ? "–" : String(n)))), file);
        if (section === "vhost") assert.match(await page.locator("#vhost").textContent(), new RegExp(`${vhost[0].notified} of ${vhost[0].turns} turns began with a guest's notify; ${vhost[0].interrupts} interrupts`));
        else assert.match(await page.locator("#requests").textContent(), /came through an eventfd \(irqfd\)/);
        await page.setViewportSize({ width: 390, height: 900 });
        await fits(page);
      });
    }
  },

  // The guest's intervals: rows, culprits and the longest are those of report --by guest-span and of explain.
  // The stalls' section is what `trapline stalls` prints.
  async stalls_are_those_of_the_command() {
    for (const file of ["stop.dat", "uffd.dat", "hog.dat"]) {
      const recording = `tests/merge/planted/${file}`;
      const html = page_of("report", recording);
      const found = document_of("stalls", recording, "--top", "20").tables.stalls;
      const { page, faults, close } = await open(html, {});
      const { interval, tables: { stalls } } = dataOf(html);
      const start = Number(interval.start_ns);
      assert.ok(found.count > 0 && stalls.count === found.count && stalls.total_ns === found.total_ns, file);
      assert.deepEqual(stalls.rows.map(({ start: at, name: _, ...rest }) => ({ begin_ns: at + start, ...rest })), found.rows);
      await settled(page);
      const rows = page.locator("#stalls tbody tr"); // exits are in the table of the longest exits
      const single = found.rows.every(({ exits, open }) => exits === 1 && !open);
      assert.equal(await rows.count(), single ? 0 : found.rows.length);
      assert.match(await page.locator("#stalls h2").textContent(), /made no progress for/);
      assert.ok((await page.locator("#stalls").textContent()).includes(found.rows[0].finding));
      await fits(page);
      assert.deepEqual(faults, [], file);
      await close();
    }
  },

  async the_kernels_table_is_the_reports() {
    const html = write(linux, "--kernel");
    const { kernel } = report(linux, "reason", "--kernel");
    await with_page(html, {}, async (page) => {
      const { kernel: shown } = dataOf(html).tables;
      assert.equal(shown.total_ns, kernel.total_ns);
      assert.equal(shown.left_out, kernel.left_out);
      const titles = shown.columns.map(({ title }) => title);
      const figures = shown.rows.map((row) => Object.fromEntries(row.map((value, i) => [titles[i], value])));
      assert.deepEqual(figures.map((row) => [row["reason: event"], row.time, row.times, row.max]),
        kernel.rows.map((row) => [`${row.reason}: ${row.part}`, row.ns, row.count, row.max_ns]));
      const share = titles.find((title) => title.startsWith("share of "));
      for (const row of figures) assert.ok(Math.abs(row[share] - row.time / kernel.total_ns) < 1e-12);
      await settled(page);
      const rows = page.locator("#kernel-table tbody tr");
      assert.ok(kernel.rows.length > 1 && await rows.count() === Math.min(25, kernel.rows.length));
      assert.deepEqual(await page.locator("#kernel-table thead th").allTextContents(), titles);
      const exact = `${kernel.rows[1].ns.toLocaleString("en-US")} ns`;
      assert.equal(await rows.nth(1).locator("td").nth(titles.indexOf("time") - 1).getAttribute("title"), exact);
      assert.ok((await page.locator("#kernel-table h2").textContent()).startsWith(`${kernel.rows[0].reason}: ${kernel.rows[0].part} took `));
      await fits(page);
    });
    // Without the option there is none.
    await with_page(write(linux), {}, async (page) => assert.equal(await page.locator("#kernel-table").count(), 0));
  },

  async tables_without_a_view_have_plain_names() {
    const session = "tests/merge/planted/pages-zapped", html = page_of("report", session, "--faults", "--host-cpu");
    await with_page(html, {}, async (page) => {
      const tables = page.locator("section[id^=table-]");
      assert.deepEqual(await tables.locator("h2").allTextContents(),
        ["Host CPU time by thread", "Page faults by cause", "Page faults by guest memory, in parts of 2 MiB", "Page faults by vCPU"]);
      const names = await page.locator("nav.contents button").allTextContents();
      for (const one of ["Faults by cause", "Faults by address", "Faults by vCPU", "Threads of VMs"]) assert.ok(names.includes(one), `${one} is not in ${names}`);
      assert.ok(!names.some((one) => one.includes("_")), `a key in ${names}`);
    });
  },

  async page_faults_are_the_reports() {
    const session = "tests/merge/planted/pages-zapped", html = page_of("report", session);
    const { fault_map: map } = dataOf(html).tables;
    const { faults, fault_regions } = json([session], "--faults", "--top", "1000000");
    const of_cause = (rows, cause, count, ns) => rows.reduce((sums, row) => ({ ...sums, [cause(row)]: [(sums[cause(row)]?.[0] ?? 0) + count(row), (sums[cause(row)]?.[1] ?? 0) + ns(row)] }), {});
    const name = (row) => row.cause, expected = of_cause(faults.rows, name, (row) => row.count, (row) => row.total_ns);
    const keys = { "not known": "not-known", "first touch": "first-touch", "mapped for the first time": "was-there", "copy on write": "copy", "mapping removed": "removed" };
    const causes = map.causes.map((_, i) => i);
    assert.deepEqual(of_cause(causes, (i) => keys[map.cause_texts[i]], (i) => map.counts[i], (i) => map.times[i]), expected);
    // The cells: the same, as every fault has its address; and by region those of the report.
    const spots = map.rows.flatMap(([, address, cells]) => {
      const list = [];
      for (let i = 0, bin = 0; i < cells.length; i += 4) list.push({ address, bin: (bin += cells[i]), cause: cells[i + 1], count: cells[i + 2], ns: cells[i + 3] });
      return list;
    });
    const text = (cause) => map.cause_texts[map.causes.indexOf(cause)];
    assert.equal(map.unplaced, 0);
    assert.deepEqual(of_cause(spots, ({ cause }) => keys[text(cause)], ({ count }) => count, ({ ns }) => ns), expected);
    const region = 2 ** 21, by_region = of_cause(spots, ({ address }) => address - (address % region), ({ count }) => count, ({ ns }) => ns);
    assert.ok(fault_regions.rows.length > 5);
    assert.deepEqual(Object.values(by_region).sort(), fault_regions.rows.map((row) => [row.count, row.total_ns]).sort());
    for (const theme of ["light", "dark"]) {
      await with_page(html, { theme }, async (page) => {
        const count = faults.rows.reduce((n, row) => n + row.count, 0);
        assert.match(await page.locator("#faults-title").textContent(), new RegExp(`^${count.toLocaleString("en-US")} page faults took 221 ms: 54.0% mapping removed$`));
        const end = Math.max(...spots.map(({ bin }) => bin));
        // The causes' colours are in the picture, in the shares of their faults: orange of what was removed, green of new pages.
        const hues = await page.evaluate(() => {
          const canvas = document.querySelector("#faults canvas"), { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = { orange: 0, green: 0 };
          for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0) found[data[i] > data[i + 1] + 60 ? "orange" : data[i + 1] > data[i] + 60 ? "green" : ""] += 1;
          return found;
        });
        assert.ok(hues.orange > 500 && hues.green > 500, JSON.stringify(hues));
        await page.locator("#faults .u-over").hover({ position: { x: 2, y: 2 } });
        await page.waitForFunction(() => / no fault$| \d/.test(document.querySelector("#faults .reading").textContent));
        const shown = await page.locator("#faults tbody tr").evaluateAll((rows) => rows.map((row) => row.querySelectorAll("td")[1].title));
        assert.deepEqual(shown, [...map.times].sort((a, b) => b - a).map((ns) => `${ns.toLocaleString("en-US")} ns`));
        // What an interval shows is its bins'.
        const last = spots.filter(({ bin }) => bin >= end - 20).reduce((n, { count }) => n + count, 0);
        await page.evaluate(([from, to]) => { location.hash = `#time=${from}-${to}`; }, [end - 20, end + 1]);
        await page.waitForFunction((text) => document.querySelector("#faults-title").textContent.startsWith(text), `${last.toLocaleString("en-US")} page fault`);
        await fits(page);
      });
    }
    // The page of two restores has their causes, and its command is theirs.
    const both = page_of("diff", "tests/merge/planted/pages-copied", "tests/merge/planted/pages-swapped", "--faults");
    await with_page(both, {}, async (page) => {
      assert.equal(await page.locator("#command").textContent(), "trapline diff tests/merge/planted/pages-copied tests/merge/planted/pages-swapped --faults");
      assert.deepEqual((await page.locator("#changes tbody tr [data-row]").evaluateAll((rows) => rows.map((row) => row.dataset.row))).sort(),
        ["copy", "first-touch", "not-known", "removed", "swap", "was-there"]);
    });
    // A recording without faults has no such view.
    await with_page(write("box/two-vms.dat"), {}, async (page) => assert.equal(await page.locator("#faults").count(), 0));
  },

  async host_cpu_is_the_reports() {
    const html = write("box/two-vms.dat");
    const vms = report("box/two-vms.dat", "reason", "--host-cpu").host_cpu.rows;
    const { host_cpu_roles: roles, host_cpu_time: times } = dataOf(html).tables;
    assert.ok(vms.length === 2 && roles.rows.length === 2 && times.rows.length === 2);
    // The time bins sum to the totals.
    for (const row of times.rows) {
      const all = roles.rows.find(({ vm }) => vm === row.vm);
      for (const role of ["vcpu", "main_loop", "iothread", "vhost", "kernel", "other"]) assert.equal(row[role].reduce((n, ns) => n + ns, 0), all[role], `${row.vm} ${role}`);
    }
    for (const [i, vm] of vms.entries()) {
      for (const role of ["vcpu", "main loop", "iothread", "vhost", "kernel", "other"]) {
        const threads = vm.threads.rows.filter((row) => row.part === null && row.role === role);
        assert.equal(roles.rows[i][role.replace(" ", "_")], threads.reduce((n, row) => n + row.ns, 0), `${vm.vm} ${role}`);
      }
      assert.equal(roles.rows[i].ns, vm.ns);
    }
    await with_page(html, {}, async (page) => {
      assert.match(await page.locator("#host-cpu-title").textContent(), /^2 VMs took 0\.961 CPUs of the host/);
      const widths = await page.locator("#host-cpu svg").evaluateAll((bars) => bars.map((bar) => [...bar.querySelectorAll("rect")].map((rect) => rect.getBoundingClientRect().width)));
      assert.equal(widths.length, 2);
      assert.equal(await page.locator("#host-cpu figure canvas").count(), 2);
      await page.locator("#host-cpu figure .u-over").first().hover();
      assert.match(await page.locator("#host-cpu .reading").textContent(), /^VM \d+ at \+.*: vCPU threads \d+(\.\d)?% of a CPU/);
      for (const [i, parts] of widths.entries()) assert.ok(Math.abs(parts[0] / parts.reduce((a, b) => a + b) - vms[i].threads.rows.filter((row) => row.part === null && row.role === "vcpu").reduce((n, row) => n + row.ns, 0) / vms[i].ns) < 0.01);
    });
    // Without sched_switch nothing is known, and nothing is shown.
    await with_page(page_of("report", "tests/merge/planted/no-sched.dat"), {}, async (page) => assert.equal(await page.locator("#host-cpu").count(), 0));
  },

  async guest_spans_are_the_reports() {
    const { files: words, spec } = cyclictest, html = page_of("report", ...words, "--guest-span", spec);
    const { spans: { rows: spans }, culprits: { rows: culprits } } = json(words, "--by", "guest-span", "--guest-span", spec);
    const worst = document_of("explain", ...words, "--guest-span", spec, "--worst", "10").tables.worst.rows;
    await with_page(html, {}, async (page) => {
      const { interval, tables } = dataOf(html);
      const start = Number(interval.start_ns);
      assert.deepEqual(tables.spans.rows.map((row, i) => ({ ...row, culprits: spans[i].culprits })), spans);
      assert.deepEqual(tables.span_culprits.rows, culprits);
      assert.ok(culprits.length > 2 && worst.length === 10);
      assert.deepEqual(tables.span_worst.rows.map(({ start: at, ...rest }) => ({ start_ns: at + start, ...rest })), worst);
      const titles = (table, column = 0) => page.locator("#guest-spans .scroll").nth(table).locator("tbody tr").evaluateAll((all, column) => all.map((row) => row.querySelectorAll("td.number[title]:not([title=''])")[column].title.replace(/\D/g, "")), column);
      assert.deepEqual(await titles(0), spans.map((row) => String(row.total_ns)));
      assert.deepEqual(await titles(1), culprits.map((row) => row.ns).sort((a, b) => b - a).slice(0, 20).map(String));
      assert.deepEqual(await titles(2, 1), worst.map(({ tree }) => String(tree.rows[0].ns)));
      assert.match(await page.locator("#guest-spans-title").textContent(), /intervals of marker:hit latency threshold: half took at most/);
      assert.ok((await page.locator("#guest-spans code").textContent()).includes(`--guest-span '${spec}' --worst 10`));
      await page.setViewportSize({ width: 390, height: 900 });
      await fits(page);
    });
    // Where nothing is found there is no page, and it is said why.
    assert.throws(() => page_of("report", words[0], "--guest-span", spec));
  },

  async it_prints_with_nothing_cut_off() {
    await with_page(write(linux), {}, async (page) => {
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.locator("#time-from").isVisible(), false);
      const pdf = await page.pdf({ format: "A4" });
      assert.ok(pdf.length > 20_000);
    });
  },

  // docs/images: each view as it is now, and in views.json a digest of what it holds, which has to be the present one.
  // The script pictures beside this sets TRAPLINE_PICTURES=write.
  async the_pictures_of_the_documents_are_of_this_page() {
    const images = "docs/images", digests = join(images, "views.json");
    const pages = {
      linux: write(linux), guest: page_of("report", ...guest_clock),
      spans: page_of("report", ...cyclictest.files, "--guest-span", cyclictest.spec),
      diff: page_of("diff", join(recordings, linux), join(recordings, "box/linux-irq.dat")),
    };
    const views = [["shares", "linux"], ["table", "linux"], ["exit", "linux"], ["waits", "linux"], ["guest", "guest"], ["guest-spans", "spans"], ["diff", "diff", "changes"]];
    const now = {};
    for (const [name, of, id] of views) {
      const { page, close } = await open(pages[of], { hash: of === "linux" ? "#exit=0" : "", width: 1040 });
      await settled(page);
      await page.evaluate(() => { const bar = document.querySelector(".bar"); if (bar) bar.style.position = "static"; });
      const view = page.locator(`#${id ?? name}`);
      const shown = await view.evaluate((one) => one.outerHTML + [...document.querySelectorAll("style")].map((style) => style.textContent).join(""));
      now[`page-${name}.png`] = createHash("sha256").update(shown).digest("hex").slice(0, 16);
      if (process.env.TRAPLINE_PICTURES === "write") writeFileSync(join(images, `page-${name}.png`), small(await view.screenshot()));
      await close();
    }
    if (process.env.TRAPLINE_PICTURES === "write") writeFileSync(digests, `${JSON.stringify(now, null, 2)}\n`);
    assert.deepEqual(readdirSync(images).filter((file) => file.endsWith(".png")).sort(), Object.keys(now).sort());
    assert.deepEqual(JSON.parse(readFileSync(digests, "utf8")), now, "docs/images show an older page: run tests/merge/page/pictures");
  },
};

if (!kChromium) {
  console.log("skipped: chromium is missing (scripts/packages names it)");
  process.exit(process.env.TRAPLINE_REQUIRE_SYSTEM === "1" ? 1 : 77);
}
let failed = 0;
for (const name of process.argv.slice(2)) {
  assert.ok(cases[name], `no case ${name}`);
  const began = performance.now();
  try {
    await cases[name]();
    console.log(`passed: ${name}, ${Math.round(performance.now() - began)} ms`);
  } catch (error) {
    ++failed;
    console.log(`FAILED: ${name}: ${error.stack}`);
  }
}
await close_browser();
process.exit(failed ? 1 : 0);
