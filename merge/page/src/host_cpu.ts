// The CPU time of the host that each VM took, by the role of its threads: in all, and over time.
import { Chart, sinceStart, steps } from "./chart";
import type { Choice } from "./choice";
import { currentLook, h, name, nothing, replace, section, swatch, widthOf } from "./dom";
import type { Model } from "./model";
import { lossMarks } from "./strip";
import { coloured, number, rowsTable } from "./rows";
import { duration, moment, percent } from "./text";
import type { Fields, Rows } from "./types";

const kWidth = 240; // px of a bar
const kHeight = 60;
const kRoom = 58; // px, for the axis of CPUs

// The roles of a VM's threads, with the colours of the bars: QEMU's threads, and the kernel's, in shades of one each.
const kRoles: [key: string, text: string, bar: string, fill: string][] = [["vcpu", "vCPU threads", "vcpu", "guest"], ["main_loop", "main loop", "main-loop", "user"],
  ["iothread", "IOThreads", "iothread", "device"], ["vhost", "vhost", "vhost", "reason"], ["io_uring", "io_uring", "uring", "logged"], ["kernel", "kernel threads", "kernel", "kernel"], ["work_items", "kernel workers", "work", "function"], ["other", "other threads", "other", "all"]];

interface Strip {
  row: Fields;
  chart: Chart;
  heights: number[][]; // CPUs up to and with each role, the last role first
}

export class HostCpu {
  readonly element: HTMLElement;
  private readonly reading = h("p", { class: "reading" });
  private readonly strips: Strip[];
  private readonly most: number; // CPUs in one bin
  private drawn = "";

  constructor(
    private readonly model: Model,
    { rows, sentence }: Rows,
    times: Rows | undefined,
  ) {
    this.strips = (times?.rows ?? []).map((row) => this.strip(row));
    this.most = Math.max(0, ...this.strips.flatMap(({ heights: [top = []] }) => top));
    if (!rows.length) {
      this.element = nothing(section("host-cpu", []), sentence);
      return;
    }
    const most = Math.max(1, ...rows.map((row) => row.ns));
    const roles = (row: Fields): [string, string, number][] => kRoles.map(([key, text, colour]): [string, string, number] => [text, colour, row[key]]).filter(([, , ns]) => ns > 0);
    this.element = section("host-cpu", [sentence],
      rowsTable("Host CPU of each VM", [["VM", "name", "vm"], ["CPUs", "node", (row) => number(row.cpus < 0.001 ? "< 0.001" : row.cpus.toFixed(3))], ["CPU time", "time", "ns"],
        ["By thread", "node", (row) => coloured(roles(row), Math.max(1, (row.ns / most) * kWidth))],
        ["", "node", (row) => roles(row).flatMap(([role, colour, ns]) => [swatch(colour), `${role} ${percent(ns / Math.max(1, row.ns))}\u2003`])]], rows),
      ...this.strips.map(({ row, chart }) => h("figure", {}, h("figcaption", {}, h("strong", {}, name(`VM ${row.vm}`)), h("span", { class: "dim" }, " CPUs over time")), chart.element)),
      times && times.left_out > 0 && h("p", { class: "dim" }, `${times.left_out} more VMs have no picture.`), this.strips.length > 0 && this.reading);
  }

  private strip(row: Fields): Strip {
    const seen = kRoles.filter(([key]) => row[key].length > 0);
    const { bins } = this.model.data.time;
    let below = new Array<number>(bins + 1).fill(0);
    const heights = seen.map(([key]) => (below = below.map((height, bin) => height + (bin < bins ? (row[key][bin] ?? 0) / this.model.length(bin) : 0)))).reverse();
    const chart = new Chart({ height: kHeight, pointed: (time) => replace(this.reading, this.read(row, this.model.binAt(time))), series: [...seen].reverse().map(([, , , fill]) => ({ fill, paths: steps })) });
    return { row, chart, heights };
  }

  render(choice: Choice): void {
    const x = this.model.scaleOf(choice);
    const drawn = [currentLook(), x.from, x.to].join();
    for (const { row, chart, heights } of this.strips) {
      if (this.drawn !== drawn) {
        chart.element.setAttribute("aria-label", `CPUs of the host that VM ${row.vm} took, over time`);
        chart.draw(widthOf(this.element), { ...x, say: sinceStart },
          { from: 0, to: this.most || 1, room: kRoom, say: (cpus) => String(Number(cpus.toFixed(3))) }, [this.model.edges(), ...heights]);
        chart.mark(...lossMarks(this.model, x));
      }
      chart.select(choice.time && [this.model.edge(choice.time[0]), this.model.edge(choice.time[1])]);
    }
    if (this.drawn === "") replace(this.reading, x.from > 0 && `The pictures begin at ${moment(x.from, 3)}. The table counts the whole recording. `, "Point at a picture to read it.");
    this.drawn = drawn;
  }

  // Returns "VM 229 at +1.2 s (16.8 ms): vCPU threads 45 % of a CPU, main loop 3 %".
  private read(row: Fields, bin: number): string {
    const parts = kRoles.filter(([key]) => (row[key][bin] ?? 0) > 0).map(([key, text], i) => `${text} ${percent(row[key][bin] / this.model.length(bin))}${i ? "" : " of a CPU"}`);
    const [from, to] = [this.model.edge(bin), this.model.edge(bin + 1)];
    const lost = this.model.losses.some((loss) => loss.from < to && loss.to > from) ? "; events were lost" : "";
    return `VM ${row.vm} at ${moment(from, 3)} (${duration(this.model.length(bin))}): ${parts.join(", ") || "no time is known"}${lost}`;
  }
}
