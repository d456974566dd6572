// A session that was cut off while it was recorded or finished: any number of CPUs and pages, in
// regions, in files or in both, with pages that were cut or never filled; a disk that is full at
// any point of finishing; regions that were moved together in part. At every point the recording is
// read as the file that it becomes, and that holds every page that was written.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "merge/session/finish.h"
#include "merge/source/trace_dat/unfinished.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_files.h"

namespace {

namespace fs = std::filesystem;
using namespace trapline;
using trace_dat::FinishPlan;
using trace_dat::StartFacts;

constexpr rlim_t kRoom = 16u << 20;

// The size that files may grow to, as long as this lives.
class LimitedRoom {
 public:
  explicit LimitedRoom(rlim_t bytes) { set(bytes); }
  ~LimitedRoom() { set(kRoom); }
  LimitedRoom(const LimitedRoom&) = delete;
  LimitedRoom& operator=(const LimitedRoom&) = delete;

 private:
  static void set(rlim_t bytes) {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    fuzz::hold(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit can be set");
  }
};

class Session {
 public:
  Session(const std::string& path, fuzz::Choices& input) : path_(path), input_(input) {
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
    fs::create_directories(path_ + "/raw");
    write("session.json", 0, "{}");
    record();
  }

  // Every page that was written, in the order of the file to be.
  void expect_all(const std::string& seen) const {
    std::string pages;
    for (const std::string& cpu : pages_) pages += cpu;
    fuzz::hold(seen.starts_with(head_), "the head is another");
    fuzz::hold(seen.ends_with(pages), "pages are not all there, each once and in order");
    fuzz::hold(seen.size() < head_.size() + pages.size() + 4 * start_.page_size,
               "there is more than head, tail and pages");
  }

  [[nodiscard]] std::string seen() const {
    const auto file = trace_dat::open_trace_file(path_ + "/trace.dat");
    fuzz::hold(file.has_value(), "it cannot be opened");
    std::string bytes(file->size(), '\0');
    fuzz::hold(file->read(0, std::as_writable_bytes(std::span(bytes))).has_value(),
               "it cannot be read");
    return bytes;
  }

  // As a finisher leaves it that was killed while the file system closed the holes.
  void close_in_part() {
    const auto session = Folder::open(path_);
    const UniqueFd stream(::open((path_ + "/raw/trace.dat").c_str(), O_RDWR | O_CLOEXEC));
    fuzz::hold(session && stream, "the session is gone");
    const auto streamed = trace_dat::look_at_pages(*session, start_, stream.get());
    fuzz::hold(streamed.has_value(), "the pages cannot be looked at");
    const auto tail = trace_dat::tail_of(*session, start_, *streamed, {});
    fuzz::hold(tail.has_value(), "no tail can be made");
    FinishPlan plan;
    plan.areas = tail->areas;
    for (const auto& cpu : *streamed)
      if (cpu.in_file != 0) return;
    if (!start_.regions().any() || plan.begin() > start_.regions().first) return;
    fuzz::hold(trace_dat::write_plan(*session, plan).has_value(), "the plan cannot be written");
    fuzz::hold(::ftruncate(stream.get(), static_cast<off_t>(head_.size())) == 0, "ftruncate");
    write("raw/trace.dat", head_.size(), tail->bytes);
    std::uint64_t moved = 0;  // how far after its place a page lies; never less than one before it
    for (std::size_t cpu = 0; cpu < pages_.size(); ++cpu) {
      for (std::size_t at = 0; at < pages_[cpu].size(); at += start_.page_size) {
        moved += input_.up_to(2) * start_.page_size;
        write("raw/trace.dat", plan.areas[cpu].offset + at + moved,
              std::string_view(pages_[cpu]).substr(at, start_.page_size));
      }
    }
    const auto parts = trace_dat::find_parts(*session, plan, stream.get(), start_.page_size);
    fuzz::hold(parts.has_value(), "the parts are not found");
    std::uint64_t end = plan.begin(), source = plan.begin();
    for (const FinishPlan::Part& part : *parts) {
      fuzz::hold(part.at >= end && part.offset >= source, "parts overlap");
      end = part.at + part.size, source = part.offset + part.size;
    }
  }

 private:
  void write(const std::string& name, std::uint64_t at, std::string_view bytes) const {
    const UniqueFd fd(::open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const ssize_t wrote = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    fuzz::hold(wrote == static_cast<ssize_t>(bytes.size()), "a file in memory cannot be written");
  }

  void record() {
    head_.assign(1 + std::size_t{16} * input_.byte(), 'H');
    start_.page_size = input_.up_to(3) == 0 ? 16384 : 4096;
    start_.cpus = 1 + input_.up_to(2);
    start_.clocks = "local [mono]", start_.uname = "Linux", start_.version = "trapline";
    start_.head_bytes = head_.size();
    start_.first_region = start_.page_size * (1 + input_.up_to(5));
    start_.region_bytes = start_.page_size * input_.up_to(4);
    if (!start_.regions().any()) start_.first_region = 0;
    write("raw/trace.dat", 0, head_);
    if (input_.up_to(1) != 0) write("raw/cmdlines", 0, "5 cpu\n");
    const auto session = Folder::open(path_);
    fuzz::hold(session && trace_dat::write_start(*session, start_), "start.json");
    pages_.resize(start_.cpus);
    for (unsigned cpu = 0; cpu < start_.cpus; ++cpu) record_cpu(cpu, input_.up_to(5));
  }

  void record_cpu(unsigned cpu, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      std::string page(start_.page_size, static_cast<char>('a' + cpu));
      const std::uint64_t time = 1 + i;
      std::memcpy(page.data(), &time, sizeof time);
      put(cpu, pages_[cpu].size(), page);
      pages_[cpu] += page;
    }
    const unsigned end = input_.up_to(3);
    if (end == 1) put(cpu, pages_[cpu].size(), std::string(start_.page_size, '\0'));  // unfilled
    // A page that was cut: the file system's blocks have 4096 bytes.
    if (end == 2 && start_.page_size > 4096) put(cpu, pages_[cpu].size(), std::string(4096, 'x'));
  }

  void put(unsigned cpu, std::uint64_t at, const std::string& bytes) const {
    if (at < start_.regions().bytes)
      write("raw/trace.dat", start_.regions().at(cpu) + at, bytes);
    else
      write("raw/" + trace_dat::cpu_name(cpu), at - start_.regions().bytes, bytes);
  }

  const std::string& path_;
  fuzz::Choices& input_;
  StartFacts start_;
  std::string head_;
  std::vector<std::string> pages_;
};

void finish(const std::string& path, fuzz::Choices& input) {
  Session session(path, input);
  const std::string whole = session.seen();
  session.expect_all(whole);
  if (input.up_to(2) == 0) {
    session.close_in_part();
    fuzz::hold(session.seen() == whole, "while holes are closed it is read otherwise");
  }
  for (unsigned attempts = input.up_to(3); attempts > 0; --attempts) {
    {
      const LimitedRoom room(rlim_t{1024} * input.byte());
      if (finish_session(path)) break;
    }
    fuzz::hold(session.seen() == whole, "after a full disk it is read otherwise");
  }
  fuzz::hold(finish_session(path).has_value(), "it cannot be finished");
  fuzz::hold(session.seen() == whole, "it became another than was read");
  fuzz::hold(!fs::exists(path + "/raw"), "raw/ is left");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFolder folder;
  static const bool ignored = (std::signal(SIGXFSZ, SIG_IGN), true);
  (void)ignored;
  // Once: finishing changes the folder.
  fuzz::Choices input(fuzz::text_of(data, size));
  finish(folder.path(), input);
  return 0;
}
