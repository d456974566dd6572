# shellcheck shell=bash
# Sourced: makes usable what private_apt.sh unpacked. Needs common.sh.

# Folders with shared libraries below an unpacked root, relative to it.
library_folders() {  # library_folders ROOT TRIPLET
  local dir
  for dir in "lib/$2" "usr/lib/$2" lib usr/lib; do
    if [ -d "$1/$dir" ] && [ ! -L "$1/${dir%%/*}" ]; then printf '%s\n' "$dir"; fi
  done
}

# The dynamic loader below a root, relative to it. (lib64 holds an absolute link that would leave it.)
loader_of() {  # loader_of ROOT
  # find complains of a folder that a release does not have; that is no failure.
  (cd -- "$1" && { find lib usr/lib usr/lib64 -maxdepth 2 -name 'ld-linux-*.so.*' -type f \
    2>/dev/null || true; } | sed -n 1p)
}

# Writes FOLDER/bin/qemu-system-* wrappers that start the QEMU below FOLDER/root with its own loader,
# libraries, modules and firmware.
#
# QEMU looks for modules and firmware in the folder qemu-bundle beside the program that runs, which is the loader
# here. Without that folder it looks in this machine's, where modules of another QEMU may lie: loading one aborts.
write_qemu_wrappers() {  # write_qemu_wrappers FOLDER
  local root=$1/root triplet=x86_64-linux-gnu loader program libraries='' dir
  loader=$(loader_of "$root")
  [ -n "$loader" ] || die "no dynamic loader in $root: the packages have changed, please report it"
  while read -r dir; do
    libraries+="\$here/root/$dir:"
  done < <(library_folders "$root" "$triplet")
  mkdir "$root/${loader%/*}/qemu-bundle"
  ln --symbolic --relative -- "$root/usr" "$root/${loader%/*}/qemu-bundle/usr"
  mkdir -p "$1/bin"
  for program in "$root"/usr/bin/qemu-system-*; do
    program=$(basename -- "$program")
    cat >"$1/bin/$program" <<END
#!/bin/sh
# Written by scripts/fetch: starts the QEMU unpacked beside this with its own libraries.
here=\$(dirname -- "\$(dirname -- "\$(readlink -f -- "\$0")")")
exec "\$here/root/$loader" --library-path "${libraries%:}" "\$here/root/usr/bin/$program" "\$@"
END
    chmod 755 "$1/bin/$program"
  done
}

# The shared libraries that programs need, and what those need, as paths relative to ROOT. Reads
# the files instead of running ldd, so it works for another architecture's as well.
library_closure() {  # library_closure ROOT TRIPLET PROGRAM...
  local root=$1 triplet=$2 name dir found
  local -a queue folders
  local -A seen=()
  shift 2
  mapfile -t folders < <(library_folders "$root" "$triplet")
  mapfile -t queue < <(needed_by "$@")
  while [ ${#queue[@]} -gt 0 ]; do
    name=${queue[0]}
    queue=("${queue[@]:1}")
    [ -z "${seen[$name]:-}" ] || continue
    seen[$name]=1
    found=
    for dir in "${folders[@]}"; do
      if [ -e "$root/$dir/$name" ]; then found=$dir/$name; break; fi
    done
    if [ -z "$found" ]; then
      [[ $name == ld-linux* ]] && continue  # in the root's lib64 or lib, copied apart
      die "$name is in no package below $root: the packages have changed, please report it"
    fi
    printf '%s\n' "$found"
    mapfile -t -O ${#queue[@]} queue < <(needed_by "$root/$found")
  done
}

needed_by() { readelf -d -- "$@" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u; }

# What is only read by people goes, to keep the cache small.
drop_documentation() { rm -rf -- "$1/usr/share/"{doc,man,locale,info,bash-completion,lintian}; }
