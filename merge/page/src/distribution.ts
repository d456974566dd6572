// Distributions of latencies, on a logarithmic axis.
import type { Chart, Scale } from "./chart";
import { edge, low } from "./model";
import { duration } from "./text";

export const latencyRange = (bin: number): string => `${duration(low(bin))} to ${duration(low(bin + 1))}`;

// Draws a series of blocks for each side. A side has a value for each latency bin that holds exits.
export function drawDistribution(chart: Chart, what: string, width: number, y: Omit<Scale, "from">, sides: Map<number, number>[]): void {
  const bins = sides.flatMap((side) => [...side.keys()]);
  const [first, last] = bins.length > 0 ? [Math.min(...bins) - 1, Math.max(...bins) + 2] : [-1, 5];
  const all = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  chart.element.setAttribute("aria-label", `${what}, logarithmic axis, from ${duration(low(Math.max(0, first)))} to ${duration(low(last))}`);
  chart.draw(Math.max(280, width), { from: edge(first), to: edge(last), log: true, label: "latency, log scale", say: duration }, { from: 0, ...y },
    [all.map(edge), ...sides.map((side) => all.map((bin) => side.get(bin) ?? null))]);
}
