// Follows asynchronous work across threads by the pointers in a VMM's events: a request begins at
// an event with its address and ends at another event with the same address.
//
//   virtio_blk_handle_read vdev 0x… req 0x7f01 …   ──────▶   virtio_blk_req_complete … req 0x7f01 …
//        (any thread)                  open by (process, value)            (any thread) / emit
//
// A begin whose request is already open restarts the request (its end was not traced) and is
// counted. An end without a begin is counted. Lost events close all open requests.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/tracetool/event_format.h"
#include "merge/analyze/vmm/vmms.h"
#include "merge/model/event.h"
#include "merge/model/names.h"

namespace trapline {

// Parses START:FIELD..END:FIELD.
[[nodiscard]] Result<RequestSpec> parse_request_spec(std::string_view text);

// A request's times in the host's block layer: of the first of its bios, and of the first and last
// of the disk's own requests.
struct BlockTimes {
  std::optional<Timestamp> queued;  // nullopt without block_bio_queue
  Timestamp issued, completed;
};

// The exit that carried a guest's notify: two vCPUs may have exits that began at the same time.
struct NotifyExit {
  Timestamp begin;
  ThreadId thread;
};

struct RequestSpan {
  std::size_t spec = 0;
  Timestamp start, end;
  ThreadId thread{};                   // the thread that began the request
  std::optional<NotifyExit> notified;  // set if it is known
  ThreadId process{};
  std::uint64_t value = 0;          // the value in the request's events
  std::optional<BlockTimes> block;  // set if all of its times are known
  bool irqfd = false;               // the guest was told through an eventfd of KVM
  std::uint64_t number = 0;         // counts the requests that ended, from 1
};

// A request's times in the host's block layer cut it into stages: until its first bio, in the block
// layer, on the disk, until its end. Without the bio's event the first two are one stage, kToDisk.
enum class RequestStageKind : std::uint8_t { kToBio, kBlockLayer, kDisk, kToEnd, kToDisk };
inline constexpr std::array<std::string_view, 5> kRequestStageNames = {"to bio", "block layer",
                                                                       "disk", "to end", "to disk"};
struct RequestStage {
  RequestStageKind kind;
  Timestamp begin, end;
};
// Returns the request's stages in their order; none if its times in the block layer are not known.
[[nodiscard]] std::vector<RequestStage> stages_of(const RequestSpan& request);

class RequestSpans {
 public:
  static constexpr std::size_t kMostOpen = 1u << 16;

  // Borrows `names` and `declared` (the program's trace-events-all; without it, a field is found by
  // the word before its value, "req 0x7f01").
  RequestSpans(std::vector<RequestSpec> specs, Names& names,
               const tracetool::Declarations* declared);

  // Sets the marker for the next calls, which parse it once when needed.
  void look_at(const Marker& marker);
  // Returns whether events of this name begin or end requests.
  [[nodiscard]] bool looks_at(NameId name) const {
    return name < roles_.size() && !roles_[name].empty();
  }
  // Takes the marker as event `name` of a thread of `process`. Returns the request that it ends, or
  // nullptr; valid until the next call. `notified` is stored with a request that it begins.
  [[nodiscard]] const RequestSpan* on(const Event& event, NameId name, ThreadId process,
                                      std::optional<NotifyExit> notified = {});
  // Returns the number in the marker's argument `field`, if there is one.
  [[nodiscard]] std::optional<std::uint64_t> value_of(std::string_view field);
  void on_hole() { open_.clear(); }

  [[nodiscard]] const std::vector<RequestSpec>& specs() const { return specs_; }
  [[nodiscard]] std::uint64_t restarted() const { return restarted_; }
  [[nodiscard]] std::uint64_t end_without_start() const { return end_without_start_; }
  // Returns how many requests have begun and neither ended nor restarted.
  [[nodiscard]] std::size_t open() const { return open_.size(); }

 private:
  struct Role {
    std::size_t spec;
    bool is_start;
  };

  std::vector<RequestSpec> specs_;
  std::vector<std::size_t> first_of_;  // by spec: the first spec with the same begin
  tracetool::MarkerParser parser_;
  std::string_view text_;  // the marker's text
  bool is_parsed_ = false;
  tracetool::ParsedMarker parsed_;
  std::vector<std::vector<Role>> roles_;  // by NameId
  // By first_of_, process and value: of a begin's possible ends, the first that comes counts.
  std::map<std::tuple<std::size_t, ThreadId, std::uint64_t>, RequestSpan> open_;
  std::uint64_t ended_ = 0, restarted_ = 0, end_without_start_ = 0;
  RequestSpan done_;
};

}  // namespace trapline
