# shellcheck shell=bash
# Sourced by tests that compile for a minute and depend on nothing but files and compilers: they run where one of these has
# changed since they passed. A hash of them is kept in the build folder, so a new folder (CI) proves all.

# proven_before BUILD NAME FILE...: the file $proof exists where NAME passed with these files; it is to be made at the end.
proven_before() {
  local build=$1 name=$2 hash
  hash=$({
    cat -- "${BASH_SOURCE[0]}" "$0" "${@:3}"
    echo "${TRAPLINE_LONG:-}"
    for compiler in cc c++ clang rustc; do "$compiler" --version 2>/dev/null || echo "no $compiler"; done
  } | sha256sum)
  proof=$build/tests/proven/$name-${hash%% *}
  mkdir -p "$build/tests/proven"
  [ -e "$proof" ] && echo "passed before with the same generator, input and compilers: $proof"
}
