// What the worker says of formats, against an independent parser: every format of every recording
// and of this kernel. Its printing, against libtraceevent in this process, on many events. And
// formats that harm, and answers that cannot be right.
#include <event-parse.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <trace-seq.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/worker_message.h"
#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/format_text.h"
#include "tests/support/open_by_path.h"

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
  void parse(const kernel_events::EventFormat& format) {
    (void)tep_parse_event(tep_, format.text.c_str(), format.text.size(), format.system.c_str());
  }
  void parse_kallsyms(const std::string& symbols) {
    (void)tep_parse_kallsyms(tep_, symbols.c_str());
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

struct Compared {
  std::size_t formats = 0, names = 0;
};

// Compares what the worker says of the formats with what the independent parser reads.
void compare(const std::string& name, std::vector<kernel_events::EventFormat> formats,
             Compared& compared) {
  SCOPED_TRACE(name);
  std::map<std::uint16_t, std::string> by_type;  // of two of one type, the last
  for (const auto& format : formats)
    if (const auto id = test::format_id(format.text)) by_type[*id] = format.text;
  std::vector<std::uint16_t> types;
  for (const auto& [type, text] : by_type) types.push_back(type);
  kernel_events::FormatTexts texts;
  texts.formats = std::move(formats);
  kernel_events::EventTexts worker(name, texts);
  const auto described = worker.describe(types);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_TRUE(worker.status()) << worker.status().error().message;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string& text = by_type[types[i]];
    SCOPED_TRACE(text.substr(0, 60));
    const auto fields = test::format_fields(text);
    const kernel_events::EventDescription& theirs = (*described)[i];
    ASSERT_EQ(theirs.fields.size(), fields.size());
    for (std::size_t at = 0; at < fields.size(); ++at) {
      EXPECT_EQ(theirs.fields[at].name, fields[at].name);
      EXPECT_EQ(theirs.fields[at].offset, fields[at].offset) << fields[at].name;
      EXPECT_EQ(theirs.fields[at].size, fields[at].size) << fields[at].name;
      EXPECT_EQ(theirs.fields[at].array, fields[at].array) << fields[at].name;
    }
    ++compared.formats;
    const auto event = test::format_line(text, "name:");
    if (event != "kvm_exit" && event != "kvm_userspace_exit") continue;
    const auto symbols = test::format_symbols(text);
    ASSERT_EQ(theirs.symbols.size(), symbols.size());
    for (std::size_t at = 0; at < symbols.size(); ++at) {
      EXPECT_EQ(theirs.symbols[at].field, symbols[at].field);
      EXPECT_EQ(theirs.symbols[at].names, symbols[at].names);
      compared.names += symbols[at].names.size();
    }
  }
}

TEST(FormatsFromTheWorker, AreThoseOfTheIndependentParser) {
  auto paths = real_recordings();
  for (const std::string& name : trapline::test::recordings()) paths.push_back(data_path(name));
  Compared compared;
  for (const std::string& path : paths) compare(path, formats_of(path), compared);
  compare("this kernel", formats_of_this_kernel(), compared);
  EXPECT_GT(compared.formats, 1000u);
  EXPECT_GT(compared.names, 100u);
}

TEST(IndependentParser, DamagedTextsGiveWhatCanBeRead) {
  EXPECT_FALSE(test::format_id("name: x\nID: 65536\n"));
  EXPECT_FALSE(test::format_id("ID:"));
  EXPECT_TRUE(test::format_fields("\tfield:int a;\toffset:4;\n").empty());
  EXPECT_TRUE(test::format_fields("\tfield:int a;\toffset:-4;\tsize:4;\n").empty());
  const auto symbols = test::format_symbols(
      "print fmt: \"%s\", __print_symbolic(REC->a & (1, 2), { 1 + 2, \"x\\\"y\" }, { MAX, \"z\" }, "
      "{ (1 << 4), \"s\" \"t\" }, { 5 ");
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].field, "a");
  EXPECT_EQ(symbols[0].names, (test::SymbolNames{{3, "x\\\"y"}, {16, "st"}}));
  EXPECT_TRUE(test::format_symbols("print fmt: __print_symbolic(").at(0).names.empty());
}

TEST(Strings, OfTracePrintkAreFoundInBothVersions) {
  std::set<int> versions;
  for (const std::string& name : trapline::test::recordings()) {
    const auto file = File::open(data_path(name));
    const auto layout = file ? read_layout(*file) : Result<Layout>(tl::unexpected(file.error()));
    if (!layout) continue;
    const auto text = read_text_section(*file, *layout, layout->printk_strings, 4);
    ASSERT_TRUE(text) << text.error().message;
    if (text->empty()) continue;
    EXPECT_TRUE(text->starts_with("0x")) << name << ": " << text->substr(0, 40);
    EXPECT_NE(text->find(" : \""), std::string::npos) << name;
    EXPECT_EQ(text->find_last_not_of(std::string_view("\n\0", 2)), text->rfind('"')) << name;
    versions.insert(layout->version);
  }
  EXPECT_EQ(versions, (std::set<int>{6, 7}));
}

// What the look at a file finds and what its events decode as must agree.
TEST(FormatsFromTheWorker, OfTwoFormatsOfOneNumberTheLastNamesTheEventAndDecodesIt) {
  const auto format = [](std::string_view name) {
    return kernel_events::EventFormat{
        "kvm", fmt::format("name: {}\nID: 7\nformat:\n"
                           "\tfield:unsigned short common_type;"
                           "\toffset:0;\tsize:2;\tsigned:0;\n"
                           "\tfield:u32 exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n\n"
                           "print fmt: \"\"\n",
                           name)};
  };
  const std::array<std::byte, 16> bytes{std::byte{7}};
  const kernel_events::RecordedEvent recorded{1, bytes.data(), bytes.size()};
  for (const bool known_last : {false, true}) {
    kernel_events::FormatTexts texts;
    texts.formats = {format("kvm_exit"), format("kvm_other")};
    if (known_last) std::swap(texts.formats[0], texts.formats[1]);
    const auto formats = kernel_events::Formats::parse("two", std::move(texts));
    ASSERT_TRUE(formats && formats->texts().status());
    Event event;
    EXPECT_TRUE(formats->decode(recorded, event));
    EXPECT_EQ(std::holds_alternative<KvmExit>(event.payload), known_last);
    kernel_events::CapabilityLooker looker(*formats);
    looker.look(recorded);
    EXPECT_EQ(looker.found().kvm_exit, known_last);
  }
}

// An answer about a format, as the worker writes it.
class Answer {
 public:
  explicit Answer(std::uint32_t id, std::uint32_t fields = 0) {
    message_.number(id);
    message_.number(std::uint32_t{1});  // the print format is read
    message_.number(fields);
  }
  Answer& field(std::string_view name, std::uint32_t offset, std::uint32_t size) {
    message_.text(name);
    for (const std::uint32_t word : {offset, size, 0u}) message_.number(word);
    return *this;
  }
  Answer& table(std::string_view field, std::uint32_t says,
                const std::vector<std::pair<std::uint32_t, std::string>>& names) {
    message_.text(field);
    message_.number(says);
    for (const auto& [value, name] : names) {
      message_.number(value);
      message_.text(name);
    }
    return *this;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return message_.bytes(); }
  [[nodiscard]] std::optional<kernel_events::EventDescription> read() const {
    return kernel_events::EventDescription::parse(7, bytes());
  }

 private:
  MessageWriter message_;
};

TEST(AnswersAboutFormats, AreCheckedBeforeTheyAreUsed) {
  const auto sound = Answer(7, 1).field("a", 8, 4).table("a", 2, {{1, "x"}, {2, "\x1b[2J"}});
  const auto read = sound.read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->size, 12u);
  EXPECT_EQ(read->symbols.at(0).names.at(1), "x");
  EXPECT_EQ(read->symbols.at(0).names.at(2), printable("\x1b[2J"));
  // The end of the fields is a whole answer, too.
  const std::size_t fields = Answer(7, 1).field("a", 8, 4).bytes().size();
  for (std::size_t size = 1; size < sound.bytes().size(); ++size) {
    EXPECT_EQ(kernel_events::EventDescription::parse(7, sound.bytes().first(size)).has_value(),
              size == fields)
        << size;
  }
  EXPECT_TRUE(kernel_events::EventDescription::parse(7, {})->fields.empty());
  EXPECT_FALSE(Answer(8, 1).field("a", 8, 4).read());            // of another type
  EXPECT_FALSE(Answer(7, 513).read());                           // too many fields
  EXPECT_FALSE(Answer(7, 2).field("a", 8, 4).read());            // fewer than it says
  EXPECT_FALSE(Answer(7, 1).field("", 8, 4).read());             // no name
  EXPECT_TRUE(Answer(7, 1).field("a", 65'532, 4).read());        // ends at 64 KiB
  EXPECT_FALSE(Answer(7, 1).field("a", 65'533, 4).read());       // beyond
  EXPECT_FALSE(Answer(7, 1).field("a", 8, 0xffff'fffc).read());  // beyond, and around
  EXPECT_FALSE(Answer(7, 0).table("a", 4097, {}).read());        // too many names
  EXPECT_FALSE(Answer(7, 0).table("a", 2, {{1, "x"}}).read());   // fewer than it says
  Answer tables(7, 0);
  for (int i = 0; i < 16; ++i) tables.table("a", 0, {});
  EXPECT_TRUE(tables.read());
  EXPECT_FALSE(tables.table("a", 0, {}).read());
}

// Formats with these of the demo's replaced by one whose brackets exhaust libtraceevent's stack.
Result<kernel_events::Formats> with_harmful(const std::set<std::string>& harmful,
                                            std::string_view print = "") {
  const std::string brackets(1u << 20, '(');
  kernel_events::FormatTexts texts;
  for (kernel_events::EventFormat format : formats_of(data_path("box/demo-v6.dat"))) {
    const auto name = std::string(test::format_line(format.text, "name:"));
    if (harmful.contains(name)) {
      format.text.resize(format.text.find("print fmt: "));
      format.text += fmt::format("print fmt: \"%d\", {}\n", print.empty() ? brackets : print);
    }
    texts.formats.push_back(std::move(format));
  }
  return kernel_events::Formats::parse("harmed.dat", std::move(texts));
}

std::set<std::string> decoded_types(const kernel_events::Formats& formats) {
  std::set<std::string> names;
  for (std::size_t type = 0; type < formats.schemas().size(); ++type) {
    if (formats.schemas()[type].decoder != Decoder::kNone)
      names.emplace(formats.name(static_cast<std::uint16_t>(type)));
  }
  return names;
}

TEST(HostileFormats, AFormatThatEndsTheWorkerCostsItsTypeAlone) {
  const auto sound = with_harmful({});
  ASSERT_TRUE(sound && sound->texts().status());
  const auto all = decoded_types(*sound);
  for (const std::set<std::string>& harmful :
       {std::set<std::string>{"kvm_pio"}, {"kvm_pio", "kvm_exit"}, {"print", "kvm_entry"}}) {
    const auto formats = with_harmful(harmful);
    ASSERT_TRUE(formats);
    const auto& status = formats->texts().status();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::kDamaged);
    EXPECT_THAT(status.error().message, HasSubstr("harmed.dat"));
    EXPECT_THAT(status.error().message, HasSubstr("reading the format of"));
    auto rest = all;
    std::erase_if(rest, [&](const std::string& name) {
      return harmful.contains(name.substr(name.find(':') + 1));
    });
    EXPECT_EQ(rest.size() + harmful.size(), all.size());
    EXPECT_EQ(decoded_types(*formats), rest);
  }
}

TEST(HostileFormats, AfterFourNoOtherIsTried) {
  const auto formats =
      with_harmful({"print", "kvm_exit", "kvm_entry", "kvm_pio", "kvm_userspace_exit"});
  ASSERT_TRUE(formats);
  EXPECT_FALSE(formats->texts().status());
  for (const std::string& name : decoded_types(*formats))
    EXPECT_THAT((std::set<std::string>{"ftrace:print", "kvm:kvm_exit", "kvm:kvm_entry",
                                       "kvm:kvm_pio", "kvm:kvm_userspace_exit"}),
                Not(::testing::Contains(name)));
}

TEST(HostileFormats, APrintFormatThatIsNotUnderstoodCostsOnlyNames) {
  const auto sound = with_harmful({}), formats = with_harmful({"kvm_exit"}, "__nobody_knows(1, 2");
  ASSERT_TRUE(formats && formats->texts().status());
  EXPECT_EQ(decoded_types(*formats), decoded_types(*sound));
  const auto exit = static_cast<std::uint16_t>(sound->type(events::kvm_exit));
  EXPECT_TRUE(formats->is_nameless(exit));
  EXPECT_FALSE(sound->is_nameless(exit));
  EXPECT_FALSE(formats->is_unread(exit));
}

TEST(HostileFormats, AFormatThatCannotBeReadIsNotDecoded) {
  kernel_events::FormatTexts texts;
  texts.formats = {{"kvm", "name: kvm_exit\nID: 7\nformat:\n\tfield:unsigned short\n"}};
  const auto formats = kernel_events::Formats::parse("harmed.dat", std::move(texts));
  ASSERT_TRUE(formats);
  EXPECT_TRUE(decoded_types(*formats).empty());
  ASSERT_FALSE(formats->texts().status());
  EXPECT_THAT(formats->texts().status().error().message,
              HasSubstr("harmed.dat: the format of kvm:kvm_exit cannot be read"));
}

class Texts : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Texts, ::testing::ValuesIn(trapline::test::recordings()),
                         trapline::test::test_name);

TEST_P(Texts, AreWhatLibtraceeventPrintsInThisProcess) {
  const std::string path = data_path(GetParam());
  auto source = open_trace_dat(path, {}, false);
  ASSERT_TRUE(source) << source.error().message;
  Library library;
  for (const kernel_events::EventFormat& format : formats_of(path)) library.parse(format);
  const auto file = File::open(path);
  const auto layout = read_layout(*file);
  ASSERT_TRUE(layout);
  library.parse_kallsyms(read_text_section(*file, *layout, layout->kallsyms, 4).value_or(""));
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

TEST(PrintedTexts, ComeInPiecesAndOnceForEqualEvents) {
  kernel_events::FormatTexts formats;
  formats.formats = {{"sys",
                      "name: e\nID: 7\nformat:\n"
                      "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
                      "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\n"
                      "print fmt: \"a=%d\", REC->a\n"}};
  kernel_events::EventTexts texts("some.file", formats);
  std::vector<std::array<std::byte, 12>> events(40);
  for (std::size_t i = 0; i < events.size(); ++i)
    events[i] = {std::byte{7}, {}, {}, {}, {}, {}, {}, {}, static_cast<std::byte>(i)};
  std::size_t trips = 0;
  const auto text = [&](std::span<const std::byte> event, std::uint32_t cpu, std::size_t next) {
    const auto following = [&](std::size_t, std::vector<kernel_events::RecordedEvent>& more) {
      ++trips;
      for (std::size_t i = next; i < events.size(); ++i) more.push_back({1, events[i].data(), 12});
    };
    return texts.text(7, event, cpu, following, [] { return std::string(); });
  };
  for (std::size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(text(events[i], 0, i + 1), fmt::format("a={}", i));
  EXPECT_EQ(trips, 3u);  // with 8, 16 and the other 13 events that follow
  const auto equal = events.back();
  EXPECT_EQ(text(equal, 0, events.size()), "a=39");
  EXPECT_EQ(trips, 3u);
  EXPECT_EQ(text(equal, 1, events.size()), "a=39");  // a text may tell its event's CPU
  EXPECT_EQ(trips, 4u);
  EXPECT_TRUE(texts.status());
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
