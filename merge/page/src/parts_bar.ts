// The parts of a time as a bar, with their shares as its label.
import { s } from "./dom";
import { exact, percent } from "./text";

// Of each part its colour (styles p-…) and its time; the third is its name where that is another. `all`:
// the time that is `width` px wide.
export function partsBar(parts: [state: string, ns: number, name?: string][], width = 150, all = parts.reduce((n, [, ns]) => n + ns, 0)): SVGSVGElement {
  const sum = Math.max(1, all);
  const svg = s("svg", { class: "parts", width, height: 12, role: "img",
    "aria-label": parts.filter(([, ns]) => ns > 0).map(([state, ns, name]) => `${name ?? state} ${percent(ns / sum)}`).join(", ") || "no time" });
  let left = 0;
  for (const [state, ns, name] of parts) {
    const size = (ns / sum) * width;
    if (size > 0) svg.append(s("rect", { class: `p-${state}`, x: left, width: size, height: 12 }, s("title", {}, `${name ?? state} ${exact(ns)}`)));
    left += size;
  }
  return svg;
}
