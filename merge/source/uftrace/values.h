// Formats the arguments and return values of calls that uftrace recorded.
//
// Their bytes follow the record without a length. info has their types: in argspec and retspec or,
// if a function is in neither, in argauto and retauto: NAME@arg1/s,arg2/x32;… For each item in turn
// its bytes (a string: u16 length, bytes), padded to 4; all padded to 8. Names are literal, regular
// expressions or globs, as info's pattern_type says. docs/formats/uftrace.md.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/format/info.h"

namespace trapline {

class UftraceValues {
 public:
  explicit UftraceValues(const UftraceInfo& info);
  UftraceValues(const UftraceValues&) = delete;  // it contains pointers into itself
  UftraceValues& operator=(const UftraceValues&) = delete;

  // Returns how many of `bytes`, which begin with a payload, are the payload; 0 if it is not known.
  [[nodiscard]] std::size_t size(std::string_view function, bool is_return,
                                 std::span<const std::byte> bytes);
  // Returns "(-1, "text")" for a call, " = 4" for a return; nullopt if the bytes do not fit the
  // specification or if there is none.
  [[nodiscard]] std::optional<std::string> text(std::string_view function, bool is_return,
                                                std::span<const std::byte> bytes);

 private:
  static constexpr std::size_t kMostFunctions = 1u << 16;

  // One of info's patterns, compiled.
  using Pattern = std::function<bool(const std::string&)>;
  struct Item {
    std::string place;  // "arg1", "fparg2", "retval"
    char format = 'd';
    unsigned size = 8;  // bytes; unused for a string
  };
  using Items = std::vector<Item>;
  struct Spec {
    std::string pattern;
    Items items;
  };
  // The specifications for one kind of record, by name and by pattern.
  struct Specs {
    std::vector<Spec> all;
    std::unordered_multimap<std::string_view, std::size_t> by_name;
    std::vector<std::pair<std::size_t, Pattern>> patterns;
  };

  static void add(std::string_view list, Specs& specs);
  void index(Specs& specs) const;
  static std::optional<Item> parse_item(std::string_view text);
  [[nodiscard]] static Items collect(const Specs& specs, const std::string& function);
  // Takes the item's bytes from those at `at`; nullopt if there are too few.
  static std::optional<std::span<const std::byte>> take(const Item& item,
                                                        std::span<const std::byte> bytes,
                                                        std::size_t& at);
  [[nodiscard]] const Items& items_of(std::string_view function, bool is_return);

  bool glob_ = false, regex_ = true;
  Specs given_[2], automatic_[2];  // by kind: calls, returns
  std::map<std::string, Items, std::less<>> functions_[2];
};

}  // namespace trapline
