#include "merge/analyze/pic_lines.h"

namespace trapline {

void PicLines::latch(ThreadId process, std::uint32_t line, const IrqSpan& raised) {
  if (line >= kLines || (pics_.size() >= kMostProcesses && !pics_.contains(process))) return;
  Pics& pics = pics_[process];
  held_.add(pics);
  Line& of_pin = pics.lines[line];
  if (of_pin.latched) {
    ++coalesced_;
    return;
  }
  of_pin.latched = raised;
}

PicLines::Line* PicLines::find(Pics& pics, std::uint32_t vector) {
  const std::uint32_t pin = vector % kPins, base = vector - pin;
  std::optional<std::uint32_t> chip;
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (!pics.lines[i * kPins + pin].latched) continue;
    if (pics.base[i] == base) {
      chip = i;
      break;
    }
    if (pics.base[1 - i] == base) continue;  // the other chip's vectors
    if (chip) {
      ++ambiguous_;
      return nullptr;
    }
    chip = i;
  }
  if (!chip) return nullptr;
  pics.base[*chip] = base;
  return &pics.lines[*chip * kPins + pin];
}

bool PicLines::inject(ThreadId process, std::uint32_t vector, const Event& event) {
  const auto pics = pics_.find(process);
  if (pics == pics_.end()) return false;
  Line* line = find(pics->second, vector);
  if (line == nullptr) return false;
  line->active = line->latched;
  line->latched.reset();
  line->active->vector = vector;
  line->active->injected = event.at;
  line->injected_by = event.thread;
  to_enter_[event.thread].emplace_back(process,
                                       static_cast<std::size_t>(line - pics->second.lines.data()));
  return true;
}

void PicLines::enter(ThreadId thread, Timestamp at) {
  const auto injected = to_enter_.find(thread);
  if (injected == to_enter_.end()) return;
  for (const auto& [process, number] : injected->second) {
    const auto pics = pics_.find(process);
    if (pics == pics_.end()) continue;
    Line& line = pics->second.lines[number];
    if (line.active && !line.active->entered && line.injected_by == thread) {
      line.active->entered = at;
    }
  }
  to_enter_.erase(injected);
}

const IrqSpan* PicLines::end(ThreadId process, std::uint32_t line, Timestamp at) {
  const auto pics = pics_.find(process);
  if (pics == pics_.end() || line >= kLines || !pics->second.lines[line].active) return nullptr;
  done_ = *pics->second.lines[line].active;
  done_.ended = at;
  pics->second.lines[line].active.reset();
  return &done_;
}

const IrqSpan* PicLines::finish() {
  for (auto& [process, pics] : pics_) {
    for (Line& line : pics.lines) {
      if (!line.active) continue;
      done_ = *line.active;
      line.active.reset();
      return &done_;
    }
  }
  return nullptr;
}

void PicLines::on_hole() {
  held_.end([](Pics& pics) { pics.lines = {}; });
  to_enter_.clear();
}

}  // namespace trapline
