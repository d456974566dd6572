#include "merge/live/save.h"

#include <algorithm>

#include "backend_ftrace/clock.h"
#include "merge/record/page_files.h"
#include "merge/record/session.h"
#include "merge/record/snapshot/page_cut.h"
#include "merge/session/finish.h"

namespace trapline::live {
namespace {

// The pages of each CPU, cut at the first and the last event.
Result<Saved> write_pages(const LiveSource& source, Timestamp from, Timestamp to,
                          record::PageFiles& files, const Folder& folder) {
  Saved saved{from, to, 0};
  std::vector<std::byte> out(files.page_size());
  std::vector<bool> begun(files.cpus());
  auto written = source.for_each_page([&](std::size_t cpu, std::span<const std::byte> page,
                                          const record::PageFacts& facts) -> Result<void> {
    if (facts.last < from.ns() || facts.first > to.ns()) return {};
    const record::CutPage piece = record::cut_page(page, from.ns(), to.ns(), out);
    if (piece.events == 0) return {};
    // What was lost before the first event is not of the part that is saved.
    if (begun[cpu] && piece.skipped == 0) record::mark_missed(out, piece.used, facts.lost);
    begun[cpu] = true;
    saved.events += piece.events;
    return files.write(static_cast<unsigned>(cpu), out);
  });
  if (!written) return tl::unexpected(std::move(written).error());
  if (saved.events == 0) return fail("{}: no events are in memory yet", folder.path());
  return saved;
}

record::Session session_of(PageFeed& feed, const std::string& version) {
  record::Session session;
  session.trapline_version = version;
  session.clock = feed.layout().clock;
  session.end_real_ns = read_clock(ClockId::kReal);
  session.ended_by = "top";
  for (const kernel_events::EventFormat& format : feed.layout().formats) {
    const auto at = format.text.find("name: ");
    if (at != 0 || format.system == "ftrace") continue;
    session.enabled_events.push_back(
        {format.system, format.text.substr(6, format.text.find('\n') - 6)});
  }
  for (const auto& [process, name] : feed.vm_names()) {
    if (!name.empty()) session.vms.push_back({static_cast<std::int32_t>(process), name});
  }
  return session;
}

Result<Saved> write_session(const LiveSource& source, PageFeed& feed, Timestamp from, Timestamp to,
                            const std::string& head, const Folder& folder,
                            const std::string& version) {
  record::Session session = session_of(feed, version);
  // First of all: what a kill leaves without it would be no session.
  if (auto wrote = record::write_session(folder, session); !wrote)
    return tl::unexpected(std::move(wrote).error());
  trace_dat::StartFacts facts = feed.start_facts();
  facts.version = "trapline " + version;
  auto files = record::PageFiles::open(folder, head, std::move(facts));
  if (!files) return tl::unexpected(std::move(files).error());
  (void)folder.replace("raw/cmdlines", feed.cmdlines(), 0600, Durable::kYes);
  auto saved = write_pages(source, from, to, *files, folder);
  if (!saved) return saved;
  session.start_real_ns = session.end_real_ns - std::min(session.end_real_ns, elapsed(from, to));
  for (const auto& [thread, process] : feed.threads()) {
    session.seen_threads[static_cast<pid_t>(thread)] = {static_cast<pid_t>(process),
                                                        feed.comm(thread)};
  }
  files->close();
  Result<void> done = finish_locked(folder, {});
  session.closed = done.has_value();
  if (done) done = record::write_session(folder, session);
  if (!done) return tl::unexpected(std::move(done).error());
  return saved;
}

}  // namespace

Result<Saved> save_session(const LiveSource& source, PageFeed& feed, Timestamp from, Timestamp to,
                           const std::string& path, const std::string& version) {
  from = std::max(from, source.kept_from());
  auto head = feed.head();
  if (!head) return tl::unexpected(std::move(head).error());
  auto made = make_session(path);
  if (!made) return tl::unexpected(std::move(made).error());
  auto saved = write_session(source, feed, from, to, *head, made->folder, version);
  if (!saved) {
    (void)remove_session_folder(std::move(made->folder));
    return saved;
  }
  if (auto moved = made->earlier.make_way(made->folder); !moved)
    return fail("{}; the session is {}", moved.error().message, made->folder.path());
  return saved;
}

}  // namespace trapline::live
