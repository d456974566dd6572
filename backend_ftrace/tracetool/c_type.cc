#include "backend_ftrace/tracetool/c_type.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace trapline::tracetool {

std::optional<Integer> integer_type(const std::vector<std::string_view>& words) {
  static const std::unordered_map<std::string_view, Integer> kNames{
      {"bool", {TypeKind::kUnsigned, 1}},     {"int8_t", {TypeKind::kSigned, 1}},
      {"uint8_t", {TypeKind::kUnsigned, 1}},  {"int16_t", {TypeKind::kSigned, 2}},
      {"uint16_t", {TypeKind::kUnsigned, 2}}, {"int32_t", {TypeKind::kSigned, 4}},
      {"uint32_t", {TypeKind::kUnsigned, 4}}, {"int64_t", {TypeKind::kSigned, 8}},
      {"uint64_t", {TypeKind::kUnsigned, 8}}, {"size_t", {TypeKind::kUnsigned, 8}},
      {"ssize_t", {TypeKind::kSigned, 8}},    {"uintptr_t", {TypeKind::kUnsigned, 8}},
      {"ptrdiff_t", {TypeKind::kSigned, 8}}};
  if (words.size() == 1) {
    if (const auto known = kNames.find(words[0]); known != kNames.end()) return known->second;
  }
  int longs = 0;
  int signs = 0;
  bool is_unsigned = false;
  bool is_short = false;
  bool is_char = false;
  for (const std::string_view word : words) {
    if (word == "long")
      ++longs;
    else if (word == "unsigned" || word == "signed")
      ++signs, is_unsigned |= word == "unsigned";
    else if (word == "short")
      is_short = true;
    else if (word == "char")
      is_char = true;
    else if (word != "int")
      return std::nullopt;
  }
  if (words.empty() || signs > 1 || longs > 2) return std::nullopt;
  const auto bytes = static_cast<std::uint8_t>(longs > 0 ? 8 : is_char ? 1 : is_short ? 2 : 4);
  return Integer{is_unsigned ? TypeKind::kUnsigned : TypeKind::kSigned, bytes};
}

bool allowed_word(std::string_view word) {
  static constexpr std::array<std::string_view, 20> kWords{
      "int",      "long",    "short",   "char",     "bool",      "unsigned", "signed",
      "int8_t",   "uint8_t", "int16_t", "uint16_t", "int32_t",   "uint32_t", "int64_t",
      "uint64_t", "void",    "size_t",  "ssize_t",  "uintptr_t", "ptrdiff_t"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

std::string_view tcg_host_type(std::string_view word) {
  if (word == "TCGv_i32") return "uint32_t";
  if (word == "TCGv_i64" || word == "TCGv") return "uint64_t";
  if (word == "TCGv_ptr" || word == "TCGv_env") return "void *";
  return {};
}

}  // namespace trapline::tracetool
