#!/usr/bin/env bash
# What trapline-tracetool writes for QEMU's tree, compiled with the flags that QEMU warns with, run,
# and held to printf: every type and conversion through ftrace, log, simple and syslog, as QEMU 10.0
# and as QEMU 11.1 compile it; Rust against C; the probes of dtrace and LTTng.
#
#   formats_test.sh CASE SOURCE_DIR BUILD_DIR
set -euo pipefail
case=$1 here=$2/tests/backend_ftrace/qemu build=$3
tracetool=$build/backend_ftrace/trapline-tracetool
events=$here/../generator/every-type.trace-events
warnings="-Wall -Wextra -Wno-unused-parameter -Wundef -Wwrite-strings -Wmissing-prototypes
  -Wstrict-prototypes -Wredundant-decls -Wold-style-declaration -Wold-style-definition
  -Wformat-security -Wformat-y2k -Winit-self -Wignored-qualifiers -Wempty-body -Wnested-externs
  -Wendif-labels -Wexpansion-to-defined -Wmissing-format-attribute -Wshadow=local -Werror"
# What LTTng's and SystemTap's macros expand to is theirs.
theirs="-Wno-missing-prototypes -Wno-nested-externs -Wno-undef -Wno-ignored-qualifiers"
skip() {
  echo "skipped: $1"
  [ "${TRAPLINE_REQUIRE_SYSTEM:-0}" = 1 ] && exit 1
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

generate() {  # generate GROUP BACKENDS EVENTS FORMAT FILE
  "$tracetool" "--backend=$2" "--group=$1" "--format=$4" "$3" "$5"
}
compile() {  # compile VERSION FILE [FLAG...]: VERSION as "10 0"
  local major=${1% *} minor=${1#* } file=$2
  shift 2
  # shellcheck disable=SC2086
  cc -std=gnu11 -O1 $warnings "-DQEMU_VERSION_MAJOR=$major" "-DQEMU_VERSION_MINOR=$minor" -I. \
    "-I$here/fake" "$@" -c "$file" -o "$(basename "${file%.c}").o"
}

# The simple file, printed, is what printf says. Left out: texts that `trapline print` makes printable,
# and strings that are printed by %p, whose address is not recorded.
same_records() {
  LC_ALL=C awk '
    NR == FNR { expected[NR] = $0; next }
    { sub(/^[^ ]+ [^ ]+ /, ""); records = FNR }
    expected[FNR] ~ /[^ -~]/ || /^string_pointer / { next }
    $0 != expected[FNR] { print "record " FNR ": expected " expected[FNR] ", got " $0; bad = 1 }
    { compared++ }
    END { if (records != length(expected) || compared < records / 2) bad = 1; exit bad }
  ' simple printed
}

every_type_says_what_printf_says() {
  "$build/tests/backend_ftrace/make_driver" every 16 "$events" qemu > driver.c
  generate every ftrace,log,simple,syslog "$events" h trace-every.h
  generate every ftrace,log,simple,syslog "$events" c trace-every.c
  for version in "10 0" "10 2" "11 1"; do
    compile "$version" trace-every.c
    compile "$version" "$here/fake/fake.c"
    compile "$version" driver.c -w
    cc driver.o trace-every.o fake.o -o driver
    ./driver expected simple syslog 9> marker 8> log 7> trace > /dev/null
    cmp log expected
    cmp syslog expected
    # QEMU cuts a marker's line at 511 bytes, so one that was cut has no end of line.
    LC_ALL=C awk '{ line = $0 "\n"; printf "%s", substr(line, 1, 511) }' expected | cmp - marker
    "$build/merge/trapline" print --format text trace --events "$events" > printed
    same_records
  done
  echo "$(wc -l < expected) lines were the same through four backends, as QEMU 10.0, 10.2 and 11.1"
}

# QEMU 10's and 11's own events, as the packages of the distribution list them.
every_event_of_qemu_compiles() {
  local version folder proof inputs
  mapfile -t inputs < <(find "$tracetool" "$here/fake" -type f | LC_ALL=C sort)
  # shellcheck source-path=SCRIPTDIR source=../../support/proven.sh
  source "$here/../../support/proven.sh"
  for version in 10 11; do
    folder=$("$2/scripts/fetch" "qemu$version") || skip "scripts/fetch qemu$version failed"
    inputs+=("$folder/root/usr/share/qemu/trace-events-all")
  done
  if proven_before "$build" every-event-of-qemu "${inputs[@]}"; then return; fi
  for version in "10 0" "11 1"; do
    folder=$("$2/scripts/fetch" "qemu${version% *}")
    for format in h c rs; do
      generate all ftrace,log,simple,syslog "$folder/root/usr/share/qemu/trace-events-all" $format \
        trace-all.$format
    done
    compile "$version" trace-all.c -O0 -fsyntax-only
    if command -v rustc > /dev/null; then
      rustc --edition=2021 -D warnings --crate-type lib --emit metadata -o all.meta trace-all.rs
    fi
    echo "QEMU ${version/ /.}: $(grep -c '^void trapline_emit_' trace-all.c) events"
  done | tee "$work/told"
  mv "$work/told" "$proof"
}

rust_says_what_c_says() {
  command -v rustc > /dev/null || skip "needs rustc (apt-get install rustc)"
  generate rust ftrace,log,simple "$here/rust.trace-events" h trace-rust.h
  generate rust ftrace,log,simple "$here/rust.trace-events" c trace-rust.c
  generate rust ftrace,log,simple "$here/rust.trace-events" rs trace-rust.rs
  compile "11 1" trace-rust.c
  compile "11 1" "$here/fake/fake.c"
  compile "11 1" "$here/rust_calls.c"
  cc rust_calls.o trace-rust.o fake.o -o from-c
  TRACE_RS=$work/trace-rust.rs rustc --edition=2021 -D warnings -C "link-arg=$work/trace-rust.o" \
    -C "link-arg=$work/fake.o" "$here/rust_calls.rs" -o from-rust
  ./from-c 9> c.marker 8> c.log 7> c.trace
  ./from-rust 9> rust.marker 8> rust.log 7> rust.trace
  cmp c.marker rust.marker
  cmp c.log rust.log
  cmp c.trace rust.trace
  cat > expected << 'END'
rust_nothing nothing
rust_without_format a=-7 s=a 100% string
rust_strings s='a 100% string' v=0xffffffffffffffff
rust_small 1 255 -32768 x
rust_sizes 18446744073709551615 -1 5
rust_pointers 0x1234 0x1234 0x1234
END
  cmp expected rust.marker
  cmp expected rust.log
}

rust_compiles_for_every_backend() {
  command -v rustc > /dev/null || skip "needs rustc (apt-get install rustc)"
  for backends in nop ftrace,log,simple,syslog dtrace ust ftrace,dtrace,ust; do
    generate every "$backends" "$events" rs trace.rs
    rustc --edition=2021 -D warnings --crate-type lib --emit metadata -o trace.meta trace.rs
  done
}

# The probes are in the object with their arguments, the guards test the semaphores.
dtrace_and_ust_compile_and_have_their_probes() {
  command -v dtrace > /dev/null || skip "needs dtrace (apt-get install systemtap-sdt-dev)"
  local backends=dtrace,ust,ftrace
  generate every "$backends" "$events" d trace-dtrace-every.dtrace
  dtrace -DSTAP_SDT_V2 -o trace-dtrace-every.h -h -s trace-dtrace-every.dtrace 2> warnings
  if [ -s warnings ]; then cat warnings >&2; exit 1; fi
  generate every "$backends" "$events" o probes.o
  generate every "$backends" "$events" h trace-every.h
  generate every "$backends" "$events" c trace-every.c
  generate every "$backends" "$events" ust-events-h trace-ust-every.h
  generate all "$backends" "$events" ust-events-h trace-ust-all.h
  generate all "$backends" "$events" ust-events-c trace-ust-all.c
  "$build/tests/backend_ftrace/make_driver" every 1 "$events" qemu > driver.c
  # shellcheck disable=SC2086
  compile "11 1" trace-every.c $theirs
  compile "11 1" trace-ust-all.c -w
  compile "11 1" "$here/fake/fake.c"
  compile "11 1" driver.c -w
  cc driver.o trace-every.o trace-ust-all.o probes.o fake.o -llttng-ust -ldl -o driver
  ./driver expected simple syslog 9> marker 8> /dev/null 7> /dev/null > /dev/null
  LC_ALL=C awk '{ line = $0 "\n"; printf "%s", substr(line, 1, 511) }' expected | cmp - marker
  local wanted probes
  wanted=$(wc -l < expected)
  probes=$(readelf -n driver | grep -A1 'Provider: qemu$' | grep -c 'Name: ')
  [ "$probes" -eq "$wanted" ] || { echo "$probes probes for $wanted events" >&2; exit 1; }
}

tapsets_name_the_probes_and_print_records() {
  local prefix=(--binary=/usr/bin/qemu --probe-prefix=qemu.system.x86_64)
  for format in stap log-stap simpletrace-stap; do
    "$tracetool" --group=all --backends=dtrace --format=$format "${prefix[@]}" \
      "$here/rust.trace-events" "$format.stp"
  done
  for line in stap:'probe qemu.system.x86_64.rust_small = process("/usr/bin/qemu").provider("qemu").mark("rust_small")' \
    log-stap:'  printf("%d@%d rust_small %d %u %d %c\n", pid(), gettimeofday_ns(), b, u, i, c)' \
    simpletrace-stap:'  printf("%8b%8b%8b%4b%4b%4b%.*s%8b", 1, 2, gettimeofday_ns(), 24 + 4 + args_len + 8, pid(), args_len, args_len, args_str, v)'; do
    grep -qxF -- "${line#*:}" "${line%%:*}.stp" || { cat "${line%%:*}.stp" >&2; exit 1; }
  done
  if grep -q rust_never ./*.stp; then exit 1; fi
}

# As generators of older QEMUs were called: the prefix by the target, the text to the standard output.
tapsets_of_a_target_go_to_the_standard_output() {
  local target=(--group=all --backends=dtrace --format=stap --binary=/usr/bin/qemu
    --target-type=system --target-name=x86_64 "$here/rust.trace-events")
  "$tracetool" "${target[@]}" file.stp
  "$tracetool" "${target[@]}" >alone.stp
  "$tracetool" "${target[@]}" - >named.stp
  grep -q '^probe qemu.system.x86_64.rust_small = ' file.stp
  cmp file.stp alone.stp
  cmp file.stp named.stp
  [ ! -e ./- ]
  if "$tracetool" "${target[@]}" >/dev/full 2>error; then exit 1; fi
  grep -q 'standard output cannot be written' error
}

the_options_are_those_of_qemus_generator() {
  local out
  [ "$("$tracetool" --list-backends)" = "nop, dtrace, ftrace, log, simple, syslog, ust" ]
  out=$("$tracetool" --list-formats)
  [ "$out" = "c, d, h, log-stap, o, rs, simpletrace-stap, stap, ust-events-c, ust-events-h" ]
  "$tracetool" --check-backends --backends=ftrace,log
  if "$tracetool" --check-backends --backends=ftrace,blog; then exit 1; fi
  "$tracetool" --backends=nop --group=g --format=h --target-type=system --target-name=x86_64 \
    "$here/rust.trace-events" "$events" two.h
  grep -q 'trace_rust_nothing' two.h
  grep -q 'trace_int_all' two.h
  for wrong in --format=stap --format=x "--format=h --backends=blog"; do
    # shellcheck disable=SC2086
    if "$tracetool" --group=g $wrong "$events" out 2> error; then exit 1; fi
    grep -q "^trapline-tracetool: " error
    [ ! -e out ]
  done
}

"$case" "$@"
