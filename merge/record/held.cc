#include "merge/record/held.h"

#include <sys/stat.h>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/record/instance.h"
#include "merge/record/page_streams.h"
#include "merge/record/recording.h"
#include "merge/record/session.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"
#include "merge/record/vm_names.h"
#include "merge/session/finish.h"

namespace trapline::record {
namespace {

std::string of_cpu(unsigned cpu, std::string_view file) {
  return fmt::format("per_cpu/cpu{}/{}", cpu, file);
}

class Held {
 public:
  Held(const RecordOptions& options, Instance instance)
      : options_(options), instance_(std::move(instance)) {}

  Result<int> take();

 private:
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> take_pages(PageFiles& files);
  [[nodiscard]] Result<void> take_cpu(unsigned cpu, PageFiles& files);
  [[nodiscard]] Result<void> close(PageFiles& files);
  [[nodiscard]] std::string stats_of(unsigned cpu) const {
    return instance_.control().get(of_cpu(cpu, "stats")).value_or("");
  }
  void describe();
  void tell(std::uint64_t written) const;
  void say(const std::string& line) const { options_.say(line); }

  const RecordOptions& options_;
  Instance instance_;
  std::vector<EventName> formats_;  // of all events: it may hold some that are off by now
  std::optional<Folder> folder_;
  EarlierSession earlier_;
  Session session_;
  ThreadTable threads_;
  UniqueFd lock_;
  std::uint64_t unwritten_pages_ = 0;
  std::vector<std::string> stats_;
};

// Names and processes as they are now; the instance's own settings.
void Held::describe() {
  session_.trapline_version = options_.trapline_version;
  session_.clock = instance_.control().clock();
  session_.instance = instance_.name();
  session_.enabled_events = enabled_events(instance_.control().get("set_event").value_or(""));
  const auto size = instance_.control().get("buffer_size_kb").value_or("");
  session_.buffer_kb = parse_number(trimmed(size)).value_or(0);  // CPUs may differ: "X"
  session_.start_real_ns = session_.end_real_ns = read_clock(ClockId::kReal);
  session_.ended_by = "held";
  threads_.add_names(read_text(instance_.tracefs() + "/saved_cmdlines").value_or(""));
  (void)threads_.update();
  VmNames names;
  (void)names.update(threads_.threads());
  session_.seen_threads = threads_.threads();
  session_.vms = names.vms(session_.seen_threads);
}

Result<void> Held::prepare() {
  auto target = look_at_target(options_);
  if (!target) return tl::unexpected(std::move(target).error());
  auto formats = choose_events(instance_.tracefs(), {.kvm = false, .patterns = {"*:*"}});
  if (!formats) return tl::unexpected(std::move(formats).error());
  formats_ = std::move(*formats);
  const auto cpus = count_cpus(instance_);
  if (!cpus) return tl::unexpected(cpus.error());
  allow_streams(*cpus);
  // No session is made for an empty buffer.
  std::uint64_t entries = 0;
  for (unsigned cpu = 0; cpu < *cpus; ++cpu) entries += read_loss(cpu, stats_of(cpu)).unread;
  if (entries == 0) return fail("{}: holds no events", instance_.path(""));
  auto made = make_session(options_.folder);
  if (!made) return tl::unexpected(std::move(made).error());
  folder_.emplace(std::move(made->folder));
  lock_ = std::move(made->lock);
  earlier_ = std::move(made->earlier);
  if (const std::string text = earlier_.make_room(); !text.empty()) say(text);
  describe();
  if (auto wrote = write_session(*folder_, session_); !wrote) return wrote;
  copy_companions(*folder_, options_, *target);
  return reserve(*folder_);
}

// A page that cannot be written is lost; the rest then stays in the instance.
Result<void> Held::take_cpu(unsigned cpu, PageFiles& files) {
  auto stream = PageStream::open(instance_.path(of_cpu(cpu, "trace_pipe_raw")), &files, cpu,
                                 files.page_size());
  if (!stream) return tl::unexpected(std::move(stream).error());
  const std::uint64_t bytes = instance_.control().buffer_kb(cpu).value_or(0) * 1024;
  alignas(8) std::byte buffer[kLargestPage];
  const std::span<std::byte> page(buffer, files.page_size());
  // With the page that is still being filled.
  for (std::uint64_t left = bytes / page.size() + 1; left > 0; --left) {
    const auto read = stream->read_page(page);
    if (!read) return tl::unexpected(read.error());
    if (!*read) break;
    if (auto wrote = stream->write_page(page); !wrote) {
      ++unwritten_pages_;
      return wrote;
    }
  }
  return {};
}

Result<void> Held::take_pages(PageFiles& files) {
  Result<void> taken;
  for (unsigned cpu = 0; cpu < files.cpus(); ++cpu) {
    const std::uint64_t unwritten = unwritten_pages_;
    if (taken) taken = take_cpu(cpu, files);
    const std::string stats = stats_of(cpu);
    stats_.push_back(fmt::format("CPU: {}\n{}", cpu, stats));
    CpuLoss loss = read_loss(cpu, stats);
    loss.unwritten_pages = unwritten_pages_ - unwritten;
    if (taken) loss.unread = 0;  // what came meanwhile
    session_.losses.push_back(loss);
  }
  return taken;
}

Result<void> Held::close(PageFiles& files) {
  folder_->follow_rename();
  files.close();
  (void)folder_->remove("raw/reserve");
  (void)folder_->replace("raw/cmdlines", threads_.cmdlines(), 0600, Durable::kYes);
  if (auto finished = finish_locked(*folder_, stats_); !finished) return finished;
  session_.closed = true;
  auto wrote = write_session(*folder_, session_);
  lock_.reset();
  return wrote;
}

void Held::tell(std::uint64_t written) const {
  const bool on = instance_.control().get("tracing_on").value_or("").starts_with('1');
  say(
      fmt::format("took {:.1f} MiB of events out of the ftrace instance {}: they are no longer in "
                  "it, and its settings are as they were ({})",
                  mib(written), instance_.name(), on ? "it records on" : "it is switched off"));
  std::uint64_t overwritten = 0, dropped = 0;
  for (const CpuLoss& loss : session_.losses) {
    overwritten += loss.overwritten;
    dropped += loss.dropped;
  }
  if (overwritten != 0)
    say(fmt::format("{} older events had been overwritten in its buffers before", overwritten));
  if (dropped != 0) say(fmt::format("{} events had found no room in its buffers", dropped));
}

Result<int> Held::take() {
  auto ready = prepare();
  auto files = ready ? make_page_files(instance_, *folder_, options_, formats_)
                     : Result<PageFiles>(tl::unexpected(ready.error()));
  Result<void> taken;
  if (files) taken = take_pages(*files);
  if (!files || (!taken && files->written() == 0)) {
    if (folder_) (void)remove_session_folder(std::move(*folder_));
    return tl::unexpected(files ? taken.error() : files.error());
  }
  if (!taken) session_.ended_by = taken.error().message;
  if (const std::string text = earlier_.text(); !text.empty()) say(text);
  const std::uint64_t written = files->written();
  auto closed = close(*files);
  if (!closed) {
    return fail("{}; the pages are in {}/raw; once there is room: trapline record --finish {}",
                closed.error().message, folder_->path(), shell_text({folder_->path()}));
  }
  if (auto moved = earlier_.make_way(*folder_); !moved)
    say(fmt::format("warning: {}; the recording is {}", moved.error().message, folder_->path()));
  tell(written);
  const Outcome outcome{*folder_, written, written, taken.has_value()};
  if (const std::string next = ending_of(session_, outcome).next; !next.empty())
    say("next: " + next);
  if (taken) return 0;
  return fail("{}; what came before is in {}, and the rest is still in the instance",
              taken.error().message, folder_->path());
}

}  // namespace

Result<int> record_held(const RecordOptions& options) {
  ::umask(077);  // what the session holds is its owner's alone
  const std::string& name = *options.from_instance;
  auto instance = Instance::attach(name, "--from-instance");
  if (!instance) return tl::unexpected(std::move(instance).error());
  if (maker_of(name) == Maker::kAlive) {
    return fail(ErrorKind::kUsage,
                "--from-instance {}: a trapline that runs reads this instance: its session can be "
                "read while it is recorded",
                name);
  }
  return Held(options, std::move(*instance)).take();
}

}  // namespace trapline::record
