#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# scripts/dist: the tarball has what is committed, the same bytes each time, and builds.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
git -C "$TRAPLINE_SOURCE_DIR" rev-parse --verify -q HEAD >/dev/null || skip "not a git checkout"

the_same_commit_gives_the_same_tarball() {
  "$scripts/dist" --out "$work/one" --without-recordings >"$work/stdout"
  "$scripts/dist" --out "$work/two" --without-recordings >>"$work/stdout"
  mapfile -t tarballs <"$work/stdout"
  cmp "${tarballs[@]}" || fail "two tarballs of one commit differ"
}

# The library and the generator: the whole takes minutes, and scripts/package builds it.
a_build_from_it_has_its_version() {
  local tarball version
  tarball=$("$scripts/dist" --out "$work" --without-recordings)
  tar -x -f "$tarball" -C "$work"
  version=${tarball##*/trapline-}
  version=${version%.tar.xz}
  [ -d "$work/trapline-$version" ] || fail "the tarball has another folder than trapline-$version: $(ls "$work")"
  expect_equal "the version in the tarball" "$version" "$(cat "$work/trapline-$version/.tarball-version")"
  run cmake -S "$work/trapline-$version" -B "$work/build" -G Ninja -DTRAPLINE_TESTS=OFF -DTRAPLINE_VERSION="$version"
  [ "$status" = 0 ] || fail "cmake"
  run cmake --build "$work/build" --target trapline_ftrace_shared trapline_ftrace trapline_tracetool
  [ "$status" = 0 ] || { tail "$work/stdout"; fail "the build"; }
  "$work/build/backend_ftrace/trapline-tracetool" --help | grep -q "trace-events" || fail "the generator does not run"
}

the_rpm_spec_can_be_read_and_names_what_is_installed() {
  command -v rpmspec >/dev/null || skip "rpmspec is missing: apt-get install rpm"
  rpmspec --parse "$TRAPLINE_SOURCE_DIR/scripts/packaging/trapline.spec" >"$work/spec" || fail "rpmspec"
  expect_contains "$work/spec" "libtrapline_ftrace.so.0"
}

"$1"
