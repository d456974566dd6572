#include "merge/live/view.h"

#include <algorithm>
#include <array>

#include "backend_ftrace/base/text.h"
#include "merge/pass/first_look.h"
#include "merge/pass/naming.h"
#include "merge/render/text_table.h"
#include "merge/report/units.h"

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

// Handles Enter: shows only the selected row's exits, grouped by the next dimension.
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
  next.title = shown_key(row.key, {});
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

// Handles b: shows the same exits by another dimension.
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
      sort_ = sort_ < SortBy::kKey ? static_cast<SortBy>(static_cast<int>(sort_) + 1) : SortBy{};
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

// The lines that View draws.

namespace {

constexpr std::array<std::string_view, 6> kPartTitles{"guest",     "kernel",  "user",
                                                      "preempted", "blocked", "halted"};
constexpr std::array kPartLooks{Look::kGuest,     Look::kKernel,  Look::kUser,
                                Look::kPreempted, Look::kBlocked, Look::kHalted};
constexpr std::size_t kNarrow = 72;     // columns; less: fewer figures of the vCPUs
constexpr std::size_t kLeastName = 24;  // a row's name has these before its figures have more

// "-" of nothing, and of what is not known.
std::string short_time(std::optional<std::uint64_t> ns) {
  return ns.value_or(0) == 0 ? "-" : duration_text(*ns, false);
}

// Cut, or filled up with blanks, to so many columns.
std::string to_width(const std::string& text, std::size_t width, bool right = false) {
  std::size_t columns = text_width(text);
  if (columns <= width) {
    const std::string blanks(width - columns, ' ');
    return right ? blanks + text : text + blanks;
  }
  std::string cut;
  columns = 0;
  for (std::size_t at = 0; at < text.size() && columns + 1 <= width;) {
    std::size_t next = at + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xc0) == 0x80) ++next;
    cut += text.substr(at, next - at);
    at = next;
    ++columns;
  }
  if (width > 1 && !cut.empty()) cut.back() = '~';
  return cut;
}

std::string per_second(std::uint64_t count, std::uint64_t length) {
  if (length == 0) return "-";
  return grouped(static_cast<std::uint64_t>(
      static_cast<double>(count) * 1e9 / static_cast<double>(length) + 0.5));
}

}  // namespace

// Titles, and rows with as many cells; the first is text.
struct View::Table {
  struct Title {
    std::string text;
    std::uint8_t drop_order = 0;  // as of columns_with_room()
    std::string_view above{};
  };
  std::vector<Title> titles;
  std::vector<std::vector<std::string>> rows;
  std::string empty;  // what is said where there are no rows
};

Line View::header(const Frame* frame) const {
  std::string path = engine_.timeline().source(0).info().path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  path = std::string(basename_of(path));
  Line line{{"trapline top ", Look::kTitle}, {printable(path) + "  "}};
  if (frame == nullptr) {
    line.push_back({"waiting for events", Look::kDim});
    return line;
  }
  const std::uint64_t ago = frames_.back().end.ns() - frame->end.ns();
  if (paused_) {
    line.push_back(
        {fmt::format("PAUSED {:.0f} s back  ", static_cast<double>(ago) / 1e9), Look::kWarning});
  }
  if (frame->lost_events != 0 || frame->gaps != 0) {
    const std::string lost =
        frame->lost_events != 0 ? grouped(frame->lost_events) : std::string("?");
    line.push_back({fmt::format("LOST {} events  ", lost), Look::kWarning});
  }
  if (frame->folded != 0) {
    line.push_back(
        {fmt::format("{} exits not told apart  ", grouped(frame->folded)), Look::kWarning});
  }
  if (frame->longest_stall) {
    const SeenStall& stall = *frame->longest_stall;
    line.push_back(
        {fmt::format("STALL {} for {}{}  ", engine_.naming().vcpus.vcpu(stall.thread, true),
                     duration_text(stall.length(), false), stall.open ? ", lasts" : ""),
         Look::kWarning});
  }
  std::uint64_t exits = 0;
  for (const Cell& cell : frame->cells) exits += cell.total.count();
  const bool counted = !engine_.pipeline().exits().lacks_entries();
  line.push_back(
      {fmt::format("{} exits/s  {} events/s", counted ? per_second(exits, frame->length()) : "-",
                   per_second(frame->events, frame->length()))});
  return line;
}

Line View::path_line() const {
  std::string path;
  for (const Place& place : path_) path += (path.empty() ? "" : " > ") + place.title;
  Line line{{path, Look::kTitle}};
  constexpr std::string_view kLevels[] = {"vm", "vcpu", "reason", "device", "slow exits"};
  constexpr std::string_view kPanels[] = {"", "culprits of waits", "requests", "slow exits"};
  std::string what;
  if (panel_ != Panel::kRows) {
    what = kPanels[static_cast<std::size_t>(panel_)];
  } else if (here().level == Level::kBy) {
    what = "by " + options_.by_text;
  } else {
    const auto level = static_cast<std::size_t>(here().level);
    what = (here().level == Level::kSlow ? "" : "by ") + std::string(kLevels[level]);
  }
  const std::string_view sort = kSortNames[static_cast<std::size_t>(sort_)];
  line.push_back({fmt::format("  {}, sorted by {}", what, sort), Look::kDim});
  if (typing_ || !filter_.empty()) {
    line.push_back({"  /" + filter_ + (typing_ ? "_" : ""), Look::kWarning});
  }
  return line;
}

// Draws, for each vCPU, a bar of the letters g k u p b h for its states; a dot is time that is not
// known.
void View::draw_vcpus(const Frame& frame, std::size_t width, std::size_t most,
                      std::vector<Line>& lines) const {
  const std::vector<VcpuRow> rows = vcpus_of(frame, here().scope, engine_);
  const States states = engine_.pipeline().exits().known_states();
  const bool narrow = width < kNarrow;
  const std::size_t bar = narrow ? width - std::min<std::size_t>(width, 18) : width - 64;
  const std::uint64_t length = std::max<std::uint64_t>(frame.length(), 1);
  for (std::size_t i = 0; i < rows.size() && i < most; ++i) {
    if (i + 1 == most && rows.size() > most) {
      lines.push_back({{fmt::format("and {} more vCPUs", rows.size() - i), Look::kDim}});
      break;
    }
    const VcpuTotals& totals = rows[i].totals;
    const ThreadId thread{rows[i].tid};
    Line line{{to_width(engine_.naming().vcpus.vcpu(thread, true), narrow ? 10 : 16) + " "}};
    std::array<std::uint64_t, 1 + kParts> ns{totals.guest_ns};
    std::copy(totals.parts.begin(), totals.parts.end(), ns.begin() + 1);
    const auto share = [&](std::size_t part) {
      const State state = part == 0 ? State::kGuest : static_cast<State>(part - 1);
      if (!told(states, state, ns[part])) return std::string("  -");
      return fmt::format("{:>3.0f}",
                         100.0 * static_cast<double>(ns[part]) / static_cast<double>(length));
    };
    std::uint64_t sum = 0;
    std::size_t drawn = 0;
    std::string numbers;
    for (std::size_t part = 0; part < ns.size(); ++part) {
      sum += ns[part];
      const std::size_t to =
          std::min<std::size_t>(bar, static_cast<std::size_t>((sum * bar + length / 2) / length));
      line.push_back({std::string(to - drawn, kPartTitles[part][0]), kPartLooks[part]});
      drawn = to;
      numbers += fmt::format(" {} {}", kPartTitles[part][0], share(part));
    }
    line.push_back({std::string(bar - drawn, '.'), Look::kDim});
    line.push_back({narrow ? fmt::format(" {}% g", share(0)) : numbers + " % of time"});
    lines.push_back(std::move(line));
  }
}

View::Table View::rows_table(const Frame& frame) const {
  Table table;
  const std::vector<VcpuRow> vcpus = vcpus_of(frame, here().scope, engine_);
  const States states = engine_.pipeline().exits().known_states();
  const bool has_guest = states[static_cast<std::size_t>(State::kGuest)];
  const std::string by = here().level == Level::kBy ? options_.by_text : std::string();
  Overhead overhead;
  for (const VcpuRow& vcpu : vcpus) overhead.add(vcpu.totals);
  const std::uint64_t whole =
      has_guest ? overhead.busy_ns() : frame.length() * std::max<std::size_t>(vcpus.size(), 1);
  const bool durations = engine_.model().durations();
  const auto time = [durations](std::optional<std::uint64_t> ns) {
    return durations ? short_time(ns) : "-";
  };
  table.titles = {{""},       {"exits/s"}, {"share", 0, has_guest ? "of busy time" : "of the time"},
                  {"p50", 7}, {"p99"},     {"max", 3}};
  constexpr std::array<std::uint8_t, kParts> kDropped = {1, 2, 4, 5, 6};
  for (std::size_t part = 0; part < kParts; ++part)
    table.titles.push_back({std::string(kPartNames[part]), kDropped[part], "of the total"});
  for (const LiveRow& row : rows()) {
    const std::uint64_t total = row.total.total();
    std::vector<std::string> cells{shown_key(row.key, by),
                                   per_second(row.total.count(), frame.length()),
                                   row.halts   ? "halt"
                                   : durations ? percent_text(cost_ns(row.parts), whole)
                                               : "-",
                                   time(row.total.percentile(500)),
                                   time(row.total.percentile(990)),
                                   time(row.total.max())};
    for (std::size_t part = 0; part < kParts; ++part) {
      cells.push_back(total == 0 || !told(states, part, row.parts, row.halts)
                          ? "-"
                          : fmt::format("{:.0f}%", 100.0 * static_cast<double>(row.parts[part]) /
                                                       static_cast<double>(total)));
    }
    table.rows.push_back(std::move(cells));
  }
  const auto known = engine_.check_names();
  table.empty = !known ? known.error().message
                : engine_.pipeline().exits().lacks_entries()
                    ? no_entries(engine_.timeline()).message
                    : "no exits ended in this interval";
  return table;
}

View::Table View::slow_table(const Frame& frame) const {
  Table table;
  table.titles = {{""},           {"total"},     {"kernel", 2}, {"user", 1}, {"preempted", 3},
                  {"blocked", 4}, {"halted", 5}, {"at"}};
  static const std::vector<Dimension> kWhat = {Dimension::kReason};
  static const std::vector<Dimension> kWho = {Dimension::kDevice};
  const Naming& names = engine_.naming();
  for (const SlowExit& exit : slow_of(frame, here().scope, engine_)) {
    GroupKey reason, device;
    reason.words[0] = exit.key.words[kReasonWord];
    device.words[0] = exit.key.words[kDeviceWord];
    std::string what =
        engine_.naming().vcpus.vcpu(exit.thread, true) + " " + ExitKeys(kWhat).text(reason, names);
    if (exit.detail.kind != DetailKind::kNone) what += ", " + detail_text(exit.detail);
    if (device.words[0] != kNoName) what += ", " + ExitKeys(kWho).text(device, names);
    if (!fits_filter(what)) continue;
    std::vector<std::string> cells{what, short_time(exit.total)};
    for (std::size_t part = 0; part < kParts; ++part) {
      cells.push_back(short_time(exit.parts[part]));
    }
    cells.push_back(fmt::format("{:.6f}", static_cast<double>(exit.start.ns()) / 1e9));
    table.rows.push_back(std::move(cells));
  }
  table.empty = "no slow exits in this interval";
  return table;
}

View::Table View::waits_table(const Frame& frame) const {
  Table table;
  table.titles = {{""}, {"part"}, {"share", 0, "of the part"}, {"times", 1}, {"longest"}};
  const auto add = [&](const WaitRows& waits, const char* part) {
    for (const WaitRow& row : waits.rows) {
      if (!fits_filter(row.culprit)) continue;
      table.rows.push_back({row.culprit, part, percent_text(row.ns, waits.total_ns),
                            grouped(row.count), short_time(row.max_ns)});
    }
  };
  add(frame.waits.preempted, "preempted");
  add(frame.waits.blocked, "blocked");
  table.empty = engine_.input().capabilities.sched_switch
                    ? "no vCPU waited inside an exit in this interval"
                    : "nothing tells who kept vCPUs waiting: no scheduler events are recorded";
  return table;
}

View::Table View::requests_table(const Frame& frame) const {
  Table table;
  table.titles = {{""}, {"per s"}, {"mean", 2}, {"p50", 3}, {"p99"}, {"max", 1}};
  for (const RequestTotals& row : frame.requests) {
    if (!fits_filter(row.key)) continue;
    table.rows.push_back({row.key, per_second(row.total.count(), frame.length()),
                          short_time(row.total.mean()), short_time(row.total.percentile(500)),
                          short_time(row.total.percentile(990)), short_time(row.total.max())});
  }
  table.empty =
      "no requests ended: they need QEMU's events (virtio_blk_*) in the recording (docs/qemu.md)";
  return table;
}

void View::draw_panel(const Frame& frame, std::size_t width, std::size_t most,
                      std::vector<Line>& lines) const {
  if (most == 0) return;
  const bool slow = panel_ == Panel::kSlow || here().level == Level::kSlow;
  const Table table = slow                         ? slow_table(frame)
                      : panel_ == Panel::kWaits    ? waits_table(frame)
                      : panel_ == Panel::kRequests ? requests_table(frame)
                                                   : rows_table(frame);
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (const Table::Title& title : table.titles) {
    titles.push_back(title.text);
    widths.push_back(text_width(title.text));
  }
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], text_width(row[i]));
  // A figure without its unit is another one.
  widths[0] = std::min({width, widths[0], kLeastName});
  std::vector<std::size_t> columns = columns_with_room(
      widths, [&table](std::size_t column) { return table.titles[column].drop_order; }, width);
  const std::vector<std::size_t> all = columns;
  columns.erase(columns.begin());  // the name
  std::size_t numbers = 0;
  for (const std::size_t column : columns) numbers += kColumnGap + widths[column];
  widths[0] = width > numbers + 8 ? width - numbers : 8;
  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string text = to_width(cells[0], widths[0]);
    for (const std::size_t column : columns)
      text += "  " + to_width(cells[column], widths[column], true);
    return to_width(text, width);
  };
  const std::string above =
      line_above(all, widths, [&table](std::size_t column) { return table.titles[column].above; });
  if (!above.empty() && most > 2) {
    lines.push_back({{to_width(above, width), Look::kDim}});
    --most;
  }
  lines.push_back({{line_of(titles), Look::kDim}});
  if (table.rows.empty()) {
    if (most > 1) lines.push_back({{to_width(table.empty, width), Look::kDim}});
    return;
  }
  const std::size_t room = most - 1, selected = std::min(selected_, table.rows.size() - 1);
  const std::size_t first = selected >= room && room > 0 ? selected + 1 - room : 0;
  for (std::size_t i = first; i < table.rows.size() && i < first + room; ++i) {
    lines.push_back({{line_of(table.rows[i]), i == selected ? Look::kSelected : Look::kPlain}});
  }
}

Line View::footer() const {
  for (const std::string& text : {answer_, message_})
    if (!text.empty()) return {{text, Look::kWarning}};
  return {{"q quit  ? help  Enter open  Bksp back  Tab panel  s sort  b by  / filter", Look::kDim}};
}

std::vector<Line> View::draw(std::size_t width, std::size_t height) const {
  static const std::vector<std::string> kHelp = {
      "Up Down     choose a row             Enter  open it: VM, vCPU, reason, device,",
      "                                            then its slowest exits",
      "Backspace   back                     Tab    rows, culprits of waits, requests,",
      "                                            slow exits",
      "s           sort by share, total, exits, mean, p50, p90, p99, max, key",
      "b           the same exits by vm, vcpu, reason, device",
      "/           show rows with a text (Esc: all)",
      "Space       pause, and go on live    Left Right < >  step through the last minutes",
      "w           save the last seconds as a session",
      "q           quit",
      "",
      "Bars: g guest, k kernel, u user (QEMU), p preempted, b blocked, . not known"};
  std::vector<Line> lines;
  if (height == 0) return lines;
  const Frame* const frame = shown();
  lines.push_back(header(frame));
  if (help_) {
    for (const std::string& text : kHelp) lines.push_back({{text}});
  } else if (frame != nullptr) {
    const std::size_t vcpus = std::max<std::size_t>(height / 3, 1);
    draw_vcpus(*frame, width, height > 6 ? vcpus : 0, lines);
    lines.push_back(path_line());
    const std::size_t used = lines.size() + 1;  // one for the footer
    draw_panel(*frame, width, height > used ? height - used : 0, lines);
  }
  while (lines.size() + 1 < height) lines.push_back({});
  lines.resize(height - 1);
  lines.push_back(footer());
  return lines;
}

}  // namespace trapline::live
