// The CPU time of the host that each VM took, by the role of its threads: in all, and over time.
import { Chart, sinceStart, steps } from "./chart";
import type { Choice } from "./choice";
import { dim, h, name, nothing, replace, section, swatch, watch, widthOf } from "./dom";
import type { View } from "./drawing";
import type { Model } from "./model";
import { lossMarks, stacked } from "./strip";
import { coloured, number, rowsTable } from "./rows";
import { duration, grouped, moment, percent } from "./text";
import type { Fields, Rows } from "./types";

const kWidth = 240; // px of a bar
const kHeight = 60;
const kRoom = 58; // px, for the axis of CPUs

// The roles of a VM's threads, with the colours of the bars: QEMU's threads, and the kernel's, in shades of one each.
const kRoles: [key: string, text: string, bar: string, fill: string][] = [["vcpu", "vCPU threads", "vcpu", "guest"], ["main_loop", "main loop", "main-loop", "user"],
  ["iothread", "IOThreads", "iothread", "device"], ["vhost", "vhost", "vhost", "reason"], ["io_uring", "io_uring", "uring", "logged"], ["kernel", "kernel threads", "kernel", "kernel"], ["work_items", "kernel workers", "work", "function"], ["other", "other threads", "other", "all"]];

export function hostCpu(model: Model, { rows, sentence }: Rows, times: Rows | undefined): View {
  if (!rows.length) return { element: nothing(section("host-cpu", []), sentence), draw: () => {} };
  const reading = h("p", { class: "reading" });
  const isNew = watch();
  const strips = (times?.rows ?? []).map((row) => {
    const seen = kRoles.filter(([key]) => row[key].length > 0);
    const chart = new Chart({ height: kHeight, pointed: (time) => replace(reading, read(row, model.binAt(time))),
      series: [...seen].reverse().map(([, , , fill]) => ({ fill, paths: steps })) });
    return { row, chart, heights: stacked(model, seen.map(([key]) => row[key])) };
  });
  const mostCpus = Math.max(0, ...strips.flatMap(({ heights: [top = []] }) => top)); // in one bin
  const most = Math.max(1, ...rows.map((row) => row.ns));
  const roles = (row: Fields): [string, string, number][] => kRoles.map(([key, text, colour]): [string, string, number] => [text, colour, row[key]]).filter(([, , ns]) => ns > 0);
  const element = section("host-cpu", [sentence],
    rowsTable("Host CPU of each VM", [["VM", "name", "vm"], ["CPUs", "node", (row) => number(row.cpus < 0.001 ? "< 0.001" : row.cpus.toFixed(3))], ["CPU time", "time", "ns"],
      ["By thread", "node", (row) => coloured(roles(row), Math.max(1, (row.ns / most) * kWidth))],
      ["", "node", (row) => roles(row).flatMap(([role, colour, ns]) => [swatch(colour), `${role} ${percent(ns / Math.max(1, row.ns))}\u2003`])]], rows),
    ...rows.filter((row) => row.idle_wakes > 0).map((row) => h("p", {}, name(`VM ${row.vm}`), `: interrupts that woke its threads on idle CPUs: ${grouped(row.idle_wakes)}. They took ${duration(row.idle_ns)}, which is in no row.`)),
    ...strips.map(({ row, chart }) => h("figure", {}, h("figcaption", {}, h("strong", {}, name(`VM ${row.vm}`)), h("span", { class: "dim" }, " CPUs over time")), chart.element)),
    times && times.left_out > 0 && dim(`${times.left_out} more VMs have no picture.`), strips.length > 0 && reading);

  function draw(choice: Choice): void {
    const x = model.scaleOf(choice);
    const anew = isNew(x.from, x.to);
    for (const { row, chart, heights } of strips) {
      if (anew) {
        chart.element.setAttribute("aria-label", `CPUs of the host that VM ${row.vm} took, over time`);
        chart.draw(widthOf(element), { ...x, say: sinceStart },
          { from: 0, to: mostCpus || 1, room: kRoom, say: (cpus) => String(Number(cpus.toFixed(3))) }, [model.edges(), ...heights]);
        chart.mark(...lossMarks(model, x));
      }
      chart.select(model.chosen(choice));
    }
    if (!reading.textContent) replace(reading, x.from > 0 && `The pictures begin at ${moment(x.from, 3)}. The table counts the whole recording. `, "Point at a picture to read it.");
  }

  // Returns "VM 229 at +1.2 s (16.8 ms): vCPU threads 45 % of a CPU, main loop 3 %".
  function read(row: Fields, bin: number): string {
    const parts = kRoles.filter(([key]) => (row[key][bin] ?? 0) > 0).map(([key, text], i) => `${text} ${percent(row[key][bin] / model.length(bin))}${i ? "" : " of a CPU"}`);
    const [from, to] = [model.edge(bin), model.edge(bin + 1)];
    const lost = model.losses.some((loss) => loss.from < to && loss.to > from) ? "; events were lost" : "";
    return `VM ${row.vm} at ${moment(from, 3)} (${duration(model.length(bin))}): ${parts.join(", ") || "no time is known"}${lost}`;
  }

  return { element, draw };
}
