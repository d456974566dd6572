// Numbers of the texts that slices are made of, each looked up once: by what the pipeline calls
// them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/export/exit_texts.h"
#include "merge/export/perfetto_writer.h"
#include "merge/source/timeline.h"

namespace trapline::perfetto {

// As people write it.
[[nodiscard]] inline std::int32_t number(ThreadId thread) {
  return static_cast<std::int32_t>(thread);
}

// Views in what is returned are valid until the next call of the same function.
class Texts {
 public:
  Texts(Writer& writer, const Timeline& timeline) : writer_(writer), timeline_(timeline) {}

  [[nodiscard]] Text reason(const ExitSpan& exit);
  [[nodiscard]] Text detail(const ExitSpan& exit);
  [[nodiscard]] Text userspace_reason(const ExitSpan& exit);
  // "stress-ng-123" of a thread of the host.
  [[nodiscard]] Text thread(std::uint16_t source, ThreadId thread);
  // The name of a thread of the host, of whichever kernel's source knows it.
  [[nodiscard]] std::string host_comm(ThreadId thread) const;
  // "dd-412" of a task of the event's guest, as a slice's name.
  [[nodiscard]] Text guest_process(const Event& event, ThreadId task);
  // A device, an event, a function: as a slice's name, as an annotation's value.
  [[nodiscard]] Text name(NameId id, const Pipeline& pipeline);
  [[nodiscard]] Text value(NameId id, const Pipeline& pipeline);
  [[nodiscard]] Text stack(StackId id, const Pipeline& pipeline);

  // A thread's name, printable: as the last sched_switch to it told, else as the source knows it.
  [[nodiscard]] const std::string& comm(const Event& event, ThreadId thread);
  void note_comm(const Event& event, ThreadId thread, std::string_view comm);

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  struct Kept {
    std::string text;
    std::uint64_t id = 0;
    [[nodiscard]] Text as_text() const { return {id, text}; }
  };
  struct Comm {
    std::string raw, printable;
  };
  [[nodiscard]] static std::uint64_t key_of(std::uint16_t source, ThreadId thread) {
    return std::uint64_t{source} << 32 | static_cast<std::uint32_t>(thread);
  }
  [[nodiscard]] Comm& comm_of(const Event& event, ThreadId thread);

  Writer& writer_;
  const Timeline& timeline_;
  std::unordered_map<std::uint64_t, Kept> reasons_, userspace_reasons_, threads_;
  std::unordered_map<std::string, std::uint64_t> processes_;  // of guests: their numbers
  ExitTexts<Kept> details_;
  std::vector<std::uint64_t> names_, values_, stacks_;  // 0: not looked up, or too many
  std::string stack_text_;
  std::unordered_map<std::uint64_t, Comm> comms_;
};

}  // namespace trapline::perfetto
