// Inputs of a fuzz target as files that no disk sees: readers open them by their paths.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline::fuzz {

[[nodiscard]] inline std::string_view text_of(const unsigned char* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
// Takes an event off the input: a length byte and its bytes. The copy has exactly that size, so
// that whatever reads on is seen.
[[nodiscard]] inline std::vector<std::byte> take_event(std::string_view& input) {
  const auto length = static_cast<unsigned char>(input.front());
  const auto text = input.substr(1, length);
  input.remove_prefix(1 + text.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

// One file in memory, filled anew for each input.
class MemoryFile {
 public:
  MemoryFile();
  void fill(std::string_view bytes) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  UniqueFd fd_;
  std::string path_;
};

// A folder below $TMPDIR or /dev/shm, removed when the process ends well.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

  // The files of one input, in its order and nothing else: those whose names `names` has. The
  // folder of a name that has one is made.
  void fill(std::string_view input, const std::vector<std::string>& names) const;

 private:
  std::string path_;
};

// An input of several files, as scripts/fuzz packs a folder: before each the separator and a byte
// that is 'A' plus its place in the target's list of names. Bytes before the first separator are
// the first file's.
inline constexpr std::string_view kNextFile = "\xfe\xed\xf1\x1e";
struct NamedPart {
  std::size_t name = 0;
  std::string_view bytes;
};
[[nodiscard]] std::vector<NamedPart> parts_of(std::string_view input, std::size_t names);

}  // namespace trapline::fuzz
