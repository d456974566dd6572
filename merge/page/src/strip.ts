// One vCPU's time over time, as stacked shares of its states. An interval is marked over the chart.
import { Chart, sinceStart, steps, type Scale } from "./chart";
import type { Choice } from "./choice";
import { h, replace, swatch, watch, widthOf } from "./dom";
import { knowsGuest, signOf } from "./known";
import type { Model } from "./model";
import { duration, exact, moment, percent } from "./text";
import { kStates, type Recording, type State, type Vcpu } from "./types";

const kHeight = 72;
const kLabels = 290; // px, width
const kAtOnce = 24; // strips that are drawn before they are seen
// Colours of states that have no colour of their own.
const kFills: Partial<Record<State | "not_seen", string>> = { paused: "line", offline: "line", not_seen: "hatch" };

// The states that make up the report's busy time.
export const kBusy: readonly State[] = ["guest", "kernel", "user", "preempted", "blocked"];

export const busyOf = (all: ReturnType<typeof sums>): number => kBusy.reduce((n, state) => n + all[state], 0);

// Returns the time of which shares are: the busy time, or all time where the guest's is not known.
export const wholeOf = (data: Recording, all: ReturnType<typeof sums>): number =>
  Math.max(1, knowsGuest(data) ? busyOf(all) : all.time);

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

// Returns the heights of stacked parts, each of which has its ns by time bin. The highest is first: it covers all parts.
export function stacked(model: Model, parts: number[][]): number[][] {
  let below = model.edges().fill(0);
  return parts.map((ns) => (below = below.map((height, bin) => height + (ns[bin] ?? 0) / model.length(bin)))).reverse();
}

// `axis` adds the time below the strip.
function strip(model: Model, vcpu: Vcpu, axis: boolean, read?: (text: string) => void) {
  const full = h("span", { class: "dim" });
  const labels = h("ul", { class: "labels" });
  // The states that the vCPU was in.
  const seen = ([...kStates, "not_seen"] as const).filter((state) => vcpu.shares[state].some((ns) => ns > 0));
  // Draws the highest sum first. Each later series covers all of it but the part of one state.
  const chart = new Chart({ class: "strip", height: kHeight, ...(read ? { pointed: (time: number) => read(reading(model.binAt(time))) } : {}),
    series: [...seen].reverse().map((state) => ({ fill: kFills[state] ?? state, paths: steps })) });
  const element = h("figure", { class: "vcpu" }, h("figcaption", {}, h("strong", {}, vcpu.name), full),
    h("div", { class: "beside" }, chart.element, labels));

  // `busy` leaves out the halts, and makes the strip as high as its busiest bin.
  function draw(width: number, busy: boolean, x: Scale): void {
    const drawn: readonly string[] = busy ? kBusy : [...kStates, "not_seen"];
    const heights = stacked(model, seen.map((state) => (drawn.includes(state) ? vcpu.shares[state] : [])));
    const to = busy ? Math.min(1, (heights[0] ?? []).reduce((most, height) => Math.max(most, height), 0)) || 1 : 1;
    replace(full, ` thread ${vcpu.tid}${vcpu.life ? ` #${vcpu.life}` : ""}${busy ? `; its full height means busy ${to === 1 ? "all the time" : `for ${percent(to)} of the time`}` : ""}`);
    chart.draw(width, { ...x, ...(axis ? { say: sinceStart } : {}) }, { from: 0, to }, [model.edges(), ...heights]);
    chart.mark(...lossMarks(model, x));
  }

  function mark(time: Choice["time"], busy: boolean): void {
    const own = sums([vcpu], time);
    const states = busy ? kBusy : kStates;
    const span = Math.max(1, states.reduce((n, p) => n + own[p], busy ? 0 : own.not_seen));
    const shown = states.filter((p) => own[p] > 0).map((p): [string, number, string] => [p, own[p], signOf(p, vcpu)]);
    if (!busy && own.not_seen > 0) shown.push(["not_recorded", own.not_seen, "not seen"]);
    chart.element.setAttribute("aria-label", `${vcpu.name}${busy ? ", of its busy time" : ""}: ` + shown.map(([, ns, sign]) => `${sign} ${percent(ns / span)}`).join(", "));
    replace(labels, h("li", { class: "dim" }, `% of ${busy ? "its busy time" : "all its time"}`), ...shown.map(([state, ns, sign]) =>
      h("li", { title: exact(ns) }, swatch(state), h("span", { class: "number" }, percent(ns / span)), ` ${sign}`)));
    chart.select(model.chosen({ time }));
  }

  // Returns "vCPU 0 at +1.2 s: guest 80 %, …".
  function reading(bin: number): string {
    const parts = kStates.filter((p) => (vcpu.shares[p][bin] ?? 0) > 0)
      .map((p) => `${signOf(p, vcpu)} ${percent((vcpu.shares[p][bin] ?? 0) / model.length(bin))}`);
    return `${vcpu.name} at ${moment(model.edge(bin), 3)} (${duration(model.length(bin))}): ${parts.join(", ") || "not known"}`;
  }

  return { element, chart, draw, mark };
}

// The strips of a recording's vCPUs. The first strips are drawn at once, the others when they come into
// sight, because a thousand canvases take a gigabyte. `read` takes the text of the bin under the pointer,
// `brush` the times at the ends of a drag.
export function stripsOf(model: Model, hear?: { read: (text: string) => void; brush: (from: number, to: number) => void }) {
  const { vcpus } = model.data;
  const strips = vcpus.map((vcpu, i) => strip(model, vcpu, i === vcpus.length - 1, hear?.read));
  if (hear) for (const { chart } of strips) chart.brush(hear.brush);
  const element = h("div", { class: "strips", tabindex: 0, role: "group", "aria-label": "Time of each vCPU" },
    ...strips.map((one) => one.element));
  const unseen = new Map<Element, () => void>();
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) unseen.get(target)?.();
  }, { rootMargin: "400px" });
  window.addEventListener("beforeprint", () => { for (const draw of unseen.values()) draw(); });
  const isNew = watch();
  let time: Choice["time"] = null;

  function render(choice: Choice, busy: boolean): void {
    ({ time } = choice);
    if (isNew(busy, ...model.inSight(choice))) draw(busy, model.scaleOf(choice));
    for (const one of strips) one.mark(time, busy);
  }

  // Returns the width of a chart that has labels beside it, or below it on a narrow page.
  function width(): number {
    const all = widthOf(element);
    return all > 640 ? all - kLabels : all;
  }

  function draw(busy: boolean, x: Scale): void {
    strips.forEach((strip, i) => {
      const draw = (): void => {
        sight.unobserve(strip.element);
        unseen.delete(strip.element);
        strip.draw(width(), busy, x);
        strip.mark(time, busy);
      };
      if (i < kAtOnce) return draw();
      strip.chart.clear();
      unseen.set(strip.element, draw);
      sight.observe(strip.element);
    });
  }

  return { element, render, width };
}
