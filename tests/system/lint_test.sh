#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The linters of shell, C and C++.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
cd "$TRAPLINE_SOURCE_DIR"

shell_scripts_are_clean() {
  command -v shellcheck >/dev/null || skip "shellcheck is missing"
  local -a files
  mapfile -t files < <(grep -rlIE '^#!(/usr/bin/env bash|/bin/sh|/bin/busybox sh)|^# shellcheck shell=' \
    scripts tests .ci --exclude=lint_test.sh)
  [ ${#files[@]} -ge 15 ] || fail "only ${#files[@]} scripts found"
  shellcheck -x "${files[@]}" tests/system/lint_test.sh
}

cxx_files() {
  find backend_ftrace plugin merge tests docs/examples \( -name "*.cc" -o -name "*.h" -o -name "*.hpp" -o -name "*.c" \) | sort
}

every_file_is_formatted() {
  command -v clang-format >/dev/null || skip "clang-format is missing"
  local -a files wrong
  mapfile -t files < <(cxx_files)
  [ ${#files[@]} -ge 300 ] || fail "only ${#files[@]} files found"
  mapfile -t wrong < <(clang-format --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):.*warning:.*/\1/p' | sort -u)
  [ ${#wrong[@]} -eq 0 ] || fail "not formatted; run: clang-format -i ${wrong[*]}"
}

# clang-format leaves comments as they are. A drawing may be wider.
no_comment_is_wider_than_the_code() {
  local wide
  wide=$(cxx_files | LC_ALL=C.UTF-8 xargs grep -nE '^ *//.*$' | LC_ALL=C.UTF-8 grep -E '^[^:]*:[0-9]+:.{101,}$' |
    grep -v '[─│└]' || true)
  [ -z "$wide" ] || fail "comments of more than 100 columns: $wide"
}

# Every file would take 20 minutes, so: of the sources that differ from the merge base with TRAPLINE_LINT_BASE (CI sets
# main's former tip) the 80 with the most new lines, and of .clang-tidy the checks that fail.
clang_tidy_finds_no_function_above_our_limits() {
  command -v clang-tidy >/dev/null || skip "clang-tidy is missing"
  local base
  base=$(git merge-base HEAD "${TRAPLINE_LINT_BASE:-HEAD~20}" 2>"$work/stderr") ||
    skip "no commit to compare with (an archive or a shallow clone): $(cat "$work/stderr")"
  local -a files
  mapfile -t files < <(git diff --numstat --no-renames --diff-filter=d "$base" -- 'backend_ftrace/*.cc' 'plugin/*.cc' 'merge/*.cc' |
    sort -nr | head -n 80 | cut -f 3)
  [ ${#files[@]} -gt 0 ] || { printf 'no source differs from %s\n' "$base"; return 0; }
  # The compile commands of each source by itself; the page is bundled elsewhere.
  cmake --preset edit -B "$TRAPLINE_BINARY_DIR/lint" -DTRAPLINE_TESTS=OFF -DTRAPLINE_NPM= >"$work/cmake" 2>&1 ||
    fail "cmake: $(tail -n 5 "$work/cmake")"
  printf '%s\n' "${files[@]}" |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$TRAPLINE_BINARY_DIR/lint" --quiet \
      --checks="-*,readability-function-*,modernize-use-override" 2>"$work/stderr" ||
    fail "clang-tidy found a function above our limits (.clang-tidy)"
  printf '%s sources looked at\n' "${#files[@]}"
}

"$1"
