#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# shellcheck disable=SC2317 # stand-ins for commands are called by the functions under test
# scripts/fetch and the functions it is made of.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
source "$scripts/lib/common.sh"
source "$scripts/lib/packages.sh"
source "$scripts/lib/private_apt.sh"

two_runs_at_once_fetch_once_and_leave_nothing_behind() {
  export TRAPLINE_CACHE=$work/cache
  local first second
  "$scripts/fetch" kernel-amd64 >"$work/one" 2>"$work/one.err" &
  first=$!
  "$scripts/fetch" kernel-amd64 >"$work/two" 2>"$work/two.err" &
  second=$!
  wait "$first" || skip "no download: $(tail -n 3 "$work/one.err")"
  wait "$second" || fail "the second run failed: $(cat "$work/two.err")"
  expect_equal "folder" "$work/cache/kernel-amd64" "$(cat "$work/one")"
  expect_equal "folder of the second" "$work/cache/kernel-amd64" "$(cat "$work/two")"
  expect_equal "times fetched" 1 "$(cat "$work"/*.err | grep -c 'fetching kernel-amd64')"
  [ -s "$work/cache/kernel-amd64/vmlinuz" ] || fail "there is no vmlinuz"
  expect_equal "leftovers" "" "$(find "$work/cache" -maxdepth 1 -name '.fetch-*')"
  run "$scripts/fetch" kernel-amd64
  expect_equal "words of a run that finds it" "" "$(cat "$work/stderr")"
}

an_interrupted_fetch_leaves_no_half_folder() {
  export TRAPLINE_CACHE=$work/cache
  local fetch
  # It is interrupted, as by Ctrl-C, when it has unpacked something and cannot go on.
  mkdir "$work/bin"
  printf '#!/bin/sh\n%s "$@" && touch %s && exec sleep 600\n' "$(command -v dpkg-deb)" "$work/unpacked" >"$work/bin/dpkg-deb"
  chmod +x "$work/bin/dpkg-deb"
  PATH=$work/bin:$PATH setsid "$scripts/fetch" kernel-amd64 >"$work/stdout" 2>"$work/stderr" &
  fetch=$!
  until [ -e "$work/unpacked" ]; do
    kill -0 "$fetch" 2>/dev/null || skip "no download: $(tail -n 3 "$work/stderr")"
    sleep 0.05
  done
  kill -TERM -- "-$fetch"
  status=0
  wait "$fetch" || status=$?
  [ "$status" -ne 0 ] || fail "it was not interrupted"
  [ ! -e "$work/cache/kernel-amd64" ] || fail "there is a folder after an interrupted fetch"
}

a_suite_goes_to_debians_archive_and_security_to_its_own() {
  apt-get() { printf '%s|main|deb|Packages\n' "${targets[@]}"; }  # stands for the real one
  local -a targets=('Other|http://o.example/|bookworm' 'Debian|http://a.example/debian/|bookworm'
    'Debian|http://a.example/debian/|bookworm-updates' 'Debian|http://s.example/sec/|bookworm-security')
  local lines
  lines=$(machine_archives)
  expect_equal "backports" http://a.example/debian/ "$(archive_of trixie-backports "$lines")"
  expect_equal "security" http://s.example/sec/ "$(archive_of trixie-security "$lines")"
  if archive_of trixie-security $'http://a.example/debian/|bookworm' >/dev/null; then
    fail "found a security archive where there is none"
  fi
}

missing_packages_are_named_in_one_command_for_a_user() {
  dpkg-query() { printf 'installed cmake\ndeinstall g++\n'; }
  id() { echo 1000; }
  status=0
  (packages_install) >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "sudo apt-get update && sudo apt-get install"
  expect_contains "$work/stderr" " g++ "
  if grep -q ' cmake' "$work/stderr"; then fail "cmake is installed but named as missing"; fi
  expect_contains "$work/stderr" " chromium "
  # Whoever only builds is not asked for what the tests need.
  (packages_install build box) >"$work/stdout" 2>"$work/stderr" && fail "packages_install build box"
  expect_contains "$work/stderr" " g++ "
  expect_contains "$work/stderr" " cpio "
  if grep -q ' chromium' "$work/stderr"; then fail "chromium is named for a build"; fi
}

# An archive in the middle of an update lists a version whose files it does not have.
a_source_package_without_its_files_gives_way_to_the_next() {
  apt-cache() { printf 'Version: 1:%s\n' 9.1 10.0.2 11.0.1 10.0.13 10.0.9; }
  private_apt() { [[ "$*" == *qemu=1:10.0.9 || "$*" == *qemu=1:10.0.2 ]]; }
  expect_equal "version" 1:10.0.9 "$(private_apt_source "$work" "$work" qemu '^([0-9]+:)?10\.' 2>"$work/stderr")"
  expect_contains "$work/stderr" "the archive lists qemu 1:10.0.13 but does not have all its files"
  status=0
  (private_apt_source "$work" "$work" qemu '^([0-9]+:)?11\.') >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "no source package qemu that can be downloaded (tried: 1:11.0.1)"
}

qemu_with_ftrace_says_what_is_wrong_with_its_arguments() {
  local words
  for words in "" "--version 12 $work/out" "--targets" "--nonsense $work/out" "$work/out $work/other"; do
    # shellcheck disable=SC2086 # several words
    run "$scripts/qemu-with-ftrace" $words
    expect_equal "exit status of '$words'" 2 "$status"
    expect_contains "$work/stderr" "see $scripts/qemu-with-ftrace --help"
  done
  [ ! -e "$work/out" ] || fail "a refused call left a folder"
}

folders_of_others_are_not_replaced() {
  mkdir -p "$work/tree/source" "$work/project/build" "$work/documents"
  : >"$work/tree/source/configure"
  local words folder
  for words in "qemu-with-ftrace --source $work/tree/source $work/tree" "qemu-with-ftrace $work/project" \
    "demo --out $work/documents/"; do
    # shellcheck disable=SC2086 # several words
    run "$scripts"/$words
    expect_equal "exit status of '$words'" 2 "$status"
    expect_contains "$work/stderr" "choose another folder"
  done
  for folder in tree/source/configure project/build documents; do [ -e "$work/$folder" ] || fail "$folder is gone"; done
  expect_equal "what is in documents" "" "$(ls -A "$work/documents")"
}

# A QEMU that loads a module of another build ends with status 134. Such modules lie where the machine's QEMU has its own.
modules_of_another_build() {  # modules_of_another_build FOLDER
  local name
  mkdir "$1"
  cat >"$work/module.c" <<'END'
void register_dso_module_init(void (*)(void), int);
static void init(void) {}
static void __attribute__((constructor)) start(void) { register_dso_module_init(init, 0); }
END
  for name in ui-opengl audio-pa hw-display-virtio-gpu-pci-gl; do
    cc -shared -fPIC -o "$1/$name.so" "$work/module.c"
  done
}

# Runs a function of this script where the machine has those modules.
beside_another_qemu() {  # beside_another_qemu FUNCTION
  local modules=/usr/lib/x86_64-linux-gnu/qemu made=
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  modules_of_another_build "$work/modules"
  [ -d $modules ] || { mkdir -p $modules; made=yes; }
  # shellcheck disable=SC2016 # the inner shell expands them
  run unshare --mount --propagation private bash -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' bash \
    "$work/modules" $modules "$0" "$1"
  [ -z "$made" ] || rmdir $modules
  expect_equal "exit status" 0 "$status"
}

# starts QEMU [MACHINE...]: until it answers its monitor
starts() {
  printf '%s\n' '{"execute":"qmp_capabilities"}' '{"execute":"quit"}' |
    (run "$@" -S -qmp stdio && expect_equal "exit status" 0 "$status")
  expect_contains "$work/stdout" '{"return": {}}'
  expect_no_module
}

expect_no_module() { if grep -i module "$work/stderr"; then fail "it looked for a module"; fi; }

each_qemu_starts() {
  local folder qemu machine
  for folder in "$(fetched qemu10)" "$(fetched qemu11)"; do
    # The same QEMU with a loader elsewhere finds the machine's modules: they do end it.
    cp "$(sed -n "s|^exec \"\$here\(/[^\"]*\)\".*|$folder\1|p" "$folder/bin/qemu-system-x86_64")" "$work/ld.so"
    sed "s|^here=.*|here=$folder|; s|^exec \"[^\"]*\"|exec $work/ld.so|" "$folder/bin/qemu-system-x86_64" >"$work/qemu"
    run sh "$work/qemu" -M none -device help
    expect_equal "exit status with the machine's modules" 134 "$status"
    for qemu in "$folder/bin/qemu-system-"{x86_64,aarch64,riscv64}; do
      machine=()
      [[ $qemu == *x86_64 ]] || machine=(-M virt)  # they have no default
      starts "$qemu" -M none
      starts "$qemu" "${machine[@]}"
      run "$qemu" "${machine[@]}" -device help
      expect_equal "exit status" 0 "$status"
      expect_no_module
    done
  done
}

the_qemus_start_beside_another_qemu() { beside_another_qemu each_qemu_starts; }

a_box_boots() {
  printf '#!/bin/sh\n' >"$work/script"
  run "$scripts/kvm-box" --out "$work/out" --timeout 400 "$work/script"
  expect_equal "exit status" 0 "$status"
  expect_no_module
}

the_box_boots_beside_another_qemu() { beside_another_qemu a_box_boots; }

unknown_names_are_refused() {
  run "$scripts/fetch" nonsense
  expect_equal "exit status" 2 "$status"
  run "$scripts/fetch" --list
  expect_contains "$work/stdout" qemu11
}

"$1"
