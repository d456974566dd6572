#!/usr/bin/env bash
# Run by package_test.sh in a clean Debian root, as root: installs the packages with apt, uses them,
# removes them, and compares the files before and after. Input is in /tmp/input, QEMU in /tmp/qemu.
set -euo pipefail
fail() { printf 'FAILED in the clean root: %s\n' "$*" >&2; exit 1; }
step() { printf -- '-- %s (%s s)\n' "$*" "$SECONDS"; }

# apt's and dpkg's own records, and caches that they and ldconfig keep, are no files of a package.
all_files() {
  find / -xdev \( -path /proc -o -path /tmp -o -path /dev -o -path /sys -o -path /run -o -path /var/cache \
    -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log -o -path /etc/ld.so.cache \) -prune \
    -o -print | sort
}

cd /tmp
# Debian's packages that trapline-demo needs: autoremove keeps what another package recommends or suggests.
apt-get -q install -y --no-install-recommends binutils ca-certificates cpio debian-archive-keyring python3 xz-utils >log 2>&1 ||
  { tail -30 log >&2; fail "apt-get install of Debian's own packages"; }
all_files >before

step "install"
apt-get -q install -y /tmp/input/*.deb >log 2>&1 || { tail -30 log >&2; fail "apt-get install"; }

step "the command"
trapline --version
trapline report /tmp/input/svm-linux-2vcpu.dat --format csv >report.csv
cmp report.csv /tmp/input/report.csv || fail "another report than the build's"
for page in trapline.1 trapline-report.1 trapline-tracetool.1 trapline-ftrace.3 trapline-plugin.7; do
  [ -s "/usr/share/man/man${page##*.}/$page.gz" ] || fail "no man page $page"
done
bash -euc '
  . /usr/share/bash-completion/completions/trapline
  COMP_WORDS=(trapline rep) COMP_CWORD=1
  _trapline
  [ "${COMPREPLY[*]}" = report ]' || fail "completion"

trapline report /tmp/input/svm-linux-2vcpu.dat --format html -o report.html
grep -q '</html>' report.html || fail "the page is not whole"
trapline help clocks | grep 'trapline sync' >/dev/null || fail "trapline help clocks"

step "the doctor"
trapline doctor -v >doctor.txt || [ $? = 1 ] || fail "trapline doctor"
grep '^ok  *tracefs: mounted at /sys/kernel/tracing' doctor.txt || { cat doctor.txt; fail "the doctor does not see tracefs"; }

step "a recording as in a container: tracefs bound, no capability"
setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
  trapline record --no-kvm --events sched:sched_switch -o run -- sleep 0.1 2>log || { cat log >&2; fail "trapline record"; }
trapline info run | grep -E '^ *sched:sched_switch +[1-9]' || { trapline info run; fail "nothing was recorded"; }

step "the plugin"
plugin=$(dpkg -L trapline-qemu-plugin | grep '\.so$')
qemu/bin/qemu-system-x86_64 -accel tcg -m 64 -smp 2 -display none -nodefaults -no-reboot \
  -device isa-debug-exit,iobase=0x501 -kernel /tmp/input/x86_64-O2.elf \
  -plugin "$plugin,out=uftrace.data,symbols=/tmp/input/x86_64-O2.elf,include=small_*" 2>qemu.log || true
grep -E 'trapline plugin: [1-9][0-9]* records, 0 lost' qemu.log || { cat qemu.log >&2; fail "the plugin"; }
trapline info uftrace.data >info.txt || fail "trapline info uftrace.data"

step "the tutorial, command by command: its demo records a guest in the KVM host in a box"
export HOME=/tmp/home TRAPLINE_CACHE=/tmp/cache
mkdir "$HOME"
(cd /usr/share/doc/trapline-doc && python3 /tmp/input/follow.py docs/tutorial.md scripts/demo=trapline-demo) ||
  fail "docs/tutorial.md"
devices() { trapline report "$HOME/$1.trapline" --by device --top 0 --format csv; }
debugcon() { devices "$1" | sed -n 's/^"isa-debugcon",\([0-9]*\),.*/\1/p'; }
trapline timeline "$HOME/demo.trapline" >timeline.txt
grep -E 'call rtc_read\(\)' timeline.txt >/dev/null || fail "the demo's timeline has no function of the guest"
[ -s "$HOME/demo.trapline/report.html" ] || fail "the demo made no page"
if ! { [ "$(debugcon demo)" -gt 2000 ] && [ "$(debugcon quiet)" -lt 300 ]; }; then
  devices demo; devices quiet
  fail "leaving the device away is not what the tutorial says"
fi
step "the examples of the other documents"
(cd /usr/share/doc/trapline-doc && python3 /tmp/input/doc_examples.py trapline README.md docs/*.md docs/*/*.md) ||
  fail "the documents' examples"

step "the Python module"
python3 -c '
import trapline
rows = {row["key"]: row["count"] for row in trapline.report("/tmp/input/svm-linux-2vcpu.dat")["tables"]["groups"]["rows"]}
exits = list(trapline.exits("/tmp/input/svm-linux-2vcpu.dat", reason="cpuid"))
assert len(exits) == rows["cpuid"] > 0, (len(exits), rows)' || fail "the Python module"
[ -s /usr/share/doc/python3-trapline/examples/three-questions.ipynb ] || fail "no notebook"

step "a program with the CMake package"
cp -r /usr/share/doc/libtrapline-ftrace-dev/examples/three-lines three
{ cmake -S three -B three/build && cmake --build three/build; } >log 2>&1 || { cat log >&2; fail "CMake"; }
TRAPLINE_EVENTS='hello_*' TRAPLINE_LOG=hello.log three/build/hello one two 2>stderr
grep -qx "hello_word index=2 word='two'" hello.log || fail "the program's log is: $(cat hello.log)"

step "a program with pkg-config"
mkdir gen
trapline-tracetool --group hello --backends log -o gen three/trace-events
# shellcheck disable=SC2046
cc -Wall -Werror -Igen three/main.c gen/trace-hello.c $(pkg-config --cflags --libs trapline-ftrace) -o hello
ldd hello | grep 'libtrapline_ftrace.so.0 => /' >/dev/null || fail "not linked with the shared library"
TRAPLINE_EVENTS='hello_end' TRAPLINE_LOG=hello2.log ./hello
grep -qx "hello_end done" hello2.log || fail "the program's log is: $(cat hello2.log)"

step "remove"
apt-get -q purge -y '?name(trapline)' >log 2>&1 || { tail -30 log >&2; fail "apt-get purge"; }
apt-get -q autoremove -y --purge >log 2>&1 || { tail -30 log >&2; fail "apt-get autoremove"; }
all_files >after
diff before after || fail "files were left (>) or lost (<)"
step "nothing is left"
