#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../system/lib.sh
# Compiles every source of the plugin and of backend_ftrace for an arm64 host, warnings being errors.
set -euo pipefail
source "$(dirname -- "$0")/../system/lib.sh"
source=$TRAPLINE_SOURCE_DIR
target=aarch64-linux-gnu
flags=(--target="$target" -std=c++20 -O0 -fPIC -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion
  -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Werror -I"$source" -I"$source/backend_ftrace/include"
  # Headers of libraries, which are the same for every architecture, after those of the C library.
  -isystem "/usr/$target/include" -idirafter /usr/include/libiberty -idirafter /usr/include)
if ! clang++ "${flags[@]}" -x c++ -fsyntax-only - <<<'#include <string>' 2>/dev/null; then
  skip "no headers for arm64: install libstdc++-12-dev-arm64-cross"
fi
cd "$source"
mapfile -t files < <(find plugin backend_ftrace -name '*.cc' | sort)
[ "${#files[@]}" -gt 40 ]
# By the units of the build, a file with the #include of several sources, and the rest one by one.
shopt -s nullglob
units=("$TRAPLINE_BINARY_DIR"/{plugin,backend_ftrace}/CMakeFiles/*/Unity/unity_*_cxx.cxx)
alone=()
for file in "${files[@]}"; do
  [ "${#units[@]}" -gt 0 ] && grep -qF "\"$source/$file\"" "${units[@]}" || alone+=("$file")
done
for unit in "${units[@]}" "${alone[@]}"; do printf '%s\0-o\0%s\0' "$unit" "$work/${unit//\//_}.o"; done |
  xargs -0 -n 3 -P "$(nproc)" clang++ "${flags[@]}" -c
for object in "$work"/*.o; do
  readelf -h "$object" | grep -q 'Machine: *AArch64' || fail "$object is not for arm64"
done
echo "${#files[@]} sources compiled for arm64"
