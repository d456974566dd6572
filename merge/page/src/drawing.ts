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

  // Intervals are brushed in the first of the views. `prepare` comes before the first of a change's.
  constructor(
    private readonly views: View[],
    private readonly prepare: () => void,
  ) {
    const watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.seen.add(target);
        else this.seen.delete(target);
      }
      if (this.stale.size > 0) this.ask();
    }, { rootMargin: kAround });
    for (const view of views) watch.observe(view.element);
    window.addEventListener("beforeprint", () => this.all());
  }

  // Everything is to be drawn anew.
  change(): void {
    for (const view of this.views) this.stale.add(view);
    this.changed = true;
    document.documentElement.dataset["drawing"] = "";
    this.ask();
  }

  // At once.
  all(): void {
    this.begin();
    for (const view of [...this.stale]) this.draw(view);
    this.end();
  }

  private ask(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.next());
  }

  private begin(): void {
    if (this.changed) this.prepare();
    this.changed = false;
  }

  private draw(view: View): void {
    this.stale.delete(view);
    view.draw();
  }

  private end(): void {
    if (this.stale.size > 0) this.ask();
    else delete document.documentElement.dataset["drawing"];
  }

  private next(): void {
    this.frame = 0;
    const start = performance.now();
    this.begin();
    const brushed = this.views[0]!;
    if (this.stale.has(brushed)) this.draw(brushed);
    const waiting = [...this.stale];
    const inSight = (view: View): boolean => this.seen.has(view.element);
    const order = [...waiting.filter(inSight), ...waiting.filter((view) => !inSight(view))];
    for (const [i, view] of order.entries()) {
      if (i > 0 && performance.now() - start > kShare) break;
      this.draw(view);
    }
    this.end();
  }
}
