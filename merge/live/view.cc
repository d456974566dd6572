#include "merge/live/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "backend_ftrace/base/text.h"
#include "merge/pass/first_look.h"
#include "merge/render/print.h"
#include "merge/report/notes.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"
#include "merge/report/waits.h"

namespace trapline::live {
namespace {

// The levels' dimensions. A vCPU is named with its VM.
constexpr Dimension kLevels[] = {Dimension::kVm, Dimension::kVcpu, Dimension::kReason,
                                 Dimension::kDevice};

}  // namespace

View::View(const Engine& engine) : engine_(engine), sort_(engine.options().sort) {
  const EngineOptions& options = engine.options();
  Place start{.scope = {options.which.vcpus},
              .title = options.chosen.empty() ? "all" : options.chosen};
  if (options.by.size() == 1)
    for (std::size_t level = 0; level < std::size(kLevels); ++level)
      if (options.by[0] == kLevels[level]) start.level = static_cast<Level>(level);
  path_.push_back(std::move(start));
}

void View::add(Frame&& frame) {
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  // The frame that is looked at stays in view.
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
  if (here().level == Level::kBy) return engine_.options().by;
  if (here().level == Level::kVcpu) return {Dimension::kVm, Dimension::kVcpu};
  return {kLevels[static_cast<std::size_t>(here().level)]};
}

std::vector<LiveRow> View::rows() const {
  const Frame* const frame = shown();
  if (frame == nullptr) return {};
  std::vector<LiveRow> rows = rows_of(*frame, dimensions(), here().scope, sort_, engine_);
  std::erase_if(rows, [this](const LiveRow& row) { return row.key.find(filter_) == row.key.npos; });
  return rows;
}

// Handles Enter: shows only the selected row's exits, grouped by the next dimension.
void View::open_row() {
  if (panel() != Panel::kRows) return;
  if (here().level == Level::kBy) {
    answer_ = "Enter opens rows by vm, vcpu, reason or device: b changes to them";
    return;
  }
  const std::vector<LiveRow> all = rows();
  if (selected_ >= all.size()) return;
  const LiveRow& row = all[selected_];
  Place next = here();
  next.title = shown_key(row.key, {});
  next.level = here().level == Level::kDevice ? Level::kSlow : after(here().level);
  if (here().level == Level::kVm) next.scope.vcpus.vm = row.key;
  if (here().level == Level::kVcpu)
    next.scope.thread = ThreadId{static_cast<std::int32_t>(row.cell.words[kVcpuWord])};
  if (here().level == Level::kReason) next.scope.reason = row.cell.words[kReasonWord];
  if (here().level == Level::kDevice) next.scope.device = row.cell.words[kDeviceWord];
  path_.push_back(std::move(next));
  selected_ = 0;
  filter_.clear();
}

void View::step_back(std::ptrdiff_t by) {
  if (frames_.empty()) return;
  paused_ = true;
  back_ = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
      static_cast<std::ptrdiff_t>(back_) + by, 0, std::ssize(frames_) - 1));
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
  const bool has_by = engine_.options().by.size() > 1 || path_.front().level == Level::kBy;
  const Level last_level = has_by ? Level::kBy : Level::kDevice;
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
      ++selected_;  // draw() limits it to the last row
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
      sort_ = sort_ < SortBy::kKey ? static_cast<SortBy>(static_cast<int>(sort_) + 1) : SortBy{};
      break;
    case 'b':  // the same exits by another dimension
      here().level = here().level < last_level ? after(here().level) : Level::kVm;
      selected_ = 0;
      break;
    case '/':
      typing_ = true;
      break;
    case 'w':
      answer_ = save ? save() : "nothing to save: the recording is on disk";
      break;
    case ' ':
      paused_ = !paused_;
      if (!paused_) back_ = 0;
      break;
    case kLeft:
    case kRight:
      step_back(key == kLeft ? 1 : -1);
      break;
    case '<':
    case '>':
      step_back(key == '<' ? 10 : -10);
      break;
  }
  return true;
}

// The lines that View draws.

namespace {

constexpr std::string_view kInverse = "\x1b[7m", kStillInverse = "\x1b[0;7m";

std::string per_second(std::uint64_t count, std::uint64_t length) {
  if (length == 0) return "-";
  return grouped(static_cast<std::uint64_t>(
      static_cast<double>(count) * 1e9 / static_cast<double>(length) + 0.5));
}

// Returns the tables as a report prints them, by lines.
std::vector<std::string> lines_of(std::vector<Table> tables, bool cycles, const TextStyle& style) {
  Report report;
  report.cycles = cycles;
  report.tables = std::move(tables);
  std::stringstream text;
  print_text(report, text, style);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

// Returns what stands in the place of a table without rows.
std::vector<Paragraph> none_text(const Table& table, std::string text) {
  if (table.rows != 0) return {};
  return {{.text = std::move(text)}};
}

std::string inverse(std::string line) {
  for (auto at = line.find(kNormal); at != line.npos; at = line.find(kNormal, at + 1))
    line.replace(at, kNormal.size(), kStillInverse);
  return std::string(kInverse).append(line).append(kNormal);
}

}  // namespace

std::string View::header(const TextStyle& style) const {
  std::string path = engine_.timeline().source(0).info().path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string line = looking(kBold, "trapline top ", style) + printable(basename_of(path)) + "  ";
  const Frame* const frame = shown();
  if (frame == nullptr) return line + looking(kDim, "waiting for events", style);
  const auto warn = [&](const std::string& text) { line += looking(kAlarm, text, style) + "  "; };
  if (paused_)
    warn(fmt::format("PAUSED {:.0f} s back",
                     static_cast<double>(elapsed(frame->end, frames_.back().end)) / 1e9));
  if (frame->gaps != 0) warn("LOST: " + losses_text(*frame));
  if (frame->folded != 0) warn(fmt::format("{} exits not told apart", grouped(frame->folded)));
  if (const auto& stall = frame->longest_stall)
    warn(fmt::format("STALL {} for {}{}", engine_.naming().vcpus.vcpu(stall->thread, true),
                     duration_text(stall->length(), false), stall->open ? ", lasts" : ""));
  std::uint64_t exits = 0;
  for (const Cell& cell : frame->cells) exits += cell.row.count();
  const bool counted = !engine_.pipeline().exits().lacks_entries();
  return line + fmt::format("{} exits/s  {} events/s",
                            counted ? per_second(exits, frame->length()) : "-",
                            per_second(frame->events, frame->length()));
}

std::string View::path_line(const TextStyle& style) const {
  std::string path;
  for (const Place& place : path_) path += (path.empty() ? "" : " > ") + place.title;
  constexpr std::string_view kPanels[] = {"", "culprits of waits", "requests", "slow exits"};
  const std::string what = panel() == Panel::kRows
                               ? "by " + text_of(dimensions())
                               : std::string(kPanels[static_cast<std::size_t>(panel())]);
  std::string line =
      looking(kBold, path, style) +
      looking(kDim,
              fmt::format("  {}, sorted by {}", what, kSortNames[static_cast<std::size_t>(sort_)]),
              style);
  if (typing_ || !filter_.empty())
    line += looking(kAlarm, "  /" + filter_ + (typing_ ? "_" : ""), style);
  return line;
}

Table View::row_panel(const Frame& frame, const ReportData& data) const {
  const std::vector<LiveRow> rows = this->rows();
  TableOf<GroupRow> table = group_columns({rows.begin(), rows.end()}, data);
  const auto known = engine_.check_names();
  table.titles = {text_of(dimensions())};
  table.before = none_text(table, !known               ? known.error().message
                                  : data.lacks_entries ? no_entries(engine_.timeline()).message
                                                       : "no exits ended in this interval");
  table.name = [name = table.name, by = table.titles[0]](std::size_t row) {
    return shown_key(name(row), by);
  };
  if (data.cycles) return table;
  if (here().level == Level::kVm && !frame.host_cpu.empty()) {
    const auto cpus_of = [&](const LiveRow& row) {
      const std::string vm = engine_.naming().vcpus.vm_id(
          ThreadId{static_cast<std::int32_t>(row.cell.words[kVcpuWord])});
      std::uint64_t ns = 0;
      for (const HostRoleTime& role : frame.host_cpu) ns += role.vm.id() == vm ? role.ns : 0;
      return fmt::format("{:.3f}", static_cast<double>(ns) / static_cast<double>(frame.length()));
    };
    std::vector<std::string> cpus;
    std::ranges::transform(rows, std::back_inserter(cpus), cpus_of);
    table.columns.push_back({{.key = "host_cpus", .title = "host CPUs"},
                             [cpus](std::size_t row) -> CellValue { return cpus[row]; }});
  }
  const auto count = std::ranges::find(table.columns, "count", &Table::Described::key);
  count->title = "exits/s";
  count->value = [all = table.all(), length = frame.length()](std::size_t row) -> CellValue {
    return per_second(all[row].count(), length);
  };
  return table;
}

View::Lines View::lines(const Frame& frame, const ReportData& data, const TextStyle& style) const {
  std::vector<Table> tables;
  if (panel() == Panel::kRows) {
    tables.push_back(row_panel(frame, data));
  } else if (panel() == Panel::kWaits) {
    tables = wait_tables(frame.waits, data, FrameMaker::kMostCulprits);
  } else if (panel() == Panel::kRequests) {
    tables.push_back(request_table(frame));
    tables[0].before = none_text(tables[0],
                                 "no requests ended: they need QEMU's events (virtio_blk_*) in the "
                                 "recording (docs/qemu.md)");
  } else {
    tables.push_back(slow_table(frame, here().scope, 0, data, engine_));
    tables[0].before = none_text(tables[0], "no slow exits in this interval");
  }
  const bool empty = std::ranges::all_of(tables, [](auto& table) { return table.rows == 0; });
  const std::vector<std::string> all = lines_of(tables, data.cycles, style);
  const auto title = std::ranges::find_if(all, [&tables](const std::string& line) {
    return std::ranges::any_of(tables, [&line](const Table& table) {
      return table.rows != 0 && !table.titles.empty() && line.find(table.titles[0]) != line.npos;
    });
  });
  const auto rows = empty ? all.end() : title == all.end() ? all.begin() : title + 1;
  Lines lines{{all.begin(), rows}, {}};
  std::copy_if(rows, all.end(), std::back_inserter(lines.second), [this](const std::string& line) {
    return panel() == Panel::kRows || line.find(filter_) != line.npos;
  });
  return lines;
}

std::vector<std::string> View::draw(TextStyle style, std::size_t height) {
  static const std::vector<std::string> kHelp = {
      "Up Down     choose a row     Enter  open it: VM, vCPU, reason, device, slow exits",
      "Backspace   back             Tab    rows, culprits of waits, requests, slow exits",
      "s           sort by share, total, exits, mean, p50, p90, p99, max, key",
      "b           the same exits by vm, vcpu, reason, device",
      "/           show rows with a text (Esc: all)",
      "Space       pause, go on     Left Right < >  step through the last minutes",
      "w           save the last seconds as a session",
      "q           quit"};
  if (height == 0) return {};
  style.tells_dropped = false;
  std::vector<std::string> lines = {header(style)};
  const auto add = [&lines](const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  const Frame* const frame = shown();
  if (help_) {
    add(kHelp);
  } else if (frame != nullptr) {
    const ReportData data = data_of(*frame, here().scope, engine_);
    std::vector<std::string> vcpus;
    if (height > 6) vcpus = lines_of({vcpu_table(data)}, data.cycles, style);
    if (const std::size_t most = height / 3; vcpus.size() > most) {
      const std::size_t more = vcpus.size() + 1 - most;
      vcpus.resize(most - 1);
      vcpus.push_back(looking(kDim, fmt::format("and {} more lines", more), style));
    }
    add(vcpus);
    lines.push_back(path_line(style));
    const auto [above, rows] = this->lines(*frame, data, style);
    add(above);
    const std::size_t used = lines.size() + 1, room = height > used ? height - used : 0;
    selected_ = std::min(selected_, std::max<std::size_t>(rows.size(), 1) - 1);
    const std::size_t first = selected_ >= room && room > 0 ? selected_ + 1 - room : 0;
    for (std::size_t i = first; i < rows.size() && i < first + room; ++i)
      lines.push_back(i == selected_ ? inverse(rows[i]) : rows[i]);
  }
  lines.resize(height - 1);
  const std::string& message = answer_.empty() ? message_ : answer_;
  lines.push_back(!message.empty()
                      ? looking(kAlarm, message, style)
                      : looking(kDim,
                                "q quit  ? help  Enter open  Bksp back  Tab panel  s sort  b by  / "
                                "filter",
                                style));
  return lines;
}

}  // namespace trapline::live
