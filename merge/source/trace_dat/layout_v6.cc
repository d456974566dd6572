// Version 6: everything in one order, and a table of the CPUs' data at its end.
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/trace_dat_magic.h"
#include "merge/source/trace_dat/layout_reader.h"

namespace trapline::trace_dat {

using namespace std::string_view_literals;

Result<void> LayoutReader::read_v6() {
  read_header_info(reader_);
  read_ftrace_formats(reader_);
  read_event_formats(reader_);
  layout_.kallsyms = sized_section(reader_, reader_.number<std::uint32_t>());
  reader_.skip(reader_.number<std::uint32_t>());  // printk
  layout_.cmdlines = sized_section(reader_, reader_.number<std::uint64_t>());
  layout_.cpu_count = reader_.number<std::uint32_t>();
  std::vector<InstanceTable> instances;
  read_options_v6(instances);
  if (!reader_.ok()) return reader_.status();
  Buffer top = read_table_v6(reader_, "");
  if (!reader_.ok()) return reader_.status();
  layout_.buffers.push_back(std::move(top));
  constexpr std::uint64_t kMostEntries = 1u << 18;  // of all tables
  if (instances.size() * std::uint64_t{layout_.cpu_count} > kMostEntries) {
    reader_.fail_here("an impossible number of buffers");
    return reader_.status();
  }
  for (const InstanceTable& instance : instances) {
    if (auto read = read_instance_v6(instance); !read) return read;
  }
  return {};
}

Result<TracingData> LayoutReader::read_tracing_data() {
  reader_.expect(kTraceDatMagic);
  const std::string version = reader_.c_string();
  layout_.order = reader_.number<std::uint8_t>() == 0 ? std::endian::little : std::endian::big;
  reader_.set_order(layout_.order);
  layout_.long_size = reader_.number<std::uint8_t>();
  layout_.page_size = reader_.number<std::uint32_t>();
  read_header_info(reader_);
  read_ftrace_formats(reader_);
  read_event_formats(reader_);
  if (!reader_.ok()) return tl::unexpected(reader_.status().error());
  TracingData data{std::move(layout_), {}};
  // What follows is of use, but not needed.
  reader_.skip(reader_.number<std::uint32_t>());  // kallsyms
  reader_.skip(reader_.number<std::uint32_t>());  // printk
  if (version == "0.6") data.comms = reader_.bytes(reader_.number<std::uint64_t>());
  return data;
}

Result<TracingData> read_tracing_data(const File& file, std::uint64_t begin, std::uint64_t size) {
  return LayoutReader(file, begin, size).read_tracing_data();
}

// After the CPU count: "options  \0", the options, then "flyrecord\0"; either may be missing.
void LayoutReader::read_options_v6(std::vector<InstanceTable>& instances) {
  std::string kind = reader_.bytes(10);
  if (kind.starts_with("options")) {
    while (reader_.ok()) {
      const auto id = reader_.number<std::uint16_t>();
      if (id == kDone) break;
      const std::string body = reader_.bytes(reader_.number<std::uint32_t>());
      if (id != kBuffer) {
        handle_option(id, body);
        continue;
      }
      ByteCursor cursor(std::as_bytes(std::span(body)), layout_.order);
      const auto offset = cursor.number<std::uint64_t>();
      const auto name = cursor.c_string();
      if (offset && name) instances.push_back({*offset, std::string(*name)});
    }
    kind = reader_.bytes(10);
  }
  if (reader_.ok() && kind.starts_with("latency")) {
    reader_.fail_here("a latency tracer's text instead of events (record events, not -p)");
  } else if (reader_.ok() && !kind.starts_with("flyrecord")) {
    reader_.fail_here("no table of per-CPU data");
  }
}

Buffer LayoutReader::read_table_v6(MetaReader& reader, std::string name) {
  Buffer buffer{std::move(name), layout_.page_size, {}};
  if (layout_.cpu_count > kMostCpus) reader.fail_here("an impossible number of CPUs");
  for (std::uint32_t cpu = 0; cpu < layout_.cpu_count && reader.ok(); ++cpu) {
    const auto offset = reader.number<std::uint64_t>();
    const auto size = reader.number<std::uint64_t>();
    if (size == 0 || !reader.ok()) continue;
    if (offset > kFarthest || size > kFarthest) reader.fail_here("a CPU's data ends outside");
    add_pages(buffer, cpu, {offset, size});
  }
  return buffer;
}

Result<void> LayoutReader::read_instance_v6(const InstanceTable& instance) {
  if (instance.offset < kFarthest && instance.offset >= file_.size()) {
    missing_.push_back(fmt::format("buffer '{}'", printable(instance.name)));
    return {};
  }
  MetaReader reader = at(instance.offset);
  reader.expect("flyrecord\0"sv);
  Buffer buffer = read_table_v6(reader, instance.name);
  if (reader.ok()) layout_.buffers.push_back(std::move(buffer));
  return reader.status();
}

}  // namespace trapline::trace_dat
