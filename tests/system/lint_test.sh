#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The linters of C and C++ whose settings are in the root folder.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
cd "$TRAPLINE_SOURCE_DIR"

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

# Every file would take 20 minutes, so: the sources that the last commit or the work tree changed, at most
# two of them, and of .clang-tidy the checks that fail. TRAPLINE_LINT_BASE=REVISION takes those changed since REVISION, without a limit.
changed_sources() {
  local base=${TRAPLINE_LINT_BASE:-HEAD~1}
  git diff --name-only --diff-filter=d "$base" -- 'backend_ftrace/*.cc' 'plugin/*.cc' 'merge/*.cc' |
    if [ -n "${TRAPLINE_LINT_BASE:-}" ]; then cat; else head -n 2; fi
}

clang_tidy_finds_no_function_above_our_limits() {
  command -v clang-tidy >/dev/null || skip "clang-tidy is missing"
  git rev-parse --quiet --verify "${TRAPLINE_LINT_BASE:-HEAD~1}" >/dev/null 2>&1 || {
    printf 'no earlier commit to compare with (an archive or a shallow clone): nothing was checked\n'
    return 0
  }
  local -a files
  mapfile -t files < <(changed_sources)
  [ ${#files[@]} -gt 0 ] || { printf 'no source has changed\n'; return 0; }
  # The compile commands of each source by itself; the page is bundled elsewhere.
  cmake --preset edit -B "$TRAPLINE_BINARY_DIR/lint" -DTRAPLINE_TESTS=OFF -DTRAPLINE_NPM= >"$work/cmake" 2>&1 ||
    fail "cmake: $(tail -n 5 "$work/cmake")"
  printf '%s\n' "${files[@]}" |
    xargs -P "$(nproc)" -n 1 clang-tidy -p "$TRAPLINE_BINARY_DIR/lint" --quiet \
      --checks="-*,readability-function-*,modernize-use-override" 2>"$work/stderr" ||
    fail "clang-tidy found a function above our limits (.clang-tidy)"
}

"$1"
