// The vCPUs' time, over time: stacked shares that can be brushed to an interval.
import type { Change, Choice } from "./choice";
import { blocks, Chart, kEdges } from "./chart";
import { button, entitle, h, replace, section } from "./dom";
import type { View } from "./drawing";
import { kernelOf, kNoExits, knowsDurations, knowsGuest, theVcpus, whose } from "./known";
import type { Model, Selection } from "./model";
import { sliders } from "./sliders";
import { busyOf, kBusy, stripsOf, sums, wholeOf } from "./strip";
import { duration, moment, percent, visible } from "./text";
import { kStates } from "./types";
import { zoomByWheel, zoomed, type Range, type Zoom } from "./zoom";

const kMark = 24; // px, height of the chart of chosen exits
const kLeast = 4; // bins in sight at the deepest zoom

export function shares(model: Model, change: Change): View & { zoom: Zoom } {
  const { data } = model;
  const { bins } = data.time;
  let view: Range = [model.begin, bins];
  const show = (from: number, to: number): void => change({ view: from === model.begin && to === bins ? null : [from, to] });
  const zoom: Zoom = {
    zoom: (factor, at) => {
      const [from, to] = zoomed(view, factor, at, [0, bins], kLeast);
      show(Math.floor(from), Math.ceil(to));
    },
    all: () => show(model.begin, bins),
  };
  const all = sums(data.vcpus, null);
  const halts = all.halted + all.paused + all.offline > 0 && busyOf(all) > 0; // or other time that is not busy
  const buttons = [["all-time", "All time"], ["busy-time", "Busy time"]].map(([id, text], i) =>
    button({ id, click: () => change({ busy: i === 1 }) }, text));
  const strips = stripsOf(model, { read: (text) => { reading.textContent = visible(text); },
    brush: (from, to) => change({ time: [model.binAt(from), model.binAt(to) + 1] }) });
  zoomByWheel(strips.element, zoom, (left) => (left - kEdges[0]) / (strips.width() - kEdges[0] - kEdges[1]));
  const chosen = new Chart({ class: "chosen", height: kMark, series: [{ fill: "accent", paths: blocks() }] });
  const caption = h("figcaption");
  const marked = h("figure", { class: "vcpu", hidden: true }, caption, chosen.element);
  const before = h("p", { class: "dim", id: "before" });
  const reading = h("p", { class: "reading" }, "Drag over a strip to choose an interval: the tables and charts of exits then show only that.");
  const ends = sliders("time", "Interval from", (bin) => moment(model.edge(bin), 3), (time) => change({ time }));
  const element = section("shares", [], halts && h("div", { class: "controls noprint", role: "group", "aria-label": "Time that is shown" },
    ...buttons, h("span", { class: "dim" }, "busy time includes waits for a CPU, and leaves out halts and time offline")),
  strips.element, marked, before, reading, ends.element);

  function draw(choice: Choice, selection: Selection): void {
    const { time } = choice;
    const span = time ? model.edge(time[1]) - model.edge(time[0]) : data.duration_ns;
    const all = sums(data.vcpus, time);
    const busy = choice.busy ?? halts;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(busy === (i === 1))));
    // Shares are of the busy time, as in the report's sentence, whatever time the strips show.
    const guest = knowsGuest(data);
    const whole = wholeOf(data, all);
    const words = (guest ? kBusy : kStates).filter((state) => state !== "guest" && all[state] > 0).sort((a, b) => all[b] - all[a]).slice(0, 2)
      .map((state) => `${percent(all[state] / whole)} ${state === "user" ? "in QEMU" : state === "kernel" ? `in ${kernelOf(data.vcpus[0]).replace(/^kernel$/, "the kernel")}` : state}`).join(", ");
    entitle(element, data.vcpus.length === 0 ? "No vCPU ran while this was recorded"
      : !guest ? (words ? `Of ${whose(data)} time: ${words}; what the guest took was ${kNoExits}` : `What ${whose(data)} time went to was ${kNoExits}`)
      : busyOf(all) === 0 ? `In what is chosen ${theVcpus(data)} had no busy time`
      : `Of ${whose(data)} busy time, ${duration(busyOf(all))}, the guest ran ${percent(all.guest / whole)}${words && `; ${words}`}`);
    view = model.inSight(choice);
    sayBefore(choice.view !== null);
    ends.show([0, bins], time, ` (${duration(span)})`);
    strips.render(choice, busy);
    mark(choice, knowsDurations(data) && (choice.rows.length > 0 || choice.latency !== null) ? selection : null);
  }

  // Says how long the time before the VM ran is, and what was lost in it, if it is worth folding away.
  function sayBefore(chosen: boolean): void {
    const { begin } = model;
    const folded = begin > 0 && view[0] >= begin;
    replace(before, begin > 0 && `${model.before(folded ? "folded away" : "shown")} `,
      (begin > 0 || chosen) && button({ class: "link noprint", click: () => change({ view: folded ? [0, bins] : null }) }, folded ? "Show them" : "Show as at first"));
  }

  // Draws the time of the chosen exits, by the bin in which they began. null: hides the chart.
  function mark(choice: Choice, selection: Selection | null): void {
    marked.hidden = selection === null;
    if (!selection) return;
    const most = Math.max(1, ...selection.byTime.values());
    caption.textContent = `Time in the chosen exits, at most ${duration(most)} in ${duration(data.time.bin_ns)}`;
    chosen.element.setAttribute("aria-label", `The chosen ${selection.count} exits over time`);
    chosen.draw(strips.width(), model.scaleOf(choice), { from: 0, to: most },
      [model.edges(), [...selection.byTime, null]]);
  }

  return { element, draw, zoom };
}
