// Provides the figures for Prometheus: counters since the start, with a label for each dimension.
//
//   frames ── add() ──> Figures ── text() ──> a file for node_exporter, or MetricsServer: /metrics
//
// https://prometheus.io/docs/practices/naming/: base units, _total, histograms.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "merge/live/frame_report.h"

namespace trapline::live {

class Figures {
 public:
  // Limits for the series of exits, and of vCPUs, that have their own labels. Later series count as
  // [other], so that the number of series is bounded and no counter decreases.
  static constexpr std::size_t kMostRows = 512, kMostVcpus = 512;
  // Upper bounds of the histograms' buckets in ns: bounds of Histogram, at which its counts are
  // exact.
  static constexpr std::array<std::uint64_t, 11> kBounds = [] {
    std::array<std::uint64_t, 11> bounds{};
    for (std::size_t i = 0; i < bounds.size(); ++i)
      bounds[i] = (std::uint64_t{1} << (10 + 2 * i)) - 1;
    return bounds;
  }();

  void add(const Frame& frame, const Engine& engine);
  // Returns the text in format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct Exits {
    std::uint64_t count = 0;
    Parts parts{};
    bool halts = false;  // all of them are halts
  };
  using Labels = std::string;  // vm="web01",vcpu="0"

  std::map<Labels, Exits> exits_;          // by VM, vCPU and the dimensions of --by
  std::map<Labels, Histogram> durations_;  // by VM and the dimensions of --by
  std::map<Labels, VcpuTotals> vcpus_;
  std::map<Labels, std::uint64_t> host_cpu_;  // ns, by VM and role
  std::map<Labels, FaultTotal> faults_;       // by VM and cause
  std::map<Labels, std::uint64_t> steal_;     // ns, by the culprit's kind
  States known_;                              // states with known times
  bool lacks_entries_ = false;                // ExitTracker::lacks_entries()
  std::uint64_t events_ = 0, lost_ = 0, gaps_ = 0;
};

// Serves the last text at /metrics from a separate thread. Refuses other paths and methods, and
// clients beyond its limits (connections, bytes of a request, seconds).
class MetricsServer {
 public:
  // Opens "ADDR:PORT", or "PORT" on the loopback address. Errors (kUsage): the text is invalid
  // (says what is expected); the address is taken.
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> open(const std::string& address);
  virtual ~MetricsServer() = default;
  virtual void set(std::string_view text) = 0;
};

}  // namespace trapline::live
