// One vCPU's time over time, as stacked shares of its states. An interval is marked over the chart.
import { Chart, sinceStart, steps, type Scale } from "./chart";
import type { Choice } from "./choice";
import { currentLook, h, replace, swatch, widthOf } from "./dom";
import { signOf } from "./known";
import type { Model } from "./model";
import { duration, exact, moment, percent } from "./text";
import { kStates, type State, type Vcpu } from "./types";

const kHeight = 72;
const kLabels = 290; // px, width
const kAtOnce = 24; // strips that are drawn before they are seen
// Colours of states that have no colour of their own.
const kFills: Partial<Record<State | "not_seen", string>> = { paused: "line", offline: "line", not_seen: "hatch" };

// The states that make up the report's busy time.
export const kBusy: readonly State[] = ["guest", "kernel", "user", "preempted", "blocked"];

export const busyOf = (all: ReturnType<typeof sums>): number => kBusy.reduce((n, state) => n + all[state], 0);

// Sums up the time in each state over the bins `time`. The result's `time` is the sum of all, not seen included.
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

// Returns marks for a chart over time, where events were lost. Losses before the VM ran stand at the left edge.
export function lossMarks(model: Model, x: Scale): { x: number; to: number; element: HTMLElement }[] {
  return model.losses.filter(({ from, to }) => (to >= x.from && from <= x.to) || to < model.edge(model.begin)).map(({ cpu, from, to, count }) => ({
    x: Math.max(x.from, from), to: Math.max(x.from, Math.min(to, x.to)),
    element: h("div", { class: "lost", title: `CPU ${cpu}: ${count === 0 ? "events lost (count unknown)" : `${count} events lost`} in ${exact(to - from)}, from ${moment(from)}` }) }));
}

// Returns the heights of stacked parts, each of which has its ns by time bin. The highest is the first: it covers all parts.
export function stacked(model: Model, parts: number[][]): number[][] {
  let below = model.edges().fill(0);
  return parts.map((ns) => (below = below.map((height, bin) => height + (ns[bin] ?? 0) / model.length(bin)))).reverse();
}

class Strip {
  readonly element: HTMLElement;
  readonly chart: Chart;
  private readonly full = h("span", { class: "dim" });
  private readonly labels = h("ul", { class: "labels" });
  private readonly seen: (State | "not_seen")[]; // those that the vCPU was in

  // `axis` adds the time below the strip.
  constructor(
    private readonly model: Model,
    private readonly vcpu: Vcpu,
    private readonly axis: boolean,
    read?: (text: string) => void,
  ) {
    this.seen = ([...kStates, "not_seen"] as const).filter((state) => vcpu.shares[state].some((ns) => ns > 0));
    // Draws the highest sum first. Each later series covers all of it but the part of one state.
    this.chart = new Chart({ class: "strip", height: kHeight, ...(read ? { pointed: (time: number) => read(this.reading(model.binAt(time))) } : {}),
      series: [...this.seen].reverse().map((state) => ({ fill: kFills[state] ?? state, paths: steps })) });
    this.element = h("figure", { class: "vcpu" },
      h("figcaption", {}, h("strong", {}, vcpu.name), this.full),
      h("div", { class: "beside" }, this.chart.element, this.labels));
  }

  // `busy` leaves out the halts, and makes the strip as high as its busiest bin.
  draw(width: number, busy: boolean, x: Scale): void {
    const { model, vcpu } = this;
    const drawn: readonly string[] = busy ? kBusy : [...kStates, "not_seen"];
    const heights = stacked(model, this.seen.map((state) => (drawn.includes(state) ? vcpu.shares[state] : [])));
    const full = busy ? Math.min(1, (heights[0] ?? []).reduce((most, height) => Math.max(most, height), 0)) || 1 : 1;
    replace(this.full, ` thread ${vcpu.tid}${busy ? `; the full height is ${percent(full)} of the time` : ""}`);
    this.chart.draw(width, { ...x, ...(this.axis ? { say: sinceStart } : {}) }, { from: 0, to: full },
      [model.edges(), ...heights]);
    this.chart.mark(...lossMarks(model, x));
  }

  mark(time: [number, number] | null, busy: boolean): void {
    const own = sums([this.vcpu], time);
    const states = busy ? kBusy : kStates;
    const span = Math.max(1, states.reduce((n, p) => n + own[p], busy ? 0 : own.not_seen));
    const shown = states.filter((p) => own[p] > 0).map((p): [string, number, string] => [p, own[p], signOf(p, this.vcpu)]);
    if (!busy && own.not_seen > 0) shown.push(["not_recorded", own.not_seen, "not seen"]);
    this.chart.element.setAttribute("aria-label", `${this.vcpu.name}${busy ? ", of its busy time" : ""}: ` + shown.map(([, ns, sign]) => `${sign} ${percent(ns / span)}`).join(", "));
    replace(this.labels, h("li", { class: "dim" }, `% of ${busy ? "its busy time" : "all its time"}`), ...shown.map(([state, ns, sign]) =>
      h("li", { title: exact(ns) }, swatch(state), h("span", { class: "number" }, percent(ns / span)), ` ${sign}`)));
    this.chart.select(this.model.chosen({ time }));
  }

  // Returns "vCPU 0 at +1.2 s: guest 80 %, …".
  private reading(bin: number): string {
    const parts = kStates.filter((p) => (this.vcpu.shares[p][bin] ?? 0) > 0)
      .map((p) => `${signOf(p, this.vcpu)} ${percent((this.vcpu.shares[p][bin] ?? 0) / this.model.length(bin))}`);
    return `${this.vcpu.name} at ${moment(this.model.edge(bin), 3)} (${duration(this.model.length(bin))}): ${parts.join(", ") || "not known"}`;
  }
}

// The strips of a recording's vCPUs. The first strips are drawn at once, the others when they come into
// sight, because a thousand canvases take a gigabyte.
export class Strips {
  readonly element = h("div", { class: "strips", tabindex: 0, role: "group", "aria-label": "Time of each vCPU" });
  private readonly strips: Strip[];
  private readonly unseen = new Map<Element, () => void>();
  private readonly sight = new IntersectionObserver((entries) => entries.filter((one) => one.isIntersecting).forEach(({ target }) => this.unseen.get(target)?.()), { rootMargin: "400px" });
  private drawn = ""; // what the strips show: the look, the kind of time, the bins in sight
  private time: [number, number] | null = null;

  // `read` takes the text of the bin under the pointer, `brush` the times at the ends of a drag.
  constructor(private readonly model: Model, hear?: { read: (text: string) => void; brush: (from: number, to: number) => void }) {
    const { vcpus } = model.data;
    this.strips = vcpus.map((vcpu, i) => new Strip(model, vcpu, i === vcpus.length - 1, hear?.read));
    if (hear) for (const strip of this.strips) strip.chart.brush(hear.brush);
    this.element.append(...this.strips.map((strip) => strip.element));
    window.addEventListener("beforeprint", () => { for (const draw of this.unseen.values()) draw(); });
  }

  render(choice: Choice, busy: boolean): void {
    this.time = choice.time;
    const drawn = [currentLook(), busy, ...this.model.inSight(choice)].join();
    if (this.drawn !== drawn) this.draw(busy, this.model.scaleOf(choice));
    this.drawn = drawn;
    for (const strip of this.strips) strip.mark(choice.time, busy);
  }

  // Returns the width of a chart that has labels beside it, or below it on a narrow page.
  width(): number {
    const width = widthOf(this.element);
    return width > 640 ? width - kLabels : width;
  }

  private draw(busy: boolean, x: Scale): void {
    this.strips.forEach((strip, i) => {
      const draw = (): void => {
        this.sight.unobserve(strip.element);
        this.unseen.delete(strip.element);
        strip.draw(this.width(), busy, x);
        strip.mark(this.time, busy);
      };
      if (i < kAtOnce) {
        draw();
        return;
      }
      strip.chart.clear();
      this.unseen.set(strip.element, draw);
      this.sight.observe(strip.element);
    });
  }
}
