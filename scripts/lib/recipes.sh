# shellcheck shell=bash
# Sourced by scripts/fetch: what can be fetched. A recipe is called with the folder to fill and a
# folder for apt's files, both of which exist only for it. Needs common.sh, private_apt.sh, unpack.sh.

# Bump when a recipe makes something else than before: what is in the caches is then fetched anew.
# shellcheck disable=SC2034 # read by scripts/fetch
readonly kRecipes=1

recipe_list() {
  cat <<'END'
  qemu10          QEMU 10.0 (bookworm-backports): bin/qemu-system-{x86_64,aarch64,riscv64,...}
  qemu11          QEMU 11 (trixie-backports), the same
  qemu10-source   the source package of QEMU 10, meson and firmware: scripts/qemu-with-ftrace
  qemu11-source   of QEMU 11, the same
  kernel-amd64    Debian's cloud kernel: vmlinuz, modules.cpio, release
  kernel-amd64-backports    a newer one, from bookworm-backports
  kernel-arm64    the arm64 cloud kernel
  guest-amd64     modules of the cloud kernel that only guests load: ptp_kvm.ko
  box-amd64       the files inside the KVM host in a box: base.cpio (busybox, QEMU 10, trace-cmd)
  box-arm64       the same for arm64
  clean-root      a minimal Debian with a C compiler and CMake, and the packages that Trapline's need
                  in its apt cache: root/; for a test
  kernelshark     KernelShark's library and headers: root/usr/{lib,include}; for a test
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

# What the packages depend on is downloaded only: the test installs it, without a network.
recipe_clean_root() {  # recipe_clean_root FOLDER APT
  local archives suite base
  need_command mmdebstrap mmdebstrap
  archives=$(machine_archives)
  mkdir -p "$2"
  for suite in "${kBookworm[@]}"; do
    base=$(archive_of "$suite" "$archives") || continue
    # shellcheck disable=SC2154 # private_apt.sh sets it
    printf 'deb [signed-by=%s] %s %s main\n' "$kKeyring" "$base" "$suite"
  done >"$2/sources.list"
  # shellcheck disable=SC2016 # mmdebstrap gives the hook its folder as $1
  mmdebstrap --quiet --variant=minbase --include=gcc,libc6-dev,pkg-config,cmake,make \
    --aptopt='APT::Install-Recommends "false"' --skip=cleanup/apt,cleanup/reproducible \
    --customize-hook='chroot "$1" apt-get install -y --download-only libdw1 libelf1 libfmt9 libstdc++6 libtracecmd1 libtraceevent1 libzstd1' \
    bookworm "$1/root" - <"$2/sources.list" >&2 || die "mmdebstrap failed (see above): is this root, or may users have namespaces?"
  rm -rf -- "$1/root/dev" && mkdir "$1/root/dev"
}

# Without its window's libraries.
recipe_kernelshark() {  # recipe_kernelshark FOLDER APT
  private_apt_create "$2" "$(dpkg --print-architecture)" "${kBookworm[@]}"
  private_apt_unpack_only "$2" "$1/root" libkshark2 libkshark-dev libjson-c5 libjson-c-dev
  drop_documentation "$1/root"
}

recipe_kernel_amd64() { recipe_kernel "$1" "$2" amd64 kvm-amd "${kBookworm[@]}"; }
recipe_kernel_amd64_backports() {
  recipe_kernel "$1" "$2" amd64 kvm-amd "${kBookworm[@]}" bookworm-backports
}
recipe_kernel_arm64() { recipe_kernel "$1" "$2" arm64 '' "${kBookworm[@]}"; }

recipe_kernel() {  # recipe_kernel FOLDER APT ARCH KVM-MODULE SUITE...
  local folder=$1 apt=$2 arch=$3 kvm=$4 package
  shift 4
  private_apt_create "$apt" "$arch" "$@"
  package=$(private_apt_kernel "$apt" "$arch" "${*: -1}")
  [ -n "$package" ] || die "linux-image-cloud-$arch depends on no kernel: please report it"
  private_apt_unpack_only "$apt" "$apt/root" "$package"
  cp -- "$apt/root/boot/vmlinuz-"* "$folder/vmlinuz"
  basename -- "$apt/root/lib/modules/"* >"$folder/release"
  # shellcheck disable=SC2086 # $kvm may be empty
  pack_modules "$apt/root" "$folder/modules.cpio" virtio_ring virtio virtio_pci_modern_dev \
    virtio_pci_legacy_dev virtio_pci virtio_mmio virtio_blk irqbypass kvm $kvm
}

recipe_guest_amd64() {
  local folder=$1 apt=$2 package
  private_apt_create "$apt" amd64 "${kBookworm[@]}"
  package=$(private_apt_kernel "$apt" amd64 bookworm-security)
  private_apt_unpack_only "$apt" "$apt/root" "$package"
  find "$apt/root/lib/modules" -name 'ptp_kvm.ko*' -exec cp -t "$folder" -- {} +
  find "$folder" -name '*.xz' -exec xz -d -- {} +
  [ -f "$folder/ptp_kvm.ko" ] || die "the kernel has no ptp_kvm module: please report it"
}

# The name of the kernel's package, a version of linux-image-cloud's dependency.
private_apt_kernel() {  # private_apt_kernel APT ARCH SUITE
  local package=linux-image-cloud-$2 record
  if [[ $3 == *-backports ]]; then package=$package/$3; fi
  record=$(LC_ALL=C apt-cache -c "$1/apt.conf" show "$package")
  sed -n 's/^Depends: \(linux-image-[^ ]*\).*/\1/p' <<<"$record" | sed -n 1p
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

# The files inside the box: static busybox, QEMU and trace-cmd with their libraries and firmware.
recipe_box() {  # recipe_box FOLDER APT ARCH TRIPLET QEMU-PACKAGE QEMU
  local folder=$1 apt=$2 arch=$3 triplet=$4 qemu=$6 root=$2/root stage=$2/stage file
  need_command cpio cpio
  need_command readelf binutils
  private_apt_create "$apt" "$arch" "${kBookworm[@]}" bookworm-backports
  private_apt_unpack "$apt" "$root" -t bookworm-backports "$5" seabios trace-cmd busybox-static
  mkdir -p "$stage"/{bin,proc,sys,dev,tmp,run,lib64,usr/bin,usr/share}
  cp "$root/bin/busybox" "$stage/bin/"
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
