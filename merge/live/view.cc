#include "merge/live/view.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"

namespace trapline::live {

View::View(const Engine& engine, BatchOptions options)
    : engine_(engine), options_(std::move(options)), sort_(options_.sort) {
  Place start{Level::kBy, options_.scope, "all"};
  if (options_.by.size() == 1) {
    constexpr std::pair<Dimension, Level> kLevels[] = {{Dimension::kVm, Level::kVm},
                                                       {Dimension::kVcpu, Level::kVcpu},
                                                       {Dimension::kReason, Level::kReason},
                                                       {Dimension::kDevice, Level::kDevice}};
    for (const auto& [dimension, level] : kLevels) {
      if (options_.by[0] == dimension) start.level = level;
    }
  }
  if (!options_.chosen.empty()) start.title = options_.chosen;
  path_.push_back(std::move(start));
}

void View::add(Frame&& frame) {
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  // What is looked at stays where it is.
  if (paused_ || back_ != 0) ++back_;
  while (frames_.size() > 1 && (frames_.size() > kMostFrames || bytes_ > kMostBytes)) {
    bytes_ -= std::min(bytes_, frames_.front().size());
    frames_.pop_front();
  }
  back_ = std::min(back_, frames_.size() - 1);
}

const Frame* View::shown() const {
  return frames_.empty() ? nullptr : &frames_[frames_.size() - 1 - back_];
}

std::vector<Dimension> View::dimensions() const {
  switch (here().level) {
    case Level::kVm:
      return {Dimension::kVm};
    case Level::kVcpu:
      return {Dimension::kVm, Dimension::kVcpu};
    case Level::kDevice:
      return {Dimension::kDevice};
    case Level::kBy:
      return options_.by;
    default:
      return {Dimension::kReason};
  }
}

bool View::fits_filter(const std::string& text) const {
  return filter_.empty() || text.find(filter_) != std::string::npos;
}

std::vector<LiveRow> View::rows() const {
  const Frame* const frame = shown();
  if (frame == nullptr) return {};
  std::vector<LiveRow> rows = rows_of(*frame, dimensions(), here().scope, sort_, engine_);
  std::erase_if(rows, [this](const LiveRow& row) { return !fits_filter(row.key); });
  return rows;
}

std::size_t View::row_count() const {
  const Frame* const frame = shown();
  if (frame == nullptr) return 0;
  if (panel_ == Panel::kSlow || here().level == Level::kSlow) {
    return slow_of(*frame, here().scope, engine_).size();
  }
  switch (panel_) {
    case Panel::kWaits:
      return frame->waits.preempted.rows.size() + frame->waits.blocked.rows.size();
    case Panel::kRequests:
      return frame->requests.size();
    default:
      return rows().size();
  }
}

// Enter: into the row, and on to the next thing to be told apart.
void View::open_row() {
  if (panel_ != Panel::kRows || here().level == Level::kSlow) return;
  if (here().level == Level::kBy) {
    answer_ = "Enter opens rows by vm, vcpu, reason or device: b changes to them";
    return;
  }
  const std::vector<LiveRow> all = rows();
  if (selected_ >= all.size()) return;
  const LiveRow& row = all[selected_];
  Place next = here();
  next.title = row.key;
  const ThreadId thread{static_cast<std::int32_t>(row.cell.words[kVcpuWord])};
  switch (here().level) {
    case Level::kVm:
      next.scope.vcpus.vm = row.key;
      next.level = Level::kVcpu;
      break;
    case Level::kVcpu:
      next.scope.thread = thread;
      next.level = Level::kReason;
      break;
    case Level::kReason:
      next.scope.reason = row.cell.words[kReasonWord];
      next.level = Level::kDevice;
      break;
    default:
      next.scope.device = row.cell.words[kDeviceWord];
      next.level = Level::kSlow;
      break;
  }
  path_.push_back(std::move(next));
  selected_ = 0;
  filter_.clear();
}

// b: the same exits by something else.
void View::next_level() {
  std::vector<Level> levels = {Level::kVm, Level::kVcpu, Level::kReason, Level::kDevice};
  if (options_.by.size() > 1 || path_.front().level == Level::kBy) levels.push_back(Level::kBy);
  const auto now = std::find(levels.begin(), levels.end(), here().level);
  here().level = now == levels.end() || now + 1 == levels.end() ? levels.front() : *(now + 1);
  selected_ = 0;
}

void View::step_back(int by) {
  if (frames_.empty()) return;
  paused_ = true;
  const std::size_t oldest = frames_.size() - 1;
  if (by > 0) {
    back_ = std::min(oldest, back_ + static_cast<std::size_t>(by));
  } else {
    const auto newer = static_cast<std::size_t>(-by);
    back_ = back_ > newer ? back_ - newer : 0;
  }
}

void View::type(int key) {
  if (key == kEnter || key == kEscape) {
    typing_ = false;
    if (key == kEscape) filter_.clear();
  } else if (key == kBack) {
    if (!filter_.empty()) filter_.pop_back();
  } else if (key >= ' ' && key < 127 && filter_.size() < 40) {
    filter_ += static_cast<char>(key);
  }
  selected_ = 0;
}

bool View::key(int key) {
  message_.clear();
  answer_.clear();
  if (typing_) {
    type(key);
    return true;
  }
  if (help_) {
    help_ = false;
    return key != 'q';
  }
  switch (key) {
    case 'q':
      return false;
    case 'h':
    case '?':
      help_ = true;
      break;
    case kUp:
    case 'k':
      selected_ -= selected_ > 0 ? 1u : 0u;
      break;
    case kDown:
    case 'j':
      selected_ += selected_ + 1 < row_count() ? 1u : 0u;
      break;
    case kEnter:
      open_row();
      break;
    case kBack:
    case kEscape:
      if (path_.size() > 1) path_.pop_back();
      filter_.clear();
      selected_ = 0;
      break;
    case kTab:
      panel_ = static_cast<Panel>((static_cast<int>(panel_) + 1) % 4);
      selected_ = 0;
      break;
    case 's':
      sort_ = static_cast<SortBy>((static_cast<std::size_t>(sort_) + 1) % kSortNames.size());
      break;
    case 'b':
      next_level();
      break;
    case '/':
      typing_ = true;
      break;
    case 'w':
      answer_ = save ? save() : "nothing to save: the recording is on disk";
      break;
    default:
      time_key(key);
      break;
  }
  return true;
}

void View::time_key(int key) {
  switch (key) {
    case ' ':
      paused_ = !paused_;
      if (!paused_) back_ = 0;
      break;
    case kLeft:
      return step_back(1);
    case kRight:
      return step_back(-1);
    case '<':
      return step_back(10);
    case '>':
      return step_back(-10);
    default:
      break;
  }
}

}  // namespace trapline::live
