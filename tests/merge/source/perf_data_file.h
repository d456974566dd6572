// Makes small perf.data files: one attr, the formats of kvm_entry alone, and records.
#pragma once

#include <cstdint>
#include <string>

namespace trapline::test {

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <typename... T>
std::string words(T... values) {
  return (bytes_of(static_cast<std::uint64_t>(values)) + ...);
}

class PerfDataFile {
 public:
  static constexpr std::uint16_t kEntry = 5;  // common_type
  static constexpr std::uint64_t kId = 77;    // of the event
  // IDENTIFIER, TID, TIME, CPU, RAW.
  std::uint64_t sample_type = 1u << 16 | 1u << 1 | 1u << 2 | 1u << 7 | 1u << 10;
  std::uint32_t type = 2;  // a tracepoint; 1: a software event
  std::uint64_t config = kEntry;
  std::uint64_t period = 1;
  std::uint64_t flags = 1u << 18;  // sample_id_all
  std::int32_t clock = 0;
  std::string clock_data;  // the feature CLOCK_DATA
  std::string records;

  static std::string record(std::uint32_t type, const std::string& body, std::uint16_t misc = 0) {
    return bytes_of(type) + bytes_of(misc) + bytes_of(static_cast<std::uint16_t>(8 + body.size())) +
           body;
  }
  static std::string trailer(std::uint64_t time, std::uint32_t cpu) {
    return words(0, time, cpu, kId);
  }
  // A kvm_entry of the thread 100 + cpu.
  PerfDataFile& entry(std::uint64_t time, std::uint32_t cpu, std::uint32_t vcpu = 0) {
    std::string raw = bytes_of(kEntry) + bytes_of(std::uint16_t{0}) + bytes_of(100 + cpu) +
                      bytes_of(vcpu) + bytes_of(std::uint32_t{0});
    raw = bytes_of(static_cast<std::uint32_t>(raw.size() + 4)) + raw + std::string(4, '\0');
    records += record(9, words(kId, 0, time, cpu) + raw);
    return *this;
  }
  PerfDataFile& round() {
    records += record(68, "");
    return *this;
  }
  PerfDataFile& lost(std::uint64_t time, std::uint32_t cpu, std::uint64_t count) {
    records += record(2, words(kId, count) + trailer(time, cpu));
    return *this;
  }
  PerfDataFile& lost_samples(std::uint32_t cpu, std::uint64_t count) {
    records += record(13, words(count) + trailer(0, cpu));
    return *this;
  }
  PerfDataFile& throttle(bool begins, std::uint64_t time, std::uint32_t cpu) {
    records += record(begins ? 5 : 6, words(time, kId, 0) + trailer(time, cpu));
    return *this;
  }
  PerfDataFile& fork(std::uint64_t time, std::uint32_t process, std::uint32_t thread) {
    records += record(7, bytes_of(process) + bytes_of(process) + bytes_of(thread) +
                             bytes_of(process) + words(time) + trailer(time, 0));
    return *this;
  }

  // Puts all records so far into COMPRESSED2 records of so many bytes, one zstd stream of blocks
  // that are not compressed.
  PerfDataFile& compress2(std::size_t size) {
    std::string data, head{"\x28\xb5\x2f\xfd\0\x50", 6};
    for (std::size_t at = 0; at < records.size(); at += size, head.clear()) {
      const std::string block = records.substr(at, size);
      const auto block_head = bytes_of(static_cast<std::uint32_t>(block.size() << 3)).substr(0, 3);
      std::string body = head + block_head + block;
      const std::string length = words(body.size());
      body.resize((body.size() + 7) / 8 * 8, '\x7f');
      data += record(83, length + body);
    }
    records = data;
    return *this;
  }

  [[nodiscard]] std::string attr() const {
    return bytes_of(type) + bytes_of(std::uint32_t{128}) +
           words(config, period, sample_type, 0, flags) + std::string(44, '\0') + bytes_of(clock) +
           std::string(32, '\0');
  }
  // As perf writes a file.
  [[nodiscard]] std::string file() const {
    const std::uint64_t ids = 104 + 144, data = ids + 8, end = data + records.size();
    const std::string formats = tracing_data();
    const bool has_clock = !clock_data.empty();
    const std::uint64_t bodies = end + (has_clock ? 32 : 16);
    const std::uint64_t features = 1u << 1 | (has_clock ? 1u << 29 : 0);
    return "PERFILE2" + words(104, 144, 104, 144, data, records.size(), 0, 0, features, 0, 0, 0) +
           attr() + words(ids, 8) + words(kId) + records + words(bodies, formats.size()) +
           (has_clock ? words(bodies + formats.size(), clock_data.size()) : "") + formats +
           clock_data;
  }
  // As perf writes to a pipe.
  [[nodiscard]] std::string pipe() const {
    std::string formats = tracing_data();
    const std::string size = bytes_of(static_cast<std::uint32_t>(formats.size()));
    formats.resize((formats.size() + 7) / 8 * 8);
    return "PERFILE2" + words(16) + record(64, attr() + words(kId)) +
           (clock_data.empty() ? "" : record(80, words(29) + clock_data)) +
           record(66, size + size) + formats + records;
  }

 private:
  static std::string tracing_data() {
    using namespace std::string_literals;
    const std::string format =
        "name: kvm_entry\nID: 5\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
        "\tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;\n\n"
        "print fmt: \"vcpu %u\", REC->vcpu_id\n";
    return "\x17\x08\x44tracing0.6\0\0\x08"s + bytes_of(std::uint32_t{4096}) + "header_page\0"s +
           words(0) + "header_event\0"s + words(0) + bytes_of(std::uint32_t{0}) +
           bytes_of(std::uint32_t{1}) + "kvm\0"s + bytes_of(std::uint32_t{1}) +
           words(format.size()) + format + words(0) + words(0);
  }
};

}  // namespace trapline::test
