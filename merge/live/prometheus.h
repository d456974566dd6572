// The figures as Prometheus reads them: counters since the start, one label a dimension.
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

#include "merge/live/batch.h"

namespace trapline::live {

class Figures {
 public:
  // So many series of exits, and of vCPUs, have labels of their own; what comes then counts for
  // [other], so that the number of series is bounded and no counter falls.
  static constexpr std::size_t kMostRows = 512, kMostVcpus = 512;
  // Upper bounds of the histograms' buckets, in ns: Histogram's own, at which its counts are exact.
  static constexpr std::array<std::uint64_t, 11> kBounds = [] {
    std::array<std::uint64_t, 11> bounds{};
    for (std::size_t i = 0; i < bounds.size(); ++i)
      bounds[i] = (std::uint64_t{1} << (10 + 2 * i)) - 1;
    return bounds;
  }();

  void add(const Frame& frame, const BatchOptions& options, const Engine& engine);
  // In the text format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct Exits {
    std::uint64_t count = 0;
    Parts parts{};
    bool halts = false;  // all of them are
  };
  struct Durations {
    std::uint64_t count = 0, total = 0;
    std::array<std::uint64_t, kBounds.size()> at_most{};
  };
  struct Vcpu {
    std::uint64_t exits = 0;
    std::array<std::uint64_t, kStates> states{};
  };
  using Labels = std::string;  // vm="web01",vcpu="0"

  std::map<Labels, Exits> exits_;          // by VM, vCPU and what --by says
  std::map<Labels, Durations> durations_;  // by VM and what --by says
  std::map<Labels, Vcpu> vcpus_;
  std::map<std::string, std::uint64_t> steal_;  // ns, by the culprit's kind
  States known_;                                // of which there are times
  bool lacks_entries_ = false;                  // ExitTracker::lacks_entries()
  std::uint64_t events_ = 0, lost_ = 0, gaps_ = 0;
};

// Serves the last text at /metrics, by a thread of its own; any other path, method, or a client
// beyond its limits (connections, bytes of a request, seconds) is refused.
class MetricsServer {
 public:
  // "ADDR:PORT" or "PORT", then of the loopback address. Errors (kUsage) name what is expected;
  // that the address is taken.
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> open(const std::string& address);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  void set(std::string_view text);

 private:
  MetricsServer();
  struct Daemon;  // libmicrohttpd's
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace trapline::live
