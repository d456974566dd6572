#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../system/lib.sh
# shellcheck disable=SC2016 # the box expands the variables of its script
# A guest under KVM, in the KVM host in a box: the plugin says that it sees nothing of it, and an earlier
# recording stays.
set -euo pipefail
source "$(dirname -- "$0")/../system/lib.sh"
for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done
plugin=$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so
options=(--file "$plugin" --file "$TRAPLINE_BINARY_DIR/tests/guest/plugin/x86_64-O2.elf:guest.elf")
while read -r library path; do
  options+=(--file "$(readlink -f -- "$path"):$library")
done < <(ldd "$plugin" | sed -n 's/^\t\(lib\(dw\|z\|lzma\|bz2\)[^ ]*\) => \([^ ]*\) .*/\1 \3/p')
cat >"$work/script" <<'END'
#!/bin/sh
mkdir lib "$OUT/data"
mv *.so* lib
echo earlier >"$OUT/data/info"
LD_LIBRARY_PATH=$PWD/lib timeout 150 qemu-system-x86_64 -accel kvm -m 64 -display none -nodefaults -no-reboot \
  -device isa-debug-exit,iobase=0x501 -kernel guest.elf -plugin "$PWD/lib/libtrapline_plugin.so,out=$OUT/data" \
  2>"$OUT/stderr" &
i=0
while ! grep -q 'plugin sees nothing' "$OUT/stderr" && [ $i -lt 1200 ]; do sleep 0.1; i=$((i + 1)); done
sleep 1
kill $!
wait $!
true
END
chmod +x "$work/script"
run "$scripts/kvm-box" --out "$work/out" --timeout 300 "${options[@]}" "$work/script"
expect_equal "exit status" 0 "$status"
expect_contains "$work/out/stderr" "the guest runs under KVM, where a plugin sees nothing"
expect_equal "the earlier recording" earlier "$(cat "$work/out/data/info")"
