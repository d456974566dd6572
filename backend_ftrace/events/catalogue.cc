// The events of this program and their state. All code here is cold: the hot path is the test of a
// state word in the generated header.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/events/pattern_list.h"
#include "backend_ftrace/events/runtime.h"
#include "trapline/events.h"

namespace {

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
trapline_event_group* first = nullptr;
std::uint32_t next_id = 0;

struct Locked {
  Locked() { pthread_mutex_lock(&lock); }
  ~Locked() { pthread_mutex_unlock(&lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

bool matches(const char* pattern, const char* name) {
  const char* star = nullptr;
  const char* resume = nullptr;
  while (*name != '\0') {
    if (*pattern == '*') {
      star = pattern++;
      resume = name;
    } else if (*pattern == '?' || *pattern == *name) {
      ++pattern;
      ++name;
    } else if (star != nullptr) {
      pattern = star + 1;
      name = ++resume;
    } else {
      return false;
    }
  }
  while (*pattern == '*') ++pattern;
  return *pattern == '\0';
}

constexpr std::size_t kMaxName = 128;

std::size_t distance(const char* a, std::size_t a_size, const char* b, std::size_t b_size) {
  std::size_t row[kMaxName + 1];
  for (std::size_t j = 0; j <= b_size; ++j) row[j] = j;
  for (std::size_t i = 1; i <= a_size; ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b_size; ++j) {
      std::size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[b_size];
}

std::size_t set_in_group(trapline_event_group* group, const char* pattern, bool on) {
  std::size_t matched = 0;
  for (std::size_t i = 0; i < group->count; ++i) {
    if (!matches(pattern, group->events[i].name)) continue;
    __atomic_store_n(group->events[i].state, on ? 1u : 0u, __ATOMIC_RELAXED);
    ++matched;
  }
  return matched;
}

std::size_t set_locked(const char* pattern, bool on, trapline_event_group* only) {
  if (only != nullptr) return set_in_group(only, pattern, on);
  std::size_t matched = 0;
  for (trapline_event_group* group = first; group != nullptr; group = group->next) {
    matched += set_in_group(group, pattern, on);
  }
  return matched;
}

void find_nearest(const char* wanted, char* nearest, std::size_t size) {
  nearest[0] = '\0';
  const std::size_t wanted_size = std::strlen(wanted);
  if (wanted_size > kMaxName) return;
  std::size_t best = wanted_size / 3 + 1;
  for (trapline_event_group* group = first; group != nullptr; group = group->next) {
    for (std::size_t i = 0; i < group->count; ++i) {
      const char* name = group->events[i].name;
      const std::size_t name_size = std::strlen(name);
      if (name_size > kMaxName) continue;
      const std::size_t apart = distance(wanted, wanted_size, name, name_size);
      if (apart >= best) continue;
      best = apart;
      std::snprintf(nearest, size, "%s", name);
    }
  }
}

// The result of applying a list; keeps only the first failure.
struct Outcome {
  char* error;
  std::size_t size;
  bool failed = false;
  // Set when a group registers late: apply to this group only.
  trapline_event_group* only = nullptr;
};

void complain(const char* what, const char* name, const char* hint, void* context) {
  auto& outcome = *static_cast<Outcome*>(context);
  if (!outcome.failed && outcome.error != nullptr && outcome.size > 0) {
    std::snprintf(outcome.error, outcome.size, "%s '%s'%s%s", what, name, hint[0] ? "; " : "",
                  hint);
  }
  outcome.failed = true;
}

void apply_pattern(const char* pattern, bool on, void* context) {
  auto& outcome = *static_cast<Outcome*>(context);
  if (set_locked(pattern, on, outcome.only) > 0 || outcome.only != nullptr) return;
  char near[kMaxName + 1];
  char hint[kMaxName + 32] = "";
  find_nearest(pattern, near, sizeof near);
  if (near[0] != '\0') std::snprintf(hint, sizeof hint, "did you mean %s?", near);
  complain("no event matches", pattern, hint, context);
}

trapline::PatternVisitor applying(Outcome& outcome) { return {apply_pattern, complain, &outcome}; }

bool has_event_on(const trapline_event_group& group) {
  for (std::size_t i = 0; i < group.count; ++i) {
    if (__atomic_load_n(group.events[i].state, __ATOMIC_RELAXED) != 0) return true;
  }
  return false;
}

}  // namespace

extern "C" {

void trapline_events_register(trapline_event_group* group) {
  bool switched_on = false;
  {
    const Locked locked;
    trapline_event_group** end = &first;
    while (*end != nullptr) end = &(*end)->next;
    group->next = nullptr;
    *end = group;
    for (std::size_t i = 0; i < group->count; ++i) group->events[i].id = next_id++;
    // A pattern that matches nothing now may match in a group that registers later, so no failure
    // is reported yet.
    if (const char* patterns = ::secure_getenv("TRAPLINE_EVENTS")) {
      Outcome outcome{nullptr, 0, false, group};
      trapline::visit_pattern_list(patterns, applying(outcome));
      switched_on = has_event_on(*group);
    }
  }
  trapline::check_environment_events();
  trapline::prepare_outputs(group->backends, switched_on);
}

void trapline_events_unregister(trapline_event_group* group) {
  const Locked locked;
  for (trapline_event_group** at = &first; *at != nullptr; at = &(*at)->next) {
    if (*at != group) continue;
    *at = group->next;
    return;
  }
}

std::size_t trapline_events_set(const char* pattern, bool on) {
  const Locked locked;
  return set_locked(pattern, on, nullptr);
}

int trapline_events_apply(const char* patterns, char* error, std::size_t error_size) {
  const Locked locked;
  Outcome outcome{error, error_size};
  trapline::visit_pattern_list(patterns, applying(outcome));
  return outcome.failed ? -1 : 0;
}

int trapline_events_load(const char* path, char* error, std::size_t error_size) {
  const Locked locked;
  Outcome outcome{error, error_size};
  trapline::visit_pattern_file(path, applying(outcome));
  return outcome.failed ? -1 : 0;
}

const trapline_event* trapline_events_find(const char* name) {
  const Locked locked;
  for (trapline_event_group* group = first; group != nullptr; group = group->next) {
    for (std::size_t i = 0; i < group->count; ++i) {
      if (std::strcmp(group->events[i].name, name) == 0) return &group->events[i];
    }
  }
  return nullptr;
}

void trapline_events_each(const char* pattern, void (*each)(const trapline_event*, void*),
                          void* context) {
  const Locked locked;
  for (trapline_event_group* group = first; group != nullptr; group = group->next) {
    for (std::size_t i = 0; i < group->count; ++i) {
      if (matches(pattern, group->events[i].name)) each(&group->events[i], context);
    }
  }
}

void trapline_events_nearest(const char* wanted, char* nearest, std::size_t size) {
  const Locked locked;
  find_nearest(wanted, nearest, size);
}

}  // extern "C"
