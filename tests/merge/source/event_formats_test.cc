// Our reading of format texts, and the worker's printing, against libtraceevent in this process: on
// every format and many events of every recording, and of this kernel. And print formats that harm.
#include <event-parse.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <trace-seq.h>

#include <array>
#include <filesystem>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/merge/source/recordings.h"

namespace trapline::trace_dat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using trapline::test::contents;
using trapline::test::data_path;
using trapline::test::TemporaryFile;

// Recordings that are not ours to copy, where they are.
std::vector<std::string> real_recordings() {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(TRAPLINE_SOURCE_DIR "/../shared/traces/real", none)) {
    if (entry.path().extension() == ".dat") paths.push_back(entry.path().string());
  }
  return paths;
}

std::vector<kernel_events::EventFormat> formats_of(const std::string& path) {
  const auto file = File::open(path);
  if (!file) return {};
  auto layout = read_layout(*file);
  return layout ? std::move(layout->formats) : std::vector<kernel_events::EventFormat>();
}

std::vector<kernel_events::EventFormat> formats_of_this_kernel() {
  std::vector<kernel_events::EventFormat> formats;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator("/sys/kernel/tracing/events", none)) {
    if (entry.path().filename() != "format") continue;
    auto text = read_text(entry.path().string());
    if (!text) continue;
    const auto system = entry.path().parent_path().parent_path().filename().string();
    formats.push_back({system, std::move(*text)});
  }
  return formats;
}

class Library {
 public:
  explicit Library(std::endian order = std::endian::little, std::uint32_t long_size = 8) {
    tep_set_loglevel(TEP_LOG_NONE);
    tep_set_long_size(tep_, static_cast<int>(long_size));
    tep_set_file_bigendian(tep_, order == std::endian::big ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { tep_free(tep_); }
  tep_event* parse(const kernel_events::EventFormat& format) {
    (void)tep_parse_event(tep_, format.text.c_str(), format.text.size(), format.system.c_str());
    return tep_find_event(tep_, kernel_events::format_id(format.text).value_or(0));
  }
  std::string text(const Event& event) {
    tep_record record{};
    std::string copy(reinterpret_cast<const char*>(event.raw.data()), event.raw.size());
    copy.resize(copy.size() + 64);
    record.data = copy.data();
    record.size = static_cast<int>(event.raw.size());
    record.cpu = static_cast<int>(event.cpu);
    trace_seq text;
    trace_seq_init(&text);
    tep_print_event(tep_, &text, &record, "%s", TEP_PRINT_INFO);
    trace_seq_terminate(&text);
    std::string result = printable(trimmed(text.buffer));
    trace_seq_destroy(&text);
    return result;
  }

 private:
  tep_handle* tep_ = tep_alloc();
};

void expect_same_fields(const kernel_events::EventFormat& format) {
  SCOPED_TRACE(format.text.substr(0, 60));
  Library library;
  const tep_event* event = library.parse(format);
  ASSERT_NE(event, nullptr);
  auto fields = kernel_events::format_fields(format.text);
  std::size_t at = 0;
  for (const tep_format_field* list : {event->format.common_fields, event->format.fields}) {
    for (const tep_format_field* field = list; field != nullptr; field = field->next, ++at) {
      ASSERT_LT(at, fields.size());
      EXPECT_EQ(fields[at].name, field->name);
      EXPECT_EQ(fields[at].offset, static_cast<std::uint32_t>(field->offset));
      EXPECT_EQ(fields[at].size, static_cast<std::uint32_t>(field->size));
      EXPECT_EQ(fields[at].array, (field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_STRING)) != 0)
          << field->name;
    }
  }
  EXPECT_EQ(at, fields.size());
}

TEST(FormatText, FieldsAreThoseThatLibtraceeventFinds) {
  std::size_t count = 0;
  auto paths = real_recordings();
  for (const std::string& name : trapline::test::recordings()) paths.push_back(data_path(name));
  auto formats = formats_of_this_kernel();
  for (const std::string& path : paths) {
    for (kernel_events::EventFormat& format : formats_of(path))
      formats.push_back(std::move(format));
  }
  for (const kernel_events::EventFormat& format : formats) {
    expect_same_fields(format);
    ++count;
  }
  EXPECT_GT(count, 1000u);
}

void add_tables(const tep_print_arg* arg, std::vector<std::map<std::int64_t, std::string>>& to) {
  for (; arg != nullptr; arg = arg->next) {
    if (arg->type == TEP_PRINT_OP) {
      add_tables(arg->op.left, to);
      add_tables(arg->op.right, to);
    } else if (arg->type == TEP_PRINT_TYPE) {
      add_tables(arg->typecast.item, to);
    } else if (arg->type == TEP_PRINT_SYMBOL) {
      auto& table = to.emplace_back();
      for (auto* symbol = arg->symbol.symbols; symbol != nullptr; symbol = symbol->next) {
        std::string key = symbol->value;
        std::erase_if(key, [](char c) { return c == '(' || c == ')' || c == ' '; });
        table.emplace(static_cast<std::uint32_t>(std::strtoll(key.c_str(), nullptr, 0)),
                      symbol->str);
      }
    }
  }
}

TEST(FormatText, NamesOfReasonsAreThoseThatLibtraceeventFinds) {
  std::size_t names = 0;
  auto paths = real_recordings();
  for (const std::string& name : trapline::test::recordings()) paths.push_back(data_path(name));
  for (const std::string& path : paths) {
    for (const kernel_events::EventFormat& format : formats_of(path)) {
      const auto event_name = kernel_events::format_line(format.text, "name:");
      if (event_name != "kvm_exit" && event_name != "kvm_userspace_exit") continue;
      SCOPED_TRACE(path);
      Library library;
      const tep_event* event = library.parse(format);
      std::vector<std::map<std::int64_t, std::string>> theirs;
      add_tables(event->print_fmt.args, theirs);
      const auto ours = kernel_events::format_symbols(format.text);
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        std::map<std::int64_t, std::string> table(ours[i].names.begin(), ours[i].names.end());
        EXPECT_EQ(table, theirs[i]);
        names += table.size();
      }
    }
  }
  EXPECT_GT(names, 100u);
}

TEST(FormatText, DamagedTextsGiveWhatCanBeRead) {
  EXPECT_FALSE(kernel_events::format_id("name: x\nID: 65536\n"));
  EXPECT_FALSE(kernel_events::format_id("ID:"));
  EXPECT_TRUE(kernel_events::format_fields("\tfield:int a;\toffset:4;\n").empty());
  EXPECT_TRUE(kernel_events::format_fields("\tfield:int a;\toffset:-4;\tsize:4;\n").empty());
  const auto symbols = kernel_events::format_symbols(
      "print fmt: \"%s\", __print_symbolic(REC->a & (1, 2), { 1 + 2, \"x\\\"y\" }, { MAX, \"z\" }, "
      "{ (1 << 4), \"s\" \"t\" }, { 5 ");
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].field, "a");
  EXPECT_EQ(symbols[0].names, (kernel_events::SymbolNames{{3, "x\\\"y"}, {16, "st"}}));
  EXPECT_TRUE(kernel_events::format_symbols("print fmt: __print_symbolic(").at(0).names.empty());
}

// What the look at a file finds and what its events decode as must agree.
TEST(FormatText, OfTwoFormatsOfOneNumberTheLastNamesTheEventAndDecodesIt) {
  const auto format = [](std::string_view name) {
    return kernel_events::EventFormat{
        "kvm", fmt::format("name: {}\nID: 7\nformat:\n"
                           "\tfield:unsigned short common_type;"
                           "\toffset:0;\tsize:2;\tsigned:0;\n"
                           "\tfield:u32 exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n",
                           name)};
  };
  const std::array<std::byte, 16> bytes{std::byte{7}};
  const kernel_events::RecordedEvent recorded{1, bytes.data(), bytes.size()};
  for (const bool known_last : {false, true}) {
    kernel_events::FormatTexts texts;
    texts.formats = {format("kvm_exit"), format("kvm_other")};
    if (known_last) std::swap(texts.formats[0], texts.formats[1]);
    const kernel_events::Formats formats = kernel_events::Formats::parse("two", std::move(texts));
    Event event;
    EXPECT_TRUE(formats.decode(recorded, event));
    EXPECT_EQ(std::holds_alternative<KvmExit>(event.payload), known_last);
    kernel_events::CapabilityLooker looker(formats);
    looker.look(recorded);
    EXPECT_EQ(looker.found().kvm_exit, known_last);
  }
}

class Texts : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Texts, ::testing::ValuesIn(trapline::test::recordings()),
                         trapline::test::test_name);

TEST_P(Texts, AreWhatLibtraceeventPrintsInThisProcess) {
  const std::string path = data_path(GetParam());
  auto source = open_trace_dat(path, {{}, 0, false});
  ASSERT_TRUE(source) << source.error().message;
  Library library;
  for (const kernel_events::EventFormat& format : formats_of(path)) library.parse(format);
  Event event;
  std::size_t count = 0;
  while (count < 20'000 && (*source)->next(event) == Read::kEvent) {
    if (std::holds_alternative<Lost>(event.payload) ||
        std::holds_alternative<Marker>(event.payload)) {
      continue;
    }
    const std::string text = (*source)->event_text(event);
    ASSERT_EQ(text, library.text(event)) << (*source)->event_name(event);
    ++count;
  }
  EXPECT_TRUE((*source)->status()) << (*source)->status().error().message;
  EXPECT_GT(count, 10u);
}

// A recording whose event `name` has this print format.
std::string with_print_format(const std::string& path, const std::string& name,
                              const std::string& format) {
  std::string bytes = contents(path);
  const auto event = bytes.find("name: " + name + "\n");
  const auto start = bytes.find("print fmt: ", event);
  const auto end = bytes.find('\n', start);
  EXPECT_NE(event, std::string::npos);
  std::string line = "print fmt: " + format;
  EXPECT_LE(line.size(), end - start);
  line.resize(end - start, ' ');
  return bytes.replace(start, end - start, line);
}

struct PrintedHarm {
  std::vector<std::string> harmed, others;
  Result<void> status;
};

PrintedHarm print_all(const std::string& path, const std::string& harmed) {
  auto source = open_trace_dat(path, {});
  EXPECT_TRUE(source) << source.error().message;
  PrintedHarm printed;
  Event event;
  std::size_t count = 0;
  while (++count < 3000 && (*source)->next(event) == Read::kEvent) {
    const std::string name = (*source)->event_name(event);
    (name == harmed ? printed.harmed : printed.others).push_back((*source)->event_text(event));
  }
  printed.status = (*source)->status();
  return printed;
}

const char* const kDemo = "box/demo-v6.dat";

TEST(HostilePrintFormats, ReadingOnBehindAnEventIsAnErrorThatNamesFileAndEvent) {
  const PrintedHarm sound = print_all(data_path(kDemo), "kvm:kvm_pio");
  ASSERT_FALSE(sound.harmed.empty());
  for (const std::string length : {"99999999", "4096", "64", "-1"}) {
    SCOPED_TRACE(length);
    const TemporaryFile file(with_print_format(data_path(kDemo), "kvm_pio",
                                               "\"%s\", __print_hex(REC->val, " + length + ")"));
    const PrintedHarm printed = print_all(file.path(), "kvm:kvm_pio");
    if (length == "-1") {  // prints nothing
      EXPECT_EQ(printed.others, sound.others);
      continue;
    }
    EXPECT_THAT(printed.harmed, ::testing::Each("[not printed]"));
    EXPECT_EQ(printed.others, sound.others);  // each event for itself
    ASSERT_FALSE(printed.status);
    EXPECT_EQ(printed.status.error().kind, ErrorKind::kDamaged);
    EXPECT_THAT(printed.status.error().message, HasSubstr(file.path()));
    EXPECT_THAT(printed.status.error().message, HasSubstr("kvm:kvm_pio"));
  }
}

TEST(HostilePrintFormats, AFormatThatLibtraceeventDoesNotUnderstandHarmsNothing) {
  for (const std::string format :
       {"\"%s\", (((((((((((((((((((((((((((((((((((((", "\"%n%n%s%s\"", "\"%s", "__print_hex(",
        "\"%*.*s\", 999999999, 9999999, REC->val", "\"%s\", __print_array(REC->val, 1 << 30, 8)"}) {
    SCOPED_TRACE(format);
    const TemporaryFile file(with_print_format(data_path(kDemo), "kvm_pio", format));
    const PrintedHarm printed = print_all(file.path(), "kvm:kvm_pio");
    EXPECT_FALSE(printed.harmed.empty());
    EXPECT_TRUE(printed.status || printed.status.error().kind == ErrorKind::kDamaged);
  }
}

}  // namespace
}  // namespace trapline::trace_dat
