// Two sliders that choose a range of whole numbers, with its ends in words. The whole range is no choice.
import { button, h } from "./dom";
import type { Range } from "./zoom";

// `say` returns the words for a number at an end of the range.
export function sliders(id: string, label: string, say: (at: number) => string, choose: (range: Range | null) => void) {
  const ids = [`${id}-from`, `${id}-to`];
  const ends = ids.map((end, i) => h("input", { type: "range", id: end, step: 1, input: () => slid(i) }));
  const words = h("output", { for: ids.join(" ") });
  const element = h("div", { class: "controls noprint" }, h("label", { for: ids[0] }, label), ends[0], h("label", { for: ids[1] }, "to"), ends[1], words,
    button({ id: `${id}-all`, click: () => choose(null) }, "All"));

  // `more` is said after the ends.
  function show(all: Range, range: Range | null, more = ""): void {
    const texts = (range ?? all).map((at, i) => {
      const [end, text] = [ends[i]!, say(at)];
      [end.min, end.max, end.value] = [String(all[0]), String(all[1]), String(at)];
      end.setAttribute("aria-valuetext", text);
      return text;
    });
    words.textContent = `${texts.join(" to ")}${more}`;
  }

  // A slider that meets the other one pushes it.
  function slid(moved: number): void {
    const [first, last] = [Number(ends[0]!.min), Number(ends[0]!.max)];
    let [from, to] = ends.map(({ value }) => Number(value)) as Range;
    if (moved === 0) to = Math.max(to, (from = Math.min(from, last - 1)) + 1);
    else from = Math.min(from, (to = Math.max(to, first + 1)) - 1);
    choose(from <= first && to >= last ? null : [from, to]);
  }

  return { element, show };
}
