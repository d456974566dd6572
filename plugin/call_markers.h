// Writes calls as texts into trace_marker, one write(2) each (docs/formats/ftrace-calls.md).
// Markers that the kernel rejects are counted, reported once, and named in an L record as soon as
// the kernel accepts markers again.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "plugin/format/symbol_table.h"
#include "plugin/tracker_host.h"
#include "trapline/ftrace.hpp"

namespace trapline {

// The marker state that all vCPUs share.
class CallMarkers {
 public:
  struct Run {
    std::string id;  // the same id as in the directory's sync.txt
    std::string_view arch;
    std::string_view contexts;
    std::string_view output;
    bool names_tasks = false;  // a call names its task; false when each vCPU has one task
  };
  CallMarkers(Marker marker, SymbolTable symbols, Run run)
      : marker_(std::move(marker)), symbols_(std::move(symbols)), run_(std::move(run)) {}

  void begin();                  // writes the run's record and a series of sync records
  void add_vcpu(unsigned vcpu);  // call it from the vCPU's thread
  void add_task(std::uint32_t task, std::string_view name);
  void end();  // writes them again, with the counts

  // Returns whether the kernel took the marker.
  bool write(std::string_view text);
  [[nodiscard]] std::string_view name_of(std::uint64_t function) const;
  [[nodiscard]] bool names_tasks() const { return run_.names_tasks; }

  void count(std::uint64_t written, std::uint64_t lost) {
    written_.fetch_add(written, std::memory_order_relaxed);
    lost_.fetch_add(lost, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  void tell_once_slow(int error);

  Marker marker_;
  SymbolTable symbols_;
  Run run_;
  std::atomic<std::uint64_t> written_ = 0;
  std::atomic<std::uint64_t> lost_ = 0;
  std::atomic<bool> told_ = false;
};

// Writes the markers of one vCPU; only that vCPU's thread uses it.
class VcpuMarkers final : public CallText {
 public:
  VcpuMarkers(CallMarkers& all, unsigned vcpu) : all_(all), vcpu_(vcpu) {}
  void write(bool entry, std::uint32_t task, std::uint64_t depth, std::uint64_t function) override;
  void leave_out(std::uint64_t count) override {
    unsaid_ += count;
    all_.count(0, count);
  }
  // Writes an L record for the markers lost since the last one. False if the kernel rejects it too.
  bool say_losses();

 private:
  CallMarkers& all_;
  unsigned vcpu_;
  std::uint64_t unsaid_ = 0;  // lost markers that no L record has reported
};

}  // namespace trapline
