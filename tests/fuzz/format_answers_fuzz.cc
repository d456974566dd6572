// Answers of a worker that was taken over by the formats that it read. Whatever it says of a
// format, events are decoded within their bytes, names are printable, and what cannot be right is
// told.
// Input: a byte that chooses a known event, two bytes with the length of the answers, the answers
// (canned_worker.h), then events, each a length byte and its bytes.
#include <cstring>

#include "backend_ftrace/base/text.h"
#include "merge/source/kernel_events/formats.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/canned_worker.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

constexpr std::uint16_t kType = 7;

void read(const KernelEvent& known, std::string_view events) {
  static unsigned inputs = 0;  // answers about the same text are asked for once
  kernel_events::FormatTexts texts;
  texts.formats = {{std::string(known.system),
                    fmt::format("name: {}\nID: {}\n{}\n", known.name, kType, ++inputs)}};
  auto formats = kernel_events::Formats::parse("fuzz", std::move(texts));
  fuzz::hold(formats.has_value(), "a false answer is an Error of the whole");
  const auto& status = formats->texts().status();
  fuzz::hold(status || status.error().kind == ErrorKind::kDamaged, "it failed otherwise");
  const bool decodes =
      formats->schemas().size() > kType && formats->schemas()[kType].decoder != Decoder::kNone;
  fuzz::hold(decodes == (known.decoded.decoder != Decoder::kNone && status.has_value()),
             "a type without a format is decoded, or one with a format is not");
  const auto nothing = [](std::size_t, std::vector<kernel_events::RecordedEvent>&) {};
  Event event;
  while (!events.empty()) {
    std::vector<std::byte> bytes = fuzz::take_event(events);
    if (bytes.size() < 2) continue;  // no reader of pages or records has such an event
    std::memcpy(bytes.data(), &kType, 2);
    (void)formats->decode({1, bytes.data(), static_cast<std::uint32_t>(bytes.size())}, event);
    if (const auto* exit = std::get_if<KvmExit>(&event.payload)) {
      const auto name = formats->reasons().of({exit->reason, exit->isa, exit->exception_class});
      fuzz::hold(printable(name) == name, "a reason's name is not printable");
    }
    const auto text = formats->texts().text(
        kType, bytes, 0, nothing, [] { return std::string("ffffffff81000000 T _text\n"); });
    fuzz::hold(printable(text) == text, "a text is not printable");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 3;
  if (size < kHead) return 0;
  const KernelEvent& known = events::all()[data[0] % events::all().size()];
  const std::string_view input = fuzz::text_of(data, size).substr(kHead);
  const std::size_t answers = std::min(data[1] | std::size_t{data[2]} << 8, input.size());
  fuzz::bounded(size, [&] {
    fuzz::false_answers = input.substr(0, answers);
    read(known, input.substr(answers));
  });
  fuzz::false_answers = {};
  return 0;
}
