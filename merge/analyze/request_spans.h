// Asynchronous work followed across threads by the pointers in a VMM's events: a request begins
// where an event carries its address and ends where another carries the same.
//
//   virtio_blk_handle_read vdev 0x… req 0x7f01 …   ──────▶   virtio_blk_req_complete … req 0x7f01 …
//        (any thread)                  open by (process, value)            (any thread) / emit
//
// A begin whose request is open already restarts it (its end was not traced: counted); an end that
// nothing began is counted. Lost events close what is open.
#pragma once

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

// START:FIELD..END:FIELD
[[nodiscard]] Result<RequestSpec> parse_request_spec(std::string_view text);

// A request's way through the host's block layer: the first of its bios, the first and the last of
// the disk's own requests.
struct BlockTimes {
  std::optional<Timestamp> queued;  // nothing without block_bio_queue
  Timestamp issued, completed;
};

struct RequestSpan {
  std::size_t spec = 0;
  Timestamp start, end;
  ThreadId thread{};  // that began it
  // When the exit began that carried the guest's notify, where that is known.
  std::optional<Timestamp> notified;
  ThreadId process{};
  std::uint64_t value = 0;          // that its events carry
  std::optional<BlockTimes> block;  // where all of it is known
  bool irqfd = false;               // the guest was told through an eventfd of KVM's
};

class RequestSpans {
 public:
  static constexpr std::size_t kMostOpen = 1u << 16;

  // Borrows `names` and `declared` (the program's trace-events-all; without it, fields are found by
  // the word before their value, "req 0x7f01").
  RequestSpans(std::vector<RequestSpec> specs, Names& names,
               const tracetool::Declarations* declared);

  // The marker that the next calls are about: it is parsed once, where one of them needs it.
  void look_at(const Marker& marker);
  // It is the event `name` of a thread of `process`. The request that it ends, or nullptr; valid
  // until the next call. A request that it begins was `notified` then.
  [[nodiscard]] const RequestSpan* on(const Event& event, NameId name, ThreadId process,
                                      std::optional<Timestamp> notified = {});
  // The number that its argument `field` has; false where it has none.
  [[nodiscard]] bool value_of(std::string_view field, std::uint64_t& value);
  void on_hole() { open_.clear(); }

  [[nodiscard]] const std::vector<RequestSpec>& specs() const { return specs_; }
  [[nodiscard]] std::uint64_t restarted() const { return restarted_; }
  [[nodiscard]] std::uint64_t end_without_start() const { return end_without_start_; }
  // Begun and neither ended nor restarted.
  [[nodiscard]] std::size_t open() const;

 private:
  struct Role {
    std::size_t spec;
    bool is_start;
  };
  // Of the specs that have its begin; what they share is counted once.
  [[nodiscard]] bool is_first_of(std::size_t spec) const;
  void end_siblings(std::size_t spec, ThreadId process, std::uint64_t value);

  std::vector<RequestSpec> specs_;
  tracetool::MarkerParser parser_;
  std::string_view text_;  // of the marker
  bool is_parsed_ = false;
  tracetool::ParsedMarker parsed_;
  std::vector<std::vector<Role>> roles_;  // by NameId
  std::map<std::tuple<std::size_t, ThreadId, std::uint64_t>, RequestSpan> open_;
  std::uint64_t restarted_ = 0, end_without_start_ = 0;
  RequestSpan done_;
};

}  // namespace trapline
