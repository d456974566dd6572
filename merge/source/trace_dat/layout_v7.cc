// Version 7: sections anywhere, found through a chain of option sections.
#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "backend_ftrace/base/text.h"
#include "merge/source/trace_dat/layout_reader.h"
#include "merge/source/trace_dat/page_reader.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kMostOptionSections = 1024;

}  // namespace

Result<SectionHeader> LayoutReader::section_at(std::uint64_t offset) {
  MetaReader reader = at(offset);
  SectionHeader header;
  header.id = reader.number<std::uint16_t>();
  const bool compressed = (reader.number<std::uint16_t>() & 1) != 0;
  header.body.compression = compressed ? layout_.compression : Compression::kNone;
  reader.skip(4);  // the section's name in the string table
  header.body.size = reader.number<std::uint64_t>();
  header.body.offset = reader.position();
  if (reader.ok() && !file_.holds(header.body.offset, header.body.size)) {
    reader.fail_here("a section ends outside the file");
  }
  if (!reader.ok()) return tl::unexpected(reader.status().error());
  return header;
}

// Not where the file was cut before the section's end.
bool LayoutReader::holds_section(std::uint64_t offset) const {
  constexpr std::uint64_t kHeader = 16;
  if (offset >= kFarthest) return true;  // damage: section_at() says so
  if (!file_.holds(offset, kHeader)) return false;
  MetaReader reader = at(offset);
  reader.skip(kHeader - sizeof(std::uint64_t));
  const auto size = reader.number<std::uint64_t>();
  return size >= kFarthest || file_.holds(offset + kHeader, size);
}

Result<MetaReader> LayoutReader::open_section(const Extent& body) {
  auto text = read_section(file_, layout_, body);
  if (!text) return tl::unexpected(std::move(text).error());
  if (text->size() > left_) {
    return fail(ErrorKind::kDamaged, "{}: damaged: more header sections than there can be",
                file_.path());
  }
  left_ -= text->size();
  MetaReader reader(file_, std::move(*text));
  reader.set_order(layout_.order);
  return reader;
}

Result<void> LayoutReader::read_v7(std::uint64_t next) {
  std::vector<Extent> by_option(kCmdlines + 1);
  std::set<std::uint64_t> visited;
  std::uint64_t read_to = 0;  // the end of the options that were read last
  while (next != 0) {
    if (!visited.insert(next).second || visited.size() > kMostOptionSections) {
      return fail(ErrorKind::kDamaged, "{}: damaged: its option sections form a loop",
                  file_.path());
    }
    const bool cut = read_to != 0 && !holds_section(next);
    if (cut) {
      missing_.emplace_back("the table of a buffer's data");
      if (auto found = find_cut_buffer_v7(read_to); !found) return found;
      miss_buffers_v7();
      break;
    }
    auto header = section_at(next);
    if (!header) return tl::unexpected(std::move(header).error());
    read_to = header->body.offset + header->body.size;
    auto following = read_options_v7(next, *header, by_option);
    if (!following) return tl::unexpected(std::move(following).error());
    next = *following;
  }
  return read_sections_v7(by_option);
}

Result<void> LayoutReader::read_sections_v7(const std::vector<Extent>& by_option) {
  constexpr std::array<std::pair<Option, void (LayoutReader::*)(MetaReader&)>, 3> kParsed{{
      {kHeaderInfo, &LayoutReader::read_header_info},
      {kFtraceEvents, &LayoutReader::read_ftrace_formats},
      {kEventFormats, &LayoutReader::read_event_formats},
  }};
  for (const auto& [option, parse] : kParsed) {
    if (by_option[option].size == 0) continue;
    auto reader = open_section(by_option[option]);
    if (!reader) return tl::unexpected(std::move(reader).error());
    (this->*parse)(*reader);
    if (!reader->ok()) return reader->status();
  }
  layout_.kallsyms = by_option[kKallsyms];
  layout_.cmdlines = by_option[kCmdlines];
  return {};
}

// Reads one option section; returns the offset of the next, 0 at the end.
Result<std::uint64_t> LayoutReader::read_options_v7(std::uint64_t offset,
                                                    const SectionHeader& header,
                                                    std::vector<Extent>& by_option) {
  if (header.id != kDone) {
    return fail(ErrorKind::kDamaged, "{}: damaged: no option section at offset {}", file_.path(),
                offset);
  }
  auto reader = open_section(header.body);
  if (!reader) return tl::unexpected(std::move(reader).error());
  while (reader->ok() && reader->left() > 0) {
    const auto id = reader->number<std::uint16_t>();
    const std::string body = reader->bytes(reader->number<std::uint32_t>());
    if (!reader->ok()) break;
    ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
    if (id == kDone) return cursor.number<std::uint64_t>().value_or(0);
    if (id == kBuffer) {
      if (auto handled = handle_buffer_v7(body); !handled) {
        return tl::unexpected(std::move(handled).error());
      }
    } else if (id >= kHeaderInfo && id <= kCmdlines) {
      auto section = section_at(cursor.number<std::uint64_t>().value_or(0));
      if (!section) return tl::unexpected(std::move(section).error());
      by_option[id] = section->body;
    } else {
      handle_option(id, body);
    }
  }
  if (!reader->ok()) return tl::unexpected(reader->status().error());
  return 0;
}

Result<void> LayoutReader::handle_buffer_v7(const std::string& body) {
  ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
  const auto section_offset = cursor.number<std::uint64_t>();
  const auto name = cursor.c_string();
  const auto clock = cursor.c_string();
  const auto page_size = cursor.number<std::uint32_t>();
  const auto cpus = cursor.number<std::uint32_t>();
  if (cursor.failed() || *cpus > kMostCpus) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a buffer's description is cut off",
                file_.path());
  }
  // TRACECLOCK is right where there is one: a buffer may say local where another clock was set.
  // trace-cmd split writes the buffer's alone.
  if (!has_trace_clock_ && layout_.clock == "local" && !clock->empty()) layout_.clock = *clock;
  auto section = section_at(*section_offset);
  if (!section) return tl::unexpected(std::move(section).error());
  Buffer buffer{std::string(*name), *page_size, {}};
  for (std::uint32_t i = 0; i < *cpus; ++i) {
    const auto cpu = cursor.number<std::uint32_t>();
    const auto offset = cursor.number<std::uint64_t>();
    const auto size = cursor.number<std::uint64_t>();
    if (cursor.failed() || *cpu >= kMostCpus || *offset > kFarthest || *size > kFarthest) {
      return fail(ErrorKind::kDamaged,
                  "{}: damaged or cut off: the data of a CPU of buffer '{}' ends outside the file",
                  file_.path(), printable(buffer.name));
    }
    if (*size != 0) add_pages(buffer, *cpu, {*offset, *size, section->body.compression});
  }
  layout_.cpu_count = std::max(layout_.cpu_count, *cpus);
  layout_.buffers.push_back(std::move(buffer));
  return {};
}

// Of a file that was cut before the option that says where a buffer's data lies: its section
// follows the options before it, and each CPU's blocks begin on a page of their own after those of
// the CPU before. Which CPUs those are, the options before it tell.
Result<void> LayoutReader::find_cut_buffer_v7(std::uint64_t offset) {
  MetaReader reader = at(offset);
  std::uint16_t id = kStrings;
  bool compressed = false;
  while (id == kStrings && reader.ok()) {
    id = reader.number<std::uint16_t>();
    compressed = (reader.number<std::uint16_t>() & 1) != 0;
    reader.skip(4);
    const auto size = reader.number<std::uint64_t>();
    if (id == kStrings) reader.skip(size);
  }
  const auto recorded = std::ranges::find_if(recorded_, [this](const Recorded& one) {
    return !one.cpus.empty() &&
           std::ranges::find(layout_.buffers, one.name, &Buffer::name) == layout_.buffers.end();
  });
  if (!reader.ok() || id != kBuffer || recorded == recorded_.end()) return {};
  const std::uint64_t page = layout_.page_size;
  if (!std::has_single_bit(page)) return {};
  if (!compressed && recorded->cpus.size() > 1) {
    return fail(ErrorKind::kDamaged,
                "{}: cut off: it ends at offset {}, before the table that says which of its data "
                "is whose of {} CPUs; copy it again, or record again",
                file_.path(), file_.size(), recorded->cpus.size());
  }
  Buffer buffer{recorded->name, layout_.page_size, {}};
  std::uint64_t place = reader.position();
  for (const std::uint32_t cpu : recorded->cpus) {
    place = (place + page - 1) / page * page;
    Extent pages{place, file_.size() + 1 - std::min(place, file_.size()),
                 compressed ? layout_.compression : Compression::kNone};
    const auto blocks = compressed ? whole_blocks(file_, pages, layout_.order) : WholeBlocks{};
    // The size as trace-cmd has it, without the number of blocks.
    if (blocks.all) pages.size = blocks.end - place - sizeof(std::uint32_t);
    add_pages(buffer, cpu, pages);
    place = blocks.all ? blocks.end : file_.size();
  }
  layout_.buffers.push_back(std::move(buffer));
  return {};
}

// Of the buffers after the one in which the file was cut nothing is there.
void LayoutReader::miss_buffers_v7() {
  for (const Recorded& one : recorded_) {
    if (one.cpus.empty() ||
        std::ranges::find(layout_.buffers, one.name, &Buffer::name) != layout_.buffers.end())
      continue;
    missing_.push_back(fmt::format("buffer '{}'", one.name.empty() ? "top" : printable(one.name)));
  }
}

}  // namespace trapline::trace_dat
