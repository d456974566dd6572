// The vCPUs' time, over time: stacked shares that can be brushed to an interval.
import type { Choice } from "./choice";
import { blocks, Chart, kEdges } from "./chart";
import { entitle, h, replace, section } from "./dom";
import { kernelOf, kNoExits, knowsDurations, knowsGuest, theVcpus, whose } from "./known";
import type { Model, Selection } from "./model";
import { Sliders } from "./sliders";
import { busyOf, kBusy, Strips, sums } from "./strip";
import { duration, moment, percent, visible } from "./text";
import { kStates } from "./types";
import { zoomByWheel, zoomed, type Range, type Zoom } from "./zoom";

const kMark = 24; // px, height of the chart of chosen exits
const kLeast = 4; // bins in sight at the deepest zoom

export type Change = (change: Partial<Choice>) => void;

export class Shares {
  readonly element = section("shares", []);
  private readonly reading = h("p", { class: "reading" });
  private readonly sliders: Sliders;
  private readonly strips: Strips;
  private readonly chosen = new Chart({ class: "chosen", height: kMark, series: [{ fill: "accent", paths: blocks() }] });
  private readonly most = h("figcaption");
  private readonly marked = h("figure", { class: "vcpu", hidden: true }, this.most, this.chosen.element);
  private readonly whole: HTMLButtonElement;
  private readonly onlyBusy: HTMLButtonElement;
  private readonly before = h("p", { class: "dim", id: "before" });
  private readonly halts: boolean; // or other time that is not busy
  private view: Range;
  readonly zoom: Zoom; // of the strips

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    const bins = model.data.time.bins;
    this.view = [model.begin, bins];
    const show = (from: number, to: number): void => this.change({ view: from === model.begin && to === bins ? null : [from, to] });
    this.zoom = {
      zoom: (factor, at) => {
        const [from, to] = zoomed(this.view, factor, at, [0, bins], kLeast);
        show(Math.floor(from), Math.ceil(to));
      },
      all: () => show(model.begin, bins),
    };
    const all = sums(model.data.vcpus, null);
    const timeButton = (busy: boolean, text: string): HTMLButtonElement =>
      h("button", { type: "button", id: busy ? "busy-time" : "all-time", click: () => this.change({ busy }) }, text);
    this.sliders = new Sliders("time", "Interval from", (bin) => moment(model.edge(bin), 3), (time) => this.change({ time }));
    this.whole = timeButton(false, "All time");
    this.onlyBusy = timeButton(true, "Busy time");
    this.strips = new Strips(model, { read: (text) => { this.reading.textContent = visible(text); },
      brush: (from, to) => this.change({ time: [model.binAt(from), model.binAt(to) + 1] }) });
    zoomByWheel(this.strips.element, this.zoom, (left) => (left - kEdges[0]) / (this.strips.width() - kEdges[0] - kEdges[1]));
    this.halts = all.halted + all.paused + all.offline > 0 && busyOf(all) > 0;
    this.element.append(
      this.halts ? h("div", { class: "controls noprint", role: "group", "aria-label": "Time that is shown" }, this.whole, this.onlyBusy, h("span", { class: "dim" }, "busy time includes waits for a CPU, and leaves out halts and time offline")) : "",
      this.strips.element, this.marked, this.before, this.reading, this.sliders.element);
    this.reading.textContent = "Drag over a strip to choose an interval: the tables and charts of exits then show only that.";
  }

  render(choice: Choice, selection: Selection): void {
    const { data } = this.model;
    const bins = data.time.bins;
    const time = choice.time;
    const span = time ? this.model.edge(time[1]) - this.model.edge(time[0]) : data.duration_ns;
    const all = sums(data.vcpus, time);
    const busy = choice.busy ?? this.halts;
    this.whole.setAttribute("aria-pressed", String(!busy));
    this.onlyBusy.setAttribute("aria-pressed", String(busy));
    // Shares are of the busy time, as in the report's sentence, whatever time the strips show.
    const guest = knowsGuest(data);
    const wall = Math.max(1, guest ? busyOf(all) : all.time);
    const words = (guest ? kBusy : kStates).filter((state) => state !== "guest" && all[state] > 0).sort((a, b) => all[b] - all[a]).slice(0, 2)
      .map((state) => `${percent(all[state] / wall)} ${state === "user" ? "in QEMU" : state === "kernel" ? `in ${kernelOf(data.vcpus[0]).replace(/^kernel$/, "the kernel")}` : state}`).join(", ");
    entitle(this.element, data.vcpus.length === 0 ? "No vCPU ran while this was recorded"
      : !guest ? (words ? `Of ${whose(data)} time: ${words}; what the guest took was ${kNoExits}` : `What ${whose(data)} time went to was ${kNoExits}`)
      : busyOf(all) === 0 ? `In what is chosen ${theVcpus(data)} had no busy time`
      : `Of ${whose(data)} busy time, ${duration(busyOf(all))}, the guest ran ${percent(all.guest / wall)}${words && `; ${words}`}`);
    this.view = this.model.inSight(choice);
    this.sayBefore(choice);
    this.sliders.show([0, bins], time, ` (${duration(span)})`);
    this.strips.render(choice, busy);
    this.mark(choice, knowsDurations(data) && (choice.rows.length > 0 || choice.latency !== null) ? selection : null);
  }

  // Says how long the time before the VM ran is, and what was lost in it, if it is worth folding away.
  private sayBefore({ view }: Choice): void {
    const { begin, data } = this.model;
    const folded = begin > 0 && this.view[0] >= begin;
    replace(this.before, begin > 0 && `${this.model.before(folded ? "folded away" : "shown")} `,
      (begin > 0 || view !== null) && h("button", { type: "button", class: "link noprint", click: () => this.change({ view: folded ? [0, data.time.bins] : null }) }, folded ? "Show them" : "Show as at first"));
  }

  // Draws the time of the chosen exits, by the bin in which they began. null: hides the chart.
  private mark(choice: Choice, selection: Selection | null): void {
    this.marked.hidden = selection === null;
    if (!selection) return;
    const { time } = this.model.data;
    const most = Math.max(1, ...selection.byTime.values());
    this.most.textContent = `Time in the chosen exits, at most ${duration(most)} in ${duration(time.bin_ns)}`;
    this.chosen.element.setAttribute("aria-label", `The chosen ${selection.count} exits over time`);
    this.chosen.draw(this.strips.width(), this.model.scaleOf(choice), { from: 0, to: most },
      [this.model.edges(), [...selection.byTime, null]]);
  }
}
