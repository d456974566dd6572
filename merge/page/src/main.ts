// One page, one choice: every view draws what is chosen, and changes it.
import { fromFragment, kStart, toFragment, type Choice } from "./choice";
import { startComparison } from "./compare";
import { changeLook, clip, h, name, replace, section, useGlosses } from "./dom";
import { Drawing, type View } from "./drawing";
import { Flame } from "./flame";
import { guestSpans } from "./guest_spans";
import { foot, head } from "./head";
import { kernelFlame } from "./kernel_flame";
import { Latency } from "./latency";
import { kLatencyBins, low, Model, type Selection } from "./model";
import { NearView } from "./near";
import { Phases } from "./phases";
import { Shares } from "./shares";
import { stages } from "./stages";
import { stalls } from "./stalls";
import { kColumns, Table } from "./table";
import { duration, moment, momentOption, quoted, useUnit, visible, without } from "./text";
import type { PageData, TimelineData } from "./types";
import { unpack, unpackComparison, unpackTimeline } from "./unpack";
import { Waits } from "./waits";
import { Worst } from "./worst";

const kVersion = 3;
const kTimelineVersion = 2;
const kAddressAfter = 150; // ms

function read(): PageData | TimelineData {
  const text = document.getElementById("data")?.textContent ?? "";
  return JSON.parse(text) as PageData | TimelineData;
}

// Without storage, as on a page opened from disk, the theme lasts as long as the page.
function themeButton(redraw: () => void): HTMLElement {
  const root = document.documentElement;
  const button = h("button", { type: "button", id: "theme" });
  const dark = (): boolean => root.dataset["theme"] === "dark" || (root.dataset["theme"] === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  const label = (): void => { button.textContent = dark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset["theme"] = dark() ? "light" : "dark";
    label();
    redraw();
  });
  label();
  return button;
}

// After the first, each change of the element's width.
function onWidth(element: HTMLElement, changed: () => void): void {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    changed();
  }).observe(element);
}

async function copy(text: string, said: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "copied";
  } catch {
    const area = h("textarea", { "aria-label": "text to copy" });
    area.value = text;
    document.body.append(area);
    area.select();
    said.textContent = document.execCommand("copy") ? "copied" : "select the command and copy it";
    area.remove();
  }
}

// Makes the head of the page: the title, and the buttons that concern the whole page.
function header(title: (Node | string)[], command: () => string, redraw: () => void, said: HTMLElement, ...more: HTMLElement[]): HTMLElement {
  return h("header", {}, h("h1", {}, ...title), h("div", { class: "actions noprint" },
    h("button", { type: "button", id: "copy", click: () => void copy(command(), said) }, "Copy command"), ...more, themeButton(redraw), said));
}

const status = (): HTMLElement => h("span", { role: "status", class: "dim" });

// trapline timeline --format html: one part of the timeline, and nothing else.
function startTimeline(data: TimelineData, main: HTMLElement): void {
  useUnit(data.time_unit);
  const near = unpackTimeline(data);
  const view = new NearView(near, null, null, () => {});
  const show = (): void => {
    changeLook();
    view.show();
  };
  const command = ["trapline", ...data.command].map(quoted).join(" ");
  const exits = near.spans.filter(([lane, , , kind]) => kind !== "guest" && kind !== "handler" && / (kernel|QEMU)$/.test(near.lanes[lane] ?? ""));
  const longest = exits.reduce((most, [, begin, end]) => Math.max(most, end - begin), 0);
  document.title = `${duration(near.to)} from ${momentOption(data.start_ns, 0)}`;
  main.append(
    header([`${duration(near.to)} from ${momentOption(data.start_ns, 0)} `, h("small", {}, data.time_unit === "ns" ? "s of the recording's clock" : "")], () => command, show, status()),
    section("timeline", [near.spans.length + near.events.length === 0 ? "Nothing lies in that part of the recording"
      : `${near.events.length.toLocaleString("en-US")} events on ${near.lanes.length} lanes; the longest part of an exit took ${duration(longest)}`],
      h("p", {}, h("code", { id: "command" }, command)), view.controls, view.picture, view.list));
  onWidth(main, show);
  show();
}

function start(): void {
  const page = read();
  const main = document.getElementById("page")!;
  if (page.format === "trapline-timeline" && page.version === kTimelineVersion) {
    startTimeline(page, main);
    return;
  }
  const packed = page.format === "trapline-page" ? page.recordings[0] : undefined;
  if (page.format !== "trapline-page" || page.version !== kVersion || !packed) {
    main.append(h("p", { class: "alert" }, `This page shows data of version ${kVersion}; it holds ${page.format} version ${page.version}.`));
    return;
  }
  if (page.comparison && page.recordings.length === 2) {
    startComparison(page.recordings, unpackComparison(page.comparison), main, (title, command, redraw) => {
      onWidth(main, redraw);
      return header(title, command, redraw, status());
    });
    return;
  }
  const data = unpack(packed);
  useUnit(data.time_unit);
  useGlosses(data.glosses);
  const model = new Model(data);
  const limits = {
    by: data.sets.map((set) => set.by),
    sorts: kColumns.map((column) => column.id),
    timeBins: data.time.bins,
    latencyBins: kLatencyBins,
    worst: data.worst.length,
  };
  let choice: Choice = fromFragment(location.hash, limits);
  let selection: Selection | null = null;
  let toAddress = 0; // a timer

  // Browsers refuse to change the address hundreds of times in a few seconds.
  const writeAddress = (): void => {
    if (toAddress) clearTimeout(toAddress);
    toAddress = 0;
    const fragment = toFragment(choice);
    history.replaceState(null, "", fragment ? `#${fragment}` : "#");
  };
  const change = (by: Partial<Choice>): void => {
    const before = toFragment(choice);
    choice = { ...choice, ...by };
    if (toFragment(choice) === before) return;
    if (!toAddress) toAddress = window.setTimeout(writeAddress, kAddressAfter);
    drawing.change();
  };
  const shares = new Shares(model, change);
  const phases = data.phases && new Phases(model, change, data.phases);
  const table = new Table(model, change);
  const latency = new Latency(model, change);
  const flame = new Flame(model);
  const worst = new Worst(model, change);
  const waits = new Waits(model);
  const chips = h("div", { class: "chips", role: "group", "aria-label": "What is chosen" });
  const command = h("code", { id: "command" });
  const said = status();

  function words(): string[] {
    const asked = choice.time ? without(data.command, "--from", "--to") : data.command;
    const result = ["trapline", ...asked, "--by", choice.by];
    if (choice.time && data.time_unit === "ns") {
      const start = data.interval.start_ns;
      result.push("--from", momentOption(start, model.edge(choice.time[0])), "--to", momentOption(start, model.edge(choice.time[1])));
    }
    if (choice.sort !== "share") result.push("--sort", choice.sort);
    return result;
  }

  function drawChips(): void {
    const chip = (text: (Node | string)[], without: Partial<Choice>): HTMLElement =>
      h("span", { class: "chip" }, ...text, h("button", { type: "button", "aria-label": "Take this choice back", click: () => change(without) }, "×"));
    const list: HTMLElement[] = choice.rows.map((row) => chip([`${row.by.replace(/,/g, " / ")}: `, name(clip(row.key, 60))], { rows: choice.rows.filter((one) => one !== row) }));
    if (choice.time) {
      list.push(chip([`${moment(model.edge(choice.time[0]), 3)} to ${moment(model.edge(choice.time[1]), 3)}`], { time: null }));
    }
    if (choice.latency) {
      const [a, b] = choice.latency;
      const text = b >= kLatencyBins ? `at least ${duration(low(a))}` : a === 0 ? `under ${duration(low(b))}` : `${duration(low(a))} to ${duration(low(b))}`;
      list.push(chip([text], { latency: null }));
    }
    replace(chips, ...(list.length ? [...list, h("button", { type: "button", id: "clear", click: () => change({ rows: [], time: null, latency: null }) }, "Clear")]
      : [h("span", { class: "dim" }, "Everything is shown. Choose rows, an interval or a bar: the views of exits follow.")]));
    replace(command, words().map(quoted).join(" "));
    said.textContent = "";
  }

  const views: View[] = [
    { element: shares.element, draw: () => shares.render(choice, selection!) },
    ...(phases ? [{ element: phases.element, draw: () => phases.render(choice) }] : []),
    { element: table.element, draw: () => table.render(choice) },
    { element: latency.element, draw: () => latency.render(choice, selection!) },
    { element: flame.element, draw: () => flame.render(selection!) },
    ...(data.kernel_stacks && data.kernel?.total_ns ? [kernelFlame(data.kernel_stacks, data.kernel)] : []),
    { element: worst.element, draw: () => worst.render(choice) },
    { element: waits.element, draw: () => waits.render(choice) },
  ];
  const drawing = new Drawing(views, () => {
    selection = model.select(choice);
    drawChips();
  });
  const lookAgain = (): void => {
    changeLook();
    drawing.change();
  };

  const title = data.sources[0]?.path.split("/").filter(Boolean).at(-1) ?? "recording";
  document.title = `${visible(title)}: where the time of the VM exits went`;
  main.append(
    header(["Where the time of the VM exits went ", h("small", {}, name(title))], () => words().map(quoted).join(" "), lookAgain, said,
      h("button", { type: "button", id: "copy-link", click: () => { writeAddress(); void copy(location.href, said); } }, "Copy link")),
    h("nav", { class: "bar", "aria-label": "Choice" }, chips, h("div", { class: "command" }, command)),
    head(data), ...views.map((view) => view.element), ...stalls(data), ...guestSpans(data), ...stages(data), foot(data),
  );
  window.addEventListener("hashchange", () => {
    clearTimeout(toAddress);
    toAddress = 0;
    choice = fromFragment(location.hash, limits);
    drawing.change();
  });
  onWidth(main, lookAgain);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lookAgain);
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape" && !typing && choice !== kStart && !event.defaultPrevented && choice.worst !== null) change({ worst: null });
  });
  drawing.change();
  drawing.all();
}

start();
