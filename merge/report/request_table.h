// --by span: how long requests took, and what came before and after them.
#pragma once

#include <vector>

#include "merge/analyze/request_path.h"
#include "merge/analyze/request_spans.h"
#include "merge/report/report.h"

namespace trapline {

class RequestTable {
 public:
  // Borrows `names`; no specs: the requests that QEMU's own devices trace.
  RequestTable(const std::vector<RequestSpec>& specs, Names& names,
               const std::vector<tracetool::Event>& declared);
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;

  // `process` is that of the event's thread; `qemu` the QEMU event that a marker is, or nullptr.
  void on(const Event& event, ThreadId process, const QemuEvent* qemu);
  // Call once, after the last event.
  void report(Report& report);

 private:
  void take(const RequestSpan& request);

  RequestSpans spans_;
  RequestPath path_;
  std::vector<GroupRow> rows_;         // by spec
  std::vector<RequestPathRow> paths_;  // by spec
};

}  // namespace trapline
