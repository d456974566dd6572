// --by span: how long requests took, and what came before and after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "merge/analyze/request_spans.h"
#include "merge/analyze/vhost_tracker.h"
#include "merge/model/histogram.h"
#include "merge/report/groups.h"
#include "merge/report/table.h"

namespace trapline {

struct ReportData;

// The times before and after the requests of a row, without those that were not seen or are
// ambiguous.
struct RequestPathRow {
  std::string key;
  std::uint64_t requests = 0;
  Histogram from_notify;   // from the exit with the guest's notify to the beginning of the request
  Histogram to_injection;  // from its end to the injection of the interrupt
  Histogram whole;         // from the exit to the injection, for requests that have both
  // Interrupts through KVM's eventfd; interrupts injected by the hardware.
  std::uint64_t irqfd = 0, posted = 0;
  // The parts of a request's time, from events of block devices. The four sum to the whole time.
  Histogram to_block;        // from its beginning to the first bio
  Histogram in_block_layer;  // to the first request of the disk's driver
  Histogram in_disk;         // to the end of the last one
  Histogram from_disk;       // to the end of the request
};

// A kernel thread that serves a device's queues, "vhost-PID": how often it was woken, with or
// without a guest's notify; how long until it ran and until it slept again; the time from the exit
// of a notify to the first interrupt that it raised, and from there to the injection.
struct VhostRow : VhostTracker::Worker {
  ThreadId thread{};
  std::string vm_name;  // the VM's name, given by its owner
};

class RequestTable {
 public:
  void add(const RequestSpan& request);
  void add(const Delivered& delivered);
  void report(ReportData& report, const Pipeline& pipeline) const;

 private:
  struct Row {
    GroupRow request;
    RequestPathRow path;
  };
  [[nodiscard]] Row& row(std::size_t spec);
  static void add(const BlockTimes& block, const RequestSpan& request, RequestPathRow& path);
  static void report_vhost(ReportData& report, const Pipeline& pipeline);

  std::vector<Row> rows_;  // by spec
};

// Returns the table of what comes before and after requests, and of the kernel threads that serve
// them.
[[nodiscard]] Table request_path_table(const ReportData& report);
[[nodiscard]] Table vhost_table(const ReportData& report);

}  // namespace trapline
