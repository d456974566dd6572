#include "plugin/call_markers.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::size_t kLongestName = 400;

std::string_view text_of(const char* text, int size, std::size_t room) {
  return {text, size < 0 ? 0 : std::min(static_cast<std::size_t>(size), room - 1)};
}

}  // namespace

bool CallMarkers::write(std::string_view text) {
  if (marker_.write(text) > 0) [[likely]]
    return true;
  tell_once_slow(marker_.counts().last_errno);
  return false;
}

void CallMarkers::tell_once_slow(int error) {
  if (told_.exchange(true)) return;
  const char* cause = error == EBADF    ? " (tracing_on of the instance is 0)"
                      : error == EINVAL ? " (the option markers of the instance is off)"
                                        : "";
  std::fprintf(stderr,
               "trapline plugin: the kernel does not take markers: %s%s; the guest goes on, calls "
               "that are lost are counted\n",
               std::strerror(error), cause);
}

std::string_view CallMarkers::name_of(std::uint64_t function) const {
  const Symbol* symbol = symbols_.find(function);
  return symbol != nullptr ? symbol->name.substr(0, kLongestName) : "?";
}

void CallMarkers::begin() {
  (void)write(fmt::format("trapline: calls 1 begin run={} pid={} arch={} contexts={} output={}",
                          run_.id, ::getpid(), run_.arch, run_.contexts, run_.output));
  (void)marker_.sync();
}

void CallMarkers::add_vcpu(unsigned vcpu) {
  (void)write(fmt::format("trapline: V cpu{} pid={}", vcpu, ::getpid()));
}

void CallMarkers::add_task(std::uint32_t task, std::string_view name) {
  if (run_.names_tasks) (void)write(fmt::format("trapline: T t={} {}", task, name));
}

void CallMarkers::end() {
  (void)marker_.sync();
  (void)write(
      fmt::format("trapline: calls 1 end run={} written={} lost={}", run_.id, written(), lost()));
}

void VcpuMarkers::write(bool entry, std::uint32_t task, std::uint64_t depth,
                        std::uint64_t function) {
  char text[512];
  char field[24] = "";
  if (all_.names_tasks()) std::snprintf(field, sizeof field, " t=%u", task);
  const std::string_view name = all_.name_of(function);
  const int size = std::snprintf(text, sizeof text, "trapline: %c cpu%u d=%llu%s 0x%llx %.*s",
                                 entry ? 'E' : 'X', vcpu_, static_cast<unsigned long long>(depth),
                                 field, static_cast<unsigned long long>(function),
                                 static_cast<int>(name.size()), name.data());
  if (say_losses() && all_.write(text_of(text, size, sizeof text))) [[likely]]
    return all_.count(1, 0);
  ++unsaid_;
  all_.count(0, 1);
}

bool VcpuMarkers::say_losses() {
  if (unsaid_ == 0) [[likely]]
    return true;
  if (!all_.write(fmt::format("trapline: L cpu{} {}", vcpu_, unsaid_))) return false;
  unsaid_ = 0;
  return true;
}

}  // namespace trapline
