#include "merge/worker/elf_parts.h"

// Without this, libiberty.h would declare basename() in conflict with the C library.
#define HAVE_DECL_BASENAME 1
#include <ansidecl.h>
#include <demangle.h>

#include <sys/time.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <string>

#include "merge/worker/channel.h"

namespace trapline::worker {
namespace {

// Limits for names: a hostile name of a few hundred bytes can stand for gigabytes of text
// (substitutions that double). The demangler is left as soon as its text is longer than
// kMaxDemangled.
constexpr std::size_t kMaxMangled = 8 * 1024;
constexpr std::size_t kMaxDemangled = 64 * 1024;

std::string demangled;
std::jmp_buf too_long;
MessageWriter names;                   // the answer so far
volatile std::sig_atomic_t busy = 0;   // a demangler is running
volatile std::sig_atomic_t ticks = 0;  // timer ticks since the demangler was called

// Takes the next part of a name. The demanglers pass on their text every 256 bytes; they hold no
// memory then, so longjmp leaks none.
void collect(const char* part, std::size_t length, void*) {
  if (demangled.size() + length > kMaxDemangled) std::longjmp(too_long, 1);
  demangled.append(part, length);
}

// Leaves the result in `demangled`. Has no object with a destructor, because collect() may longjmp
// out of the demangler.
bool demangled_by(int (*demangler)(const char*, int, demangle_callbackref, void*),
                  const char* name) {
  demangled.clear();
  if (setjmp(too_long) != 0) return false;
  return demangler(name, DMGL_NO_OPTS, collect, nullptr) != 0;
}

bool demangle(const std::string& name) {
  const bool cxx = name.starts_with("_Z") || name.starts_with("__Z");
  const bool rust = name.starts_with("_R") || (cxx && name.find("17h") != std::string::npos);
  if (name.size() > kMaxMangled) return false;
  if (rust && demangled_by(rust_demangle_callback, name.c_str())) return true;
  return cxx && demangled_by(cplus_demangle_v3_callback, name.c_str());
}

// Handles a name that takes long without producing text. The demangler cannot be left, so the
// worker answers with the names before this one and ends. The caller keeps this name as it is and
// asks another worker for the names after it.
void on_tick(int) {
  constexpr int kMostTicks = 3;
  ticks = ticks + 1;
  if (busy == 0 || ticks < kMostTicks) return;
  answer(MessageKind::kTexts, names.bytes());
  ::_exit(0);
}

void start_ticks() {
  static bool started = false;
  if (std::exchange(started, true)) return;
  constexpr itimerval kEvery{{0, 20'000}, {0, 20'000}};  // of processor time
  (void)std::signal(SIGVTALRM, on_tick);
  (void)::setitimer(ITIMER_VIRTUAL, &kEvery, nullptr);
}

}  // namespace

void demangle_names(MessageReader& request) {
  names.clear();
  start_ticks();
  while (!request.at_end()) {
    const auto mangled = request.text();
    if (!mangled) break;
    ticks = 0;
    busy = 1;
    const bool known = demangle(std::string(*mangled));
    busy = 0;
    names.text(known ? std::string_view(demangled) : std::string_view());
  }
  answer(MessageKind::kTexts, names.bytes());
}

}  // namespace trapline::worker
