// Reports on standard error, once per process, the parts of TRAPLINE_EVENTS that cannot be applied.
//
// Groups register in constructors, one after the other, and none of them knows that it is the last:
// a pattern that matches nothing now may match in the next group. So when a registration leaves
// patterns that match nothing, a thread checks again a tenth of a second later, or at the end of
// the program if that comes first. A program whose TRAPLINE_EVENTS is right never gets this thread.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/base/blocked_signals.h"
#include "backend_ftrace/events/pattern_list.h"
#include "backend_ftrace/events/runtime.h"
#include "backend_ftrace/futex.h"
#include "trapline/events.h"

namespace trapline {
namespace {

constexpr long kSettle = 100'000'000;  // ns

std::atomic<bool> scheduled{false};
std::atomic<bool> told{false};
std::atomic<std::uint32_t> ending{0};  // futex: the program is ending
char* list = nullptr;                  // a copy, because the program may change its environment
pthread_t thread;
bool has_thread = false;
pid_t owner = 0;

void count_one(const trapline_event*, void* context) { ++*static_cast<std::size_t*>(context); }

bool matches_any(const char* pattern) {
  std::size_t count = 0;
  trapline_events_each(pattern, count_one, &count);
  return count > 0;
}

bool is_help(const char* pattern) { return std::strcmp(pattern, "help") == 0; }

// --- errors -------------------------------------------------------------------------------------

void note_pattern(const char* pattern, bool, void* context) {
  if (!matches_any(pattern)) *static_cast<bool*>(context) = true;
}
void note_failure(const char*, const char*, const char*, void* context) {
  *static_cast<bool*>(context) = true;
}

bool is_amiss(const char* patterns) {
  bool amiss = false;
  visit_pattern_list(patterns, {note_pattern, note_failure, &amiss});
  return amiss;
}

// --- messages -----------------------------------------------------------------------------------

// Writes each line with one write, as all messages of the library do, and without stdio: its
// streams belong to the program.
void say(const char* text, int size, std::size_t room) {
  if (size < 0) return;
  const std::size_t length =
      static_cast<std::size_t>(size) < room ? static_cast<std::size_t>(size) : room - 1;
  if (::write(STDERR_FILENO, text, length) < 0) return;
}

void say_name(const trapline_event* event, void*) {
  char text[256];
  say(text, std::snprintf(text, sizeof text, "%s\n", event->name), sizeof text);
}

void tell_pattern(const char* pattern, bool, void*) {
  if (matches_any(pattern)) return;
  char text[512];
  if (is_help(pattern)) {
    say(text, std::snprintf(text, sizeof text, "trapline: the events of this program:\n"),
        sizeof text);
    return trapline_events_each("*", say_name, nullptr);
  }
  char near[129];
  trapline_events_nearest(pattern, near, sizeof near);
  say(text,
      std::snprintf(text, sizeof text,
                    near[0] != '\0'
                        ? "trapline: TRAPLINE_EVENTS: no event matches '%.128s'; did you mean %s?\n"
                        : "trapline: TRAPLINE_EVENTS: no event matches '%.128s'; "
                          "TRAPLINE_EVENTS=help lists the events\n",
                    pattern, near),
      sizeof text);
}

void tell_failure(const char* what, const char* name, const char* hint, void*) {
  char text[1024];
  say(text,
      std::snprintf(text, sizeof text, "trapline: TRAPLINE_EVENTS: %s '%s'%s%s\n", what, name,
                    hint[0] != '\0' ? "; " : "", hint),
      sizeof text);
}

void tell() {
  if (!told.exchange(true)) visit_pattern_list(list, {tell_pattern, tell_failure, nullptr});
}

void* tell_later(void*) {
  futex_wait(ending, 0, {0, kSettle});
  tell();
  return nullptr;
}

// Runs when the program ends or when the object that contains this code is unloaded.
void finish() {
  if (::getpid() != owner) return;  // a child of fork has no thread, and its parent reports
  ending.store(1);
  futex_wake_all(ending);
  if (has_thread) ::pthread_join(thread, nullptr);
  tell();
}

}  // namespace

void check_environment_events() {
  const char* patterns = ::secure_getenv("TRAPLINE_EVENTS");
  if (patterns == nullptr || !is_amiss(patterns) || scheduled.exchange(true)) return;
  list = ::strdup(patterns);
  if (list == nullptr) return;
  owner = ::getpid();
  std::atexit(finish);
  const BlockedSignals blocked;
  has_thread = ::pthread_create(&thread, nullptr, tell_later, nullptr) == 0;
}

}  // namespace trapline
