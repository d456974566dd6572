// The steps of one exit in their order, to scale, with their durations and who caused them.
import { dim, h, name, s, swatch, widthOf } from "./dom";
import { kernelOf } from "./known";
import { duration, exact, moment, percent } from "./text";
import { kParts, type Neighbourhood, type Part, type WorstExit } from "./types";

const kHeight = 26;
const kNamed = 7; // steps; shorter ones between them are told together
const kBracket = 16; // px, below the steps that are told together
const kDigits = 18; // px, of a step's number

interface Step {
  kind: Part | "other" | "lost"; // styles p-…
  what: string;
  who: string; // "" where nothing tells
  ns: number;
  of?: Step[]; // short ones that are told together
}

// Returns the names by time as a text: one or two names, or the first and the number of others.
function longest(sums: Map<string, number>): string {
  const names = [...sums].sort((a, b) => b[1] - a[1]).map(([who]) => who);
  return names.length > 2 ? `${names[0]} and ${names.length - 1} others` : names.join(", ");
}

// Returns the threads that ran instead of the exit's, or for which it waited, from `begin` to `end`.
export function culprits(exit: WorstExit, part: Part, begin: number, end: number): string {
  const sums = new Map<string, number>();
  for (const [of, who, from, to] of exit.waits) {
    const ns = Math.min(end, to) - Math.max(begin, from);
    if (of === part && ns > 0) sums.set(who, (sums.get(who) ?? 0) + ns);
  }
  return longest(sums);
}

// Returns QEMU's events from `begin` to `end`, but those of its accelerator; else the exit's device.
function handlers(exit: WorstExit, near: Neighbourhood, begin: number, end: number): string {
  const counts = new Map<string, number>();
  for (const [, from, to, kind, text] of near.spans) {
    if (kind === "handler" && !text.startsWith("kvm_") && from <= end && to >= begin) counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return longest(counts) || (exit.device === "-" ? "" : exit.device);
}

function stepsOf(exit: WorstExit, near: Neighbourhood): Step[] {
  const end = exit.start + exit.total_ns;
  const parts = near.spans.filter(([, from, to, kind]) => (kParts as readonly string[]).includes(kind) && from < end && to > exit.start)
    .sort((a, b) => a[1] - b[1]);
  const steps: Step[] = [];
  let at = exit.start;
  const missing = (to: number): unknown => to > at && steps.push({ kind: "lost", what: "not on this page", who: "", ns: to - at });
  for (const [, from, to, of] of parts) {
    const [begin, until] = [Math.max(at, from), Math.min(end, to)];
    if (until <= begin) continue;
    missing(begin);
    const kind = of as Part;
    const who = kind === "user" ? handlers(exit, near, begin, until) : kind === "kernel" ? "" : culprits(exit, kind, begin, until);
    steps.push({ kind, what: kind === "user" ? `QEMU${who && ` (access to ${who})`}` : kind === "kernel" ? kernelOf(exit) : kind, who: kind === "user" ? "" : who, ns: until - begin });
    at = until;
  }
  missing(end);
  return steps;
}

// Joins steps that are not among the longest with neighbours that are not either.
function named(steps: Step[]): Step[] {
  const least = steps.map(({ ns }) => ns).sort((a, b) => b - a)[kNamed - 1] ?? 0;
  const together: Step[][] = [];
  for (const step of steps) {
    const last = together.at(-1);
    if (last && step.ns < least && last[0]!.ns < least) last.push(step);
    else together.push([step]);
  }
  return together.map((of): Step => of.length === 1 ? of[0]!
    : { kind: "other", what: `${of.length} steps: ${added(of, true).join(" + ")} =`, who: "", ns: of.reduce((n, { ns }) => n + ns, 0), of });
}

// Returns the sums of steps of one kind, by their first; of all steps the largest first, of a few also by what each waited for.
function added(steps: Step[], by_who: boolean): string[] {
  const sums = new Map<string, [ns: number, times: number]>();
  for (const { what, who, ns } of steps) {
    const name = who && by_who ? `${what} (${who})` : what;
    sums.set(name, [(sums.get(name)?.[0] ?? 0) + ns, (sums.get(name)?.[1] ?? 0) + 1]);
  }
  return (by_who ? [...sums] : [...sums].sort((a, b) => b[1][0] - a[1][0])).map(([what, [ns, times]]) => `${duration(ns)} ${what}${by_who && times > 1 ? ` (in ${times} steps)` : ""}`);
}

// `inside`: the element whose width the picture has.
export function stepsPicture(exit: WorstExit, near: Neighbourhood | undefined, inside: HTMLElement): HTMLElement {
  const caption = h("figcaption", {}, `Steps of the exit at ${moment(exit.start)} on ${exit.vcpu}, to scale, in order of time. To keep the list short, some neighbours share a number`);
  if (!near) {
    return h("figure", { class: "steps" }, caption, dim("The order of its parts is not on this page; choose it for the command that prints them."));
  }
  const all = stepsOf(exit, near);
  const steps = named(all);
  const told = ({ what, who, ns }: Step): string => `${what}${who ? `: ${who}` : ""} ${duration(ns)}`;
  const width = widthOf(inside);
  const svg = s("svg", { width, height: kHeight + (steps.some(({ of }) => of) ? kBracket : 0), role: "img", "aria-label": steps.map(told).join(", then ") });
  let left = 0;
  steps.forEach((step, i) => {
    const first = left;
    for (const one of step.of ?? [step]) {
      const size = (one.ns / Math.max(1, exit.total_ns)) * width;
      svg.append(s("rect", { class: `p-${one.kind}`, x: left, width: Math.max(0.3, step.of ? size : size - 1), height: kHeight }, s("title", {}, `${one.what}${one.who ? `: ${one.who}` : ""}: ${exact(one.ns)}`)));
      left += size;
    }
    if (step.of && left - first > 2) {
      svg.append(s("path", { class: "edge", d: `M${first + 0.5} ${kHeight + 1}v3H${left - 1}v-3` }),
        s("text", { class: "on-other", x: Math.max(4, Math.min(width - 8, (first + left) / 2)), y: kHeight + 14, "text-anchor": "middle" }, String(i + 1)));
    } else if (left - first > kDigits) svg.append(s("text", { class: `on-${step.kind}`, x: (first + left) / 2, y: 17, "text-anchor": "middle" }, String(i + 1)));
  });
  return h("figure", { class: "steps" }, caption, svg, all.length > steps.length && h("p", {}, `In all: ${added(all, false).join("; ")}`), h("ol", {}, ...steps.map((step) =>
    h("li", { title: exact(step.ns) }, ...[...new Set((step.of ?? [step]).map(({ kind }) => kind))].map(swatch), step.what, step.who && ": ", step.who && name(step.who),
      h("strong", { class: "number" }, ` ${duration(step.ns)}`), h("span", { class: "dim" }, ` ${percent(step.ns / Math.max(1, exit.total_ns))}`)))));
}
