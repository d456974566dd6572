// Rows of events as the simple backend is given them, and the file held against them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend_ftrace/simpletrace/reader.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/declared_events.h"
#include "trapline/events.h"

namespace trapline::fuzz {

struct Written {
  std::uint64_t id = 0, timestamp = 0, dropped = 0;
  std::vector<std::uint64_t> numbers;
  std::vector<std::string> texts;
};

[[nodiscard]] inline const tracetool::EventFile& declarations() {
  static const auto file = tracetool::parse_trace_events(kDeclarations, "fuzz");
  return file;
}

// The declared events in the program's catalogue, in their order: the RFC's layout has only that.
inline void register_events() {
  static std::vector<std::string> names, types;
  static std::array<std::uint32_t, 16> states{};
  static std::vector<trapline_event> events;
  static trapline_event_group group{};
  for (const tracetool::Event& event : declarations().events) names.push_back(event.name);
  for (std::size_t i = 0; i < names.size(); ++i)
    events.push_back({names[i].c_str(), "", &states[i], 0});
  group.name = "fuzz";
  group.events = events.data();
  group.count = events.size();
  trapline_events_register(&group);
}

// Arguments for the event: numbers that fit every type, texts of any length.
inline void choose_arguments(const tracetool::Event& event, Written& written, Choices& input) {
  for (const tracetool::Argument& argument : event.arguments) {
    if (argument.kind != tracetool::TypeKind::kString) {
      written.numbers.push_back(input.up_to(1));
      continue;
    }
    std::string& text =
        written.texts.emplace_back(input.up_to(3) == 0 ? 200 + input.byte() : input.up_to(9), 'x');
    if (!text.empty()) text[0] = static_cast<char>(1 + input.up_to(254));
  }
}

// Whether the record is the event, but for its time.
[[nodiscard]] inline bool is_same(const simpletrace::Record& record, const Written& written) {
  std::size_t number = 0, text = 0;
  if (record.dropped || record.id != written.id) return false;
  for (const tracetool::Value& value : record.values) {
    if (value.kind == tracetool::ValueKind::kString) {
      if (text == written.texts.size() || value.text != written.texts[text++]) return false;
    } else if (number == written.numbers.size() || value.bits != written.numbers[number++]) {
      return false;
    }
  }
  return number == written.numbers.size() && text == written.texts.size();
}

}  // namespace trapline::fuzz
