// Charts: uPlot in the page's colours and units. Only shapes and ticks are drawn on its canvas; a name,
// a figure or a hint is an element over the canvas or beside it, which can be found, copied and hovered.
import uPlot from "uplot";
import { currentLook, h, replace } from "./dom";
import { duration } from "./text";

const kLeft = 58; // px, of an axis at the left
const kEdges = [4, 24] as const; // of the first and the last tick's name
const kTop = 8; // above the last name on it
const kBottom = 36; // of a labelled axis at the bottom
const kTicks = 22; // of one without a label
const kLeast = 1.5; // px, of a block that holds anything
const kGap = 0.6;
const kMarkName = 110; // px, of a mark's name
const kShades = 255;
const kFaintest = 56;

// One direction of a chart. Without `say` it has no axis.
export interface Scale {
  from: number;
  to: number;
  log?: boolean;
  label?: string;
  say?: (value: number) => string;
}

export interface Series {
  fill: string; // a colour of page.css, or "hatch"
  alpha?: number;
  paths: uPlot.Series.PathBuilder;
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The pattern of page.css's #hatch.
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

// A time on an axis.
export const sinceStart = (ns: number): string => (ns === 0 ? "0" : duration(ns));

// Filled steps, each from its x to the next one.
export const steps = uPlot.paths.stepped!({ align: 1 });

// A block for each value, from its x to the next one; `part` of `parts` that stand beside each other.
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

// Rectangles from x and y to x and y, the stronger the larger their weight, up to 1.
export type Cell = [left: number, bottom: number, right: number, top: number, weight: number];
export function cells(fill: string, all: () => Cell[]): uPlot.Series.PathBuilder {
  return (plot) => {
    const shades = new Map<string, Path2D>();
    const base = colour(fill);
    const least = kLeast * uPlot.pxRatio;
    for (const [left, bottom, right, top, weight] of all()) {
      const shade = base + Math.round(kFaintest + (kShades - kFaintest) * weight).toString(16).padStart(2, "0");
      const path = shades.get(shade) ?? new Path2D();
      shades.set(shade, path);
      const [x, y] = [plot.valToPos(left, "x", true), plot.valToPos(top, "y", true)];
      path.rect(x, y, Math.max(least, plot.valToPos(right, "x", true) - x - 0.4), Math.max(least, plot.valToPos(bottom, "y", true) - y - 0.4));
    }
    return { fill: shades };
  };
}

function axis(scale: () => Scale, side: number): uPlot.Axis {
  const { say, label } = scale();
  const line = { stroke: colour("line"), width: 1 };
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return { side, show: say !== undefined, size: side === 3 ? kLeft : kTicks, stroke: colour("dim"), font, labelFont: font, gap: 3, space: side === 3 ? 26 : 72,
    ...(label ? { label: () => scale().label ?? "", labelSize: kBottom - kTicks } : {}), grid: { show: false }, ticks: { ...line, size: 4 }, border: { ...line, show: true },
    values: (_, splits) => splits.map((value: number | null) => (value === null || !say ? "" : say(value))) };
}

// A logarithmic axis begins with a round number, from which its ticks are counted.
function range({ from, to, log }: Scale): uPlot.Range.MinMax {
  return log ? uPlot.rangeLog(from, to, 10, false) : [from, to];
}

// What a chart is made of; `draw` gives it its data.
export interface Make {
  class?: string;
  height: number; // px, without axes
  series: Series[];
  pointed?: (x: number, y: number) => void; // a value of each scale
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

  // Draws the values of each series from each x to the next; the last x only ends a block.
  draw(width: number, x: Scale, y: Scale, data: (number | null)[][]): void {
    [this.x, this.y] = [x, y];
    if (this.look !== currentLook()) this.clear();
    this.plot ??= this.create(width);
    this.look = currentLook();
    // At once: elements are put over it.
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

  // Hears a drag over the values to its end, wherever the pointer goes; with a finger too.
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

  // Elements over what is drawn, each at its x; to `to` where they are as wide as that.
  mark(...elements: { x: number; to?: number; element: HTMLElement }[]): void {
    const at = (value: number): number => this.plot!.valToPos(value, "x");
    for (const { x, to, element } of elements) {
      element.classList.toggle("end", at(x) > at(this.x.to) - kMarkName);
      element.style.left = `${at(x)}px`;
      if (to !== undefined) element.style.width = `${Math.max(2, at(to) - at(x))}px`;
    }
    replace(this.over, ...elements.map(({ element }) => element));
  }

  // Leaves out what is before and after.
  select(range: [number, number] | null): void {
    if (!this.plot) return;
    this.element.classList.toggle("selected", range !== null);
    if (!range) return;
    const [left, right] = [this.plot.valToPos(range[0], "x"), this.plot.valToPos(range[1], "x")];
    this.plot.setSelect({ left, width: right - left, top: 0, height: this.make.height }, false);
  }
}
