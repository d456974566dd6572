// --by span: how long requests took, and what came before and after them.
#pragma once

#include <vector>

#include "merge/analyze/request_path.h"
#include "merge/analyze/request_spans.h"
#include "merge/report/report.h"

namespace trapline {

class RequestTable {
 public:
  void add(const RequestSpan& request);
  void add(const Delivered& delivered);
  void report(Report& report, const RequestSpans& spans, const RequestPath& path) const;

 private:
  struct Row {
    GroupRow request;
    RequestPathRow path;
  };
  [[nodiscard]] Row& row(std::size_t spec);

  std::vector<Row> rows_;  // by spec
};

}  // namespace trapline
