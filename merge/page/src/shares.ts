// Where the time went, per vCPU, over time: stacked shares that can be brushed to an interval.
import type { Choice } from "./choice";
import { h, replace, s, widthOf } from "./dom";
import type { Model, Selection } from "./model";
import { duration, exact, moment, percent, visible } from "./text";
import { kStates, type State, type Vcpu } from "./types";

const kHeight = 72;
const kMark = 12; // the strip of what is chosen
const kSigns: Record<State, string> = {
  guest: "guest",
  kernel: "kernel",
  user: "user (QEMU)",
  preempted: "preempted",
  blocked: "blocked",
  halted: "halted",
};

export type Change = (change: Partial<Choice>) => void;

function sums(vcpus: Vcpu[], time: [number, number] | null): Record<State, number> {
  const result = { guest: 0, kernel: 0, user: 0, preempted: 0, blocked: 0, halted: 0 };
  for (const vcpu of vcpus) {
    for (const state of kStates) {
      const bins = time ? vcpu.shares[state].slice(...time) : vcpu.shares[state];
      for (const ns of bins) result[state] += ns;
    }
  }
  return result;
}

export class Shares {
  readonly element = h("section", { id: "shares", "aria-labelledby": "shares-title" });
  private readonly title = h("h2", { id: "shares-title" });
  private readonly strips = h("div", { class: "strips" });
  private readonly reading = h("p", { class: "reading" });
  private readonly from: HTMLInputElement;
  private readonly to: HTMLInputElement;
  private readonly words = h("output", { class: "interval", for: "time-from time-to" });
  private drag: number | null = null;

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    const bins = model.data.time.bins;
    const slider = (id: string, value: number): HTMLInputElement =>
      h("input", { type: "range", id, min: 0, max: bins, step: 1, value, input: () => this.slid(id) });
    this.from = slider("time-from", 0);
    this.to = slider("time-to", bins);
    this.element.append(
      this.title,
      this.strips,
      this.reading,
      h("div", { class: "controls noprint" },
        h("label", { for: "time-from" }, "Interval from"), this.from,
        h("label", { for: "time-to" }, "to"), this.to, this.words,
        h("button", { type: "button", id: "time-all", click: () => this.change({ time: null }) }, "Whole recording")),
    );
    this.reading.textContent = "Drag over a strip to choose an interval; all other views follow.";
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

  private length(bin: number): number {
    return Math.max(1, this.model.edge(bin + 1) - this.model.edge(bin));
  }

  render(choice: Choice, selection: Selection): void {
    const { data } = this.model;
    const bins = data.time.bins;
    const time = choice.time;
    const span = time ? this.model.edge(time[1]) - this.model.edge(time[0]) : data.duration_ns;
    const wall = Math.max(1, span * data.vcpus.length);
    const all = sums(data.vcpus, time);
    const rest = kStates.filter((state) => state !== "guest").sort((a, b) => all[b] - all[a]);
    const words = rest.filter((x) => all[x] > 0).slice(0, 2)
      .map((x) => `${percent(all[x] / wall)} ${x === "user" ? "in QEMU" : x === "kernel" ? "in the kernel" : x}`);
    this.title.textContent =
      data.vcpus.length === 0
        ? "No vCPU ran while this was recorded"
        : `The guest ran ${percent(all.guest / wall)} of the vCPUs' time` +
          (words.length ? `; ${words.join(", ")}` : "");
    this.from.value = String(time?.[0] ?? 0);
    this.to.value = String(time?.[1] ?? bins);
    const value = (bin: number): string => moment(this.model.edge(bin), 3);
    this.from.setAttribute("aria-valuetext", value(Number(this.from.value)));
    this.to.setAttribute("aria-valuetext", value(Number(this.to.value)));
    this.words.textContent = `${value(time?.[0] ?? 0)} to ${value(time?.[1] ?? bins)} (${duration(span)})`;
    const narrowed = choice.rows.length > 0 || choice.latency !== null;
    replace(this.strips, ...data.vcpus.map((vcpu) => this.strip(vcpu, time, span)),
      narrowed && this.marks(selection), this.axis());
  }

  private plotWidth(): number {
    const width = widthOf(this.strips);
    return width > 640 ? width - 190 : width;
  }

  private strip(vcpu: Vcpu, time: [number, number] | null, span: number): HTMLElement {
    const { data } = this.model;
    const width = this.plotWidth();
    const x = (bin: number): number => (this.model.edge(bin) / Math.max(1, data.duration_ns)) * width;
    const own = sums([vcpu], time);
    const svg = s("svg", {
      class: "strip", width, height: kHeight, viewBox: `0 0 ${width} ${kHeight}`, role: "img",
      "aria-label": `${vcpu.name}: ` + kStates.map((p) => `${kSigns[p]} ${percent(own[p] / Math.max(1, span))}`).join(", "),
    });
    svg.append(s("rect", { class: "ground", width, height: kHeight }));
    const base = new Float64Array(data.time.bins);
    for (const state of kStates) {
      let path = "";
      vcpu.shares[state].forEach((ns, bin) => {
        if (ns === 0) return;
        const part = ns / this.length(bin);
        const y = (1 - (base[bin] ?? 0) - part) * kHeight;
        path += `M${x(bin).toFixed(1)} ${y.toFixed(1)}H${(x(bin + 1) + 0.3).toFixed(1)}v${(part * kHeight).toFixed(1)}H${x(bin).toFixed(1)}z`;
        base[bin] = (base[bin] ?? 0) + part;
      });
      if (path) svg.append(s("path", { class: `p-${state}`, d: path }));
    }
    for (const lost of data.lost) {
      const left = (lost.from / Math.max(1, data.duration_ns)) * width;
      const right = (lost.to / Math.max(1, data.duration_ns)) * width;
      svg.append(s("rect", { class: "lost", x: left, width: Math.max(2, right - left), height: kHeight },
        s("title", {}, `CPU ${lost.cpu}: ${lost.count === 0 ? "events lost (count unknown)" : `${lost.count} events lost`} in ${exact(lost.to - lost.from)}`)));
    }
    if (time) {
      svg.append(s("rect", { class: "outside", width: x(time[0]), height: kHeight }),
        s("rect", { class: "outside", x: x(time[1]), width: Math.max(0, width - x(time[1])), height: kHeight }),
        s("path", { class: "edge", d: `M${x(time[0])} 0V${kHeight}M${x(time[1])} 0V${kHeight}` }));
    }
    const bin = (event: PointerEvent): number => {
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) / Math.max(1, box.width)) * data.duration_ns;
      return this.model.binAt(at);
    };
    const move = (event: Event): void => {
      const at = bin(event as PointerEvent);
      if (this.drag !== null) {
        this.change({ time: [Math.min(at, this.drag), Math.max(at, this.drag) + 1] });
        return;
      }
      const parts = kStates.filter((p) => (vcpu.shares[p][at] ?? 0) > 0)
        .map((p) => `${kSigns[p]} ${percent((vcpu.shares[p][at] ?? 0) / this.length(at))}`);
      this.reading.textContent = `${visible(vcpu.name)} at ${moment(this.model.edge(at), 3)}: ${parts.join(", ") || "not known"}`;
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.drag = bin(event);
      // The strips are drawn anew while the pointer moves: the window hears it to its end.
      const followed = (next: PointerEvent): void => {
        const box = this.strips.querySelector("svg.strip")?.getBoundingClientRect();
        if (!box || this.drag === null) return;
        const part = ((next.clientX - box.left) / Math.max(1, box.width)) * data.duration_ns;
        const to = this.model.binAt(part);
        this.change({ time: [Math.min(to, this.drag), Math.max(to, this.drag) + 1] });
      };
      const done = (): void => {
        this.drag = null;
        window.removeEventListener("pointermove", followed);
      };
      window.addEventListener("pointermove", followed);
      window.addEventListener("pointerup", done, { once: true });
      window.addEventListener("pointercancel", done, { once: true });
    });
    svg.addEventListener("pointermove", move);
    return h("figure", { class: "vcpu" },
      h("figcaption", {}, h("strong", {}, vcpu.name),
        h("span", { class: "dim" }, ` thread ${vcpu.tid}`)),
      h("div", { class: "beside" }, svg,
        h("ul", { class: "labels" }, ...kStates.filter((p) => own[p] > 0).map((p) =>
          h("li", { title: exact(own[p]) }, h("span", { class: `swatch b-${p}`, "aria-hidden": "true" }),
            h("span", { class: "number" }, percent(own[p] / Math.max(1, span))), ` ${kSigns[p]}`)))));
  }

  // Exit time of what is chosen, by the bin in which the exits began.
  private marks(selection: Selection): HTMLElement {
    const { data } = this.model;
    const width = this.plotWidth();
    const most = Math.max(1, ...selection.byTime.values());
    const svg = s("svg", { class: "marks", width, height: kMark * 2, role: "img",
      "aria-label": `The chosen ${selection.count} exits over time` });
    for (const [bin, ns] of selection.byTime) {
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
    const raw = data.duration_ns / most;
    const size = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
    const step = [1, 2, 5, 10].map((n) => n * size).find((n) => n >= raw) ?? raw;
    for (let at = 0; at <= data.duration_ns; at += step) {
      const left = (at / Math.max(1, data.duration_ns)) * width;
      const end = left > width - 30;
      svg.append(s("path", { class: "tick", d: `M${left.toFixed(1)} 0v4` }),
        s("text", { x: left, y: 15, "text-anchor": at === 0 ? "start" : end ? "end" : "middle" }, at === 0 ? "0" : duration(at)));
    }
    return svg;
  }
}
