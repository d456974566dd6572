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
  run cmake -S "$work/trapline-$version" -B "$work/build" -G Ninja -DTRAPLINE_TESTS=OFF -DTRAPLINE_VERSION="$version" \
    -DCMAKE_UNITY_BUILD=ON
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

# What is installed from this build, by the spec's own %prep, %install and %files: a file that no package takes, or one
# that is missing, ends rpmbuild. The compilation is left out (it takes minutes), and so are the dependencies' names,
# which are another distribution's.
the_rpm_spec_packs_all_that_is_installed() {
  command -v rpmbuild >/dev/null || skip "rpmbuild is missing: apt-get install rpm"
  local version tarball libdir
  tarball=$("$scripts/dist" --out "$work/sources" --without-recordings)
  version=${tarball##*/trapline-}
  version=${version%.tar.xz}
  libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$TRAPLINE_BINARY_DIR/CMakeCache.txt")
  run rpmbuild -bb --nodeps --define "_topdir $work/rpm" --define "_sourcedir $work/sources" --define "tree_version $version" \
    --define "_libdir %{_prefix}/$libdir" --define "cmake true" --define "cmake_build true" \
    --define "cmake_install DESTDIR=%{buildroot} cmake --install '$TRAPLINE_BINARY_DIR' --prefix /usr" \
    --define "debug_package %{nil}" --define "_build_id_links none" --define "__strip strip" --define "_binary_payload w1.gzdio" "$TRAPLINE_SOURCE_DIR/scripts/packaging/trapline.spec"
  [ "$status" = 0 ] || { tail -n 30 "$work/stdout"; fail "rpmbuild"; }
  find "$work/rpm/RPMS" -name '*.rpm' -printf '%f\n' | sort >"$work/made"
  local name
  for name in trapline libtrapline-ftrace libtrapline-ftrace-devel trapline-worker trapline-qemu-plugin python3-trapline trapline-demo trapline-doc; do
    grep -q "^$name-[0-9]" "$work/made" || fail "no package $name: $(cat "$work/made")"
  done
  rpm -qlp "$work/rpm/RPMS/"*/trapline-[0-9]*.rpm >"$work/stdout" 2>"$work/stderr"
  expect_contains "$work/stdout" /usr/bin/trapline
  expect_contains "$work/stdout" /usr/share/man/man1/trapline-report.1
}

"$1"
