// Where the time went, per vCPU, over time: stacked shares that can be brushed to an interval.
import type { Choice } from "./choice";
import { roundStep } from "./axis";
import { currentLook, h, replace, s, widthOf } from "./dom";
import { kernelOf, knowsDurations, knowsGuest } from "./known";
import type { Model, Selection } from "./model";
import { kBusy, Strip, sums } from "./strip";
import { duration, exact, moment, percent, visible } from "./text";
import { kStates, type State } from "./types";

const kMark = 12; // the strip of what is chosen

export type Change = (change: Partial<Choice>) => void;

const busyOf = (all: ReturnType<typeof sums>): number => kBusy.reduce((n, state) => n + all[state], 0);

export class Shares {
  readonly element = h("section", { id: "shares", "aria-labelledby": "shares-title" });
  private readonly title = h("h2", { id: "shares-title" });
  private readonly strips = h("div", { class: "strips" });
  private readonly reading = h("p", { class: "reading" });
  private readonly from: HTMLInputElement;
  private readonly to: HTMLInputElement;
  private readonly words = h("output", { class: "interval", for: "time-from time-to" });
  private readonly marked = h("div");
  private readonly whole: HTMLButtonElement;
  private readonly onlyBusy: HTMLButtonElement;
  private readonly idle: boolean; // more of the vCPUs' time than not
  private drawn: { look: number; busy: boolean; strips: Strip[] } | null = null;

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
    const halts = all.halted + all.paused + all.offline > 0 && busyOf(all) > 0;
    this.element.append(
      this.title,
      halts ? h("div", { class: "controls noprint", role: "group", "aria-label": "Time that is shown" }, this.whole, this.onlyBusy, h("span", { class: "dim" }, "busy: without halts")) : "",
      this.strips,
      this.reading,
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
          ? `Of the vCPUs' time: ${words.join(", ")}; what the guest took was not recorded (kvm:kvm_exit)`
          : "What the vCPUs' time went to was not recorded (kvm:kvm_exit)"
        : `The guest ran ${percent(all.guest / wall)} of the vCPUs' ${busy ? `busy time, ${duration(busyOf(all))}` : "time"}` +
          (words.length ? `; ${words.join(", ")}` : "");
    this.from.value = String(time?.[0] ?? 0);
    this.to.value = String(time?.[1] ?? bins);
    const value = (bin: number): string => moment(this.model.edge(bin), 3);
    this.from.setAttribute("aria-valuetext", value(Number(this.from.value)));
    this.to.setAttribute("aria-valuetext", value(Number(this.to.value)));
    this.words.textContent = `${value(time?.[0] ?? 0)} to ${value(time?.[1] ?? bins)} (${duration(span)})`;
    const narrowed = knowsDurations(data) && (choice.rows.length > 0 || choice.latency !== null);
    for (const strip of this.shown(busy)) strip.mark(time);
    replace(this.marked, narrowed && this.marks(selection));
  }

  private place(state: State): string {
    if (state === "user") return "in QEMU";
    if (state !== "kernel") return state;
    const kernel = kernelOf(this.model.data.vcpus[0]);
    return kernel === "kernel" ? "in the kernel" : `in ${kernel}`;
  }

  private plotWidth(): number {
    const width = widthOf(this.strips);
    return width > 640 ? width - 190 : width;
  }

  private shown(busy: boolean): Strip[] {
    if (this.drawn?.look === currentLook() && this.drawn.busy === busy) return this.drawn.strips;
    const strips = this.model.data.vcpus.map((vcpu) => new Strip(this.model, vcpu, this.plotWidth(), busy));
    for (const strip of strips) this.follow(strip);
    replace(this.strips, ...strips.map((strip) => strip.element), this.marked, this.axis());
    this.drawn = { look: currentLook(), busy, strips };
    return strips;
  }

  // A drag is heard to its end, wherever the pointer goes.
  private follow(strip: Strip): void {
    const { svg } = strip;
    const bin = (event: PointerEvent): number => {
      const box = svg.getBoundingClientRect();
      return this.model.binAt(((event.clientX - box.left) / Math.max(1, box.width)) * this.model.data.duration_ns);
    };
    svg.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) this.reading.textContent = visible(strip.reading(bin(event)));
    });
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      const first = bin(event);
      const moved = (next: PointerEvent): void => {
        const to = bin(next);
        this.change({ time: [Math.min(to, first), Math.max(to, first) + 1] });
      };
      const done = (): void => window.removeEventListener("pointermove", moved);
      window.addEventListener("pointermove", moved);
      window.addEventListener("pointerup", done, { once: true });
      window.addEventListener("pointercancel", done, { once: true });
    });
  }

  // Exit time of what is chosen, by the bin in which the exits began.
  private marks(selection: Selection): HTMLElement {
    const { data } = this.model;
    const width = this.plotWidth();
    const most = Math.max(1, ...selection.byTime.values());
    const svg = s("svg", { class: "marks", width, height: kMark * 2, role: "img",
      "aria-label": `The chosen ${selection.count} exits over time` });
    for (const [bin, ns] of selection.byTime.entries()) {
      if (ns === 0) continue;
      const left = (this.model.edge(bin) / Math.max(1, data.duration_ns)) * width;
      const size = Math.max(1.5, (ns / most) * kMark * 2);
      svg.append(s("rect", { class: "chosen", x: left, y: kMark * 2 - size, height: size,
        width: Math.max(1, (data.time.bin_ns / Math.max(1, data.duration_ns)) * width - 0.3) },
        s("title", {}, `${moment(this.model.edge(bin), 3)}: ${exact(ns)} in chosen exits`)));
    }
    return h("figure", { class: "vcpu" }, h("figcaption", {}, `Time in the chosen exits, at most ${duration(most)} in ${duration(data.time.bin_ns)}`), svg);
  }

  private axis(): SVGSVGElement {
    const { data } = this.model;
    const width = this.plotWidth();
    const svg = s("svg", { class: "axis", width, height: 20, "aria-hidden": "true" });
    const most = Math.max(2, Math.floor(width / 110));
    const step = roundStep(data.duration_ns / most);
    for (let at = 0; at <= data.duration_ns; at += step) {
      const left = (at / Math.max(1, data.duration_ns)) * width;
      const end = left > width - 30;
      svg.append(s("path", { class: "tick", d: `M${left.toFixed(1)} 0v4` }),
        s("text", { x: left, y: 15, "text-anchor": at === 0 ? "start" : end ? "end" : "middle" }, at === 0 ? "0" : duration(at)));
    }
    return svg;
  }
}
