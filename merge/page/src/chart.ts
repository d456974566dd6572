// Charts, drawn by uPlot in the page's colours and units. The canvas holds only shapes and ticks. Names,
// figures and hints are elements over or beside the canvas, so that readers can search, copy and hover them.
import uPlot from "uplot";
import { currentLook, h, replace } from "./dom";
import { edge, low } from "./model";
import { duration } from "./text";

// All in px.
const kLeft = 58; // width of the axis at the left
export const kEdges = [20, 24] as const; // room for the names of the first and the last tick
const kTop = 8; // room above the highest name at the left
const kBottom = 36; // height of the axis at the bottom
const kTicks = 22; // the same without a label
const kLeast = 1.5; // height of the smallest block
const kGap = 0.6; // between two blocks
const kMarkName = 110; // width of a mark's name

// Opacities of a cell, from 0 to 255.
const kFaintest = 56;
const kStrongest = 255;

// One direction of a chart. A scale without `say` has no axis.
export interface Scale {
  from: number;
  to: number;
  log?: boolean;
  label?: string;
  room?: number; // px, for what `say` returns at the left
  say?: (value: number) => string;
}

export interface Series {
  fill: string; // a colour of page.css, or "hatch"
  alpha?: number;
  paths: uPlot.Series.PathBuilder;
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Returns the pattern that #hatch of page.html has.
function hatch(): CanvasPattern | string {
  const size = Math.round(6 * uPlot.pxRatio);
  const tile = h("canvas", { width: size, height: size });
  const context = tile.getContext("2d");
  if (!context) return colour("bad");
  context.fillStyle = colour("ground");
  context.fillRect(0, 0, size, size);
  context.fillStyle = colour("bad");
  context.fillRect(0, 0, size * 0.4, size);
  const pattern = context.createPattern(tile, "repeat")!;
  pattern.setTransform(new DOMMatrix().rotate(45));
  return pattern;
}

// Formats a time on an axis.
export const sinceStart = (ns: number): string => (ns === 0 ? "0" : duration(ns));

// Fills steps, each as wide as from its x to the next one.
export const steps = uPlot.paths.stepped!({ align: 1 });

// Draws a block for each value, as wide as from its x to the next one. Several series share that width: `part` is
// the place of this one among `parts`.
export function blocks(part = 0, parts = 1): uPlot.Series.PathBuilder {
  return (plot, series, first, last) => {
    const fill = new Path2D();
    const [x, values] = [plot.data[0], plot.data[series]!];
    const floor = plot.bbox.top + plot.bbox.height;
    for (let i = first; i <= last; ++i) {
      const value = values[i];
      if (!value) continue;
      const left = plot.valToPos(x[i]!, "x", true);
      const width = (plot.valToPos(x[i + 1] ?? x[i]!, "x", true) - left) / parts;
      const height = Math.max(kLeast * uPlot.pxRatio, floor - plot.valToPos(value, "y", true));
      fill.rect(left + part * width, floor - height, Math.max(uPlot.pxRatio, width - kGap * uPlot.pxRatio), height);
    }
    return { fill };
  };
}

// Draws rectangles. Their weights, from 0 to 1, are their opacity.
export type Cell = [left: number, bottom: number, right: number, top: number, weight: number];
export function cells(fill: string, all: () => Cell[]): uPlot.Series.PathBuilder {
  return (plot) => {
    const shades = new Map<string, Path2D>();
    const base = colour(fill);
    const least = kLeast * uPlot.pxRatio;
    for (const [left, bottom, right, top, weight] of all()) {
      const shade = base + Math.round(kFaintest + (kStrongest - kFaintest) * weight).toString(16).padStart(2, "0");
      const path = shades.get(shade) ?? new Path2D();
      shades.set(shade, path);
      const [x, y] = [plot.valToPos(left, "x", true), plot.valToPos(top, "y", true)];
      path.rect(x, y, Math.max(least, plot.valToPos(right, "x", true) - x - 0.4), Math.max(least, plot.valToPos(bottom, "y", true) - y - 0.4));
    }
    return { fill: shades };
  };
}

function axis(scale: () => Scale, side: number): uPlot.Axis {
  const { say, label, room = kLeft } = scale();
  const line = { stroke: colour("line"), width: 1 };
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return { side, show: say !== undefined, size: side === 3 ? room : kTicks, stroke: colour("dim"), font, labelFont: font, gap: 3, space: side === 3 ? 26 : 72,
    ...(label ? { label: () => scale().label ?? "", labelSize: kBottom - kTicks } : {}), grid: { show: false }, ticks: { ...line, size: 4 }, border: { ...line, show: true },
    values: (_, splits) => splits.map((value: number | null) => (value === null || !say ? "" : say(value))) };
}

// Rounds the ends of a logarithmic axis: uPlot counts the ticks from its beginning.
function range({ from, to, log }: Scale): uPlot.Range.MinMax {
  return log ? uPlot.rangeLog(from, to, 10, false) : [from, to];
}

// A chart without its data, which `draw` takes.
export interface Make {
  class?: string;
  height: number; // px, without axes
  series: Series[];
  pointed?: (x: number, y: number) => void; // takes values of the scales, not pixels
  clicked?: (x: number) => void;
}

export class Chart {
  readonly element: HTMLElement;
  private readonly over = h("div", { class: "marks" });
  private plot: uPlot | null = null;
  private look = -1;
  private x: Scale = { from: 0, to: 1 };
  private y: Scale = { from: 0, to: 1 };

  constructor(private readonly make: Make) {
    const { clicked } = make;
    this.element = h("div", { class: make.class, role: "img", ...(clicked ? { click: (event) => clicked(this.at(event as MouseEvent)) } : {}) });
  }

  // Draws `data`: the list of x, then a list of values for each series. The last x ends the last block.
  draw(width: number, x: Scale, y: Scale, data: (number | null)[][]): void {
    [this.x, this.y] = [x, y];
    if (this.look !== currentLook()) this.clear();
    this.plot ??= this.create(width);
    this.look = currentLook();
    // uPlot would draw in a microtask, but `mark` and `select` need the scales now.
    this.plot.batch((plot: uPlot) => plot.setData(data as uPlot.AlignedData));
  }

  clear(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private create(width: number): uPlot {
    const { x, y, make } = this;
    const plot = new uPlot({
      width, height: make.height + (y.say ? kTop : 0) + (x.label ? kBottom : x.say ? kTicks : 0), padding: y.say ? [kTop, kEdges[1], 0, 0] : [0, kEdges[1], 0, kEdges[0]],
      legend: { show: false },
      cursor: { show: make.pointed !== undefined, y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, distr: x.log ? 3 : 1, range: () => range(this.x) },
        y: { distr: y.log ? 3 : 1, range: () => range(this.y) },
      },
      axes: [axis(() => this.x, 2), axis(() => this.y, 3)],
      series: [{}, ...make.series.map(({ fill, ...rest }) => ({ ...rest, fill: fill === "hatch" ? hatch : colour(fill), width: 0, points: { show: false } }))],
      hooks: {
        setCursor: [({ cursor: { left = -1, top = -1 } }) => { if (left >= 0) make.pointed?.(plot.posToVal(left, "x"), plot.posToVal(top, "y")); }],
      },
    }, undefined, this.element);
    plot.over.append(this.over);
    return plot;
  }

  private at(event: MouseEvent): number {
    const area = this.plot!.over.getBoundingClientRect();
    return this.plot!.posToVal(Math.max(0, Math.min(area.width, event.clientX - area.left)), "x");
  }

  // Calls back for each move of a drag, also outside the chart. uPlot hears only a mouse; this hears fingers too.
  brush(brushed: (from: number, to: number) => void): void {
    this.element.classList.add("brushed");
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.plot?.over.contains(event.target as Node)) return;
      event.preventDefault();
      const first = this.at(event);
      const moved = (next: PointerEvent): void => brushed(Math.min(this.at(next), first), Math.max(this.at(next), first));
      const done = (): void => window.removeEventListener("pointermove", moved);
      window.addEventListener("pointermove", moved);
      window.addEventListener("pointerup", done, { once: true });
      window.addEventListener("pointercancel", done, { once: true });
    });
  }

  // Puts elements over the chart, each at its x. An element with `to` is as wide as from x to there.
  mark(...elements: { x: number; to?: number; element: HTMLElement }[]): void {
    const at = (value: number): number => this.plot!.valToPos(value, "x");
    for (const { x, to, element } of elements) {
      element.classList.toggle("end", at(x) > at(this.x.to) - kMarkName);
      element.style.left = `${at(x)}px`;
      if (to !== undefined) element.style.width = `${Math.max(2, at(to) - at(x))}px`;
    }
    replace(this.over, ...elements.map(({ element }) => element));
  }

  // Fades the parts before and after the range.
  select(range: [number, number] | null): void {
    if (!this.plot) return;
    this.element.classList.toggle("selected", range !== null);
    if (!range) return;
    const [left, right] = [this.plot.valToPos(range[0], "x"), this.plot.valToPos(range[1], "x")];
    this.plot.setSelect({ left, width: right - left, top: 0, height: this.make.height }, false);
  }
}

export const atMost = (bin: number): string => duration(low(bin + 1));
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
