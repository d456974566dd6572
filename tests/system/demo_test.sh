#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# scripts/demo: a real recording of the demo guest with the exits that its source says, and a report.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
command -v trace-cmd >/dev/null || skip "trace-cmd is missing"
case $1 in
  arm64_*) needed=(qemu10 kernel-arm64 box-arm64) ;;
  intel_*) needed=(bochs kernel-amd64 box-amd64) ;;
  *) needed=(qemu10 kernel-amd64 box-amd64) ;;
esac
for thing in "${needed[@]}"; do folder=$(fetched "$thing"); done
cache=$(dirname -- "$folder")

session=$work/session.trapline

# A guest is recorded once. This scripts/demo is a copy whose kvm-box gives back what it gave when a test of the guest
# passed last with the same scripts, kernel, box, guest and plugin; what follows the box is done anew each time.
copy_of_demo() {  # copy_of_demo GUEST
  mkdir "$work/tree"
  ln -s "$TRAPLINE_SOURCE_DIR"/* "$work/tree/"
  rm "$work/tree/scripts"
  cp -r "$scripts" "$work/tree/scripts"
  export real=$scripts cache things="${needed[*]}" new_recording=$work/$1
  cat >"$work/tree/scripts/kvm-box" <<'END'
#!/usr/bin/env bash
set -euo pipefail
key() {
  local thing word file
  find "$real/kvm-box" "$real/box" "$real/lib" -type f ! -name run_tests.py ! -name "*.pyc" -print0 | sort -z | xargs -0 cat
  for thing in $things; do
    for file in .stamp vmlinuz base.cpio; do
      if [ -f "$cache/$thing/$file" ]; then cat "$cache/$thing/$file"; fi
    done
  done
  for word in "$@"; do
    file=${word%%[,:]*}
    if [ -f "$file" ]; then cat "$file"; fi
    if [ ! -d "$word" ]; then sed 's|[^,=:]*/||g' <<<"$word"; fi  # without folders, such as the one for the results
  done
}
out=$(printf '%s\n' "$@" | sed -n '/^--out$/ { n; p; }')
kept=$cache/demo-$(basename "$new_recording")-$(key "$@" | sha256sum | head -c 32).tar
if [ -f "$kept" ]; then
  echo "kvm-box: the recording is $kept" >&2
  exec tar --extract --file="$kept" --directory="$out"
fi
"$real/kvm-box" "$@"
tar --create --file="$new_recording" --directory="$out" .
echo "$kept" >"$new_recording.name"
END
}

# Called when the guest's test has passed: a recording that failed is not kept.
keep_recording() {
  [ -e "$new_recording.name" ] || return 0
  local kept
  kept=$(cat "$new_recording.name")
  cp "$new_recording" "$kept.$$"
  rm -f -- "$cache/demo-$(basename "$new_recording")"-*.tar
  mv "$kept.$$" "$kept"
}

demo() {  # demo GUEST SYMBOL-FILE
  copy_of_demo "$1"
  run "$work/tree/scripts/demo" --build "$TRAPLINE_BINARY_DIR" --out "$session" "$1"
  cat "$work/stderr"
  expect_equal "exit status" 0 "$status"
  local file
  for file in trace.dat session.json trace-events-all "symbols/$2" guest-console.txt; do
    [ -s "$session/$file" ] || fail "the session lacks $file"
  done
  python3 - "$session/session.json" <<'END' || fail "session.json: $(cat "$session/session.json")"
import json, sys
session = json.load(open(sys.argv[1]))
assert session["closed"] is True and session["clocks"]["trace.dat"] == "mono", session
assert session["command"][0] == "trace-cmd", session
END
  expect_contains "$work/stdout" "$session"
  cp "$work/stdout" "$work/printed"
  fits_a_screen
  trace-cmd report -N "$session/trace.dat" 2>/dev/null >"$work/text"
}

# A run prints at most 45 lines of 100 columns, but for the lines that name a path of the caller's.
fits_a_screen() {
  local lines width
  lines=$(cat "$work/stdout" "$work/stderr" | wc -l)
  width=$(sed "s|$session|demo.trapline|g; s|$TRAPLINE_BINARY_DIR|build/release|g" "$work/stdout" | LC_ALL=C.UTF-8 wc -L)
  [ "$lines" -le 45 ] || fail "the demo printed $lines lines"
  [ "$width" -le 100 ] || fail "the demo printed a line of $width columns"
}

# The commands that README gives after the demo, in its order, in a folder that has the demo's session.
commands_of_readme_work() {
  local commands line
  commands=$(sed -n '/^## The demo/,/^## /{ /^trapline /{ s/  *#.*//; p } }' "$TRAPLINE_SOURCE_DIR/README.md")
  [ "$(wc -l <<<"$commands")" -ge 5 ] || fail "README has too few commands after its demo: $commands"
  mkdir "$work/reader"
  ln -s "$session" "$work/reader/demo.trapline"
  while read -r line; do
    (cd "$work/reader" && PATH=$TRAPLINE_BINARY_DIR/merge:$PATH bash -euc "$line") >"$work/reader.out" 2>&1 ||
      fail "README's $line: $(tail -n 5 "$work/reader.out")"
  done <<<"$commands"
}

# In Perfetto's trace processor the session's exits, parts, states and flows are those of the report.
perfetto_agrees() {
  command -v node >/dev/null || skip "node is missing, which the trace processor needs: apt-get install nodejs npm"
  local folder
  folder=$(fetched trace-processor)
  python3 "$(dirname -- "$0")/../merge/export/perfetto.py" "$TRAPLINE_BINARY_DIR/merge/trapline" "$folder" \
    "$session" || fail "the session in Perfetto's trace processor"
}

# The demo names its page, which opens in a browser.
page_opens() {
  local status=0
  [ -d "$TRAPLINE_BINARY_DIR/page/node_modules" ] || skip "this build has no page: it needs node and npm"
  expect_contains "$work/printed" "$session/report.html"
  # Mostly 500 kB; a host that is slower meanwhile makes more events.
  [ "$(stat -c %s "$session/report.html")" -lt 2000000 ] || fail "the page is $(stat -c %s "$session/report.html") bytes"
  TRAPLINE_PAGE_MODULES=$TRAPLINE_BINARY_DIR/page TRAPLINE_PAGE_FILE=$session/report.html \
    node "$(dirname -- "$0")/../merge/page/page_test.mjs" a_given_page_opens_quietly || status=$?
  [ $status -ne 77 ] || skip "chromium is missing: apt-get install chromium"
  expect_equal "exit status of the page's test" 0 $status
}

# trapline agrees with $work/counts on every function and reason.
trapline_agrees() {
  run "$TRAPLINE_BINARY_DIR/merge/trapline" report "$session" --by function,reason --top 1000 \
    --symbols "$session/symbols/demo-guest.elf" --format json
  expect_equal "exit status of trapline report" 0 "$status"
  python3 - "$work/stdout" >"$work/trapline-counts" <<'END'
import json, sys
for row in json.load(open(sys.argv[1]))["tables"]["groups"]["rows"]:
    print(*row["key"].split(" / "), row["count"])
END
  # The last exit, in leave() or behind it, has no return and is no span.
  local left_out=(-e '^\[unknown\]' -e '^leave ' -e '^start64 hlt' -e '^start64 HLT')
  expect_equal "exits by function and reason" "$(grep -v "${left_out[@]}" "$work/counts" | sort)" \
    "$(grep -v "${left_out[@]}" "$work/trapline-counts" | sort)"
}

small_guest_makes_the_exits_that_its_source_says_in_the_calls_that_caused_them() {
  demo demo demo-guest.elf
  # By trace-cmd and nm alone: the exits whose rip lies in each function of the guest, as in demo.c.
  python3 "$(dirname -- "$0")/exits_by_function.py" "$session/symbols/demo-guest.elf" "$work/text" \
    >"$work/counts"
  local line
  for line in "console_char io 41" "rtc_read io 800" "hpet_read npf 400" "cpuid_read cpuid 10" \
    "msr_read msr 10" "touch_page npf 16" "port_write io 32" "leave io 1"; do
    expect_contains "$work/counts" "$line"
  done
  trapline_agrees
  every_exit_lies_in_the_call_that_caused_it
  commands_of_readme_work
}

# The same guest on an Intel host: the same exits from the same functions, by VMX's names.
intel_guest_makes_the_exits_that_its_source_says() {
  demo intel demo-guest.elf
  python3 "$(dirname -- "$0")/exits_by_function.py" "$session/symbols/demo-guest.elf" "$work/text" \
    >"$work/counts"
  local line
  for line in "console_char IO_INSTRUCTION 41" "rtc_read IO_INSTRUCTION 800" \
    "hpet_read EPT_MISCONFIG 400" "cpuid_read CPUID 10" "msr_read MSR_READ 10" \
    "touch_page EPT_VIOLATION 16" "port_write IO_INSTRUCTION 32"; do
    expect_contains "$work/counts" "$line"
  done
  trapline_agrees
  run "$TRAPLINE_BINARY_DIR/merge/trapline" report "$session" --by function,device \
    --symbols "$session/symbols/demo-guest.elf"
  expect_contains "$work/stdout" "rtc_read / rtc"
}

# The guest's calls, recorded outside of the machine whose kernel recorded the exits, and the exits themselves are on
# one clock (guest_clock.py holds the printed error against a third clock).
every_exit_lies_in_the_call_that_caused_it() {
  local elf=$session/symbols/demo-guest.elf
  run "$TRAPLINE_BINARY_DIR/merge/trapline" report "$session" --format json
  python3 - "$work/stdout" <<'END' || fail "the relation that trapline report prints"
import json, sys
guest = [s for s in json.load(open(sys.argv[1]))["tables"]["sources"]["rows"] if s["kind"] == "uftrace"][0]
print(guest)
assert 0 < guest["error_ns"] <= 60_000, "error bound"
assert guest["events"] > 3000 and " 0 lie inside exits" in guest["method"], "records"
END
  run "$TRAPLINE_BINARY_DIR/merge/trapline" timeline "$session"
  python3 "$(dirname -- "$0")/merged_timeline.py" "$work/stdout" "$elf" | tee "$work/order"
  expect_contains "$work/order" "wrong=0"
  [ "$(sed 's/checked=\([0-9]*\) .*/\1/' "$work/order")" -ge 1000 ] || fail "too few exits on it"
  # Calls as in demo.c, through uftrace.
  uftrace report --no-pager -f call -s func -d "$session/uftrace.data" >"$work/calls"
  local line
  for line in "400  rtc_read" "400  hpet_read" "400  compute" "41  console_char" "32  port_write"; do
    grep -qE "^ *$line\$" "$work/calls" || fail "not $line: $(cat "$work/calls")"
  done
}

linux_guest_reads_and_writes_its_disk() {
  demo linux kallsyms
  expect_contains "$session/guest-console.txt" "trapline linux guest: done"
  # 64 blocks each by dd, and some more of the boot.
  local event
  for event in virtio_blk_handle_write virtio_blk_handle_read; do
    [ "$(grep -c "$event" "$work/text")" -ge 64 ] || fail "fewer than 64 of $event"
  done
  expect_contains "$session/symbols/kallsyms" " T vfs_read"
}

# The same on an arm64 host, whose oracle is the source and trace-cmd's text.
arm64_guest_is_on_the_timeline_as_its_source_says() {
  demo arm64 demo-guest-arm64.elf
  python3 "$(dirname -- "$0")/exits_by_function.py" "$session/symbols/demo-guest-arm64.elf" \
    "$work/text" >"$work/counts"
  local line
  for line in "rtc_read DABT_LOW 50" "touch_page DABT_LOW 16" "register_write DABT_LOW 32"; do
    expect_contains "$work/counts" "$line"
  done
  run "$TRAPLINE_BINARY_DIR/merge/trapline" report "$session" --format json
  expect_contains "$work/stdout" " records 0 lie inside exits"
  # The call, its exit, who served it, the return.
  run "$TRAPLINE_BINARY_DIR/merge/trapline" timeline "$session" \
    --symbols "$session/symbols/demo-guest-arm64.elf"
  awk '/ call rtc_read\(\)$/ { at = 1 }
       at == 1 && / exit DABT_LOW, in rtc_read\+/ { at = 2 }
       at == 2 && / memory_region_ops_read .*pl031/ { at = 3 }
       at == 3 && / entry after .*pl031$/ { at = 4 }
       at == 4 && / return from rtc_read\(\)$/ { ++whole; at = 0 }
       END { print whole; exit whole < 40 }' "$work/stdout" || fail "fewer than 40 whole calls"
}

"$1"
keep_recording
perfetto_agrees
page_opens
