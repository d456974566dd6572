// Writes a session's folder: of a recording, of a snapshot, of what an instance or `top` held.
//
//   make() ─ session.json, raw/ ─ open_files() ─ pages ─ seal(): trace.dat is whole, session.json
//   says closed, and the session is where its name says
//
// Guarantees: what a kill leaves before seal() is over is a session that trapline record --finish
// makes whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/record/page_files.h"
#include "merge/session/session_folder.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// What a session of this host and process begins with, its trace.dat by `clock`.
[[nodiscard]] SessionJson new_session(const std::string& version, const std::string& clock);

// An Error where what is recorded was removed: what is written from then on has no name.
[[nodiscard]] Result<void> check_presence(const Folder& folder);

// per_cpu/cpuN/stats of each CPU, with what else was lost, as trace.dat wants it.
[[nodiscard]] std::vector<std::string> cpu_stats(const std::vector<CpuLoss>& losses,
                                                 const std::vector<std::string>& stats);

class SessionWriter {
 public:
  // Makes the folder, by its path or below another one, and its session.json.
  [[nodiscard]] static Result<SessionWriter> make(Result<NewSession> made,
                                                  const SessionJson& session);
  // With the head of trace.dat, which `facts` tell of.
  [[nodiscard]] Result<void> open_files(std::string_view head, trace_dat::StartFacts facts);

  [[nodiscard]] Folder& folder() { return made_->folder; }
  [[nodiscard]] const Folder& folder() const { return made_->folder; }
  [[nodiscard]] PageFiles& files() { return *files_; }
  [[nodiscard]] const PageFiles& files() const { return *files_; }
  [[nodiscard]] EarlierSession& earlier() { return made_->earlier; }

  [[nodiscard]] Result<void> write(const SessionJson& session) const;
  // Closes the session, of which `cmdlines` names the threads. Where the disk has refused data
  // every page is read back, and what is torn becomes a loss. An Error leaves the pages in raw/
  // and says how to go on.
  [[nodiscard]] Result<void> seal(SessionJson& session, const std::string& cmdlines,
                                  const std::vector<std::string>& stats, bool has_failed = false);
  // Puts it in place of an earlier one of its name.
  [[nodiscard]] Result<void> make_way() { return made_->earlier.make_way(made_->folder); }
  // Nothing of it stays.
  void discard();

 private:
  explicit SessionWriter(NewSession made) : made_(std::make_unique<NewSession>(std::move(made))) {}
  std::unique_ptr<NewSession> made_;  // the files have its folder's address
  std::optional<PageFiles> files_;
};

}  // namespace trapline::record
