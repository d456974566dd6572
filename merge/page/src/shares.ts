// Where the time went, per vCPU, over time: stacked shares that can be brushed to an interval.
import type { Choice } from "./choice";
import { blocks, Chart } from "./chart";
import { h, section } from "./dom";
import { kernelOf, knowsDurations, knowsGuest, whose } from "./known";
import type { Model, Selection } from "./model";
import { busyOf, kBusy, Strips, sums } from "./strip";
import { duration, moment, percent, visible } from "./text";
import { kStates, type State } from "./types";

const kMark = 24; // px, height of the chart of chosen exits

export type Change = (change: Partial<Choice>) => void;

export class Shares {
  private readonly title = h("h2");
  readonly element = section("shares", this.title);
  private readonly reading = h("p", { class: "reading" });
  private readonly from: HTMLInputElement;
  private readonly to: HTMLInputElement;
  private readonly words = h("output", { class: "interval", for: "time-from time-to" });
  private readonly strips: Strips;
  private readonly chosen = new Chart({ class: "chosen", height: kMark, series: [{ fill: "accent", paths: blocks() }] });
  private readonly most = h("figcaption");
  private readonly marked = h("figure", { class: "vcpu", hidden: true }, this.most, this.chosen.element);
  private readonly whole: HTMLButtonElement;
  private readonly onlyBusy: HTMLButtonElement;
  private readonly idle: boolean; // more of the vCPUs' time than not

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    const bins = model.data.time.bins;
    const slider = (id: string, value: number): HTMLInputElement =>
      h("input", { type: "range", id, min: 0, max: bins, step: 1, value, input: () => this.slid(id) });
    this.from = slider("time-from", 0);
    this.to = slider("time-to", bins);
    const all = sums(model.data.vcpus, null);
    this.idle = busyOf(all) * 2 < all.time - all.not_seen;
    const show = (busy: boolean, text: string): HTMLButtonElement =>
      h("button", { type: "button", id: busy ? "busy-time" : "all-time", click: () => this.change({ busy }) }, text);
    this.whole = show(false, "All time");
    this.onlyBusy = show(true, "Busy time");
    this.strips = new Strips(model, { read: (text) => { this.reading.textContent = visible(text); },
      brush: (from, to) => this.change({ time: [model.binAt(from), model.binAt(to) + 1] }) });
    const halts = all.halted + all.paused + all.offline > 0 && busyOf(all) > 0;
    this.element.append(
      halts ? h("div", { class: "controls noprint", role: "group", "aria-label": "Time that is shown" }, this.whole, this.onlyBusy, h("span", { class: "dim" }, "busy: without halts")) : "",
      this.strips.element, this.marked, this.reading,
      h("div", { class: "controls noprint" },
        h("label", { for: "time-from" }, "Interval from"), this.from,
        h("label", { for: "time-to" }, "to"), this.to, this.words,
        h("button", { type: "button", id: "time-all", click: () => this.change({ time: null }) }, "Whole recording")),
    );
    this.reading.textContent = "Drag over a strip to choose an interval; the views of exits follow.";
  }

  private slid(id: string): void {
    let [from, to] = [Number(this.from.value), Number(this.to.value)];
    if (from >= to) {
      if (id === "time-from") from = Math.max(0, to - 1);
      else to = Math.min(this.model.data.time.bins, from + 1);
    }
    const whole = from === 0 && to === this.model.data.time.bins;
    this.change({ time: whole || from >= to ? null : [from, to] });
  }

  render(choice: Choice, selection: Selection): void {
    const { data } = this.model;
    const bins = data.time.bins;
    const time = choice.time;
    const span = time ? this.model.edge(time[1]) - this.model.edge(time[0]) : data.duration_ns;
    const all = sums(data.vcpus, time);
    const busy = choice.busy ?? this.idle;
    this.whole.setAttribute("aria-pressed", String(!busy));
    this.onlyBusy.setAttribute("aria-pressed", String(busy));
    const guest = knowsGuest(data);
    const wall = Math.max(1, busy && guest ? busyOf(all) : all.time);
    const rest = (busy ? kBusy : kStates).filter((state) => state !== "guest").sort((a, b) => all[b] - all[a]);
    const words = rest.filter((x) => all[x] > 0).slice(0, 2)
      .map((x) => `${percent(all[x] / wall)} ${this.place(x)}`);
    this.title.textContent =
      data.vcpus.length === 0
        ? "No vCPU ran while this was recorded"
        : !guest
        ? words.length
          ? `Of ${whose(data)} time: ${words.join(", ")}; what the guest took was not recorded (kvm:kvm_exit)`
          : `What ${whose(data)} time went to was not recorded (kvm:kvm_exit)`
        : `The guest ran ${percent(all.guest / wall)} of ${whose(data)} ${busy ? `busy time, ${duration(busyOf(all))}` : "time"}` +
          (words.length ? `; ${words.join(", ")}` : "");
    this.from.value = String(time?.[0] ?? 0);
    this.to.value = String(time?.[1] ?? bins);
    const value = (bin: number): string => moment(this.model.edge(bin), 3);
    this.from.setAttribute("aria-valuetext", value(Number(this.from.value)));
    this.to.setAttribute("aria-valuetext", value(Number(this.to.value)));
    this.words.textContent = `${value(time?.[0] ?? 0)} to ${value(time?.[1] ?? bins)} (${duration(span)})`;
    this.strips.render(time, busy);
    this.mark(knowsDurations(data) && (choice.rows.length > 0 || choice.latency !== null) ? selection : null);
  }

  private place(state: State): string {
    if (state === "user") return "in QEMU";
    if (state !== "kernel") return state;
    const kernel = kernelOf(this.model.data.vcpus[0]);
    return kernel === "kernel" ? "in the kernel" : `in ${kernel}`;
  }

  // Exit time of what is chosen, by the bin in which the exits began.
  private mark(selection: Selection | null): void {
    this.marked.hidden = selection === null;
    if (!selection) return;
    const { duration_ns, time } = this.model.data;
    const most = Math.max(1, ...selection.byTime.values());
    this.most.textContent = `Time in the chosen exits, at most ${duration(most)} in ${duration(time.bin_ns)}`;
    this.chosen.element.setAttribute("aria-label", `The chosen ${selection.count} exits over time`);
    this.chosen.draw(this.strips.width(), { from: 0, to: Math.max(1, duration_ns) }, { from: 0, to: most },
      [this.model.edges(), [...selection.byTime, null]]);
  }
}
