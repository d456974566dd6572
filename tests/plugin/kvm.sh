#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../system/lib.sh
# shellcheck disable=SC2016 # the box expands the variables of its script
# A guest under KVM, on the KVM host in the shared box: the plugin says that it sees nothing of it, and an earlier
# recording stays.
set -euo pipefail
source "$(dirname -- "$0")/../system/lib.sh"

for_box() {  # for_box LIST
  local plugin=$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so library path
  local files=("$plugin" "$TRAPLINE_BINARY_DIR/tests/guest/plugin/x86_64-O2.elf:plugin-guest.elf")
  while read -r library path; do
    files+=("$(readlink -f -- "$path"):plugin-$library")
  done < <(ldd "$plugin" | sed -n 's/^\t\(lib\(dw\|z\|lzma\|bz2\)[^ ]*\) => \([^ ]*\) .*/\1 \3/p')
  cat >"$work/script" <<'END'
#!/bin/sh
mkdir lib "$OUT/data"
mv libtrapline_plugin.so lib
for file in plugin-*.so*; do [ ! -e "$file" ] || mv "$file" "lib/${file#plugin-}"; done
{ printf 'Ftrace!\000\004\000\000\000\050\000\001\002'; head -c 24 /dev/zero; echo exename:earlier; } >"$OUT/data/info"
LD_LIBRARY_PATH=$PWD/lib qemu-system-x86_64 -accel kvm -m 64 -display none -nodefaults -no-reboot \
  -device isa-debug-exit,iobase=0x501 -kernel plugin-guest.elf -plugin "$PWD/lib/libtrapline_plugin.so,out=$OUT/data" \
  2>"$OUT/stderr" &
until grep -q 'plugin sees nothing' "$OUT/stderr"; do usleep 50000; kill -0 $! || exit 1; done
kill $!
wait $!
true
END
  add_to_box "$1" plugin 400 "$work/script" "${files[@]}"
}

says_that_it_sees_nothing() {
  from_box plugin
  expect_contains "$out/stderr" "the guest runs under KVM, where a plugin sees nothing"
  expect_contains "$out/data/info" "exename:earlier"
}

"$@"
