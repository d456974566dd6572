// Texts of events by the real worker, a process for each input: whatever a print format makes of
// libtraceevent, each event has a printable text or is told as one that has none. Input: the
// format's text up to a zero byte, then events, each a length byte and its bytes.
//
// Not the worker's code in this process: libtraceevent 1.7 reads on after an event on most inputs,
// and that ends the worker, as it shall.
#include "merge/source/kernel_events/event_texts.h"

#include <cstring>

#include "backend_ftrace/base/text.h"
#include "merge/source/kernel_events/formats.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

void print(std::string_view text, std::string_view events) {
  const auto id = kernel_events::format_id(text);
  if (!id) return;
  kernel_events::FormatTexts formats;
  formats.formats = {{"kvm", std::string(text)}};
  kernel_events::EventTexts texts("fuzz", formats);
  const auto nothing = [](std::size_t, std::vector<kernel_events::RecordedEvent>&) {};
  while (!events.empty()) {
    const std::size_t size =
        std::min<std::size_t>(static_cast<unsigned char>(events[0]), events.size() - 1);
    std::vector<std::byte> bytes(size);
    if (size != 0) std::memcpy(bytes.data(), events.data() + 1, size);
    if (size >= 2) std::memcpy(bytes.data(), &*id, 2);
    events.remove_prefix(1 + size);
    const std::string printed = texts.text(
        *id, bytes, 0, nothing, [] { return std::string("ffffffff81000000 T _text\n"); });
    fuzz::hold(printable(printed) == printed, "an event's text is not printable");
    fuzz::hold(texts.status() || texts.status().error().kind == ErrorKind::kDamaged,
               "the worker failed otherwise than by its input");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  fuzz::bounded(
      size, [&] { print(input.substr(0, end), input.substr(std::min(end + 1, input.size()))); });
  return 0;
}
