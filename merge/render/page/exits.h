// What the page keeps of every exit: its combination of values is found once, for cells and tables.
#pragma once

#include "merge/render/page/cells.h"
#include "merge/render/page/combos.h"
#include "merge/render/page/tables.h"

namespace trapline::page {

struct Exits {
  void exit(const ExitSpan& exit, const Pipeline& pipeline) {
    const StackId stack = pipeline.stack_of(exit);
    last = combos.of(exit, stack, pipeline.stacks());
    cells.add(last, exit, pipeline);
    tables.add(last, exit, stack, pipeline.stacks());
  }

  std::uint32_t last = 0;  // the combination of the exit that came last
  Combos combos;
  Cells cells;
  Tables tables;
};

}  // namespace trapline::page
