#include "backend_ftrace/tracetool/sdt_notes.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline::tracetool {
namespace {

// Reads three addresses (probe, base, semaphore), then provider, name and arguments, each ended by
// NUL.
bool read_note(std::string_view bytes, SdtProbe& probe) {
  std::uint64_t words[3];
  if (bytes.size() < sizeof words) return false;
  std::memcpy(words, bytes.data(), sizeof words);
  bytes.remove_prefix(sizeof words);
  probe.address = words[0];
  probe.semaphore = words[2];
  for (std::string* text : {&probe.provider, &probe.name, &probe.arguments}) {
    const auto end = bytes.find('\0');
    if (end == std::string_view::npos) return false;
    *text = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
  }
  return true;
}

void read_section(Elf_Data* data, std::vector<SdtProbe>& probes) {
  GElf_Nhdr header;
  std::size_t name = 0;
  std::size_t content = 0;
  std::size_t at = 0;
  while ((at = gelf_getnote(data, at, &header, &name, &content)) > 0) {
    const auto* bytes = static_cast<const char*>(data->d_buf);
    constexpr GElf_Word kStapSdt = 3;
    // The name's size includes the zero byte at its end.
    constexpr std::string_view kName("stapsdt\0", 8);
    if (header.n_type != kStapSdt || std::string_view(bytes + name, header.n_namesz) != kName)
      continue;
    SdtProbe probe;
    if (read_note({bytes + content, header.n_descsz}, probe)) probes.push_back(std::move(probe));
  }
}

}  // namespace

Result<std::vector<SdtProbe>> read_sdt_probes(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  elf_version(EV_CURRENT);
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_begin(fd.get(), ELF_C_READ, nullptr), elf_end);
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF || gelf_getclass(elf.get()) != ELFCLASS64) {
    return fail(ErrorKind::kDamaged, "{}: no 64-bit ELF file", path);
  }
  std::vector<SdtProbe> probes;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
    if (Elf_Data* data = elf_getdata(section, nullptr)) read_section(data, probes);
  }
  return probes;
}

}  // namespace trapline::tracetool
