// What the page keeps of every exit: its combination of values is found once, for cells and tables.
#pragma once

#include "merge/render/page/cells.h"
#include "merge/render/page/combos.h"
#include "merge/render/page/tables.h"

namespace trapline::page {

class Exits : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    const StackId stack = pipeline.stack_of(exit);
    const std::uint32_t combo = combos.of(exit, stack, pipeline.stacks());
    cells.add(combo, exit, pipeline);
    tables.add(combo, exit, stack, pipeline.stacks());
  }

  Combos combos;
  Cells cells;
  Tables tables;
};

}  // namespace trapline::page
