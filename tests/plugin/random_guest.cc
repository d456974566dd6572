#include "tests/plugin/random_guest.h"

#include <algorithm>

namespace trapline::test {
namespace {

constexpr std::size_t kMostFrames = 120;  // of a stack: 120 times at most 72 bytes lie in its block
constexpr std::uint64_t kThreadSwitch = 99;  // the function that gives the CPU to another thread

}  // namespace

RandomGuest::RandomGuest(std::string_view input) : bytes_(input), input_(bytes_) {
  const std::uint8_t choice = input_.byte();
  slots_ = (choice & 1) == 0;
  told_ = !slots_ || (choice & 2) != 0;
  user_level_ = slots_ ? 3 : 0;
  kernel_level_ = slots_ ? 0 : 1;
  user_.base = 0x7fff0000'8000;
  kernel_[0].base = 0xffff8880'00008000;
  kernel_[1].base = 0xffff8880'00010000;
  filtered_ = (choice & 4) != 0;
  options_.sites_know_slots = slots_;
  options_.higher_level_is_user = slots_;
  options_.know_starts = true;
  options_.told_of_events = told_;
  options_.filtered = filtered_;
  if ((choice & 8) != 0) options_.text = this;
  options_.records = options_.text == nullptr || (choice & 16) != 0;
  if (choice >> 5 == 1) options_.max_depth = 1 + input_.up_to(7);
  if (choice >> 5 == 2) options_.min_duration = 1;  // every call lasts that long
  nothing_lasts_ = choice >> 5 == 3;
  // Half as long as the machine has run.
  if (nothing_lasts_) options_.min_duration = RecordClock().now() / 2;
  tracker_ = std::make_unique<CallTracker>(0, *this, *this, *this, pool_, options_);
  RecordClock clock;
  clock.start(ClockChoice::kTsc);  // the counter: only with it there is a fast path
  tracker_->use_clock(clock);
}

std::size_t RandomGuest::append(std::uint32_t, std::span<const Record> records) {
  records_.insert(records_.end(), records.begin(), records.end());
  return records.size_bytes();
}

void RandomGuest::write(bool entry, std::uint32_t, std::uint64_t depth, std::uint64_t function) {
  said_.push_back({entry, depth, function});
}

// --- what the guest knows ---

void RandomGuest::note_entry(Kind kind, std::uint64_t function, std::uint64_t slot,
                             std::uint64_t ret) {
  Known known{kind, slot, function, ret, false, slots_ || kind == Kind::kEvent};
  known.open = recording_ && !nothing_lasts_ && depth_ < options_.max_depth && recorded(function);
  if (known.open) expected_.push_back({true, depth_++, function});
  place_->frames.push_back(known);
}

void RandomGuest::note_exits(std::size_t keep) {
  while (place_->frames.size() > keep) {
    const Known& known = place_->frames.back();
    if (known.open) expected_.push_back({false, --depth_, known.function});
    place_->frames.pop_back();
  }
}

// In the order of their nesting: the kernel's stack lies above the user's where it was entered from
// there.
void RandomGuest::close_open() {
  for (Place* place : {place_, &user_}) {
    for (auto known = place->frames.rbegin(); known != place->frames.rend(); ++known) {
      if (known->open) expected_.push_back({false, --depth_, known->function});
      known->open = false;
    }
  }
}

void RandomGuest::take_request() {
  if (request_ == 0) return;
  const bool on = request_ == 1;
  request_ = 0;
  if (!on && recording_) close_open();
  recording_ = on;
}

// --- what it does ---

// Who calls has saved its link register; so has who is interrupted, for the tracker is told of no
// stack before it sees a function there.
void RandomGuest::save_link() {
  if (slots_ || place_->frames.empty() || place_->frames.back().saved) return;
  place_->frames.back().saved = true;
  tracker_->return_address_saved(place_->frames.back().slot);
}

void RandomGuest::call() {
  if (place_->frames.size() >= kMostFrames) return;
  take_request();
  save_link();
  const std::uint64_t function = 1 + input_.up_to(39);
  const std::uint64_t slot = place_->stack_pointer() - 16 - 8 * input_.up_to(6);
  // Several calls from one place, where the slot tells them apart.
  const std::uint64_t ret = slots_ ? 0x5000 + 16 * input_.up_to(2) : next_ret_ += 16;
  sp_ = slots_ ? slot : place_->stack_pointer();
  ++counted_.calls;
  tracker_->call({ret, function, 0, static_cast<std::uint8_t>(level()), 0}, function,
                 slots_ ? slot : 0);
  note_entry(Kind::kCall, function, slot, ret);
  tracker_->function_start(level(), function);
}

void RandomGuest::give_back() {
  std::vector<Known>& frames = place_->frames;
  // Calls since the last event, each with what it jumped to.
  std::size_t first = frames.size();
  std::vector<std::size_t> calls;
  while (first > 0 && frames[first - 1].kind != Kind::kEvent) {
    if (frames[--first].kind == Kind::kCall) calls.push_back(first);
  }
  if (calls.empty()) return call();
  take_request();
  const std::size_t out = input_.up_to(3) == 0 ? input_.up_to(3) : 0;
  const std::size_t to = calls[std::min(out, calls.size() - 1)];
  const Known known = frames[to];
  ++counted_.returns;
  if (slots_) {
    std::size_t last = to;  // with the innermost that it jumped to
    while (last + 1 < frames.size() && frames[last + 1].kind == Kind::kTail) ++last;
    counted_.unwound += frames.size() - 1 - last;
    tracker_->return_at(level(), known.slot, [&] { return known.ret; });
  } else {
    sp_ = known.slot + 8;
    if (to + 1 != frames.size()) tracker_->stack_pointer_set();
    tracker_->return_plain(level(), [&] { return known.ret; });
  }
  note_exits(to);
}

// Where the handler does not come back: a return to a caller from before the event.
void RandomGuest::leave_handler() {
  std::vector<Known>& frames = place_->frames;
  std::size_t event = frames.size();
  while (event > 0 && frames[event - 1].kind != Kind::kEvent) --event;
  std::size_t to = event;
  while (to > 0 && frames[to - 1].kind != Kind::kCall) --to;
  if (to == 0 || !slots_) return call();
  if (input_.up_to(1) != 0) {  // or from one further out
    const std::size_t near = to;
    do --to;
    while (to > 0 && frames[to - 1].kind != Kind::kCall);
    if (to == 0) to = near;
  }
  const Known known = frames[--to];
  take_request();
  ++counted_.returns;
  counted_.unwound += frames.size() - 1 - to;
  tracker_->return_at(level(), known.slot, [&] { return known.ret; });
  note_exits(to);
}

// A return to where no call came from: what lies below is gone.
void RandomGuest::stray() {
  std::vector<Known>& frames = place_->frames;
  std::size_t first = frames.size();
  while (first > 0 && frames[first - 1].kind != Kind::kEvent) --first;
  if (first == frames.size()) return call();
  std::size_t gone = first + input_.up_to(3) % (frames.size() - first);
  while (gone > 0 && frames[gone - 1].slot == frames[gone].slot) --gone;
  if (gone < first || !frames[gone].saved) return call();
  take_request();
  ++counted_.returns;
  sp_ = frames[gone].slot + 8;
  constexpr std::uint64_t kNowhere = 0x77770;
  if (slots_) {
    ++counted_.unmatched_returns;
    counted_.unwound += frames.size() - gone;
    tracker_->return_at(level(), sp_, [] { return kNowhere; });
  } else {
    counted_.unmatched_returns += gone == first ? 1 : 0;
    tracker_->stack_pointer_set();
    tracker_->return_plain(level(), [] { return kNowhere; });
  }
  note_exits(gone);
}

void RandomGuest::jump() {
  if (place_->frames.empty() || place_->frames.size() >= kMostFrames) return call();
  const Known from = place_->frames.back();
  // With a link register who jumps has not saved it, or has restored it and its stack pointer: then
  // nobody can tell a loop from a function that is entered anew.
  if (!slots_ && from.saved) return call();
  const std::uint64_t function = 1 + input_.up_to(39);
  sp_ = from.slot + (slots_ ? 0 : 8);
  // What lies there may look like an event's.
  interrupted_level_ = in_user() ? -1 : static_cast<int>(kernel_level_);
  tracker_->function_start(level(), function);
  interrupted_level_ = -1;
  if (function == from.function) return;  // a loop
  ++counted_.tail_calls;
  note_entry(Kind::kTail, function, from.slot, from.ret);
  place_->frames.back().saved = from.saved;
}

void RandomGuest::interrupt() {
  const bool from_user = in_user();
  const std::uint64_t handler = 50 + input_.up_to(9);
  if (!from_user && place_->frames.size() >= kMostFrames) return;
  if (!place_->frames.empty() && place_->frames.back().function == handler) return;
  save_link();
  if (from_user) {
    place_ = &kernel_[0];
    place_->frames.clear();
    user_below_ = true;
  }
  sp_ = place_->stack_pointer() - 48 - 8 * input_.up_to(3);
  ++counted_.events;
  interrupted_level_ = static_cast<int>(from_user ? user_level_ : kernel_level_);
  if (told_) tracker_->event(level(), handler);
  tracker_->function_start(level(), handler);
  interrupted_level_ = -1;
  note_entry(Kind::kEvent, handler, sp_, 0);
}

void RandomGuest::end_interrupt() {
  std::vector<Known>& frames = place_->frames;
  std::size_t event = frames.size();
  while (event > 0 && frames[event - 1].kind != Kind::kEvent) --event;
  if (event-- == 0) return call();
  const bool to_user = event == 0 && user_below_ && place_ == &kernel_[0];
  sp_ = frames[event].slot;
  interrupted_level_ = static_cast<int>(to_user ? user_level_ : kernel_level_);
  tracker_->interrupt_return(level());
  interrupted_level_ = -1;
  note_exits(event);
  if (to_user) {
    user_below_ = false;
    place_ = &user_;
    sp_ = place_->stack_pointer();
  }
}

// Into the kernel, or back.
void RandomGuest::system_call() {
  if (!in_user()) {
    if (place_ == &kernel_[1] || (place_->frames.empty() && !user_below_)) {
      if (place_ == &kernel_[1] || place_->visited) return call();
      place_ = &user_;  // the kernel has begun nothing yet
      return call();
    }
    if (!user_below_ || place_->frames.empty() || place_->frames[0].kind != Kind::kEvent)
      return call();
    tracker_->system_return();
    note_exits(0);
    user_below_ = false;
    place_ = &user_;
    sp_ = place_->stack_pointer();
    return;
  }
  const std::uint64_t handler = 70 + input_.up_to(3);
  save_link();
  tracker_->system_call(user_level_);
  place_ = &kernel_[0];
  place_->frames.clear();
  user_below_ = true;
  sp_ = place_->base - 64;
  ++counted_.events;
  if (!slots_) tracker_->event(kernel_level_, handler);
  tracker_->function_start(kernel_level_, handler);
  note_entry(Kind::kEvent, handler, sp_, 0);
}

// The kernel calls the function that changes threads; it returns on the other's stack.
void RandomGuest::change_thread() {
  if (in_user() || place_->frames.size() + 1 >= kMostFrames) return call();
  take_request();
  save_link();
  const std::uint64_t slot = place_->stack_pointer() - 16;
  const std::uint64_t ret = next_ret_ += 16;
  sp_ = slots_ ? slot : place_->stack_pointer();
  ++counted_.calls;
  tracker_->call({ret, kThreadSwitch, 0, static_cast<std::uint8_t>(kernel_level_), 0},
                 kThreadSwitch, slots_ ? slot : 0);
  note_entry(Kind::kCall, kThreadSwitch, slot, ret);
  tracker_->function_start(kernel_level_, kThreadSwitch);
  if (!slots_) tracker_->return_address_saved(slot);
  place_->frames.back().saved = true;
  place_->visited = true;

  close_open();
  place_ = place_ == &kernel_[0] ? &kernel_[1] : &kernel_[0];
  ++counted_.returns;
  changed_in_system_call_ |= user_below_;
  const bool begins = place_->frames.empty();
  const Known known =
      begins ? Known{Kind::kCall, place_->base - 8, 0, 0, false, true} : place_->frames.back();
  counted_.unmatched_returns += begins ? 1 : 0;
  place_->visited = true;
  sp_ = known.slot + 8;
  if (slots_) {
    tracker_->return_at(kernel_level_, known.slot, [&] { return known.ret; });
  } else {
    tracker_->stack_pointer_set();
    tracker_->return_plain(kernel_level_, [&] { return known.ret; });
  }
  if (!begins) note_exits(place_->frames.size() - 1);
}

void RandomGuest::record(bool on) {
  if (on && !recording_ && request_ == 0 && place_->frames.size() < kMostFrames &&
      input_.up_to(2) == 0) {
    call();  // of the function that start= names
    Known& started = place_->frames.back();
    tracker_->start_recording_in(started.function);
    recording_ = true;
    started.open = recorded(started.function);
    if (started.open) expected_.push_back({true, depth_++, started.function});
    return;
  }
  if (input_.up_to(1) != 0) {
    tracker_->request_recording(on);
    request_ = on ? 1 : 2;
    return;
  }
  tracker_->set_recording(on);
  if (!on && recording_) close_open();
  recording_ = on;
}

void RandomGuest::step() {
  if (options_.min_duration == 1) {
    const std::uint64_t now = tracker_->clock().now();
    while (tracker_->clock().now() == now) continue;
  }
  switch (input_.up_to(31)) {
    case 0:
    case 1:
      return interrupt();
    case 2:
    case 3:
      return end_interrupt();
    case 4:
    case 5:
      return system_call();
    case 6:
      return change_thread();
    case 7:
      return record(input_.up_to(2) != 0);
    case 8:
    case 9:
    case 10:
      return jump();
    case 11:
      return leave_handler();
    case 12:
      return stray();
    default:
      return input_.up_to(1) == 0 ? call() : give_back();
  }
}

std::vector<RandomGuest::Step> RandomGuest::recorded_steps() const {
  std::vector<Step> steps;
  for (const Record& record : records_) {
    if (record.type() == RecordType::kLost) continue;
    steps.push_back({record.type() == RecordType::kEntry, record.depth(), record.address()});
  }
  return steps;
}

const char* RandomGuest::check_balance() const {
  struct Open {
    std::uint64_t function, begin, inside;
  };
  std::vector<Open> open;
  std::uint64_t last = 0, own = 0, outermost = 0;
  for (const Record& record : records_) {
    if (record.time() < last) return "time goes back";
    last = record.time();
    if (record.type() == RecordType::kLost) continue;
    if (record.type() == RecordType::kEntry) {
      if (record.depth() != std::min<std::size_t>(open.size(), Record::kMaxDepth))
        return "an entry at another depth";
      open.push_back({record.address(), record.time(), 0});
      continue;
    }
    if (open.empty()) return "an exit without an entry";
    const Open call = open.back();
    open.pop_back();
    if (record.depth() != std::min<std::size_t>(open.size(), Record::kMaxDepth))
      return "an exit at another depth";
    if (record.address() != call.function) return "an exit of another function";
    const std::uint64_t length = record.time() - call.begin;
    if (length < call.inside) return "a call was shorter than those that it made";
    own += length - call.inside;
    (open.empty() ? outermost : open.back().inside) += length;
  }
  if (!open.empty()) return "a call that does not end";
  return own == outermost ? nullptr : "own times do not sum to the outermost calls'";
}

const char* RandomGuest::live() {
  while (input_.any()) step();
  tracker_->close_all();
  close_open();
  if (options_.records && recorded_steps() != expected_) return "not what happened was recorded";
  if (options_.text != nullptr && said_ != expected_) return "not what happened was written";
  if (const char* wrong = check_balance()) return wrong;
  const TrackerCounters& counters = tracker_->counters();
  if (counters.calls != counted_.calls) return "calls are counted otherwise";
  if (counters.returns != counted_.returns) return "returns are counted otherwise";
  // Where a thread was changed in a system call, its frame stays after the system call's return,
  // and a handler that begins at the same place is taken for a jump from it.
  if (!changed_in_system_call_ && counters.events != counted_.events)
    return "events are counted otherwise";
  if (!changed_in_system_call_ && counters.tail_calls != counted_.tail_calls)
    return "jumps are counted otherwise";
  if (counters.unmatched_returns != counted_.unmatched_returns)
    return "returns that fit no call are counted otherwise";
  if (slots_ && counters.unwound != counted_.unwound)
    return "what was unwound is counted otherwise";
  return nullptr;
}

// One call of the tracker's interface; an architecture has either slots or a link register.
void RandomGuest::nonsense() {
  constexpr std::uint64_t kPlaces[] = {0x7fff0000'8000, 0x7fff0010'0000, 0xffff8880'00008000,
                                       0xffff8880'0000c000, 0x40};
  const unsigned level = input_.up_to(1) != 0 ? user_level_ : kernel_level_;
  const std::uint64_t function = 1 + input_.up_to(20);
  const std::uint64_t slot = kPlaces[input_.up_to(4)] - 8 * input_.up_to(7);
  const std::uint64_t ret = 0x5000 + 16 * input_.up_to(7);
  sp_ = slot;
  interrupted_level_ = static_cast<int>(input_.up_to(4)) - 1;
  switch (input_.up_to(15)) {
    case 0:
      return tracker_->system_call(level);
    case 1:
      return tracker_->system_return();
    case 2:
      return tracker_->interrupt_return(level);
    case 3:
      return tracker_->event(level, function);
    case 4:
      return tracker_->set_recording(input_.up_to(2) != 0);
    case 5:
      return tracker_->request_recording(input_.up_to(2) != 0);
    case 6:
    case 7:
      return input_.up_to(15) == 0 ? tracker_->miss_calls() : tracker_->stack_pointer_set();
    case 8:
    case 9:
    case 10:
      return tracker_->function_start(level, function);
    case 11:
    case 12:
      if (slots_) return tracker_->return_at(level, slot, [ret] { return ret; });
      return tracker_->return_plain(level, [ret] { return ret; });
    case 13:
      if (!slots_) return tracker_->return_address_saved(slot);
      [[fallthrough]];
    default:
      return tracker_->call({ret, function, 0, static_cast<std::uint8_t>(level), 0}, function,
                            slots_ ? slot : 0);
  }
}

const char* RandomGuest::live_lawlessly() {
  while (input_.any()) nonsense();
  tracker_->close_all();
  return check_balance();
}

}  // namespace trapline::test
