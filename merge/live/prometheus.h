// The figures in Prometheus' text format, for node_exporter's textfile collector: counters since
// the start, and gauges of the last interval.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "merge/live/batch.h"

namespace trapline::live {

class PrometheusFile {
 public:
  // So many rows have a name; what comes then counts for [other].
  static constexpr std::size_t kMostRows = 256;

  explicit PrometheusFile(std::string path) : path_(std::move(path)) {}
  // Adds the frame and replaces the file as a whole.
  [[nodiscard]] Result<void> add(const Frame& frame, const BatchOptions& options,
                                 const Engine& engine);

 private:
  struct Row {
    std::uint64_t count = 0;
    Parts parts{};
    bool halts = false;  // all of them are
    // In the last interval, as far as they are known.
    std::optional<std::uint64_t> p50_ns, p99_ns, max_ns;
  };
  struct Vcpu {
    std::uint64_t exits = 0;
    std::array<std::uint64_t, kStates> states{};
  };
  [[nodiscard]] std::string text(const std::string& by) const;

  std::string path_;
  std::map<std::string, Row> rows_;
  std::map<std::string, Vcpu> vcpus_;  // by their labels
  States known_;                       // of which there are times
  bool lacks_entries_ = false;         // ExitTracker::lacks_entries()
  std::uint64_t events_ = 0, lost_ = 0, gaps_ = 0;
};

}  // namespace trapline::live
