// Draws the views once a frame at most, and no more of them than a frame has time for: the one that is
// brushed, then those in sight, those first that waited longest, then the others.
//
//   change ──> all views are stale ──> frame: the brushed one ──> one more ──> others, for kShare ──┐
//                                      frame: …  <── while some are stale ─────────────────────────┘

const kShare = 4; // ms of a frame
const kAround = "100px"; // out of sight, but soon in it

export interface View {
  element: HTMLElement;
  draw: () => void;
}

export class Drawing {
  private readonly stale = new Set<View>(); // those first that waited longest
  private readonly seen = new Set<Element>();
  private frame = 0;
  private changed = false;

  // The first view is the one that is brushed. `prepare` is called after each change, before any view is drawn.
  constructor(
    private readonly views: View[],
    private readonly prepare: () => void,
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
    this.changed = true;
    document.documentElement.dataset["drawing"] = "";
    this.frame ||= requestAnimationFrame(() => this.draw(kShare));
  }

  // Draws all stale views at once.
  all(): void {
    this.draw(Infinity);
  }

  private draw(share: number): void {
    this.frame = 0;
    const start = performance.now();
    if (this.changed) this.prepare();
    this.changed = false;
    const rank = (view: View): number => (view === this.views[0] ? 0 : this.seen.has(view.element) ? 1 : 2);
    for (const [i, view] of [...this.stale].sort((a, b) => rank(a) - rank(b)).entries()) {
      if (i > 1 && performance.now() - start > share) break;
      this.stale.delete(view);
      view.draw();
    }
    if (this.stale.size > 0) this.frame = requestAnimationFrame(() => this.draw(kShare));
    else delete document.documentElement.dataset["drawing"];
  }
}
