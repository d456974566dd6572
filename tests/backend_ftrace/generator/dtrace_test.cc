// The SDT probes of the dtrace backend, fired through the kernel's uprobes: the arguments that a
// tracer fetches by the probe's notes are those that printf prints. uprobe_events is one file for
// the whole machine: the test's own group is added to it and taken out again.
#include <fcntl.h>
#include <gelf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "backend_ftrace/tracetool/sdt_notes.h"
#include "tests/support/instance.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;
using tracetool::Event;

// "%r8d" -> "%r8", "%edi" -> "%di", "%sil" -> "%si": the names that the kernel knows.
std::string kernel_register(std::string name) {
  name.erase(0, 1);
  if (name[0] == 'r' && name.size() > 1 && std::isdigit(static_cast<unsigned char>(name[1])) != 0) {
    while (std::isalpha(static_cast<unsigned char>(name.back())) != 0) name.pop_back();
    return "%" + name;
  }
  if (name.size() == 3 && (name[0] == 'r' || name[0] == 'e')) name.erase(0, 1);
  if (name.size() == 3 && name[2] == 'l') name.pop_back();
  if (name.size() == 2 && name[1] == 'l') name[1] = 'x';
  return "%" + name;
}

// A note's argument ("-4@%edi", "8@-16(%rbp)", "4@$5") as uprobe_events writes it; "" if unknown.
std::string fetch(const std::string& note, bool string) {
  const auto at = note.find('@');
  const int size = std::atoi(note.substr(0, at).c_str());
  const std::string place = note.substr(at + 1);
  const std::string type =
      string ? ":string" : (size < 0 ? ":s" : ":u") + std::to_string(std::abs(size) * 8);
  std::string value;
  if (place[0] == '$') {
    value = "\\" + place.substr(1);
  } else if (place[0] == '%') {
    value = kernel_register(place);
  } else if (const auto open = place.find("(%"); open != std::string::npos && place.back() == ')' &&
                                                 place.find(',') == std::string::npos) {
    const std::string offset = open == 0 ? "+0" : place.substr(0, open);
    if (offset.find_first_not_of("+-0123456789") != std::string::npos) return "";
    value = (offset[0] == '-' || offset[0] == '+' ? "" : "+") + offset + "(" +
            kernel_register(place.substr(open + 1, place.size() - open - 2)) + ")";
  } else {
    return "";
  }
  return (string ? "+0(" + value + ")" : value) + type;
}

class DtraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TRAPLINE_REQUIRE(test::Instance::usable(), "needs root and tracefs at /sys/kernel/tracing");
    instance_.emplace();
    group_ = "trapline_test_" + std::to_string(::getpid());
  }
  void TearDown() override {
    if (!instance_) return;
    instance_->set("events/" + group_ + "/enable", "0");
    for (const std::string& name : probes_) {
      (void)command("-:" + group_ + "/" + name + "\n");
    }
  }
  // Appended, never truncated: that would remove everybody's probes.
  static bool command(const std::string& line) {
    const UniqueFd file(
        ::open("/sys/kernel/tracing/uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC));
    return ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  }
  // False when the probe's notes are of a kind that fetch() does not know.
  bool add(const tracetool::SdtProbe& probe, const Event& event, std::uint64_t data_shift) {
    std::ostringstream line;
    line << "p:" << group_ << "/" << probe.name << " " << DIFFERENTIAL_DRIVER << ":0x" << std::hex
         << probe.address << "(0x" << probe.semaphore - data_shift << ")" << std::dec;
    std::istringstream notes(probe.arguments);
    std::string note;
    for (std::size_t i = 0; notes >> note; ++i) {
      const bool string = event.arguments.at(i).kind == tracetool::TypeKind::kString;
      const std::string fetched = fetch(note, string);
      if (fetched.empty()) return false;
      line << " a" << i << "=" << fetched;
    }
    if (!command(line.str() + "\n")) {
      ADD_FAILURE() << "refused: " << line.str();
      return false;
    }
    probes_.push_back(probe.name);
    return true;
  }

  std::optional<test::Instance> instance_;
  std::string group_;
  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  std::vector<std::string> probes_;
};

// " … NAME: (0xADDRESS) a0=1 a1="text"" as "NAME ARGS" in the event's format.
std::string printed(const std::string& line, const Event& event) {
  std::vector<tracetool::Value> values;
  std::vector<std::string> texts(event.arguments.size());
  for (std::size_t i = 0; i < event.arguments.size(); ++i) {
    const std::string key = " a" + std::to_string(i) + "=";
    const auto begin = line.find(key) + key.size();
    const auto next = line.find(" a" + std::to_string(i + 1) + "=", begin);
    std::string text = line.substr(begin, next == std::string::npos ? next : next - begin);
    tracetool::Value value;
    value.kind = tracetool::ValueKind::kSigned;
    if (event.arguments[i].kind == tracetool::TypeKind::kString) {
      texts[i] = text == "(fault)" ? "(null)" : text.substr(1, text.size() - 2);
      value.kind = tracetool::ValueKind::kString;
      value.text = texts[i];
    } else {
      value.bits =
          text[0] == '-' ? static_cast<std::uint64_t>(std::stoll(text)) : std::stoull(text);
    }
    values.push_back(value);
  }
  std::string text = event.name + " ";
  tracetool::append_text(event, values, text);
  return text;
}

// Where the writable segment's addresses and file offsets differ, the semaphore's file offset does.
std::uint64_t data_shift_of(const std::string& path, std::uint64_t address) {
  std::uint64_t shift = 0;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  elf_version(EV_CURRENT);
  Elf* elf = elf_begin(::fileno(file), ELF_C_READ, nullptr);
  for (int i = 0;; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, i, &header) == nullptr) break;
    if (header.p_type != PT_LOAD || address < header.p_vaddr ||
        address >= header.p_vaddr + header.p_memsz) {
      continue;
    }
    shift = header.p_vaddr - header.p_offset;
  }
  elf_end(elf);
  std::fclose(file);
  return shift;
}

TEST_F(DtraceTest, UprobesFetchWhatPrintfPrints) {
  const auto probes = tracetool::read_sdt_probes(DIFFERENTIAL_DRIVER);
  ASSERT_TRUE(probes) << probes.error().message;
  const auto events = tracetool::read_trace_events(DIFFERENTIAL_EVENTS);
  for (const tracetool::SdtProbe& probe : *probes) {
    if (probe.provider != "trapline") continue;  // lttng has probes of its own
    const auto event = std::find_if(events->events.begin(), events->events.end(),
                                    [&](const Event& each) { return each.name == probe.name; });
    if (event == events->events.end()) continue;
    EXPECT_NE(probe.semaphore, 0u);
    (void)add(probe, *event, data_shift_of(DIFFERENTIAL_DRIVER, probe.semaphore));
  }
  ASSERT_GT(probes_.size(), 25u);
  ASSERT_TRUE(instance_->set("buffer_size_kb", "4096"));
  ASSERT_TRUE(instance_->set("events/" + group_ + "/enable", "1"));
  const std::string expected = (folder_ / "expected.txt").string();
  ASSERT_EQ(std::system(("TRAPLINE_FTRACE_FD=9 TRAPLINE_LOG=/dev/null " DIFFERENTIAL_DRIVER " " +
                         expected + " /dev/null /dev/null 9> /dev/null > /dev/null")
                            .c_str()),
            0);
  std::vector<std::string> got;
  std::ifstream trace(instance_->path("trace"));
  for (std::string line; std::getline(trace, line);) {
    for (const std::string& name : probes_) {
      const auto at = line.find(": " + name + ": (0x");
      if (at == std::string::npos) continue;
      const auto event = std::find_if(events->events.begin(), events->events.end(),
                                      [&](const Event& each) { return each.name == name; });
      got.push_back(printed(line.substr(at + 2), *event));
    }
  }
  std::vector<std::string> wanted;
  std::ifstream file(expected);
  for (std::string line; std::getline(file, line);) {
    const std::string name = line.substr(0, line.find(' '));
    // The address of a string that %p prints is not fetched; NULL has no precision here.
    if (std::find(probes_.begin(), probes_.end(), name) != probes_.end()) wanted.push_back(line);
  }
  const auto special = [](const std::string& line) {
    return line.starts_with("string_pointer ") || line.starts_with("star ");
  };
  std::erase_if(got, special);
  std::erase_if(wanted, special);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted[i]) << "line " << i + 1;
}

}  // namespace
}  // namespace trapline
