# shellcheck shell=bash
# Sourced by scripts/package: packages for another architecture, built in a Debian of its own that has the
# cross compiler and that architecture's libraries. Needs common.sh, packages.sh, version.sh, and the script's $work.
# shellcheck disable=SC2154 # work

# Runs this script once more, in that Debian; its packages come to OUT.
cross_package() {  # cross_package ARCH OUT ARGUMENT...
  local root arch=$1 out=$2 name
  shift 2
  [ "$(id -u)" -eq 0 ] || die "--arch $arch needs root, for a root folder of its own"
  packages_install page
  root=$("$TRAPLINE_ROOT/scripts/fetch" "cross-$arch")/root
  mkdir -p "$work/source" "$work/out" "$work/tmp"
  git -C "$TRAPLINE_ROOT" archive HEAD | tar -x -C "$work/source"
  tree_version >"$work/source/.tarball-version"
  touch --date="@$(tree_time)" "$work/source/.tarball-version"
  cp -- "$("$TRAPLINE_ROOT/scripts/fetch" qemu-user)/bin/qemu-aarch64-static" "$work/tmp/emulator"
  bundle_page "$work/source/merge/page" "$work/page" "$work/tmp/page_template.cc"
  note "building $(tree_version) for $arch"
  # shellcheck disable=SC2016 # the inner shell expands these
  unshare --mount --propagation private bash -euc '
    root=$1 work=$2 arguments=("${@:3}")
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --bind "$work/tmp" "$root/tmp"
    mkdir -p "$root/tmp/source" "$root/tmp/out"
    mount --bind "$work/source" "$root/tmp/source"
    mount --bind "$work/out" "$root/tmp/out"
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
      ${CMAKE_BUILD_PARALLEL_LEVEL:+"CMAKE_BUILD_PARALLEL_LEVEL=$CMAKE_BUILD_PARALLEL_LEVEL"} \
      bash /tmp/source/scripts/package "${arguments[@]}" --inside --out /tmp/out' bash "$root" "$work" "$@" >/dev/null ||
    die "the build for $arch failed (see above)"
  for name in "$work"/out/*; do
    mv -- "$name" "$out"
    printf '%s\n' "$out/${name##*/}"
  done
}

# The page is the same for every architecture, and that Debian has no node.
bundle_page() {  # bundle_page SOURCE MODULES OUT.cc
  mkdir -p -- "$2"
  cp -- "$1/package.json" "$1/package-lock.json" "$2"
  (cd -- "$2" && npm ci --ignore-scripts --no-audit --no-fund) >"$work/log" 2>&1 ||
    { tail -n 20 -- "$work/log" >&2; die "npm could not download what the page needs (see above): check the network"; }
  node "$1/build.mjs" "$2" "$3"
}

# What CMake, dpkg and CPack need to know, inside.
cross_environment() {  # cross_environment ARCH
  local triplet
  triplet=$(dpkg-architecture -a"$1" -qDEB_HOST_GNU_TYPE 2>/dev/null)  # warns that CC is for this machine
  eval "$(CC=$triplet-gcc dpkg-architecture -a"$1" -s)"
  export PKG_CONFIG="/usr/bin/$triplet-pkg-config"
  # shellcheck disable=SC2034 # for scripts/package
  cross=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$(dpkg-architecture -a"$1" -qDEB_HOST_GNU_CPU)"
    "-DCMAKE_C_COMPILER=$triplet-gcc" "-DCMAKE_CXX_COMPILER=$triplet-g++" "-DCMAKE_LIBRARY_ARCHITECTURE=$triplet"
    "-DPKG_CONFIG_EXECUTABLE=$PKG_CONFIG" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER
    -DCMAKE_CROSSCOMPILING_EMULATOR=/tmp/emulator -DTRAPLINE_PAGE_TEMPLATE=/tmp/page_template.cc)
  options+=(-D "CPACK_DEBIAN_PACKAGE_ARCHITECTURE=$1"
    -D "CPACK_READELF_EXECUTABLE=$triplet-readelf"
    -D "CPACK_OBJCOPY_EXECUTABLE=$triplet-objcopy" -D "CPACK_OBJDUMP_EXECUTABLE=$triplet-objdump")
}
