// Event formats and the events that they describe. Input: a byte that chooses a known event, the
// format's text up to a zero byte, then the events, each a length byte and its bytes. The known
// event's name takes the place of the format's, so that each decoder meets each layout.
#include "merge/source/kernel_events/formats.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

void decode(std::string_view text, std::string_view events, std::size_t number) {
  const KernelEvent& known = events::all()[number % events::all().size()];
  kernel_events::FormatTexts texts;
  texts.formats = {
      {std::string(known.system), std::string(text)},
      {std::string(known.system), "name: " + std::string(known.name) + '\n' + std::string(text)}};
  const auto id = kernel_events::format_id(text);
  auto parsed = kernel_events::Formats::parse("fuzz", std::move(texts));
  fuzz::hold(parsed.has_value(), "a format is an Error of the whole");
  kernel_events::Formats& formats = *parsed;
  formats.read_comms(events);
  Event event;
  while (!events.empty()) {
    std::vector<std::byte> bytes = fuzz::take_event(events);
    if (id && bytes.size() >= 2) std::memcpy(bytes.data(), &*id, 2);
    const kernel_events::RecordedEvent recorded{1, bytes.data(),
                                                static_cast<std::uint32_t>(bytes.size())};
    (void)formats.decode(recorded, event);
    (void)formats.name(event.type);
    (void)formats.comm(event.thread);
    if (const auto* exit = std::get_if<KvmExit>(&event.payload))
      (void)formats.reasons().of({exit->reason, exit->isa, exit->exception_class});
    if (const auto* exit = std::get_if<KvmUserspaceExit>(&event.payload))
      (void)formats.reasons().of({exit->reason, ExitReason::kIsaUserspace});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input = fuzz::text_of(data, size).substr(1);
  const std::size_t end = std::min(input.find('\0'), input.size());
  fuzz::bounded(size, [&] {
    decode(input.substr(0, end), input.substr(std::min(end + 1, input.size())), data[0]);
  });
  return 0;
}
