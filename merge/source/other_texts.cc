// Recognises texts and archives that are not recordings, and says what to use instead.
#include <fmt/format.h>

#include <algorithm>

#include "merge/model/kernel_events.h"
#include "merge/source/open_recording.h"

namespace trapline {
namespace {

struct Archive {
  std::string_view magic, name, command;  // {} in `command` stands for the file's name
};
constexpr Archive kArchives[] = {
    {"\xfd\x37zXZ", "compressed by xz", "xz -dc {} | trapline report -"},
    {"BZh", "compressed by bzip2", "bzip2 -dc {} | trapline report -"},
    {"\x04\x22\x4d\x18", "compressed by lz4", "lz4 -dc {} | trapline report -"},
    {"PK\x03\x04", "a zip archive", "unzip -p {} | trapline report -"},
    {"7z\xbc\xaf", "a 7z archive", "7z x -so {} | trapline report -"},
};

// A kind of text that is not a recording: a text is of this kind if it contains all of `words`.
struct OtherText {
  std::string_view words[3];
  std::string_view name, instead;
};
constexpr std::string_view kEvents =
                               "record the events: trapline record, or perf record -e 'kvm:*'",
                           kOfPerf = "give the perf.data itself, or what perf script prints of it";
// The events' names as in the column of a table: followed by blanks, not by a colon.
const std::string kExitColumn = std::string(events::kvm_exit.name) + "  ",
                  kEntryColumn = std::string(events::kvm_entry.name) + "  ";
const OtherText kTexts[] = {
    {{"VM-EXIT", "Samples", ""},
     "a table of perf kvm stat, without the events it was made of",
     "give the file that perf kvm stat record wrote (perf.data.guest)"},
    {{"kvm statistics", "", ""}, "a table of kvm_stat, which counts and does not record", kEvents},
    {{events::kvm_exit.name, "%Total", ""},
     "a table of kvm_stat, which counts and does not record",
     kEvents},
    {{"Overhead", "Samples:", "of event"}, "a table of perf top or perf report", kOfPerf},
    {{"Overhead", "Trace output", ""}, "a table of perf top or perf report", kOfPerf},
    {{"%  ", "[k] ", "[.] "}, "a table of perf top or perf report", kOfPerf},
    {{"%  ", "[kernel", "[k] "}, "a table of perf top or perf report", kOfPerf},
    {{"ioctl(", "KVM_RUN", ") = "},
     "a text of strace, which sees system calls and no VM exits",
     kEvents},
    {{"DURATION", "TID", "FUNCTION"},
     "a text of uftrace",
     "give the directory that uftrace record wrote (uftrace.data)"},
    {{kExitColumn, "reason ", kEntryColumn},
     "a list of events without times, threads and colons",
     "print it with all of them: trace-cmd report, or perf script"},
};

}  // namespace

std::optional<Error> refusal_of(const std::string& path, std::string_view head) {
  for (const Archive& one : kArchives) {
    if (!head.starts_with(one.magic)) continue;
    return Error{
        fmt::format("{} is {}; {}", path, one.name, fmt::format(fmt::runtime(one.command), path)),
        ErrorKind::kDamaged};
  }
  constexpr std::size_t kTar = 257;
  if (head.size() > kTar && head.substr(kTar).starts_with("ustar"))
    return Error{fmt::format("{} is a tar archive; unpack it: tar -xf {}", path, path),
                 ErrorKind::kDamaged};
  const auto* found = std::ranges::find_if(kTexts, [head](const OtherText& one) {
    return std::ranges::all_of(
        one.words, [head](std::string_view word) { return head.find(word) != head.npos; });
  });
  if (found == std::end(kTexts)) return std::nullopt;
  return Error{fmt::format("{} is {}; {}", path, found->name, found->instead), ErrorKind::kDamaged};
}

}  // namespace trapline
