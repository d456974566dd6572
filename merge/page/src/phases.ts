// The boot by phases: how long each lasted, and what its time went to. A phase can be chosen as the
// interval.
import type { Choice } from "./choice";
import { cell, choosable, clip, column, h, name, number, numbers, renew, section, table, time } from "./dom";
import { kernelOf } from "./known";
import type { Model } from "./model";
import type { Change } from "./shares";
import { partsBar } from "./parts_bar";
import { duration, exact, grouped, moment } from "./text";
import { kStates, type Phase, type PhaseShare, type Recording } from "./types";

function bar(phase: Phase): SVGSVGElement {
  return partsBar(kStates.map((state) => [state, phase[`${state}_ns`], state === "kernel" ? kernelOf(phase) : state]));
}

function most(shares: PhaseShare[]): (Node | string)[] {
  const first = shares.find((one) => one.name !== null);
  return first?.name ? [name(clip(first.name, 40)), ` ${duration(first.total_ns)}`] : ["–"];
}

export class Phases {
  readonly element: HTMLElement;
  private readonly body = h("tbody");

  constructor(
    private readonly model: Model,
    private readonly change: Change,
    private readonly phases: NonNullable<Recording["phases"]>,
  ) {
    const longest = [...phases.rows].sort((a, b) => b.ns - a.ns)[0];
    this.element = section("phases", longest ? ["The longest phase, ", name(clip(longest.name, 50)), `, took ${duration(longest.ns)} of ${duration(model.data.duration_ns)}`] : ["No phase began"],
      table("Phases, table", [column("Phase"), numbers("Began"), numbers("Took"), numbers("Exits"), column("vCPUs' time"), column("Most exit time, by device"), column("by guest function")], this.body),
      h("p", { class: "dim" }, "An exit belongs to the phase in which it began. Choose a phase to see its interval, rounded to time bins, in the other views.",
        ...(phases.never.length ? [` These did not begin: ${phases.never.join("; ")}.`] : [])));
  }

  private bins(phase: Phase): [number, number] {
    const from = this.model.binAt(phase.start);
    return [from, Math.max(from, this.model.binAt(phase.start + Math.max(0, phase.ns - 1))) + 1];
  }

  render(choice: Choice): void {
    renew(this.body, "row", ...this.phases.rows.map((phase, i) => {
      const bins = this.bins(phase);
      const chosen = choice.time?.join() === bins.join();
      return choosable(String(i), chosen, () => this.change({ time: chosen ? null : bins }), name(phase.name),
        phase.pattern !== null && phase.pattern !== phase.name && h("small", {}, "from ", name(clip(phase.pattern, 60))),
        number(moment(phase.start, 3), exact(phase.start)), time(phase.ns), number(grouped(phase.exits)),
        cell(bar(phase)), cell(...most(phase.devices)), cell(...most(phase.functions)));
    }));
  }
}
