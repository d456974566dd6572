// One page, one choice: every view draws what is chosen, and changes it.
import { fromFragment, kNothing, toFragment, type Change, type Choice } from "./choice";
import { startComparison } from "./compare";
import { button, changeLook, clip, h, name, replace, section, useGlosses } from "./dom";
import { Drawing, type View } from "./drawing";
import { faultMap } from "./faults";
import { flame, kernelFlame } from "./flame";
import { answer, copy, header, onWidth, recorded, status } from "./head";
import { hostCpu } from "./host_cpu";
import { latency } from "./latency";
import { kLatencyBins, low, Model, type Selection } from "./model";
import { nearView } from "./near";
import { phases } from "./phases";
import { shares } from "./shares";
import { exitTable } from "./table";
import { kTables, tables } from "./tables";
import { duration, moment, momentOption, partOf, quoted, useUnit, visible, without } from "./text";
import type { Fields, PageData } from "./types";
import { unpack, unpackComparison, unpackTimeline } from "./unpack";
import { waits } from "./waits";
import { worst } from "./worst";
import { zoomByKey } from "./zoom";

const kVersion = 3;
const kTimelineVersion = 2;
const kAddressAfter = 150; // ms

// The keys, which ? lists.
const kKeys: [string, string][] = [["?", "this list"], ["Escape", "close the exit, then take the whole choice back"], ["+ −", "zoom the strips of time"], ["0", "the strips as they were"],
  ["Ctrl or Shift and wheel", "zoom where the pointer is, in the strips and around an exit"], ["drag", "choose an interval, over a strip"],
  ["+ − ← → 0", "zoom and move around an exit, in its picture"], ["Enter, Escape", "zoom a frame of a flame graph, and go back"]];

function help(): HTMLDialogElement {
  const dialog = h("dialog", { id: "keys", "aria-labelledby": "keys-title" }, h("h2", { id: "keys-title" }, "Keys"),
    h("dl", {}, ...kKeys.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])), button({ click: () => dialog.close() }, "Close"));
  return dialog;
}

// The names of the sections in the table of contents; those of tables are in kTables, other sections have their ids as names.
const kNames: Record<string, string> = { shares: "Time", table: "Exits", latency: "Latency", flame: "Flame graph", worst: "Longest exits", waits: "Waits", recorded: "Recording",
  "kernel-flame": "Kernel", "kernel-table": "Kernel's events", "guest-spans": "Guest's intervals", "host-cpu": "Host CPU", faults: "Page faults" };

function contents(sections: HTMLElement[]): HTMLElement {
  return h("nav", { class: "contents noprint", "aria-label": "Contents" }, ...sections.map((one) => {
    const text = kNames[one.id] ?? kTables[one.id.replace(/^table-/, "")]?.[0] ?? one.id;
    return button({ class: "link", "data-to": one.id, click: () => {
      one.scrollIntoView();
      one.tabIndex = -1;
      one.focus({ preventScroll: true });
    } }, text[0]!.toUpperCase() + text.slice(1));
  }));
}

// trapline timeline --format html: one part of the timeline, and nothing else.
function startTimeline(data: Fields, main: HTMLElement): void {
  useUnit(data.time_unit);
  const near = unpackTimeline(data);
  const view = nearView(near, null, () => {});
  const show = (): void => {
    changeLook();
    view.show();
  };
  const command = ["trapline", ...(data.command as string[])].map(quoted).join(" ");
  const exits = near.spans.filter(([lane, , , kind]) => kind !== "guest" && kind !== "handler" && / (kernel|QEMU)$/.test(near.lanes[lane] ?? ""));
  const longest = exits.reduce((most, [, begin, end]) => Math.max(most, end - begin), 0);
  document.title = `${duration(near.to)} from ${momentOption(data.start_ns, 0)}`;
  main.append(
    header([`${duration(near.to)} from ${momentOption(data.start_ns, 0)} `, h("small", {}, data.time_unit === "ns" ? "s of the recording's clock" : "")], () => command, show),
    section("timeline", [near.spans.length + near.events.length === 0 ? "Nothing lies in that part of the recording"
      : `${near.events.length.toLocaleString("en-US")} events on ${near.lanes.length} lanes; the longest part of an exit took ${duration(longest)}`],
      h("p", {}, h("code", { id: "command" }, command)), ...view.elements));
  onWidth(main, show);
  show();
}

function start(): void {
  const page = JSON.parse(document.getElementById("data")?.textContent ?? "") as PageData;
  const main = document.getElementById("page")!;
  if ((page.format as string) === "trapline-timeline" && page.version === kTimelineVersion) {
    startTimeline(page, main);
    return;
  }
  const packed = page.format === "trapline-page" ? page.recordings[0] : undefined;
  if (page.format !== "trapline-page" || page.version !== kVersion || !packed) {
    main.append(h("p", { class: "alert" }, `This page shows data of version ${kVersion}; it holds ${page.format} version ${page.version}.`));
    return;
  }
  if (page.comparison && page.recordings.length === 2) {
    startComparison(page.recordings, unpackComparison(page.comparison), main);
    return;
  }
  const data = unpack(packed);
  useUnit(data.time_unit);
  useGlosses(data.glosses);
  const model = new Model(data);
  let choice: Choice = fromFragment(location.hash, data);
  let toAddress = 0; // a timer

  // Browsers refuse to change the address hundreds of times in a few seconds.
  const writeAddress = (): void => {
    if (toAddress) clearTimeout(toAddress);
    toAddress = 0;
    const fragment = toFragment(choice);
    history.replaceState(null, "", fragment ? `#${fragment}` : "#");
  };
  const change: Change = (by) => {
    const before = toFragment(choice);
    choice = { ...choice, ...by };
    if (toFragment(choice) === before) return;
    if (!toAddress) toAddress = window.setTimeout(writeAddress, kAddressAfter);
    drawing.change();
  };
  const chips = h("span", { id: "chips" });
  const command = h("code", { id: "command" });
  const said = status();

  function words(): string[] {
    const all = ["trapline", ...data.command, "--by", choice.by];
    const times = model.chosen(choice);
    const result = !times ? all : data.time_unit === "ns" ? partOf(all, data.interval.start_ns, ...times) : without(all, "--from", "--to");
    if (choice.sort !== "share") result.push("--sort", choice.sort);
    return result;
  }

  function drawChips(): void {
    const chip = (text: (Node | string)[], without: Partial<Choice>): HTMLElement =>
      h("span", { class: "chip" }, ...text, button({ "aria-label": "Take this choice back", click: () => change(without) }, "×"));
    const list: HTMLElement[] = choice.rows.map((row) => chip([`${row.by.replace(/,/g, " / ")}: `, name(clip(row.key, 60), row.by)], { rows: choice.rows.filter((one) => one !== row) }));
    const times = model.chosen(choice);
    if (times) list.push(chip([times.map((ns) => moment(ns, 3)).join(" to ")], { time: null }));
    if (choice.latency) {
      const [a, b] = choice.latency;
      const text = b >= kLatencyBins ? `at least ${duration(low(a))}` : a === 0 ? `under ${duration(low(b))}` : `${duration(low(a))} to ${duration(low(b))}`;
      list.push(chip([text], { latency: null }));
    }
    replace(chips, ...(list.length ? [...list, button({ id: "clear", click: () => change(kNothing) }, "Clear")]
      : [h("span", { class: "dim" }, "Everything is shown. Choose rows, an interval or a bar: the tables and charts of exits then show only those.")]));
    replace(command, words().map(quoted).join(" "));
    said.textContent = "";
  }

  const { phases: rows, kernel, kernel_stacks, fault_map, host_cpu_roles, host_cpu_time } = data.tables;
  const strips = shares(model, change);
  const views = [strips, rows && phases(model, change, rows), exitTable(model, change), latency(model, change),
    flame(model, change), kernel_stacks && kernel?.total_ns && kernelFlame(kernel_stacks.rows, kernel, change),
    worst(model, change), waits(model), host_cpu_roles && hostCpu(model, host_cpu_roles, host_cpu_time),
    fault_map && faultMap(model, fault_map)].filter((view): view is View => !!view);
  const top = answer(model);
  const drawing = new Drawing(views, () => {
    const selection = model.select(choice);
    top.draw(choice, selection);
    drawChips();
    return [choice, selection] as [Choice, Selection];
  });

  const title = (data.command.slice(1).find((word) => !word.startsWith("-")) ?? data.tables.sources?.rows[0]?.path ?? "").split("/").filter(Boolean).at(-1) ?? "recording";
  document.title = visible(title);
  const keys = help();
  const sections = [...views.map((view) => view.element), ...tables(data), recorded(data)];
  main.append(
    header([name(title)], () => words().map(quoted).join(" "), drawing.again, said,
      button({ id: "copy-link", click: () => { writeAddress(); void copy(location.href, said); } }, "Copy link"),
      button({ id: "help", "aria-label": "Keys", click: () => keys.showModal() }, "?")),
    top.element, h("div", { class: "bar" }, contents(sections), h("div", { class: "chips", role: "group", "aria-label": "What is chosen" }, chips, command)),
    ...sections, keys,
  );
  onWidth(main, drawing.again);
  window.addEventListener("hashchange", () => {
    clearTimeout(toAddress);
    toAddress = 0;
    choice = fromFragment(location.hash, data);
    drawing.change();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawing.again);
  document.addEventListener("keydown", (event) => {
    if ((event.target as Element).matches("input[type=search], select") || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || keys.open) return;
    if (event.key === "?") keys.showModal();
    else if (event.key === "Escape") change(choice.worst !== null ? { worst: null } : kNothing);
    else zoomByKey(event, strips.zoom);
  });
  window.addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
  drawing.change();
  drawing.all();
}

start();
