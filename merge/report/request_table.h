// --by span: how long requests took, and what came before and after them.
#pragma once

#include <vector>

#include "merge/analyze/request_path.h"
#include "merge/analyze/request_spans.h"
#include "merge/report/report.h"

namespace trapline {

class Pipeline;

class RequestTable {
 public:
  void add(const RequestSpan& request);
  void add(const Delivered& delivered);
  void report(Report& report, const Pipeline& pipeline) const;

 private:
  struct Row {
    GroupRow request;
    RequestPathRow path;
  };
  [[nodiscard]] Row& row(std::size_t spec);
  static void add(const BlockTimes& block, const RequestSpan& request, RequestPathRow& path);
  static void report_vhost(Report& report, const Pipeline& pipeline);

  std::vector<Row> rows_;  // by spec
};

}  // namespace trapline
