// What the simple backend writes, in both layouts, is what the reader reads: any row of events,
// numbers and texts of any length, drops between them.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/simpletrace/trace_file.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/declared_events.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

struct Written {
  std::uint64_t id = 0, timestamp = 0, dropped = 0;
  std::vector<std::uint64_t> numbers;
  std::vector<std::string> texts;
};

const tracetool::EventFile& declarations() {
  static const auto file = tracetool::parse_trace_events(fuzz::kDeclarations, "fuzz");
  return file;
}

// The declared events in the program's catalogue, in their order: the RFC's layout has only that.
void register_events() {
  static std::vector<std::string> names, types;
  static std::array<std::uint32_t, 16> states{};
  static std::vector<trapline_event> events;
  static trapline_event_group group{};
  for (const tracetool::Event& event : declarations().events) names.push_back(event.name);
  for (std::size_t i = 0; i < names.size(); ++i)
    events.push_back({names[i].c_str(), "", &states[i], 0});
  group.name = "fuzz";
  group.events = events.data();
  group.count = events.size();
  trapline_events_register(&group);
}

class Writer {
 public:
  Writer(const std::string& path, bool rfc) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    fuzz::hold(fd >= 0 && file_.open(fd, rfc, 4242), "a file in memory cannot be written");
  }
  ~Writer() {
    file_.drain();
    file_.close();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void drop(std::uint64_t count) { file_.put_dropped(count); }
  void put(const tracetool::Event& event, Written& written, fuzz::Choices& input) {
    simpletrace::Entry entry{written.id, written.timestamp, 0, 0};
    std::string payload(sizeof entry, '\0');
    const auto add = [&payload](std::uint64_t value) {
      payload.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (const tracetool::Argument& argument : event.arguments) {
      if (argument.kind != tracetool::TypeKind::kString) {
        // What fits every type.
        written.numbers.push_back(input.up_to(1));
        add(written.numbers.back());
      } else {
        std::string text(input.up_to(3) == 0 ? 200 + input.byte() : input.up_to(9), 'x');
        if (!text.empty()) text[0] = static_cast<char>(1 + input.up_to(254));
        written.texts.push_back(text);
        add(text.size());
        text.resize(simpletrace::padded(text.size()));
        payload += text;
        entry.strings |= 1u << entry.arguments;
      }
      ++entry.arguments;
    }
    std::memcpy(payload.data(), &entry, sizeof entry);
    file_.put_entry(reinterpret_cast<const unsigned char*>(payload.data()));
  }

 private:
  static inline simpletrace::TraceFile file_;
};

void compare(const std::string& path, const std::vector<Written>& all) {
  auto reader = simpletrace::Reader::open(path, declarations());
  fuzz::hold(reader.has_value(), "what was written cannot be opened");
  simpletrace::Record record;
  for (const Written& written : all) {
    fuzz::hold(reader->next(record).value_or(false), "a record is missing");
    fuzz::hold(record.dropped == (written.dropped != 0), "a drop is none, or none is one");
    if (record.dropped) {
      fuzz::hold(record.count == written.dropped, "another number of events was dropped");
      continue;
    }
    fuzz::hold(
        record.id == written.id && record.timestamp == written.timestamp && record.pid == 4242,
        "a record's head is not what was written");
    std::size_t number = 0, text = 0;
    for (const tracetool::Value& value : record.values) {
      if (value.kind == tracetool::ValueKind::kString)
        fuzz::hold(value.text == written.texts[text++], "a text is not what was written");
      else
        fuzz::hold(value.bits == written.numbers[number++], "a number is not what was written");
    }
    fuzz::hold(number == written.numbers.size() && text == written.texts.size(),
               "a record has other arguments");
  }
  const auto more = reader->next(record);
  fuzz::hold(more && !*more && reader->cut_bytes() == 0, "there is more than what was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  static const bool registered = (register_events(), true);
  (void)registered;
  fuzz::bounded(size, [&] {
    fuzz::Choices input(fuzz::text_of(data, size));
    std::vector<Written> all;
    {
      Writer writer(file.path(), input.up_to(1) != 0);
      const auto& events = declarations().events;
      while (input.any()) {
        Written& written = all.emplace_back();
        written.id = input.up_to(static_cast<unsigned>(events.size()));
        if (written.id == events.size()) {
          written.dropped = 1 + input.byte();
          writer.drop(written.dropped);
          continue;
        }
        written.timestamp = 1000 * all.size() + input.byte();
        writer.put(events[written.id], written, input);
      }
    }
    compare(file.path(), all);
  });
  return 0;
}
