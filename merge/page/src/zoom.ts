// Zooming and moving what is in sight, by keys and by the wheel, of everything that is drawn over time.
export type Range = [from: number, to: number];

// Returns the range after a zoom about the place `at`, from 0 to 1 of it. `least`: the smallest size.
export function zoomed([from, to]: Range, factor: number, at: number, all: Range, least: number): Range {
  const size = Math.min(all[1] - all[0], Math.max(least, (to - from) * factor));
  return within(from + (to - from) * at - size * at, size, all);
}

export function moved([from, to]: Range, part: number, all: Range): Range {
  return within(from + (to - from) * part, to - from, all);
}

function within(from: number, size: number, [first, last]: Range): Range {
  const begin = Math.max(first, Math.min(from, last - size));
  return [begin, Math.min(last, begin + size)];
}

// Acts of the keys: zoom about a place from 0 to 1, move by a part of what is in sight, show all.
export interface Zoom {
  zoom: (factor: number, at: number) => void;
  move?: (part: number) => void;
  all: () => void;
}

// Does what the key stands for. Returns false if it stands for nothing.
export function zoomByKey({ key }: KeyboardEvent, { zoom, move, all }: Zoom): boolean {
  const acts: Record<string, (() => void) | undefined> = { "+": () => zoom(0.5, 0.5), "=": () => zoom(0.5, 0.5), "-": () => zoom(2, 0.5), "0": all,
    ArrowLeft: move && ((): void => move(-0.2)), ArrowRight: move && ((): void => move(0.2)) };
  acts[key]?.();
  return acts[key] !== undefined;
}

// The wheel zooms with Ctrl or Shift: without them it scrolls the page. `placeOf` takes the px from the left.
export function zoomByWheel(element: HTMLElement, { zoom }: Zoom, placeOf: (left: number, width: number) => number): void {
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = element.getBoundingClientRect();
    zoom((event.deltaY || event.deltaX) > 0 ? 1.4 : 0.7, Math.max(0, Math.min(1, placeOf(event.clientX - box.left, box.width))));
  }, { passive: false });
}
