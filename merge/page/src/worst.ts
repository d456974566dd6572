// The longest exits, and what happened around one: guest, kernel and QEMU on one zoomable timeline.
import type { Choice } from "./choice";
import { cell, clip, column, currentLook, h, name, numbers, renew, replace, section, table, time } from "./dom";
import { knowsDurations, kernelOf, kRecordDurations } from "./known";
import { low, type Model } from "./model";
import { NearView } from "./near";
import type { Change } from "./shares";
import { stepsPicture } from "./steps";
import { exitParts } from "./table";
import { duration, moment, momentOption, quoted, without } from "./text";
import { kParts, type Neighbourhood, type WorstExit } from "./types";

const kShown = 20;

// "Preempted: kworker/1:1 (tid 35) ran 2.10 ms, …. Blocked: disk 1.20 ms. "
function waiting(exit: WorstExit): (Node | string)[] {
  return (["preempted", "blocked"] as const).flatMap((part) => {
    const sums = new Map<string, number>();
    for (const [of, who, begin, end] of exit.waits) if (of === part) sums.set(who, (sums.get(who) ?? 0) + end - begin);
    const list = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 4);
    if (list.length === 0) return [];
    return [part === "preempted" ? "Ready to run: " : "Asleep: ", ...list.flatMap(([who, ns], i) => [i ? ", " : "", name(who), ` ${duration(ns)}`]), ". "];
  });
}

export class Worst {
  private readonly title = h("h2");
  readonly element = section("worst", this.title);
  private readonly steps = h("div");
  private readonly body = h("tbody");
  private readonly under = h("p", { class: "dim" });
  private readonly panel = h("div", { id: "exit", class: "panel", hidden: true });
  private near: NearView | null = null;
  private shown: { exit: number; look: number } | null = null;
  private readonly functions: boolean; // known of any

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    this.functions = model.data.worst.some((exit) => exit.function !== "-");
    if (!knowsDurations(model.data)) {
      this.element.append(h("p", { class: "empty" }, kRecordDurations));
      return;
    }
    const heads = ["Parts", "vCPU", "Reason", "Detail", "Device", ...(this.functions ? ["Guest function"] : []), "Ran instead"];
    const rows = table("Longest exits, table", [numbers("Began"), numbers("Took"), ...heads.map((text) => column(text))], this.body);
    rows.classList.add("tall");
    this.element.append(this.steps, rows, this.under, this.panel);
  }

  private value(exit: WorstExit, dimension: string): string {
    if (dimension === "reason" || dimension === "detail" || dimension === "device" || dimension === "function" || dimension === "vcpu") return exit[dimension];
    return "";
  }

  private fits(exit: WorstExit, choice: Choice): boolean {
    const bin = this.model.binAt(exit.start);
    if (choice.time && (bin < choice.time[0] || bin >= choice.time[1])) return false;
    if (choice.latency && (exit.total_ns < low(choice.latency[0]) || exit.total_ns >= low(choice.latency[1]))) return false;
    return choice.rows.every((row) => {
      const keys = row.by.split(",").map((d) => this.value(exit, d)).join(" / ");
      return keys === row.key || (row.by === "detail" && row.key === "page fault" && keys.startsWith("page-fault")) || row.by.includes("qemu-event");
    });
  }

  render(choice: Choice): void {
    if (!knowsDurations(this.model.data)) {
      replace(this.title, "Which exits were the longest was not recorded");
      return;
    }
    const { worst } = this.model.data;
    const fitting = worst.map((exit, i) => [exit, i] as const).filter(([exit]) => this.fits(exit, choice));
    const first = fitting[0]?.[0];
    replace(this.title, ...(first
      ? [`The longest exit${fitting.length < worst.length ? " of these" : ""} took ${duration(first.total_ns)}: `, name(first.reason),
        first.detail !== "-" && `, ${clip(first.detail, 40)}`, first.device !== "-" && `, ${clip(first.device, 40)}`]
      : ["None of the longest exits is in what is chosen"]));
    const looked = (choice.worst === null ? undefined : worst[choice.worst]) ?? first;
    replace(this.steps, looked && stepsPicture(looked, looked.neighbourhood === null ? undefined : this.model.data.neighbourhoods[looked.neighbourhood], this.steps));
    const shown = fitting.slice(0, choice.all ? undefined : kShown);
    renew(this.body, "exit", ...shown.map(([exit, i]) => this.row(exit, i, choice)));
    this.under.textContent = worst.length === 0 ? "The recording has no exits but halts."
      : `${shown.length} of ${worst.length} that are kept: the longest, and the longest of each row above; halts are left out. Choose one to see what happened around it.`;
    this.open(choice.worst);
  }

  private row(exit: WorstExit, at: number, choice: Choice): HTMLElement {
    const chosen = choice.worst === at;
    const choose = (): void => this.change({ worst: chosen ? null : at });
    return h("tr", { class: chosen ? "chosen" : "", click: (event) => { if (!(event.target as Element).closest("button")) choose(); } },
      h("th", { scope: "row", class: "number" }, h("button", { type: "button", "data-exit": at, "aria-expanded": String(chosen), "aria-controls": "exit", click: choose },
        h("span", { class: "sign", "aria-hidden": "true" }, chosen ? "▼ " : "▶ "), moment(exit.start))),
      time(exit.total_ns), cell(exitParts(exit, exit.total_ns)), cell(exit.vcpu), cell(name(exit.reason)), cell(name(exit.detail)), cell(name(exit.device)),
      this.functions && cell(name(exit.function)), cell(name(exit.preempted_by)));
  }

  // The same exit stays as it is, with its zoom, while the rest of the page changes.
  private open(at: number | null): void {
    const exit = at === null ? undefined : this.model.data.worst[at];
    this.panel.hidden = !exit;
    if (!exit || at === null) {
      this.shown = null;
      return;
    }
    if (this.shown?.exit === at && this.shown.look === currentLook()) return;
    const near = exit.neighbourhood === null ? undefined : this.model.data.neighbourhoods[exit.neighbourhood];
    const view = this.shown?.exit === at ? (this.near?.view ?? null) : null;
    this.shown = { exit: at, look: currentLook() };
    this.draw(exit, near, view);
  }

  private draw(exit: WorstExit, near: Neighbourhood | undefined, view: [number, number] | null): void {
    const context = Math.max(20_000, Math.floor(exit.total_ns / 4));
    const { command: report, interval } = this.model.data;
    const command = ["trapline", "timeline", ...without(report.slice(1), "--from", "--to"), "--from", momentOption(interval.start_ns, exit.start - context), "--to", momentOption(interval.start_ns, exit.start + exit.total_ns + context)];
    const parts = kParts.filter((p) => exit[`${p}_ns`] > 0).map((p) => `${p === "user" ? "QEMU" : p === "kernel" ? kernelOf(exit) : p} ${duration(exit[`${p}_ns`])}`);
    const heading = h("h3", {}, `${duration(exit.total_ns)} at ${moment(exit.start)}: ${parts.join(", ")}`);
    const how = h("p", { class: "dim" }, ...waiting(exit), h("code", {}, command.map(quoted).join(" ")));
    if (!near) {
      replace(this.panel, heading, h("p", { class: "empty" }, "The events around this exit are not on the page: the command below prints them."), how);
      return;
    }
    this.near = new NearView(near, { start: exit.start, length: exit.total_ns }, view, () => this.change({ worst: null }));
    replace(this.panel, heading, how, this.near.controls, this.near.picture, this.near.list);
    this.near.show();
  }
}
