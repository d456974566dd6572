#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The Debian packages of the present build: what lintian says, and what they do in a clean root.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
packages=$TRAPLINE_BINARY_DIR/test-packages
names=(trapline trapline-worker libtrapline-ftrace0 libtrapline-ftrace-dev trapline-qemu-plugin python3-trapline trapline-demo trapline-doc)

deb_of() { printf '%s\n' "$packages/$1"_*.deb; }
all_debs() { for name in "${names[@]}"; do deb_of "$name"; done; }

content_size() {  # content_size PACKAGE PATTERN: of the file whose path ends so
  dpkg-deb -c "$(deb_of "$1")" | awk -v end="$2" 'substr($6, length($6) - length(end) + 1) == end { print $3 }'
}

are_made_from_the_build() {
  rm -rf -- "$packages"
  mkdir -- "$packages"
  (cd "$work" && "$scripts/package" --build "$TRAPLINE_BINARY_DIR" --fast --out "$packages" >"$work/stdout") ||
    fail "scripts/package failed"
  for name in "${names[@]}"; do
    [ -f "$(deb_of "$name")" ] || fail "no package $name: $(ls "$packages")"
  done
}

# Of what dpkg and the linker know: each package with its checksum, each library that the command needs, and
# the libraries in headers and in the page that no program names any more.
their_parts_are_listed() {
  python3 - "$packages"/trapline_*.spdx.json "$packages" "$TRAPLINE_BINARY_DIR/merge/trapline" <<'END' || fail "the list of parts is wrong"
import hashlib, json, pathlib, subprocess, sys
document = json.loads(pathlib.Path(sys.argv[1]).read_text())
assert document["spdxVersion"] == "SPDX-2.3", document["spdxVersion"]
packages = {package["SPDXID"]: package for package in document["packages"]}
relations = {(r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]) for r in document["relationships"]}
for one, _, other in relations:
    assert other in packages and (one in packages or one == "SPDXRef-DOCUMENT"), (one, other)
sums = {p["packageFileName"]: p["checksums"][0]["checksumValue"] for p in packages.values() if "packageFileName" in p}
files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in pathlib.Path(sys.argv[2]).glob("*.deb")}
assert sums == files, (sums, files)
[command] = [i for i, p in packages.items() if p["name"] == "trapline"]
needs = {packages[other]["name"] for one, how, other in relations if one == command and how == "DEPENDS_ON"}
needed = subprocess.run(["objdump", "-p", sys.argv[3]], text=True, stdout=subprocess.PIPE, check=True).stdout
for line in needed.splitlines():
    if "NEEDED" in line and "ld-linux" not in line:
        owner = subprocess.run(["dpkg", "-S", "*/" + line.split()[1]], text=True, stdout=subprocess.PIPE).stdout
        assert needs & {row.split(":")[0] for row in owner.splitlines()}, (line, owner, needs)
built_with = {packages[one]["name"] for one, how, _ in relations if how == "BUILD_DEPENDENCY_OF"}
for name in ("libcli11-dev", "nlohmann-json3-dev", "libexpected-dev", "libiberty-dev", "uplot"):
    assert name in built_with, (name, sorted(built_with))
tools = {packages[one]["name"] for one, how, other in relations if how == "BUILD_TOOL_OF" and other == "SPDXRef-page"}
assert tools == {"esbuild", "typescript"}, tools
END
}

lintian_has_nothing_to_say() {
  command -v lintian >/dev/null || skip "lintian is missing: apt-get install lintian"
  local debs
  mapfile -t debs < <(all_debs)
  # As root it asks to be run as somebody else.
  run lintian --no-cfg --allow-root --fail-on error,warning "${debs[@]}"
  [ "$status" = 0 ] || { cat "$work/stdout"; fail "lintian has something to say"; }
}

programs_are_small_and_their_debug_information_is_apart() {
  local size
  for file in trapline:/usr/bin/trapline trapline-qemu-plugin:/libtrapline_plugin.so; do
    size=$(content_size "${file%%:*}" "${file#*:}")
    if ! { [ "$size" -gt 100000 ] && [ "$size" -lt 8000000 ]; }; then fail "$file has $size bytes"; fi
  done
  for name in trapline trapline-worker trapline-qemu-plugin libtrapline-ftrace0; do
    dpkg-deb -c "$packages/$name-dbgsym"_*.ddeb | grep '/usr/lib/debug/.build-id/' >/dev/null ||
      fail "$name-dbgsym has no debug information"
  done
}

every_man_page_is_in_a_package() {
  local page
  for name in "${names[@]}"; do dpkg-deb -c "$(deb_of "$name")"; done | awk '{ print $6 }' >"$work/files"
  for page in "$TRAPLINE_SOURCE_DIR"/docs/man/*; do
    grep -q "/usr/share/man/man${page##*.}/${page##*/}.gz\$" "$work/files" || fail "${page##*/} is in no package"
  done
}

# Everything in a mount namespace of its own, over a root that stays as it is.
they_install_work_and_leave_nothing_in_a_clean_root() {
  local root qemu cache
  [ "$(id -u)" = 0 ] || skip "needs root, for a root of its own"
  [ -w /sys/kernel/tracing/trace_marker ] || skip "needs tracefs at /sys/kernel/tracing"
  root=$(fetched clean-root)/root
  qemu=$(fetched qemu10)
  for thing in kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done
  cache=$(dirname "$qemu")
  mkdir -p "$work/input"
  for name in "${names[@]}"; do cp -- "$(deb_of "$name")" "$work/input"; done
  cp -- "$TRAPLINE_SOURCE_DIR/tests/data/svm-linux-2vcpu.dat" "$TRAPLINE_BINARY_DIR/tests/guest/plugin/x86_64-O2.elf" \
    "$TRAPLINE_SOURCE_DIR"/tests/system/{package_inside.sh,follow.py,doc_examples.py} "$work/input"
  "$TRAPLINE_BINARY_DIR/merge/trapline" report "$work/input/svm-linux-2vcpu.dat" --format csv >"$work/input/report.csv"
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --propagation private bash -euc '
    work=$1 root=$2 qemu=$3 cache=$4
    mkdir "$work/upper" "$work/root"
    mount -t tmpfs tmpfs "$work/upper"
    mkdir "$work/upper/data" "$work/upper/work"
    if ! mount -t overlay -o "lowerdir=$root,upperdir=$work/upper/data,workdir=$work/upper/work" overlay "$work/root"; then
      cp -a "$root/." "$work/root"
      mount --bind "$work/root" "$work/root"
    fi
    mount -t proc proc "$work/root/proc"
    mount -t tmpfs tmpfs "$work/root/tmp"
    mount --rbind /dev "$work/root/dev"
    mount -t tmpfs tmpfs "$work/root/sys"
    mkdir -p "$work/root/sys/kernel/tracing"
    mount --bind /sys/kernel/tracing "$work/root/sys/kernel/tracing"
    mkdir "$work/root/tmp/input" "$work/root/tmp/qemu" "$work/root/tmp/cache"
    mount --bind "$work/input" "$work/root/tmp/input"
    mount --bind "$qemu" "$work/root/tmp/qemu"
    mount --bind -o ro "$cache" "$work/root/tmp/cache"
    exec chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive bash /tmp/input/package_inside.sh' bash "$work" "$root" "$qemu" "$cache"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "in the clean root (see above)"
  expect_contains "$work/stdout" "nothing is left"
}

"$1"
