#include <elf.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "backend_ftrace/base/worker.h"
#include "plugin/format/symbol_table.h"
#include "plugin/format/symbol_writer.h"
#include "tests/plugin/qemu_run.h"

namespace trapline::test {
namespace {

class SymbolsTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  // Compiles assembly into an ELF file at 0x400000.
  std::string assemble(const std::string& text,
                       std::vector<std::string> flags = {"--target=x86_64-none-elf"},
                       const std::string& name = "a.elf") {
    const std::string source = write("a.s", text);
    std::vector<std::string> command{"clang",
                                     "-nostdlib",
                                     "-static",
                                     "-fuse-ld=lld",
                                     "-Wl,--image-base=0x400000",
                                     "-Wl,--build-id=sha1",
                                     "-Wl,-e,0",
                                     source,
                                     "-o",
                                     folder_ / name};
    command.insert(command.end(), flags.begin(), flags.end());
    const Output output = run(command);
    EXPECT_EQ(output.exit_code(), 0) << output.err;
    return folder_ / name;
  }
  static std::string name_at(const SymbolTable& table, std::uint64_t address) {
    const Symbol* symbol = table.find(address);
    return symbol == nullptr ? "-" : std::string(symbol->name);
  }
  static SymbolTable table_of(const std::string& path, std::uint64_t offset = 0) {
    const SymbolFileSpec spec{path, offset};
    auto table = SymbolTable::load({&spec, 1});
    EXPECT_TRUE(table) << table.error().message;
    return table ? std::move(*table) : SymbolTable();
  }
  TemporaryFolder folder_;
};

constexpr char kFunctions[] = R"(
  .text
  .globl sized
  .type sized, @function
sized: .skip 16
  .size sized, . - sized
  .skip 16
  .globl weak_one
  .weak weak_one
  .type weak_one, @function
weak_one: .skip 8
inner_label: .skip 8
  .size weak_one, . - weak_one
  .globl bare
bare: .skip 32
  .globl _ZN2ns3fooEi
  .type _ZN2ns3fooEi, @function
_ZN2ns3fooEi: .skip 16
  .size _ZN2ns3fooEi, . - _ZN2ns3fooEi
  .globl _RNvCs1234_7mycrate3foo
  .type _RNvCs1234_7mycrate3foo, @function
_RNvCs1234_7mycrate3foo: .skip 16
  .size _RNvCs1234_7mycrate3foo, . - _RNvCs1234_7mycrate3foo
  .globl last
last: .skip 4
  .data
  .globl data
data: .quad 0
)";

TEST_F(SymbolsTest, AnAddressBelongsToTheFunctionThatContainsItAndToNoOther) {
  const auto file = load_symbol_file(assemble(kFunctions));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->build_id.size(), 40u);
  const SymbolTable table = table_of(file->path);
  const std::uint64_t sized = file->by_name("sized")->address;
  EXPECT_EQ(name_at(table, sized - 1), "-");
  EXPECT_EQ(name_at(table, sized), "sized");
  EXPECT_EQ(name_at(table, sized + 15), "sized");
  EXPECT_EQ(name_at(table, sized + 16), "-");  // behind it, before the next
  EXPECT_EQ(name_at(table, sized + 32), "weak_one");
  EXPECT_EQ(name_at(table, sized + 40), "weak_one");  // a label inside a sized function
  EXPECT_EQ(name_at(table, sized + 48), "bare");
  EXPECT_EQ(name_at(table, sized + 79), "bare");  // sizeless: up to the next
  EXPECT_EQ(name_at(table, sized + 80), "ns::foo");
  EXPECT_EQ(name_at(table, sized + 96), "mycrate::foo");
  EXPECT_EQ(name_at(table, sized + 112), "last");
  EXPECT_EQ(name_at(table, sized + 115), "last");
  EXPECT_EQ(name_at(table, sized + 116), "-");  // its section's end
  EXPECT_EQ(name_at(table, file->by_name("sized")->address + 0x1000), "-");
  EXPECT_EQ(file->by_name("data"), nullptr);
}

TEST_F(SymbolsTest, OneFileAtTwoOffsetsAnswersForBoth) {
  const std::string path = assemble(kFunctions);
  const std::uint64_t sized = load_symbol_file(path)->by_name("sized")->address;
  const SymbolFileSpec specs[] = {{path, 0}, {path, 0xffffffff80000000}};
  auto table = SymbolTable::load(specs);
  ASSERT_TRUE(table);
  EXPECT_EQ(name_at(*table, sized + 3), "sized");
  EXPECT_EQ(name_at(*table, sized + 0xffffffff80000003), "sized");
  EXPECT_NE(table->index_of(sized), table->index_of(sized + 0xffffffff80000000));
  EXPECT_EQ(table->index_of(1), SymbolTable::kNone);
}

TEST_F(SymbolsTest, ElfFilesOfOtherClassesAndByteOrdersAreRead) {
  const std::string text = ".text\n.globl f\n.type f, %function\nf: .space 12\n.size f, 12\n";
  for (const char* target : {"--target=i386-none-elf", "--target=armeb-none-eabi",
                             "--target=aarch64_be-none-elf", "--target=powerpc64-none-elf"}) {
    // Objects only: lld does not link all of them. An object is refused with a reason.
    const std::string source = write("o.s", text);
    const std::string object = folder_ / "o.o";
    ASSERT_EQ(run({"clang", target, "-c", source, "-o", object}).exit_code(), 0) << target;
    auto file = load_symbol_file(object);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message, ::testing::HasSubstr("relocatable")) << target;
  }
  const std::string small = assemble(text, {"--target=i386-none-elf"}, "i386.elf");
  EXPECT_EQ(load_symbol_file(small)->symbols.at(0).size, 12u);
}

TEST_F(SymbolsTest, AStrippedFileTakesItsNamesFromTheDebugFileOfTheSameBuild) {
  const std::string path = assemble(kFunctions);
  const std::string debug = folder_ / "a.debug";
  ASSERT_EQ(run({"objcopy", "--only-keep-debug", path, debug}).exit_code(), 0);
  ASSERT_EQ(run({"objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, path}).exit_code(), 0);
  auto file = load_symbol_file(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->debug_path, debug);
  EXPECT_NE(file->by_name("weak_one"), nullptr);
  // Another build's debug file is not taken.
  const std::string other =
      assemble(std::string(kFunctions) + ".text\n.skip 4\n", {"--target=x86_64-none-elf"}, "b.elf");
  ASSERT_EQ(run({"objcopy", "--only-keep-debug", other, debug}).exit_code(), 0);
  EXPECT_FALSE(load_symbol_file(path));
}

TEST_F(SymbolsTest, AnEntryOfTheLinkageTableHasTheNameOfItsFunction) {
  (void)::getppid();  // in another file, so that this one has an entry for it
  const auto file = load_symbol_file("/proc/self/exe");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_NE(file->by_name("getppid"), nullptr);
}

TEST_F(SymbolsTest, AKallsymsDumpNamesModulesAndEndsTheirLastFunctions) {
  const SymbolTable table =
      table_of(write("kallsyms",
                     "ffffffff81000000 T _stext\nffffffff81000000 T startup_64\n"
                     "ffffffff81000100 t helper\nffffffff81000200 D data\n"
                     "ffffffffc0000000 t one\t[alpha]\nffffffffc0000010 t two\t[alpha]\n"
                     "ffffffffc0400000 t three\t[beta]\n"));
  EXPECT_EQ(name_at(table, 0xffffffff81000050), "startup_64");
  EXPECT_EQ(name_at(table, 0xffffffff810001ff), "helper");
  EXPECT_EQ(name_at(table, 0xffffffff81000200), "-");
  EXPECT_EQ(name_at(table, 0xffffffffc0000020), "two");
  EXPECT_EQ(name_at(table, 0xffffffffc0001000), "-");  // alpha's last page is over
  EXPECT_EQ(name_at(table, 0xffffffffc0400001), "three");
}

TEST_F(SymbolsTest, WhatTheCompilerCutOutOfAFunctionHasItsName) {
  const SymbolTable table =
      table_of(write("System.map",
                     "1000 t cold.init\n1010 t foo.cold\n1020 t foo.part.0\n1030 T foo\n"
                     "1040 t bar.isra.0.cold\n1050 t .cold\n1060 t particle\n"));
  EXPECT_EQ(name_at(table, 0x1000), "cold.init");
  EXPECT_EQ(name_at(table, 0x1010), "foo");
  EXPECT_EQ(name_at(table, 0x1020), "foo");
  EXPECT_EQ(name_at(table, 0x1040), "bar.isra.0");
  EXPECT_EQ(name_at(table, 0x1050), ".cold");
  EXPECT_EQ(name_at(table, 0x1060), "particle");
  EXPECT_FALSE(table.find(0x1030)->is_part);
  EXPECT_TRUE(table.find(0x1010)->is_part);
}

TEST_F(SymbolsTest, UftracesOldAndNewFormAreTheSame) {
  const std::string old_form =
      "# symbols: 3\n# path name: /x\n0000000000000010 T first\n0000000000000030 t second\n"
      "0000000000000050 ? __sym_end\n";
  const std::string new_form =
      "# symbols: 2\n# path name: /x\n0000000000000010 00000020 T first\n"
      "0000000000000030 00000020 t second\n";
  for (const std::string& text : {old_form, new_form}) {
    const SymbolTable table = table_of(write("x.sym", text), 0x400000);
    EXPECT_EQ(name_at(table, 0x40000f), "-");
    EXPECT_EQ(name_at(table, 0x40002f), "first");
    EXPECT_EQ(name_at(table, 0x40004f), "second");
    EXPECT_EQ(name_at(table, 0x400050), "-");
  }
}

TEST_F(SymbolsTest, BadTextNamesTheFileAndTheLine) {
  auto file = load_symbol_file(write("bad", "0000000000001000 T good\nnonsense\n"));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, ::testing::HasSubstr("/bad:2: not a symbol line ('nonsense')"));
  file = load_symbol_file(write("long", "0000000000001000 T " + std::string(100000, 'x') + "\n"));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, ::testing::HasSubstr("long:1: the line is longer"));
  file = load_symbol_file(write("zero", "0000000000000000 T a\n0000000000000000 t b\n"));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, ::testing::HasSubstr("kptr_restrict"));
}

TEST_F(SymbolsTest, DamagedElfFilesAreErrorsOrPartsNeverCrashes) {
  const std::string path = assemble(kFunctions);
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  unsigned state = 1;
  const auto random = [&state] { return state = state * 1103515245 + 12345, state >> 8; };
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    if (i % 4 == 0) bad.resize(random() % bad.size());
    for (int j = 0; j < 8 && !bad.empty(); ++j)
      bad[random() % bad.size()] = static_cast<char>(random());
    // The headers decide most.
    if (bad.size() > 64) bad[random() % 64] = static_cast<char>(random());
    auto file = load_symbol_file(write("bad.elf", bad));
    if (!file) continue;
    SymbolTable table;
    table.add(*file, random());
    table.build();
    for (const Symbol& symbol : file->symbols) EXPECT_GT(symbol.size, 0u);
    (void)table.find(random());
  }
}

// _Z1f<types that double with each step>v; with `pack`, as the pattern of a pack expansion, in
// which the demangler looks for a pack through all of them before its first word.
std::string doubling_name(int steps, bool pack) {
  const auto substitution = [](int index) {
    constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string digits;
    for (int rest = index; rest > 0; rest = (rest - 1) / 36)
      digits.insert(digits.begin(), kDigits[(rest - 1) % 36]);
    return "S" + digits + "_";
  };
  const int first = pack ? 3 : 2;
  std::string name = pack ? "_Z1fIDp1BI1AIiiE" : "_Z1fI1AIiiE";
  for (int i = 0; i < steps; ++i) {
    const std::string part = substitution(first + i);
    name += substitution(first - 1) + "I" + part + part + "E";
  }
  return name + (pack ? "EEvv" : "Evv");
}

TEST_F(SymbolsTest, ANameThatStandsForTooMuchTextOrWorkKeepsItsMangledForm) {
  std::string text = "0000000000001000 T _ZN3foo3barEv\n";
  const std::string long_text = doubling_name(27, false), long_work = doubling_name(30, true);
  text += "0000000000002000 T " + long_text + "\n0000000000003000 T _ZN3foo3bazEv\n";
  text += "0000000000004000 T " + long_work + "\n0000000000005000 T _ZN3foo3quxEv\n";
  const std::clock_t start = std::clock();
  const auto file = load_symbol_file(write("names", text));
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  EXPECT_LT(children.ru_utime.tv_sec + (std::clock() - start) / CLOCKS_PER_SEC, 2);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->symbols.size(), 5u);
  EXPECT_EQ(file->symbols[0].name, "foo::bar");
  EXPECT_EQ(file->symbols[1].name, long_text);
  EXPECT_EQ(file->symbols[2].name, "foo::baz");
  EXPECT_EQ(file->symbols[3].name, long_work);
  EXPECT_EQ(file->symbols[4].name, "foo::qux");
}

TEST_F(SymbolsTest, OfManyNamesThatTakeLongTheRestKeepsItsMangledForm) {
  std::string text;
  for (unsigned i = 1; i <= 200; ++i)
    text += fmt::format("{:016x} T {}\n", i * 4096, doubling_name(30, true));
  text += "0000000000f00000 T _ZN3foo3barEv\n";
  const auto file = load_symbol_file(write("names", text));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->symbols.size(), 201u);
  EXPECT_EQ(file->symbols.back().name, "_ZN3foo3barEv");
}

// An ELF file of 64 bits whose `count` symbols all have the name at the start of `names`.
std::string elf_of(std::size_t count, const std::string& names) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shoff = sizeof header;
  Elf64_Shdr sections[4] = {};
  sections[1] = {
      0, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000, sizeof header, 1u << 30, 0, 0, 1, 0};
  sections[2] = {
      0, SHT_SYMTAB,       0, 0, sizeof header + sizeof sections, count * sizeof(Elf64_Sym), 3, 0,
      8, sizeof(Elf64_Sym)};
  sections[3] = {0, SHT_STRTAB, 0, 0, sections[2].sh_offset + sections[2].sh_size, names.size(),
                 0, 0,          1, 0};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
  for (std::size_t i = 0; i < count; ++i) {
    const Elf64_Sym symbol{1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1000 + 16 * i, 16};
    bytes.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  }
  return bytes + names;
}

TEST_F(SymbolsTest, AnElfFileWhoseNamesAreLongerThanItsTextIsRefused) {
  const std::string sound = elf_of(1000, std::string("\0name\0", 6));
  auto file = load_symbol_file(write("sound.elf", sound));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->symbols.size(), 1000u);
  const std::string shared = elf_of(40'000, '\0' + std::string(60'000, 'x') + '\0');
  const std::string path = write("shared.elf", shared);
  file = load_symbol_file(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(file.error().message,
            path + ": more symbols, or longer names, than a file of its size can have");
  // A symbol table that claims more than the file has.
  std::string claims = sound;
  const std::uint64_t much = std::uint64_t{1} << 60;
  std::memcpy(claims.data() + sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr) + 32, &much, sizeof much);
  EXPECT_FALSE(load_symbol_file(write("claims.elf", claims)));
}

TEST_F(SymbolsTest, WhereNoChildIsAllowedTextsAreReadAndElfFilesAreNot) {
  const std::string elf = write("sound.elf", elf_of(10, std::string("\0name\0", 6)));
  const std::string text = write("map", "0000000000001000 T _ZN3foo3barEv\n");
  EXPECT_TRUE(is_elf_file(elf));
  EXPECT_FALSE(is_elf_file(text));
  Worker::forbid("the test allows no children");
  const auto names = load_symbol_file(text);
  const auto symbols = load_symbol_file(elf);
  Worker::forbid("");
  ASSERT_TRUE(names);
  EXPECT_EQ(names->symbols.at(0).name, "_ZN3foo3barEv");
  ASSERT_FALSE(symbols);
  EXPECT_THAT(symbols.error().message, ::testing::HasSubstr("the test allows no children"));
}

TEST_F(SymbolsTest, ASpecHasAnOffsetAndAFileMayHaveAnAt) {
  EXPECT_EQ(parse_symbol_file_spec("vmlinux@0x1000")->offset, 0x1000u);
  EXPECT_EQ(parse_symbol_file_spec("vmlinux@-0x1000")->offset, 0 - std::uint64_t{0x1000});
  EXPECT_EQ(parse_symbol_file_spec("vmlinux")->offset, 0u);
  EXPECT_FALSE(parse_symbol_file_spec("vmlinux@here"));
  const std::string path = write("a@b", "");
  EXPECT_EQ(parse_symbol_file_spec(path)->path, path);
}

TEST_F(SymbolsTest, TheCommandFindsTheOffsetFromOneKnownSymbolAndUftraceReadsTheResult) {
  const std::string path = assemble(kFunctions);
  const std::string out = folder_ / "out";
  const Output output = run({std::string(TRAPLINE_BINARY_DIR) + "/merge/trapline", "symbols", path,
                             "-o", out, "--prefix", "--at", "sized=0xffffffff81000000"});
  ASSERT_EQ(output.exit_code(), 0) << output.err;
  std::ifstream map(out + "/sid-0.map");
  std::string line;
  std::getline(map, line);
  EXPECT_EQ(line, "ffff81000000-ffff81001000 r-xp 00000000 00:00 0 /vm/a.elf");
  const SymbolTable table = table_of(out + "/a.elf.sym", 0xffff81000000);
  EXPECT_EQ(name_at(table, 0xffff81000004), "a.elf:sized");
  EXPECT_EQ(run({std::string(TRAPLINE_BINARY_DIR) + "/merge/trapline", "symbols", path, "-o", out,
                 "--at", "nosuch=1"})
                .exit_code(),
            2);
}

}  // namespace
}  // namespace trapline::test
