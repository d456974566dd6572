// A uftrace directory as the plugin writes it, beside an earlier recording or not: the tasks, their
// names and records, the places and the names of functions are read back as they were written, also
// before the end, and what is of no recording stays.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/worker.h"
#include "plugin/format/directory.h"
#include "plugin/format/directory_writer.h"
#include "plugin/format/info.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_files.h"

namespace {

namespace fs = std::filesystem;
using namespace trapline;

std::string word(fuzz::Choices& input, unsigned longest) {
  std::string text(1 + input.up_to(longest - 1), 'a');
  for (char& letter : text) letter = static_cast<char>('!' + input.up_to(93));
  return text;
}

// Functions in order, none over another.
SymbolFile functions(const std::string& path, std::uint64_t at, fuzz::Choices& input) {
  SymbolFile file;
  file.path = path;
  auto names = std::make_shared<std::vector<std::string>>();
  for (unsigned i = 1 + input.up_to(12); i > 0; --i) {
    at +=
        input.up_to(3) == 0 ? std::uint64_t{input.byte()} << 22 : std::uint64_t{input.byte()} << 4;
    const std::uint64_t size = 1 + input.byte();
    file.symbols.push_back({at, size, {}, {}, "TtWi"[input.up_to(3)]});
    at += size;
  }
  static std::vector<std::vector<std::string>> kept(2);  // what the symbols' names point to
  std::vector<std::string>& texts = kept[path.ends_with("kernel") ? 0 : 1];
  texts.clear();
  for (std::size_t i = 0; i < file.symbols.size(); ++i) texts.push_back(word(input, 8));
  for (std::size_t i = 0; i < texts.size(); ++i)
    file.symbols[i].name = file.symbols[i].linkage_name = texts[i];
  if (input.up_to(1) != 0) file.build_id = "12ab34";
  return file;
}

class Recording {
 public:
  Recording(const std::string& path, fuzz::Choices& input) : path_(path), input_(input) {
    prepare_place();
    UftraceInfo info;
    info.exename = "/usr/bin/" + word(input, 20);
    info.cmdline = word(input, 20);
    info.cpus = 1 + input.up_to(3);
    auto writer = DirectoryWriter::create(
        path_, info,
        input.up_to(1) == 0 ? DirectoryWriter::Place::kThere : DirectoryWriter::Place::kBeside);
    fuzz::hold(writer.has_value(), "the directory cannot be made");
    exename_ = info.exename;
    write_all_of(*writer);
    if (input.up_to(7) == 0) {
      discard(*writer);
      return;
    }
    fuzz::hold(writer->finish(input.byte()).has_value(), "it cannot be finished");
    fuzz::hold(writer->commit().has_value(), "it cannot take its place");
    fuzz::hold(!writer->beside(), "it is still beside its place");
    expect_everything();
    fuzz::hold(!alien_ || fs::exists(path_ + "/notes"), "another's file was removed");
    expect_nothing_beside();
  }

 private:
  void prepare_place() {
    const std::string above = fs::path(path_).parent_path();
    for (const auto& entry : fs::directory_iterator(above)) fs::remove_all(entry.path());
    const unsigned before = input_.up_to(3);
    if (before == 0) return;
    fs::create_directory(path_);
    if (before == 1) return;
    for (const char* name : {"task.txt", "9.dat", "sid-0.map", "x.sym"})
      UniqueFd(::open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    std::ofstream(path_ + "/info") << format_info({});
    alien_ = before == 3;
    if (alien_) UniqueFd(::open((path_ + "/notes").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }

  void write_all_of(DirectoryWriter& writer) {
    kernel_ = functions("/boot/kernel", std::uint64_t{0xffffffff} << 32, input_);
    program_ = functions("/usr/bin/kernel x", 0x400000, input_);
    const std::vector<PlacedSymbols> placed = {{&kernel_, 0, "k:"}, {&program_, offset_, ""}};
    auto symbols = format_symbol_files(placed, false);
    fuzz::hold(symbols.has_value(), "files that lie apart overlap");
    fuzz::hold(writer.write_symbols(*symbols).has_value(), "symbols cannot be written");
    threads_ = input_.up_to(1) != 0;
    for (unsigned i = input_.up_to(input_.up_to(7) == 0 ? 120 : 5); i > 0; --i) add(writer);
    if (threads_ && input_.up_to(3) == 0)
      fuzz::hold(writer.forked(7777, kProcess, time_).has_value(), "a fork cannot be written");
    fuzz::hold(writer.keep_up().has_value(), "info cannot be written");
  }

  void add(DirectoryWriter& writer) {
    const auto tid = static_cast<std::uint32_t>(1000 + tasks_.size());
    time_ += 1u + input_.byte();
    Task& task = tasks_[tid];
    task.name = word(input_, 20);
    const auto added =
        threads_ ? writer.add_thread(tid, kProcess, time_) : writer.add_task(tid, task.name, time_);
    fuzz::hold(added.has_value(), "a task cannot be added");
    for (unsigned i = input_.up_to(6); i > 0; --i) {
      time_ += input_.byte();
      const auto& from = input_.up_to(1) == 0 ? kernel_ : program_;
      const Symbol& function =
          from.symbols[input_.up_to(static_cast<unsigned>(from.symbols.size() - 1))];
      task.records.emplace_back(static_cast<RecordType>(input_.up_to(2)), time_, input_.byte(),
                                function.address + (&from == &program_ ? offset_ : 0));
    }
    const auto data = writer.open_data(tid);
    fuzz::hold(data && write_bytes(data->get(), {reinterpret_cast<const char*>(task.records.data()),
                                                 task.records.size() * sizeof(Record)}) == 0,
               "records cannot be written");
  }

  void discard(DirectoryWriter& writer) {
    const bool beside = writer.beside();
    writer.discard();
    if (!beside) return;
    fuzz::hold(!alien_ || fs::exists(path_ + "/notes"), "another's file was removed");
    expect_nothing_beside();
  }
  void expect_nothing_beside() const {
    for (const auto& entry : fs::directory_iterator(fs::path(path_).parent_path()))
      fuzz::hold(entry.path() == path_, "something is left beside the recording");
  }

  void expect_everything() const {
    auto directory = DataDirectory::open(path_);
    fuzz::hold(directory.has_value(), "what was written cannot be opened");
    fuzz::hold(directory->info().exename == exename_, "the program has another name");
    fuzz::hold(directory->tids().size() == tasks_.size(), "there are other tasks");
    for (const auto& [tid, task] : tasks_) {
      std::string name = threads_ ? exename_ : task.name;
      name.erase(0, name.rfind('/') + 1);
      std::ranges::replace(name, '"', '_');  // which ends a name in task.txt
      fuzz::hold(directory->task_name(tid) == name, "a task has another name");
      auto records = directory->records(tid);
      fuzz::hold(records.has_value(), "a task has no records");
      for (const Record& written : task.records) {
        const auto read = records->next();
        fuzz::hold(read && *read, "a record is missing");
        fuzz::hold((*read)->time() == written.time() && (*read)->type() == written.type() &&
                       (*read)->depth() == written.depth() &&
                       (*read)->address() == written.address(),
                   "a record is not what was written");
      }
      const auto end = records->next();
      fuzz::hold(end && !*end && records->dropped_bytes() == 0, "there are more records");
    }
    auto symbols = directory->symbols("0");
    fuzz::hold(symbols.has_value(), "the symbols cannot be read");
    expect_named(*symbols, kernel_, 0, "k:");
    expect_named(*symbols, program_, offset_, "");
  }
  static void expect_named(const SessionSymbols& symbols, const SymbolFile& file,
                           std::uint64_t offset, const std::string& prefix) {
    for (const Symbol& function : file.symbols) {
      const std::uint64_t first = (function.address + offset) & Record::kAddressMask;
      for (const std::uint64_t at : {first, first + function.size - 1}) {
        const Symbol* found = symbols.find(at);
        fuzz::hold(found != nullptr && found->linkage_name == prefix + flat_name(function.name),
                   "a function's address has not its name");
      }
    }
  }

  static constexpr std::uint32_t kProcess = 1000;
  struct Task {
    std::string name;
    std::vector<Record> records;
  };
  std::string path_;
  fuzz::Choices& input_;
  std::string exename_;
  SymbolFile kernel_, program_;
  std::uint64_t offset_ = std::uint64_t{input_.byte()} << 36;
  std::map<std::uint32_t, Task> tasks_;
  std::uint64_t time_ = 1;
  bool threads_ = false, alien_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFolder folder;
  static const bool alone = (Worker::forbid("fuzzing"), true);
  (void)alone;
  fuzz::bounded(64 * size, [&] {
    fuzz::Choices input(fuzz::text_of(data, size));
    const Recording recording(folder.path() + "/uftrace.data", input);
  });
  return 0;
}
