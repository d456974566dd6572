// Writes the folder of a session: of a recording, of a snapshot, or of what an instance or `top`
// held.
//
//   make() ─ session.json, raw/ ─ open_files() ─ pages ─ seal(): trace.dat is whole, session.json
//   says closed, and the session is where its name says
//
// Guarantees: if the process is killed before seal() has ended, the folder is a session that
// trapline record --finish can complete.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/events/qemu_monitor.h"
#include "merge/record/page_files.h"
#include "merge/record/page_ring.h"
#include "merge/record/threads.h"
#include "merge/session/session_folder.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// Returns a new session's facts about this host and process; trace.dat is on `clock`.
[[nodiscard]] SessionJson new_session(const std::string& version, const std::string& clock);

// Returns the memory slots in what QEMU's `info mtree -f` prints, without those that are damaged;
// none if they are more than kMostSlots.
[[nodiscard]] std::vector<SessionSlot> slots_in(const std::vector<std::string>& lines);
// Returns the present settings and memory that decide on page faults. `monitor`: of a QEMU, for its
// memory slots; nullptr: none are returned.
[[nodiscard]] SessionEdge edge_now(const std::map<pid_t, Thread>& threads, QemuMonitor* monitor);

// Returns an Error if the recording's files were removed, since further data would have no name.
[[nodiscard]] Result<void> check_presence(const Folder& folder);

// Returns the texts of per_cpu/cpuN/stats of each CPU as trace.dat stores them: with the losses
// that only the recorder knows added.
[[nodiscard]] std::vector<std::string> cpu_stats(const std::vector<CpuLoss>& losses,
                                                 const std::vector<std::string>& stats);

class SessionWriter {
 public:
  // Takes over a folder that make_session() made, and writes its session.json.
  [[nodiscard]] static Result<SessionWriter> make(Result<NewSession> made,
                                                  const SessionJson& session);
  // Opens the page files with the head of trace.dat, which `facts` describe.
  [[nodiscard]] Result<void> open_files(std::string_view head, trace_dat::StartFacts facts);

  [[nodiscard]] Folder& folder() { return made_->folder; }
  [[nodiscard]] const Folder& folder() const { return made_->folder; }
  [[nodiscard]] PageFiles& files() { return *files_; }
  [[nodiscard]] const PageFiles& files() const { return *files_; }
  [[nodiscard]] EarlierSession& earlier() { return made_->earlier; }

  [[nodiscard]] Result<void> write(const SessionJson& session) const;
  // Closes the session; `cmdlines` has the names of threads. `has_failed`: the disk has refused
  // data, so every page is read back, and damaged ones become losses. The Error leaves the pages in
  // raw/ and says how to continue.
  [[nodiscard]] Result<void> seal(SessionJson& session, const std::string& cmdlines,
                                  const std::vector<std::string>& stats, bool has_failed = false);
  // Writes the ring's events from `from` to `to`, both included, seals the session, with what the
  // kernel lost among them, and puts it in its place. Returns how many events it has. If its files
  // could not be opened or written, the folder is removed.
  [[nodiscard]] Result<std::uint64_t> keep_ring(Result<void> opened, const PageRing& ring,
                                                std::uint64_t from, std::uint64_t to,
                                                SessionJson& session, const std::string& cmdlines);
  // Puts the session in the place of an earlier one of its name.
  [[nodiscard]] Result<void> make_way() { return made_->earlier.make_way(made_->folder); }
  // Removes the session's folder with everything in it.
  void discard();

 private:
  [[nodiscard]] Result<std::uint64_t> seal_ring(const PageRing& ring, std::uint64_t from,
                                                std::uint64_t to, SessionJson& session,
                                                const std::string& cmdlines);
  explicit SessionWriter(NewSession made) : made_(std::make_unique<NewSession>(std::move(made))) {}
  std::unique_ptr<NewSession> made_;  // the files have a pointer to its folder
  std::optional<PageFiles> files_;
};

}  // namespace trapline::record
