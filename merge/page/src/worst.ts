// The longest exits, and what happened around one: guest, kernel and QEMU on one zoomable timeline.
import type { Change, Choice } from "./choice";
import { button, clip, currentLook, dim, entitle, h, name, nothing, replace, section } from "./dom";
import type { View } from "./drawing";
import { knowsDurations, kernelOf, kRecord } from "./known";
import { low, type Model } from "./model";
import { nearView } from "./near";
import { drawRows, emptyTable, partsBar, type Column } from "./rows";
import { culprits, stepsPicture } from "./steps";
import { kBar } from "./table";
import { duration, moment, partOf, quoted } from "./text";
import { kParts, type Neighbourhood, type WorstExit } from "./types";

const kShown = 20;

export function worst(model: Model, change: Change): View {
  const { worst } = model.data;
  const element = section("worst", []);
  const steps = h("div");
  const table = emptyTable("Longest exits", "tall");
  const under = dim();
  const more = button({ class: "noprint", click: () => change({ all: true }) });
  const panel = h("div", { id: "exit", class: "panel", hidden: true });
  let near: ReturnType<typeof nearView> | null = null;
  let opened: number | null = null;
  let look = -1;
  // Threads of vCPUs have the names that they have elsewhere; the recording's are "comm-tid".
  const whoIs = (thread: string) => model.data.vcpus.find(({ tid }) => thread.endsWith(`-${tid}`))?.name ?? thread.replace(/-(\d+)$/, " (tid $1)");
  const functions: Column<WorstExit>[] = [["Guest function", "name", "function"]];
  const columns: Column<WorstExit>[] = [["Began", "moment", "start"], ["Took", "time", "total_ns"], ["Parts", "node", (exit) => partsBar(exit, kParts, kBar)],
    ["vCPU", "name", "vcpu"], ["Reason", "name", "reason"], ["Detail", "name", "detail"],
    ["Device", "node", (exit) => name(exit.device, "device")], ...(worst.some((exit) => exit.function !== "-") ? functions : []),
    ["Ran instead", "name", (exit) => (exit.preempted_ns > 0 ? culprits(exit, "preempted", exit.start, exit.start + exit.total_ns) || whoIs(exit.preempted_by) : null)]];
  element.append(steps, table, under, more, panel);

  function fits(exit: WorstExit, choice: Choice): boolean {
    const bin = model.binAt(exit.start);
    if (choice.time && (bin < choice.time[0] || bin >= choice.time[1])) return false;
    if (choice.latency && (exit.total_ns < low(choice.latency[0]) || exit.total_ns >= low(choice.latency[1]))) return false;
    return choice.rows.every((row) => {
      const keys = row.by.split(",").map((d) => exit[d as "reason"] ?? "").join(" / ");
      return keys === row.key || (row.by === "detail" && row.key === "page fault" && keys.startsWith("page-fault")) || row.by.includes("qemu-event");
    });
  }

  function draw(choice: Choice): void {
    if (!knowsDurations(model.data)) return void nothing(element, "Which exits were the longest was not recorded", kRecord);
    if (worst.length === 0) return void nothing(element, "The recording has no exits but halts");
    const fitting = worst.map((exit, i) => [exit, i] as const).filter(([exit]) => fits(exit, choice));
    const first = fitting[0]?.[0];
    entitle(element, ...(first
      ? [`The longest exit${fitting.length < worst.length ? " of these" : ""} took ${duration(first.total_ns)}: `, name(first.reason),
        first.detail !== "-" && `, ${clip(first.detail, 40)}`, first.device !== "-" && `, ${clip(first.device, 40)}`]
      : ["None of the longest exits is in what is chosen"]));
    const looked = (choice.worst === null ? undefined : worst[choice.worst]) ?? first;
    replace(steps, looked && stepsPicture(looked, around(looked), steps));
    const shown = fitting.slice(0, choice.all ? undefined : kShown);
    drawRows(table, columns, shown.map(([exit]) => exit), (_, at) => {
      const exit = shown[at]![1];
      return { key: String(exit), chosen: choice.worst === exit, choose: () => change({ worst: choice.worst === exit ? null : exit }) };
    });
    under.textContent = `The page holds the longest exits, and the longest of each row of the table of exits, without halts; trapline report --slower-than TIME lists every exit that took TIME or more. Choose one to see what happened around it.${shown.some(([exit]) => exit.reason === "npf" && exit.detail === "-") ? " Where the detail of an npf is not known, its address was not recorded (kvm:kvm_page_fault)." : ""}`;
    more.hidden = shown.length === fitting.length;
    more.textContent = `Show all ${fitting.length}`;
    open(choice.worst);
  }

  // Shows an exit in the panel. If it is shown already, it keeps its zoom while the page changes.
  function open(at: number | null): void {
    const exit = at === null ? undefined : worst[at];
    panel.hidden = !exit;
    if (exit && opened !== at) fill(exit);
    else if (look === currentLook()) return;
    [opened, look] = [at, currentLook()];
    if (exit) near?.show();
  }

  function fill(exit: WorstExit): void {
    const context = Math.max(20_000, Math.floor(exit.total_ns / 4));
    const { command: report, interval } = model.data;
    const command = ["trapline", "timeline", ...partOf(report.slice(1), interval.start_ns, exit.start - context, exit.start + exit.total_ns + context)];
    const parts = kParts.filter((p) => exit[`${p}_ns`] > 0).map((p) => `${p === "user" ? "QEMU" : p === "kernel" ? kernelOf(exit) : p} ${duration(exit[`${p}_ns`])}`);
    const events = around(exit);
    near = events ? nearView(events, exit, () => change({ worst: null })) : null;
    replace(panel, h("h3", {}, `${duration(exit.total_ns)} at ${moment(exit.start)}: ${parts.join(", ")}`),
      !near && h("p", { class: "empty" }, "The events around this exit are not on the page: this command prints them."), dim(h("code", {}, command.map(quoted).join(" "))),
      ...(near?.elements ?? []));
  }

  function around({ neighbourhood }: WorstExit): Neighbourhood | undefined {
    return neighbourhood === null ? undefined : model.data.neighbourhoods[neighbourhood];
  }

  return { element, draw };
}
