// Version 7: sections anywhere, found through a chain of option sections.
#include <algorithm>
#include <array>
#include <set>

#include "merge/source/trace_dat/layout_reader.h"

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
  while (next != 0) {
    if (!visited.insert(next).second || visited.size() > kMostOptionSections) {
      return fail(ErrorKind::kDamaged, "{}: damaged: its option sections form a loop",
                  file_.path());
    }
    auto following = read_options_v7(next, by_option);
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
  layout_.printk = by_option[kPrintk];
  layout_.cmdlines = by_option[kCmdlines];
  return {};
}

// Reads one option section; returns the offset of the next, 0 at the end.
Result<std::uint64_t> LayoutReader::read_options_v7(std::uint64_t offset,
                                                    std::vector<Extent>& by_option) {
  auto header = section_at(offset);
  if (!header) return tl::unexpected(std::move(header).error());
  if (header->id != kDone) {
    return fail(ErrorKind::kDamaged, "{}: damaged: no option section at offset {}", file_.path(),
                offset);
  }
  auto reader = open_section(header->body);
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
  (void)cursor.c_string();  // its clock: says local even where another was set; TRACECLOCK is right
  const auto page_size = cursor.number<std::uint32_t>();
  const auto cpus = cursor.number<std::uint32_t>();
  if (cursor.failed() || *cpus > kMostCpus) {
    return fail(ErrorKind::kDamaged, "{}: damaged: a buffer's description is cut off",
                file_.path());
  }
  auto section = section_at(*section_offset);
  if (!section) return tl::unexpected(std::move(section).error());
  Buffer buffer{std::string(*name), *page_size, {}};
  for (std::uint32_t i = 0; i < *cpus; ++i) {
    const auto cpu = cursor.number<std::uint32_t>();
    const auto offset = cursor.number<std::uint64_t>();
    const auto size = cursor.number<std::uint64_t>();
    if (cursor.failed() || *cpu >= kMostCpus || (*size != 0 && !file_.holds(*offset, *size))) {
      return fail(ErrorKind::kDamaged,
                  "{}: damaged or cut off: the data of a CPU of buffer '{}' ends outside the file",
                  file_.path(), buffer.name);
    }
    if (*size != 0) buffer.cpus.push_back({*cpu, {*offset, *size, section->body.compression}});
  }
  layout_.cpu_count = std::max(layout_.cpu_count, *cpus);
  layout_.buffers.push_back(std::move(buffer));
  return {};
}

}  // namespace trapline::trace_dat
