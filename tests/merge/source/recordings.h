// The recordings of tests/data, and what the tests of sources do with them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {

// Paths below tests/data, sorted.
inline std::vector<std::string> recordings() {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(TRAPLINE_TEST_DATA)) {
    if (entry.path().extension() == ".dat") {
      names.push_back(fs::relative(entry.path(), TRAPLINE_TEST_DATA).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}
inline std::string data_path(const std::string& name) {
  return std::string(TRAPLINE_TEST_DATA "/") + name;
}
// "box/demo-v6.dat" → "box_demo_v6", for GoogleTest's names.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.rfind('.'));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A file that goes when the test does.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) { write(bytes); }
  void write(std::string_view bytes) const {
    // ext4 writes a file to the disk that is truncated and filled again; a new one it does not.
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::string path_ = folder_ / "trace.dat";
};

// The standard output of a shell command; fails the test when it does not succeed.
inline std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[65536];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, got);
  }
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

}  // namespace trapline::test
