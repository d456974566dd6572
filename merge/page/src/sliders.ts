// Two sliders that choose a range of whole numbers, with its ends in words. The whole range is no choice.
import { h } from "./dom";

export class Sliders {
  readonly element: HTMLElement;
  private readonly ends: HTMLInputElement[];
  private readonly words: HTMLOutputElement;
  private all: [number, number] = [0, 1];

  // `say` returns the words for a number at an end of the range.
  constructor(id: string, label: string, private readonly say: (at: number) => string, private readonly choose: (range: [number, number] | null) => void) {
    const ids = [`${id}-from`, `${id}-to`];
    this.ends = ids.map((end, i) => h("input", { type: "range", id: end, step: 1, input: () => this.slid(i) }));
    this.words = h("output", { for: ids.join(" ") });
    this.element = h("div", { class: "controls noprint" }, h("label", { for: ids[0] }, label), this.ends[0], h("label", { for: ids[1] }, "to"), this.ends[1], this.words,
      h("button", { type: "button", id: `${id}-all`, click: () => choose(null) }, "All"));
  }

  // `more` is said after the ends.
  show(all: [number, number], range: [number, number] | null, more = ""): void {
    this.all = all;
    const texts = (range ?? all).map((at, i) => {
      const [end, text] = [this.ends[i]!, this.say(at)];
      [end.min, end.max, end.value] = [String(all[0]), String(all[1]), String(at)];
      end.setAttribute("aria-valuetext", text);
      return text;
    });
    this.words.textContent = `${texts.join(" to ")}${more}`;
  }

  // A slider that meets the other one pushes it.
  private slid(moved: number): void {
    let [from, to] = this.ends.map(({ value }) => Number(value)) as [number, number];
    if (from >= to) [from, to] = moved === 0 ? [Math.min(from, this.all[1] - 1), Math.min(from, this.all[1] - 1) + 1] : [Math.max(to, this.all[0] + 1) - 1, Math.max(to, this.all[0] + 1)];
    this.choose(from <= this.all[0] && to >= this.all[1] ? null : [from, to]);
  }
}
