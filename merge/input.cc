#include "merge/input.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "merge/record/finish.h"
#include "merge/source/guest_calls_source.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInstalledTraceEvents = "/usr/share/qemu/trace-events-all";

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}
bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The recordings that the named files and folders stand for.
Result<std::vector<std::string>> recordings_of(const InputOptions& options) {
  std::vector<std::string> recordings;
  for (const std::string& path : options.paths) {
    if (!is_folder(path)) {
      recordings.push_back(path);
      continue;
    }
    if (auto whole = record::finish_session(path); !whole) return tl::unexpected(whole.error());
    const fs::path inside = fs::path(path) / "trace.dat";
    if (!is_file(inside)) {
      return fail("{}: a folder without trace.dat is no session; name the recording itself", path);
    }
    recordings.push_back(inside.string());
  }
  return recordings;
}

// The threads that session.json lists: {"threads": [{"tid", "pid"}, …]}.
void read_session_threads(const fs::path& path, Processes& processes) {
  std::ifstream file(path);
  const auto session = nlohmann::json::parse(file, nullptr, false);
  if (!session.is_object() || !session.contains("threads")) return;
  for (const auto& thread : session["threads"]) {
    if (!thread.is_object() || !thread.contains("tid") || !thread.contains("pid")) continue;
    if (!thread["tid"].is_number_integer() || !thread["pid"].is_number_integer()) continue;
    processes.set(ThreadId{thread["tid"].get<std::int32_t>()},
                  ThreadId{thread["pid"].get<std::int32_t>()});
  }
}

// The files of a session's symbols/ folder, in order of their names.
std::vector<std::string> session_symbols(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "symbols", error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<SymbolTable> load_symbols(const InputOptions& options) {
  std::vector<SymbolFileSpec> specs;
  for (const std::string& text : options.symbols) {
    auto spec = parse_symbol_file_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    specs.push_back(std::move(*spec));
  }
  if (specs.empty()) {
    for (const std::string& path : options.paths) {
      if (!is_folder(path)) continue;
      for (std::string& file : session_symbols(path)) specs.push_back({std::move(file), 0});
    }
  }
  if (specs.empty()) return SymbolTable();
  return SymbolTable::load(specs);
}

// A file that was named must be readable; the session's and the installed one are there or not.
Result<std::vector<tracetool::Event>> load_trace_events(const InputOptions& options) {
  std::string path = options.trace_events;
  if (path.empty()) {
    for (const std::string& named : options.paths) {
      const fs::path inside = fs::path(named) / "trace-events-all";
      if (is_folder(named) && is_file(inside)) path = inside.string();
    }
  }
  if (path.empty() && is_file(kInstalledTraceEvents)) path = kInstalledTraceEvents;
  if (path.empty()) return std::vector<tracetool::Event>();
  auto file = tracetool::read_trace_events(path);
  if (!file) return tl::unexpected(std::move(file).error());
  return std::move(file->events);
}

// A session's uftrace.data, when its sync records relate it to the session's recording.
Result<void> add_guest_calls(const std::string& path, const trace_dat::Options& how, Input& input) {
  const fs::path folder = fs::path(path) / "uftrace.data";
  if (!is_folder(folder.string()) || !is_file(folder / "sync.txt")) return {};
  auto directory = DataDirectory::open(folder.string());
  if (!directory) return tl::unexpected(std::move(directory).error());
  const std::string recording = (fs::path(path) / "trace.dat").string();
  auto relation = relate_guest(*directory, [&]() -> Result<std::unique_ptr<Source>> {
    auto source = trace_dat::open_trace_dat(recording, how);
    if (!source) return tl::unexpected(std::move(source).error());
    return std::unique_ptr<Source>(std::move(*source));
  });
  if (!relation) return tl::unexpected(std::move(relation).error());
  if (!*relation) return {};
  auto calls = open_guest_calls(folder.string(), **relation);
  if (!calls) return tl::unexpected(std::move(calls).error());
  input.sources.push_back(std::move(*calls));
  return {};
}

Result<void> open_recordings(const InputOptions& options, Input& input) {
  auto recordings = recordings_of(options);
  if (!recordings) return tl::unexpected(std::move(recordings).error());
  trace_dat::Options how;
  how.tsc_khz = options.tsc_khz;
  for (const std::string& path : *recordings) {
    auto source = trace_dat::open_trace_dat(path, how);
    if (!source) return tl::unexpected(std::move(source).error());
    input.traits.merge((*source)->traits());
    const std::string& clock = (*source)->info().clock;
    if (!input.sources.empty() && input.sources.front()->info().clock != clock) {
      return fail("{}: its clock is {}, that of {} is {}; nothing relates them", path, clock,
                  input.sources.front()->info().path, input.sources.front()->info().clock);
    }
    input.sources.push_back(std::move(*source));
  }
  for (const std::string& path : options.paths) {
    if (auto added = add_guest_calls(path, how, input); !added) return added;
  }
  return {};
}

}  // namespace

Result<Input> open_input(const InputOptions& options) {
  Input input;
  if (auto opened = open_recordings(options, input); !opened) {
    return tl::unexpected(std::move(opened).error());
  }
  for (const std::string& path : options.paths) {
    if (is_folder(path)) read_session_threads(fs::path(path) / "session.json", input.processes);
  }
  auto symbols = load_symbols(options);
  if (!symbols) return tl::unexpected(std::move(symbols).error());
  input.symbols = std::move(*symbols);
  if (input.traits.markers) {
    auto declared = load_trace_events(options);
    if (!declared) return tl::unexpected(std::move(declared).error());
    input.declared = std::move(*declared);
  }
  return input;
}

Result<std::vector<std::unique_ptr<Source>>> open_sources(const InputOptions& options) {
  Input input;
  if (auto opened = open_recordings(options, input); !opened) {
    return tl::unexpected(std::move(opened).error());
  }
  return std::move(input.sources);
}

}  // namespace trapline
