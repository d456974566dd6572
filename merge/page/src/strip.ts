// One vCPU's time over time: stacked shares of its states. The picture stays; an interval is marked
// over it.
import { h, replace, s } from "./dom";
import { kernelOf } from "./known";
import type { Model } from "./model";
import { duration, exact, moment, percent } from "./text";
import { kStates, type State, type Vcpu } from "./types";

const kHeight = 72;
export const kSigns: Record<State, string> = {
  guest: "guest",
  kernel: "kernel",
  user: "user (QEMU)",
  preempted: "preempted",
  blocked: "blocked",
  halted: "halted",
  paused: "paused",
  offline: "offline",
};

// In which a vCPU ran, or could have: the report's busy time.
export const kBusy: readonly State[] = ["guest", "kernel", "user", "preempted", "blocked"];

// `time`: of them all, what is not seen too.
export function sums(vcpus: Vcpu[], time: [number, number] | null): Record<State | "not_seen" | "time", number> {
  const result = { guest: 0, kernel: 0, user: 0, preempted: 0, blocked: 0, halted: 0, paused: 0, offline: 0, not_seen: 0, time: 0 };
  for (const vcpu of vcpus) {
    for (const state of [...kStates, "not_seen"] as const) {
      const bins = vcpu.shares[state];
      const end = Math.min(bins.length, time?.[1] ?? bins.length);
      for (let bin = time?.[0] ?? 0; bin < end; ++bin) {
        result[state] += bins[bin]!;
        result.time += bins[bin]!;
      }
    }
  }
  return result;
}

export class Strip {
  readonly element: HTMLElement;
  readonly svg: SVGSVGElement;
  private readonly marks = s("g");
  private readonly labels = h("ul", { class: "labels" });
  private readonly states: readonly State[];
  private readonly full: number; // the share of a bin that the strip's whole height stands for

  constructor(
    private readonly model: Model,
    private readonly vcpu: Vcpu,
    private readonly width: number,
    private readonly busy = false,
  ) {
    this.states = busy ? kBusy : kStates;
    this.full = busy ? this.most() : 1;
    this.svg = s("svg", { class: "strip", width, height: kHeight, viewBox: `0 0 ${width} ${kHeight}`, role: "img" });
    this.svg.append(s("rect", { class: "ground", width, height: kHeight }));
    this.stack();
    this.losses();
    this.svg.append(this.marks);
    this.element = h("figure", { class: "vcpu" },
      h("figcaption", {}, h("strong", {}, vcpu.name), h("span", { class: "dim" }, ` thread ${vcpu.tid}${busy ? `; the full height is ${percent(this.full)} of the time` : ""}`)),
      h("div", { class: "beside" }, this.svg, this.labels));
  }

  private sign(state: State): string {
    return state === "kernel" ? kernelOf(this.vcpu) : kSigns[state];
  }

  private length(bin: number): number {
    return Math.max(1, this.model.edge(bin + 1) - this.model.edge(bin));
  }

  private x(bin: number): number {
    return (this.model.edge(bin) / Math.max(1, this.model.data.duration_ns)) * this.width;
  }

  // The largest share of a bin that is busy; at least something.
  private most(): number {
    const shares = Array.from({ length: this.model.data.time.bins }, (_, bin) => kBusy.reduce((n, state) => n + (this.vcpu.shares[state][bin] ?? 0), 0) / this.length(bin));
    return Math.min(1, shares.reduce((most, share) => Math.max(most, share), 0)) || 1;
  }

  private stack(): void {
    const base = new Float64Array(this.model.data.time.bins);
    for (const state of this.busy ? this.states : ([...this.states, "not_seen"] as const)) {
      let path = "";
      this.vcpu.shares[state].forEach((ns, bin) => {
        if (ns === 0) return;
        const part = ns / this.length(bin) / this.full;
        const y = (1 - (base[bin] ?? 0) - part) * kHeight;
        path += `M${this.x(bin).toFixed(1)} ${y.toFixed(1)}H${(this.x(bin + 1) + 0.3).toFixed(1)}v${(part * kHeight).toFixed(1)}H${this.x(bin).toFixed(1)}z`;
        base[bin] = (base[bin] ?? 0) + part;
      });
      if (path) this.svg.append(s("path", { class: `p-${state === "not_seen" ? "lost" : state}`, d: path }));
    }
  }

  private losses(): void {
    const { data } = this.model;
    for (const lost of data.lost) {
      const left = (lost.from / Math.max(1, data.duration_ns)) * this.width;
      const right = (lost.to / Math.max(1, data.duration_ns)) * this.width;
      this.svg.append(s("rect", { class: "lost", x: left, width: Math.max(2, right - left), height: kHeight },
        s("title", {}, `CPU ${lost.cpu}: ${lost.count === 0 ? "events lost (count unknown)" : `${lost.count} events lost`} in ${exact(lost.to - lost.from)}`)));
    }
  }

  mark(time: [number, number] | null): void {
    const own = sums([this.vcpu], time);
    const span = Math.max(1, this.states.reduce((n, p) => n + own[p], this.busy ? 0 : own.not_seen));
    const shown = this.states.filter((p) => own[p] > 0).map((p): [string, number, string] => [p, own[p], this.sign(p)]);
    if (!this.busy && own.not_seen > 0) shown.push(["not_recorded", own.not_seen, "not seen"]);
    this.svg.setAttribute("aria-label", `${this.vcpu.name}${this.busy ? ", of its busy time" : ""}: ` + shown.map(([, ns, sign]) => `${sign} ${percent(ns / span)}`).join(", "));
    replace(this.labels, ...shown.map(([state, ns, sign]) =>
      h("li", { title: exact(ns) }, h("span", { class: `swatch b-${state}`, "aria-hidden": "true" }),
        h("span", { class: "number" }, percent(ns / span)), ` ${sign}`)));
    if (!time) {
      replace(this.marks);
      return;
    }
    const [left, right] = [this.x(time[0]), this.x(time[1])];
    replace(this.marks, s("rect", { class: "outside", width: left, height: kHeight }),
      s("rect", { class: "outside", x: right, width: Math.max(0, this.width - right), height: kHeight }),
      s("path", { class: "edge", d: `M${left} 0V${kHeight}M${right} 0V${kHeight}` }));
  }

  // "vCPU 0 at +1.2 s: guest 80 %, …"
  reading(bin: number): string {
    const parts = kStates.filter((p) => (this.vcpu.shares[p][bin] ?? 0) > 0)
      .map((p) => `${this.sign(p)} ${percent((this.vcpu.shares[p][bin] ?? 0) / this.length(bin))}`);
    return `${this.vcpu.name} at ${moment(this.model.edge(bin), 3)} (${duration(this.length(bin))}): ${parts.join(", ") || "not known"}`;
  }
}
