// The parts of a time as a bar, with their shares as its label.
import { s } from "./dom";
import { exact, percent } from "./text";

const kBar = 150;

// Of each part its colour (styles p-…) and its time; the third is its name where that is another.
export function partsBar(parts: [state: string, ns: number, name?: string][]): SVGSVGElement {
  const sum = Math.max(1, parts.reduce((n, [, ns]) => n + ns, 0));
  const svg = s("svg", { class: "parts", width: kBar, height: 12, role: "img",
    "aria-label": parts.filter(([, ns]) => ns > 0).map(([state, ns, name]) => `${name ?? state} ${percent(ns / sum)}`).join(", ") || "no time" });
  let left = 0;
  for (const [state, ns, name] of parts) {
    const size = (ns / sum) * kBar;
    if (size > 0) svg.append(s("rect", { class: `p-${state}`, x: left, width: size, height: 12 }, s("title", {}, `${name ?? state} ${exact(ns)}`)));
    left += size;
  }
  return svg;
}
