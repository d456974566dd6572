#include "merge/live/frame.h"

namespace trapline::live {

std::size_t Frame::size() const {
  std::size_t bytes = sizeof(Frame) + cells.capacity() * sizeof(Cell) +
                      slow.capacity() * sizeof(SlowExit) + vcpus.capacity() * sizeof(VcpuUse) +
                      requests.capacity() * sizeof(RequestTotals);
  for (const Cell& cell : cells) bytes += cell.total.size();
  for (const RequestTotals& row : requests) bytes += row.total.size();
  // A row has two texts that may be on the heap.
  return bytes + (waits.preempted.rows.size() + waits.blocked.rows.size()) * sizeof(WaitRow) * 2;
}

}  // namespace trapline::live
