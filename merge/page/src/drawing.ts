// Draws the views once a frame at most, and no more of them than a frame has time for: the one that is
// brushed, then those in sight, those first that waited longest, then the others.
//
//   change ──> all views are stale ──> frame: the brushed one ──> one more ──> others, for kShare ──┐
//                                      frame: …  <── while some are stale ─────────────────────────┘

import type { Choice } from "./choice";
import { changeLook } from "./dom";
import type { Selection } from "./model";

const kShare = 4; // ms of a frame
const kAround = "100px"; // out of sight, but soon in it

// A part of the page with the function that draws it, of a choice and its selection if nothing else is given.
export interface View<Shown extends unknown[] = [Choice, Selection]> {
  element: HTMLElement;
  draw: (...shown: Shown) => void;
}

export class Drawing<Shown extends unknown[]> {
  private readonly stale = new Set<View<Shown>>(); // those first that waited longest
  private readonly seen = new Set<Element>();
  private frame = 0;
  private shown: Shown | null = null; // null: changed

  // The first view is the one that is brushed. `prepare` is called after each change, before any view is drawn, and
  // returns what the views show.
  constructor(
    private readonly views: View<Shown>[],
    private readonly prepare: () => Shown,
  ) {
    const watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.seen[isIntersecting ? "add" : "delete"](target);
    }, { rootMargin: kAround });
    for (const view of views) watch.observe(view.element);
    window.addEventListener("beforeprint", () => this.all());
  }

  // Marks all views to be drawn anew.
  change(): void {
    for (const view of this.views) this.stale.add(view);
    this.shown = null;
    document.documentElement.dataset["drawing"] = "";
    this.frame ||= requestAnimationFrame(() => this.draw(kShare));
  }

  // Marks all views to be drawn anew for another look: other widths, or another theme.
  readonly again = (): void => {
    changeLook();
    this.change();
  };

  // Draws all stale views at once.
  all(): void {
    this.draw(Infinity);
  }

  private draw(share: number): void {
    this.frame = 0;
    const start = performance.now();
    this.shown ??= this.prepare();
    const rank = (view: View<Shown>): number => (view === this.views[0] ? 0 : this.seen.has(view.element) ? 1 : 2);
    for (const [i, view] of [...this.stale].sort((a, b) => rank(a) - rank(b)).entries()) {
      if (i > 1 && performance.now() - start > share) break;
      this.stale.delete(view);
      view.draw(...this.shown);
    }
    if (this.stale.size > 0) this.frame = requestAnimationFrame(() => this.draw(kShare));
    else delete document.documentElement.dataset["drawing"];
  }
}
