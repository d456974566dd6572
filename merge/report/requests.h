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
  Histogram to_injection;  // from the request's end to the injection of the interrupt
  Histogram whole;         // from the exit to the injection, for requests that have both
  // irqfd: interrupts through KVM's eventfd; posted: interrupts that the hardware injected.
  std::uint64_t irqfd = 0, posted = 0;
  // The parts of a request's time, from events of block devices. The four sum to the whole time.
  Histogram to_block;        // from the request's beginning to its first bio
  Histogram in_block_layer;  // from the first bio to the first request of the disk's driver
  Histogram in_disk;         // from the driver's first request to the end of its last one
  Histogram from_disk;       // from the end of the driver's last request to the request's end
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

  std::vector<Row> rows_;  // by the index of the request's spec
};

// request_path_table() returns what comes before and after requests, vhost_table() the kernel
// threads that serve requests.
[[nodiscard]] Table request_path_table(const ReportData& report);
[[nodiscard]] Table vhost_table(const ReportData& report);

}  // namespace trapline
