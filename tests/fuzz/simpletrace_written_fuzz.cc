// What the simple backend writes, in both layouts, is what the reader reads: any row of events,
// numbers and texts of any length, drops between them.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "backend_ftrace/simpletrace/trace_file.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/simple_events.h"

namespace {

using namespace trapline;
using fuzz::Written;

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
  void put(const tracetool::Event& event, const Written& written) {
    simpletrace::Entry entry{written.id, written.timestamp, 0, 0};
    std::string payload(sizeof entry, '\0');
    const auto add = [&payload](std::uint64_t value) {
      payload.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    auto number = written.numbers.begin();
    auto text = written.texts.begin();
    for (const tracetool::Argument& argument : event.arguments) {
      if (argument.kind != tracetool::TypeKind::kString) {
        add(*number++);
      } else {
        add(text->size());
        payload += *text;
        payload.resize(payload.size() + simpletrace::padded(text->size()) - text->size());
        ++text;
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
  auto reader = simpletrace::Reader::open(path, fuzz::declarations());
  fuzz::hold(reader.has_value(), "what was written cannot be opened");
  simpletrace::Record record;
  for (const Written& written : all) {
    fuzz::hold(reader->next(record).value_or(false), "a record is missing");
    fuzz::hold(record.dropped == (written.dropped != 0), "a drop is none, or none is one");
    if (record.dropped) {
      fuzz::hold(record.count == written.dropped, "another number of events was dropped");
      continue;
    }
    fuzz::hold(record.timestamp == written.timestamp && record.pid == 4242,
               "a record's head is not what was written");
    fuzz::hold(fuzz::is_same(record, written), "a record is not what was written");
  }
  const auto more = reader->next(record);
  fuzz::hold(more && !*more && reader->cut_bytes() == 0, "there is more than what was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  static const bool registered = (fuzz::register_events(), true);
  (void)registered;
  fuzz::bounded(size, [&] {
    fuzz::Choices input(fuzz::text_of(data, size));
    std::vector<Written> all;
    {
      Writer writer(file.path(), input.up_to(1) != 0);
      const auto& events = fuzz::declarations().events;
      while (input.any()) {
        Written& written = all.emplace_back();
        written.id = input.up_to(static_cast<unsigned>(events.size()));
        if (written.id == events.size()) {
          written.dropped = 1 + input.byte();
          writer.drop(written.dropped);
          continue;
        }
        written.timestamp = 1000 * all.size() + input.byte();
        fuzz::choose_arguments(events[written.id], written, input);
        writer.put(events[written.id], written);
      }
    }
    compare(file.path(), all);
  });
  return 0;
}
