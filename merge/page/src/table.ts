// The exits by reason, device, …: sortable, filterable, each row with its parts and distribution.
import type { Change, Choice } from "./choice";
import { button, clip, dim, entitle, h, name, s, section } from "./dom";
import type { View } from "./drawing";
import { knowsDurations, knowsGuest, whose } from "./known";
import { cost, kLatencyBins, type Group, type Model } from "./model";
import { barsPath, drawRows, emptyTable, number, partsBar, type Column } from "./rows";
import { sums, wholeOf } from "./strip";
import { counted, duration, exact, grouped, percent } from "./text";
import { kParts } from "./types";

const kShown = 25;
export const kBar = 78; // px
const kSpark = 84; // px, of a distribution
const kHeight = 18;
const kWithWaits = new Set(["total", "mean", "p50", "p90", "p99", "max"]); // columns of times that include waits for a CPU

// The columns by which rows can be sorted: the name in the address, the title and the value.
export const kColumns: [id: string, title: string, of: (row: Group) => number | string | null][] = [
  ["key", "", (row) => row.key], ["count", "Exits", (row) => row.count], ["total", "Total", (row) => row.total_ns], ["share", "Share", (row) => (row.mean_ns === null && cost(row) === 0 ? null : cost(row))], ["mean", "Mean", (row) => row.mean_ns],
  ["p50", "p50", (row) => row.p50_ns], ["p90", "p90", (row) => row.p90_ns], ["p99", "p99", (row) => row.p99_ns], ["max", "Max", (row) => row.max_ns],
];

// Draws a row's distribution, on one logarithmic axis for all rows.
function sparkline(histogram: Group["histogram"], first: number, last: number): SVGSVGElement {
  const most = Math.max(1, ...histogram.map(([, count]) => count));
  const width = kSpark / Math.max(1, last - first);
  return s("svg", { class: "spark", width: kSpark, height: kHeight, "aria-hidden": "true" },
    s("path", { d: barsPath(histogram.map(([bin, count]) => [(bin - first) * width, (bin + 1 - first) * width, Math.sqrt(count / most)]), kHeight) }));
}

export function exitTable(model: Model, change: Change): View {
  const { data } = model;
  const known = knowsDurations(data);
  const whole = knowsGuest(data) ? "busy time" : `${whose(data)} time`; // of which the shares are
  const by = h("select", { id: "by", change: () => change({ by: by.value }) },
    ...data.sets.map((set) => h("option", { value: set.by }, set.by.replace(/,/g, ", "))));
  const find = h("input", { type: "search", id: "find", spellcheck: "false", autocomplete: "off", input: () => change({ query: find.value }) });
  const table = emptyTable("Exits");
  const under = dim();
  const more = button({ class: "noprint", click: () => change({ all: true }) });
  const element = section("table", [],
    h("div", { class: "controls noprint" }, h("label", { for: "by" }, "Exits by"), by, h("label", { for: "find" }, "whose name contains"), find),
    table, under, more, data.next.length > 0 && h("p", { class: "dim" }, "Next: ", ...data.next.map((text, i) => (i % 2 ? ` ${text}${i + 1 < data.next.length ? "; " : ""}` : h("code", {}, text)))));

  // A column's title is a button that sorts by it, in the other direction when it is pressed again.
  function heading(id: string, title: string, choice: Choice): HTMLElement {
    const sorted = choice.sort === id;
    return h("th", { scope: "col", class: id === "key" ? "" : "number", "aria-sort": sorted ? (choice.up ? "ascending" : "descending") : undefined },
      button({ "data-sort": id, click: () => change(sorted ? { up: !choice.up } : { sort: id, up: id === "key" }) },
        id === "key" ? choice.by.replace(/,/g, " / ") : title, h("span", { class: "sign", "aria-hidden": "true" }, sorted ? (choice.up ? " ▲" : " ▼") : "")),
      id === "share" && h("small", {}, `${data.vcpus.some(({ preempted_ns }) => preempted_ns !== null) ? "without\u00a0CPU\u00a0waits, " : ""}of ${whole}`),
      kWithWaits.has(id) && h("small", {}, "with\u00a0waits"));
  }

  function columns(choice: Choice, rows: Group[]): Column<Group>[] {
    let [first, last] = [kLatencyBins, 1];
    for (const { histogram } of rows) {
      first = Math.min(first, histogram[0]?.[0] ?? first);
      last = Math.max(last, (histogram.at(-1)?.[0] ?? 0) + 1);
    }
    const all = wholeOf(data, sums(data.vcpus, choice.time));
    const cells: Record<string, (row: Group, value: number | null) => HTMLElement | (Node | string | false)[]> = {
      key: (row) => [name(row.key, choice.by), row.halts && h("small", {}, "halt, no overhead")],
      count: (row) => number(grouped(row.count)),
      share: (row, value) => number(value === null ? "–" : percent(value / all), `${duration(cost(row) / Math.max(1, row.count))} an exit, without waits for a CPU`),
    };
    const time = (row: Group, ns: number | null, id: string): HTMLElement => {
      const about = ns !== null && row.approximate && /^(p\d|max)/.test(id) ? "≈\u202f" : "";
      return number(about + duration(ns), about + exact(ns));
    };
    return [...kColumns.map(([id, title, of]): Column<Group> => [heading(id, title, choice), "node", (row) => {
      const value = id === "key" || known ? of(row) : null;
      return cells[id]?.(row, value as number | null) ?? time(row, value as number | null, id);
    }]), ["Parts", "node", (row) => (known ? partsBar(row, kParts, kBar, row.total_ns) : ""), "of the total"],
    ["Latency", "node", (row) => (known ? sparkline(row.histogram, first, last) : ""), "log axis, height: √ of exits"]];
  }

  function draw(choice: Choice): void {
    const all = model.groups(choice);
    const [, , of] = kColumns.find(([id]) => id === choice.sort) ?? kColumns[3]!;
    const words = choice.query.toLowerCase().split(/\s+/).filter(Boolean);
    const groups = all.filter((row) => words.every((word) => row.key.toLowerCase().includes(word)));
    groups.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      const order = typeof x === "string" ? x.localeCompare(String(y)) : (x ?? 0) - Number(y);
      // Halts are no overhead: they come below.
      return a.halts !== b.halts && choice.sort !== "key" ? Number(a.halts) - Number(b.halts) : choice.up ? order : -order;
    });
    by.value = choice.by;
    if (find.value !== choice.query) find.value = choice.query;
    say(all, choice);
    const shown = choice.all ? groups : groups.slice(0, kShown);
    const others = choice.rows.filter((one) => one.by !== choice.by);
    drawRows(table, columns(choice, all), shown, ({ key }) => {
      const chosen = choice.rows.some((one) => one.by === choice.by && one.key === key);
      return { key, chosen, choose: () => change({ rows: chosen ? others : [...others, { by: choice.by, key }] }) };
    }, all.length === 0 ? "No exits are in what is chosen." : "No row has these words.");
    const set = data.sets.find((one) => one.by === choice.by);
    const left = !all.some((row) => row.approximate) ? (set?.left_out ?? 0) : 0;
    under.textContent = [
      `${grouped(shown.length)} of ${grouped(all.length)} rows; –: too few exits; point at a share for the time without waits, at a bar for its parts`,
      groups.length < all.length ? `${grouped(groups.length)} have these words` : "",
      left > 0 ? `${grouped(left)} more are not on this page: trapline report prints them` : "",
      shown.some(({ key }) => key.split(" / ").some((part, i) => part === "-" && choice.by.split(",")[i] === "device")) ? "no device: KVM served them itself, or no event of QEMU names a device" : "",
      all.some((row) => row.approximate) ? "counts, totals and parts are exact; ≈ is known to 12 % of its value" : "",
    ].filter(Boolean).join("; ") + ".";
    more.hidden = shown.length === groups.length;
    more.textContent = `Show all ${grouped(groups.length)} rows`;
  }

  function say(rows: Group[], choice: Choice): void {
    const costly = rows.filter((row) => !row.halts).sort((a, b) => cost(b) - cost(a));
    const chosen = choice.rows.find(({ by }) => by === choice.by)?.key;
    const busiest = costly.find(({ key }) => key === chosen) ?? costly[0];
    if (busiest && !known) {
      const most = rows.reduce((a, b) => (b.count > a.count ? b : a));
      const share = percent(most.count / rows.reduce((n, row) => n + row.count, 0));
      entitle(element, name(clip(most.key, 60), choice.by), ` was ${share} of the exits; how long they took was not recorded`);
      return;
    }
    entitle(element, ...(busiest
      ? [name(clip(busiest.key, 60), choice.by), ` cost ${percent(cost(busiest) / wholeOf(data, sums(data.vcpus, choice.time)))} of ${knowsGuest(data) ? "the " : ""}${whole}, in ${counted(busiest.count, "exit")}`]
      : [rows.length ? "All of these exits are halts: the guest had nothing to do" : "No exits are in what is chosen"]));
  }

  return { element, draw };
}
