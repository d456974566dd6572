#include "merge/export/perfetto_texts.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"

namespace trapline::perfetto {

Text Texts::reason(const ExitSpan& exit) {
  const auto [place, is_new] = reasons_.try_emplace(packed(exit.reason, exit.source));
  if (is_new) {
    place->second.text = reason_text(timeline_.source(exit.source), exit.reason);
    place->second.id = writer_.name(place->second.text).id;
  }
  return place->second.as_text();
}

Text Texts::detail(const ExitSpan& exit) {
  const Kept& kept = details_.of(exit, [&] {
    std::string text = detail_text(exit.detail);
    const std::uint64_t id = writer_.value(text).id;
    return Kept{std::move(text), id};
  });
  return kept.as_text();
}

Text Texts::userspace_reason(const ExitSpan& exit) {
  const std::uint64_t key = std::uint64_t{exit.source} << 32 | exit.userspace_reason;
  const auto [place, is_new] = userspace_reasons_.try_emplace(key);
  if (is_new) {
    place->second.text = timeline_.source(exit.source).userspace_reason(exit.userspace_reason);
    place->second.id = writer_.value(place->second.text).id;
  }
  return place->second.as_text();
}

Text Texts::thread(std::uint16_t source, ThreadId thread) {
  if (threads_.size() >= kMostThreads) threads_.clear();
  const auto [place, is_new] = threads_.try_emplace(key_of(source, thread));
  if (is_new) {
    place->second.text = fmt::format("{}-{}", timeline_.source(source).comm(thread),
                                     static_cast<std::int32_t>(thread));
    place->second.id = writer_.value(place->second.text).id;
  }
  return place->second.as_text();
}

std::string Texts::host_comm(ThreadId thread) const {
  std::string name;
  for (std::size_t i = 0; i < timeline_.size() && name.empty(); ++i) {
    const Source& source = timeline_.source(i);
    if (source.info().role == Role::kHostKernel) name = source.comm(thread);
  }
  return name;
}

Text Texts::guest_process(const Event& event, ThreadId task) {
  if (processes_.size() >= kMostThreads) processes_.clear();
  const auto [place, is_new] = processes_.try_emplace(
      fmt::format("{}-{}", comm(event, task), static_cast<std::int32_t>(task)));
  if (is_new) place->second = writer_.name(place->first).id;
  return {place->second, place->second == 0 ? std::string_view("[other]") : std::string_view()};
}

Text Texts::name(NameId id, const Pipeline& pipeline) {
  const std::string_view text = pipeline.names()[id];
  if (id >= names_.size()) names_.resize(id + 1);
  if (names_[id] == 0) names_[id] = writer_.name(text).id;
  return {names_[id], text};
}

Text Texts::value(NameId id, const Pipeline& pipeline) {
  const std::string_view text = pipeline.names()[id];
  if (id >= values_.size()) values_.resize(id + 1);
  if (values_[id] == 0) values_[id] = writer_.value(text).id;
  return {values_[id], text};
}

Text Texts::stack(StackId id, const Pipeline& pipeline) {
  if (id >= stacks_.size()) stacks_.resize(id + 1);
  if (stacks_[id] != 0) return {stacks_[id], {}};
  stack_text_ = pipeline.stacks().text(id);
  stacks_[id] = writer_.value(stack_text_).id;
  return {stacks_[id], stack_text_};
}

Texts::Comm& Texts::comm_of(const Event& event, ThreadId thread) {
  // Every CPU's idle thread is 0.
  const std::uint64_t key = thread == ThreadId{}
                                ? std::uint64_t{1} << 63 | key_of(event.source, {}) | event.cpu
                                : key_of(event.source, thread);
  const auto found = comms_.find(key);
  if (found != comms_.end()) return found->second;
  if (comms_.size() >= kMostThreads) comms_.clear();
  Comm& comm = comms_[key];
  comm.raw = thread == ThreadId{} ? fmt::format("swapper/{}", event.cpu)
                                  : timeline_.source_of(event).comm(thread);
  comm.printable = printable(comm.raw);
  return comm;
}

const std::string& Texts::comm(const Event& event, ThreadId thread) {
  return comm_of(event, thread).printable;
}

void Texts::note_comm(const Event& event, ThreadId thread, std::string_view comm) {
  Comm& kept = comm_of(event, thread);
  if (kept.raw == comm) return;
  kept = {std::string(comm), printable(comm)};
}

}  // namespace trapline::perfetto
