// Packets of a Perfetto trace: a file is a repetition of field 1, TracePacket.
//
// Field numbers are those of the Perfetto project's protos/perfetto/trace (trace_packet.proto,
// track_event/*.proto, ftrace/*.proto); docs/formats/perfetto.md lists those that are written.
// All packets are of one sequence with interned names; timestamps are the timeline's nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge/export/output_file.h"

namespace trapline::perfetto {

enum class EventType : std::int32_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };

struct Annotation {
  enum class Kind : std::uint8_t { kUint, kText, kPointer };
  std::string_view name;
  Kind kind = Kind::kUint;
  std::uint64_t number = 0;
  std::string_view text = {};
};

// What is said of a slice's begin.
struct Slice {
  std::string_view name, category;
  std::vector<Annotation> annotations;
  std::vector<std::uint64_t> flows, ending_flows;
};

class Writer {
 public:
  explicit Writer(OutputFile output) : output_(std::move(output)) {}

  // A track below `parent` (0: at the top); its number.
  [[nodiscard]] std::uint64_t add_track(std::uint64_t parent, std::string_view name, int rank = 0,
                                        bool explicit_order = false);
  [[nodiscard]] std::uint64_t add_counter(std::uint64_t parent, std::string_view name,
                                          std::string_view unit);
  void begin(std::uint64_t track, std::uint64_t at, const Slice& slice);
  void end(std::uint64_t track, std::uint64_t at);
  void instant(std::uint64_t track, std::uint64_t at, const Slice& slice);
  void count(std::uint64_t track, std::uint64_t at, double value);

  // Native events of a CPU: in order of time for each machine and CPU.
  struct Switch {
    std::uint64_t at = 0;
    std::int32_t prev = 0, next = 0;
    std::int64_t prev_state = 0;
    std::string_view prev_comm, next_comm;
  };
  void add_switch(std::uint32_t machine, std::uint32_t cpu, const Switch& change);
  void add_waking(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at, std::int32_t waker,
                  std::int32_t woken, std::string_view comm);
  void add_generic(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at, std::int32_t thread,
                   std::string_view name, std::string_view text);

  struct Thread {
    std::int32_t tid = 0, process = 0;
    std::string name;
  };
  void add_threads(std::uint32_t machine, const std::vector<Thread>& threads);
  void add_system(std::string_view sysname, std::string_view release, std::string_view version,
                  std::string_view machine);

  [[nodiscard]] std::uint64_t slices() const { return slices_; }
  [[nodiscard]] bool failed() const { return output_.failed(); }
  [[nodiscard]] Result<void> finish();

 private:
  static constexpr std::size_t kBundle = std::size_t{64} << 10;       // bytes of a CPU's events
  static constexpr std::size_t kMostInterned = std::size_t{1} << 16;  // names of each kind

  // Looked up by a view, without a string for each look-up.
  struct HashText {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  struct Interned {
    std::unordered_map<std::string, std::uint64_t, HashText, std::equal_to<>> ids;
  };
  using Added = std::vector<std::pair<std::uint64_t, std::string_view>>;
  // The number of a name; what is new goes into `added`. 0 when there are too many: then the name
  // itself is written.
  std::uint64_t intern(Interned& names, std::string_view name, Added& added);
  void event(std::uint64_t track, std::uint64_t at, EventType type, const Slice& slice);
  void write_packet();
  std::string& bundle(std::uint32_t machine, std::uint32_t cpu);
  void flush_bundle(std::uint64_t key, std::string& events);

  OutputFile output_;
  std::string packet_, event_, part_;
  Interned names_, categories_, annotation_names_;
  Added new_names_, new_categories_, new_keys_;             // of one event
  std::unordered_map<std::uint64_t, std::string> bundles_;  // by machine and CPU
  std::uint64_t last_track_ = 0, slices_ = 0;
  bool first_ = true;
};

}  // namespace trapline::perfetto
