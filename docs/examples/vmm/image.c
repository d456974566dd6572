/* Loads an ELF image whose PVH note names a 32-bit entry, as QEMU's -kernel does. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm.h"

enum { kPvhEntry = 18, kMostImage = 16 << 20 }; /* XEN_ELFNOTE_PHYS32_ENTRY */

static uint32_t fail(const char* path, const char* why) {
  fprintf(stderr, "vmm: %s: %s\n", path, why);
  return 0;
}

static size_t aligned(uint32_t size) { return ((size_t)size + 3) & ~(size_t)3; }

/* The entry in a segment of notes, or 0. */
static uint32_t entry_in(const uint8_t* notes, size_t size) {
  while (size >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    uint32_t entry;
    memcpy(&note, notes, sizeof note);
    notes += sizeof note;
    size -= sizeof note;
    if (note.n_namesz > size || note.n_descsz > size) break;
    size_t name = aligned(note.n_namesz), length = name + aligned(note.n_descsz);
    if (length > size) break;
    if (note.n_type == kPvhEntry && note.n_namesz == 4 && memcmp(notes, "Xen", 4) == 0 &&
        note.n_descsz >= sizeof entry) {
      memcpy(&entry, notes + name, sizeof entry);
      return entry;
    }
    notes += length;
    size -= length;
  }
  return 0;
}

static uint32_t load(const char* path, const uint8_t* file, size_t file_size, uint8_t* memory,
                     size_t size) {
  Elf64_Ehdr header;
  uint32_t entry = 0;
  if (file_size < sizeof header) return fail(path, "too short for an ELF image");
  memcpy(&header, file, sizeof header);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return fail(path, "not an x86-64 ELF image");
  }
  for (unsigned i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    uint64_t at = header.e_phoff + (uint64_t)i * sizeof segment;
    if (at > file_size || file_size - at < sizeof segment) return fail(path, "it is cut off");
    memcpy(&segment, file + at, sizeof segment);
    if (segment.p_offset > file_size || file_size - segment.p_offset < segment.p_filesz) {
      return fail(path, "it is cut off");
    }
    if (segment.p_type == PT_NOTE && entry == 0) {
      entry = entry_in(file + segment.p_offset, segment.p_filesz);
    }
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_paddr > size || size - segment.p_paddr < segment.p_memsz ||
        segment.p_filesz > segment.p_memsz) {
      return fail(path, "it does not fit into the guest's memory");
    }
    memcpy(memory + segment.p_paddr, file + segment.p_offset, segment.p_filesz);
  }
  return entry != 0 ? entry : fail(path, "it has no PVH note, so its entry is not known");
}

uint32_t load_image(const char* path, uint8_t* memory, size_t size) {
  FILE* stream = fopen(path, "rb");
  if (stream == NULL) return fail(path, strerror(errno));
  uint8_t* file = malloc(kMostImage);
  if (file == NULL) {
    fclose(stream);
    return fail(path, "out of memory");
  }
  size_t length = fread(file, 1, kMostImage, stream);
  uint32_t entry = load(path, file, length, memory, size);
  fclose(stream);
  free(file);
  return entry;
}
