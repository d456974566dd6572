// The axes of pictures.
import { s } from "./dom";
import { duration } from "./text";

const kLabel = 52; // px

// The next larger 1, 2 or 5 of its power of ten: from tick to tick.
export function roundStep(least: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((n) => n * size).find((n) => n >= least) ?? least;
}

// The logarithmic axis of latencies, under a picture. `x` takes a latency bin, of which `first` and `last` are the ends. Labels that would touch are left out.
export function logAxis(svg: SVGSVGElement, first: number, last: number, x: (bin: number) => number, y: number): void {
  let free = -Infinity;
  const near = x(4 * Math.log2(3)) - x(0) < kLabel;
  for (let size = 1; size < 1e19; size *= 10) {
    for (const n of near ? [1] : [1, 3]) {
      const bin = 4 * Math.log2(size * n);
      if (bin < first || bin > last) continue;
      svg.append(s("path", { class: "tick", d: `M${x(bin).toFixed(1)} ${y}v4` }));
      const end = x(bin) > x(last) - 30;
      const left = end ? x(bin) - kLabel : x(bin) - kLabel / 2;
      if (left < free) continue;
      free = left + kLabel;
      svg.append(s("text", { x: x(bin), y: y + 15, "text-anchor": end ? "end" : "middle" }, duration(size * n)));
    }
  }
  svg.append(s("text", { class: "axis-name", x: x(first), y: y + 29 }, "latency, log scale"));
}
