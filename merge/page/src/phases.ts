// The boot by phases: how long each lasted, and what its time went to. A phase can be chosen as the
// interval.
import type { Choice } from "./choice";
import { clip, h, name, replace, scroll } from "./dom";
import { kernelOf } from "./known";
import type { Model } from "./model";
import type { Change } from "./shares";
import { partsBar } from "./parts_bar";
import { duration, exact, grouped, moment } from "./text";
import { kStates, type Phase, type PhaseShare } from "./types";

function bar(phase: Phase): SVGSVGElement {
  return partsBar(kStates.map((state) => [state, phase[`${state}_ns`], state === "kernel" ? kernelOf(phase) : state]));
}

function most(shares: PhaseShare[]): (Node | string)[] {
  const first = shares.find((one) => one.name !== null);
  return first?.name ? [name(clip(first.name, 40)), ` ${duration(first.total_ns)}`] : ["–"];
}

export class Phases {
  readonly element: HTMLElement | null = null;
  private readonly body = h("tbody");

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    const { phases } = model.data;
    if (!phases) return;
    const longest = [...phases.rows].sort((a, b) => b.ns - a.ns)[0];
    const heads = ["Took", "Exits"];
    this.element = h("section", { id: "phases", "aria-labelledby": "phases-title" },
      h("h2", { id: "phases-title" }, ...(longest ? ["The longest phase, ", name(clip(longest.name, 50)), `, took ${duration(longest.ns)} of ${duration(model.data.duration_ns)}`] : ["No phase began"])),
      scroll("Phases, table",
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Phase"), h("th", { scope: "col", class: "number" }, "Began"),
          ...heads.map((text) => h("th", { scope: "col", class: "number" }, text)),
          h("th", { scope: "col" }, "vCPUs' time"), h("th", { scope: "col" }, "Most exit time, by device"), h("th", { scope: "col" }, "by guest function"))),
        this.body),
      h("p", { class: "dim" }, "An exit belongs to the phase in which it began. Choose a phase to see its interval, rounded to time bins, in the other views.",
        ...(phases.never.length ? [` These did not begin: ${phases.never.join("; ")}.`] : [])));
  }

  private bins(phase: Phase): [number, number] {
    const from = this.model.binAt(phase.start);
    return [from, Math.max(from, this.model.binAt(phase.start + Math.max(0, phase.ns - 1))) + 1];
  }

  render(choice: Choice): void {
    const rows = this.model.data.phases?.rows ?? [];
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.["phase"];
    replace(this.body, ...rows.map((phase, i) => {
      const bins = this.bins(phase);
      const chosen = choice.time?.join() === bins.join();
      const choose = (): void => this.change({ time: chosen ? null : bins });
      return h("tr", { class: chosen ? "chosen" : "", click: (event) => { if (!(event.target as Element).closest("button")) choose(); } },
        h("th", { scope: "row" }, h("button", { type: "button", "data-phase": i, "aria-pressed": String(chosen), click: choose },
          h("span", { class: "sign", "aria-hidden": "true" }, chosen ? "● " : "○ "), name(phase.name)),
          phase.pattern !== null && phase.pattern !== phase.name && h("small", {}, "from ", name(clip(phase.pattern, 60)))),
        h("td", { class: "number", title: exact(phase.start) }, moment(phase.start, 3)),
        h("td", { class: "number", title: exact(phase.ns) }, duration(phase.ns)), h("td", { class: "number" }, grouped(phase.exits)),
        h("td", {}, bar(phase)), h("td", {}, ...most(phase.devices)), h("td", {}, ...most(phase.functions)));
    }));
    if (focused !== undefined) this.body.querySelector<HTMLElement>(`[data-phase="${Number(focused)}"]`)?.focus();
  }
}
