// The longest exits, and what happened around one: guest, kernel and QEMU on one zoomable timeline.
import type { Choice } from "./choice";
import { clip, currentLook, entitle, h, name, nothing, replace, section } from "./dom";
import { knowsDurations, kernelOf, kRecord } from "./known";
import { low, type Model } from "./model";
import { NearView } from "./near";
import type { Change } from "./shares";
import { drawRows, emptyTable, partsBar, type Column } from "./rows";
import { culprits, stepsPicture } from "./steps";
import { kBar } from "./table";
import { duration, moment, momentOption, quoted, without } from "./text";
import { kParts, type Neighbourhood, type WorstExit } from "./types";

const kShown = 20;

export class Worst {
  readonly element = section("worst", []);
  private readonly steps = h("div");
  private readonly table = emptyTable("Longest exits");
  private readonly under = h("p", { class: "dim" });
  private readonly more = h("button", { type: "button", class: "noprint", click: () => this.change({ all: true }) });
  private readonly panel = h("div", { id: "exit", class: "panel", hidden: true });
  private near: NearView | null = null;
  private shown: number | null = null;
  private look = -1;
  private readonly columns: Column<WorstExit>[];

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    // Threads of vCPUs have the names that they have elsewhere; the recording's are "comm-tid".
    const whoIs = (thread: string) => model.data.vcpus.find(({ tid }) => thread.endsWith(`-${tid}`))?.name ?? thread.replace(/-(\d+)$/, " (tid $1)");
    const functions = model.data.worst.some((exit) => exit.function !== "-");
    this.columns = [["Began", "moment", "start"], ["Took", "time", "total_ns"], ["Parts", "node", (exit) => partsBar(exit, kParts, kBar)], ["vCPU", "name", "vcpu"], ["Reason", "name", "reason"],
      ["Detail", "name", "detail"], ["Device", "node", (exit) => name(exit.device, "device")], ...(functions ? [["Guest function", "name", "function"] as Column<WorstExit>] : []), ["Ran instead", "name", (exit) => (exit.preempted_ns > 0 ? culprits(exit, "preempted", exit.start, exit.start + exit.total_ns) || whoIs(exit.preempted_by) : null)]];
    this.table.classList.add("tall");
    this.element.append(this.steps, this.table, this.under, this.more, this.panel);
  }

  private fits(exit: WorstExit, choice: Choice): boolean {
    const bin = this.model.binAt(exit.start);
    if (choice.time && (bin < choice.time[0] || bin >= choice.time[1])) return false;
    if (choice.latency && (exit.total_ns < low(choice.latency[0]) || exit.total_ns >= low(choice.latency[1]))) return false;
    return choice.rows.every((row) => {
      const keys = row.by.split(",").map((d) => exit[d as "reason"] ?? "").join(" / ");
      return keys === row.key || (row.by === "detail" && row.key === "page fault" && keys.startsWith("page-fault")) || row.by.includes("qemu-event");
    });
  }

  render(choice: Choice): void {
    const { worst } = this.model.data;
    if (!knowsDurations(this.model.data)) nothing(this.element, "Which exits were the longest was not recorded", kRecord);
    else if (worst.length === 0) nothing(this.element, "The recording has no exits but halts");
    if (worst.length === 0 || !knowsDurations(this.model.data)) return;
    const fitting = worst.map((exit, i) => [exit, i] as const).filter(([exit]) => this.fits(exit, choice));
    const first = fitting[0]?.[0];
    entitle(this.element, ...(first
      ? [`The longest exit${fitting.length < worst.length ? " of these" : ""} took ${duration(first.total_ns)}: `, name(first.reason),
        first.detail !== "-" && `, ${clip(first.detail, 40)}`, first.device !== "-" && `, ${clip(first.device, 40)}`]
      : ["None of the longest exits is in what is chosen"]));
    const looked = (choice.worst === null ? undefined : worst[choice.worst]) ?? first;
    replace(this.steps, looked && stepsPicture(looked, this.around(looked), this.steps));
    const shown = fitting.slice(0, choice.all ? undefined : kShown);
    drawRows(this.table, this.columns, shown.map(([exit]) => exit), (_, at) => {
      const exit = shown[at]![1];
      return { key: String(exit), chosen: choice.worst === exit, choose: () => this.change({ worst: choice.worst === exit ? null : exit }) };
    });
    this.under.textContent = `The page holds the longest exits, and the longest of each row of the table of exits, without halts: trapline report --slower-than TIME lists all. Choose one to see what happened around it.`;
    this.more.hidden = shown.length === fitting.length;
    this.more.textContent = `Show all ${fitting.length}`;
    this.open(choice.worst);
  }

  // Shows an exit in the panel. If it is shown already, it keeps its zoom while the page changes.
  private open(at: number | null): void {
    const exit = at === null ? undefined : this.model.data.worst[at];
    this.panel.hidden = !exit;
    if (exit && this.shown !== at) this.fill(exit);
    else if (this.look === currentLook()) return;
    [this.shown, this.look] = [at, currentLook()];
    if (exit) this.near?.show();
  }

  private fill(exit: WorstExit): void {
    const context = Math.max(20_000, Math.floor(exit.total_ns / 4));
    const { command: report, interval } = this.model.data;
    const command = ["trapline", "timeline", ...without(report.slice(1), "--from", "--to"), "--from", momentOption(interval.start_ns, exit.start - context), "--to", momentOption(interval.start_ns, exit.start + exit.total_ns + context)];
    const parts = kParts.filter((p) => exit[`${p}_ns`] > 0).map((p) => `${p === "user" ? "QEMU" : p === "kernel" ? kernelOf(exit) : p} ${duration(exit[`${p}_ns`])}`);
    const near = this.around(exit);
    this.near = near ? new NearView(near, { start: exit.start, length: exit.total_ns }, () => this.change({ worst: null })) : null;
    replace(this.panel, h("h3", {}, `${duration(exit.total_ns)} at ${moment(exit.start)}: ${parts.join(", ")}`),
      !near && h("p", { class: "empty" }, "The events around this exit are not on the page: this command prints them."), h("p", { class: "dim" }, h("code", {}, command.map(quoted).join(" "))),
      this.near?.controls, this.near?.picture, this.near?.list);
  }

  private around({ neighbourhood }: WorstExit): Neighbourhood | undefined {
    return neighbourhood === null ? undefined : this.model.data.neighbourhoods[neighbourhood];
  }
}
