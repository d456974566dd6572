// libiberty.h would declare basename() against the C library's declaration.
#define HAVE_DECL_BASENAME 1
#include <ansidecl.h>
#include <demangle.h>

#include <cstddef>
#include <string>

#include "plugin/format/symbol_file.h"

namespace trapline {
namespace {

// A hostile name of a few hundred bytes can stand for gigabytes of text (substitutions that
// double): what comes out is collected up to a bound, and a name that passes it stays mangled.
constexpr std::size_t kMaxMangled = 8 * 1024;
constexpr std::size_t kMaxDemangled = 64 * 1024;

void collect(const char* text, std::size_t length, void* opaque) {
  auto& out = *static_cast<std::string*>(opaque);
  if (out.size() > kMaxDemangled) return;
  out.append(text, length);
}

}  // namespace

std::string demangle(std::string_view mangled) {
  const bool cxx = mangled.starts_with("_Z") || mangled.starts_with("__Z");
  const bool rust = mangled.starts_with("_R") || (cxx && mangled.find("17h") != mangled.npos);
  if ((!cxx && !rust) || mangled.size() > kMaxMangled) return {};
  const std::string name(mangled);
  std::string out;
  out.reserve(128);
  if (rust && rust_demangle_callback(name.c_str(), DMGL_NO_OPTS, collect, &out) != 0) {
    if (out.size() <= kMaxDemangled) return out;
    return {};
  }
  out.clear();
  if (!cxx) return {};
  if (cplus_demangle_v3_callback(name.c_str(), DMGL_NO_OPTS, collect, &out) == 0) return {};
  return out.size() <= kMaxDemangled ? out : std::string();
}

}  // namespace trapline
