// The simple backend as a program uses it: files opened, gone over to and closed, flushes, events
// of several threads, more of them than the rings hold. Each file holds the events that were given
// while it was open, in order; what is missing was counted. What cannot be opened changes nothing.
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "backend_ftrace/simpletrace/format.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/simple_events.h"

namespace {

using namespace trapline;
using fuzz::Written;

constexpr unsigned kMostFiles = 6;

void emit(const Written& written) {
  const tracetool::Event& event = fuzz::declarations().events[written.id];
  if (written.texts.empty()) {
    trapline_simple_integers(static_cast<std::uint32_t>(written.id), written.numbers.data(),
                             static_cast<std::uint32_t>(written.numbers.size()));
    return;
  }
  std::vector<trapline_simple_argument> arguments;
  auto number = written.numbers.begin();
  auto text = written.texts.begin();
  for (const tracetool::Argument& argument : event.arguments) {
    if (argument.kind == tracetool::TypeKind::kString)
      arguments.push_back(trapline_simple_string((text++)->c_str()));
    else
      arguments.push_back({nullptr, *number++});
  }
  trapline_simple_mixed(static_cast<std::uint32_t>(written.id), arguments.data(),
                        static_cast<std::uint32_t>(arguments.size()));
}

class Program {
 public:
  Program(const std::string& folder, fuzz::Choices& input) : folder_(folder), input_(input) {
    ::symlink("0", (folder + "/link").c_str());
    ::mkfifo((folder + "/pipe").c_str(), 0600);
    go_on_in_another_file();
    while (input_.any() && files_.size() < kMostFiles) step();
    trapline_simple_close();
    fuzz::hold(!trapline_simple_is_open(), "a closed file is open");
    std::uint64_t lost = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) lost += lost_of(i);
    fuzz::hold(lost == trapline_simple_dropped() - dropped_before_, "losses are not counted");
  }

 private:
  void step() {
    switch (input_.up_to(9)) {
      case 0:
        return go_on_in_another_file();
      case 1:
        return trapline_simple_flush();
      case 2:
        on_ = !on_;
        return trapline_simple_enable(on_);
      case 3:
        return ask_for_what_cannot_be();
      case 4: {  // more than a ring holds
        const Written event = choose();
        for (unsigned i = 2 * input_.byte(); i > 0; --i) put(event);
        return;
      }
      case 5: {  // another thread's ring
        const Written event = choose();
        return std::thread([&] { put(event); }).join();
      }
      default:
        put(choose());
    }
  }

  Written choose() {
    Written event;
    const auto& events = fuzz::declarations().events;
    event.id = input_.up_to(static_cast<unsigned>(events.size() - 1));
    fuzz::choose_arguments(events[event.id], event, input_);
    return event;
  }
  void put(const Written& event) {
    emit(event);
    if (on_) files_.back().push_back(event);
  }

  void go_on_in_another_file() {
    const std::string path = path_of(files_.size());
    const trapline_simple_options options{path.c_str(), input_.up_to(1) != 0, false, 128u << 10};
    char why[200] = {};
    const bool first = files_.empty();
    const int opened = first ? trapline_simple_open(&options, why, sizeof why)
                             : trapline_simple_switch(&options, why, sizeof why);
    fuzz::hold(opened == 0, "a file in memory cannot be opened");
    files_.emplace_back();
    // A file that is opened is written, a program that had switched it off has asked for it.
    on_ = true;
  }
  void ask_for_what_cannot_be() {
    constexpr const char* kNone[] = {"/none/there", "/link", "/pipe", "", "/dev/full"};
    const unsigned which = input_.up_to(6);
    const std::string path = which == 4 ? kNone[4] : folder_ + kNone[std::min(which, 3u)];
    trapline_simple_options options{path.c_str(), false, false, 0};
    if (which == 5) options.ring_bytes = 5000;
    char why[200] = {};
    const int refused = which == 6 ? trapline_simple_open(&options, why, sizeof why)
                                   : trapline_simple_switch(&options, why, sizeof why);
    fuzz::hold(refused == -1 && why[0] != '\0', "a file was opened that is none");
    fuzz::hold(trapline_simple_is_open(), "the present file was closed");
  }

  [[nodiscard]] std::string path_of(std::size_t number) const {
    return folder_ + "/" + std::to_string(number);
  }

  // How many events a file lacks, which it says itself.
  [[nodiscard]] std::uint64_t lost_of(std::size_t number) const {
    auto reader = simpletrace::Reader::open(path_of(number), fuzz::declarations());
    fuzz::hold(reader.has_value(), "what was written cannot be opened");
    const std::vector<Written>& given = files_[number];
    std::size_t at = 0;
    std::uint64_t told = 0, lost = 0, last = 0;
    for (simpletrace::Record record; reader->next(record).value_or(false);) {
      if (record.dropped) {
        told += record.count;
        continue;
      }
      fuzz::hold(record.timestamp >= last, "events are not in order of time");
      last = record.timestamp;
      for (; at < given.size() && !fuzz::is_same(record, given[at]); ++at) ++lost;
      fuzz::hold(at++ < given.size(), "a file has an event that it was not given");
    }
    fuzz::hold(reader->cut_bytes() == 0, "a record is cut");
    fuzz::hold(lost + (given.size() - at) == told, "a file lacks events that it does not tell of");
    return told;
  }

  const std::string& folder_;
  fuzz::Choices& input_;
  std::vector<std::vector<Written>> files_;  // the events of each
  bool on_ = false;
  std::uint64_t dropped_before_ = trapline_simple_dropped();
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFolder folder;
  static const bool registered = (fuzz::register_events(), true);
  (void)registered;
  fuzz::bounded(64 * size, [&] {
    fuzz::Choices input(fuzz::text_of(data, size));
    const Program program(folder.path(), input);
  });
  return 0;
}
