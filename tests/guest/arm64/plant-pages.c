// Loaded into QEMU (LD_PRELOAD) on arm64, built without that machine's C library: the guest's
// memory of 64 MiB is in small pages. With $PLANT_UFFD a thread of user space serves it from 16 to
// 48 MiB (userfaultfd), a millisecond after each fault; with $PLANT_SWAP, memory.reclaim of QEMU's
// cgroup, that part is swapped out before the guest runs.
#include <stddef.h>
#include <stdint.h>

extern long syscall(long number, ...);
extern char* getenv(const char* name);
extern _Noreturn void exit(int status);
extern int open(const char* path, int flags, ...);
extern long read(int fd, void* to, size_t size);
extern long write(int fd, const void* from, size_t size);
extern int usleep(unsigned us);
extern int pthread_create(uintptr_t* thread, const void* attributes, void* (*run)(void*),
                          void* argument);
extern int pthread_setname_np(uintptr_t thread, const char* name);
extern uintptr_t pthread_self(void);
int madvise(void* memory, size_t size, int advice);

// linux/userfaultfd.h, asm-generic/unistd.h, asm-generic/mman-common.h.
#define UFFDIO_API 0xc018aa3fUL
#define UFFDIO_REGISTER 0xc020aa00UL
#define UFFDIO_COPY 0xc028aa03UL
struct message {
  uint8_t event, reserved[7];
  uint64_t flags, address, feature;
};
enum { kIoctl = 29, kMadvise = 233, kUserfaultfd = 282, kCloexec = 02000000, kApi = 0xaa };
enum { kHugePage = 14, kNoHugePage = 15, kPageOut = 21, kMiB = 1 << 20, kPage = 4096 };

static void* serve(void* argument) {
  const int uffd = (int)(intptr_t)argument;
  static char page[kPage] __attribute__((aligned(kPage)));
  struct message fault;
  pthread_setname_np(pthread_self(), "plant-uffd");
  while (read(uffd, &fault, sizeof fault) == sizeof fault) {
    uint64_t copy[] = {fault.address & ~(uint64_t)(kPage - 1), (uintptr_t)page, kPage, 0, 0};
    usleep(1000);
    if (syscall(kIoctl, (long)uffd, UFFDIO_COPY, copy) != 0) exit(1);
  }
  return NULL;
}

static void take(char* memory) {
  const long uffd = syscall(kUserfaultfd, (long)kCloexec);
  uint64_t api[] = {kApi, 0, 0};
  uint64_t range[] = {(uintptr_t)memory + 16UL * kMiB, 32UL * kMiB, 1, 0};  // 1: missing pages
  uintptr_t thread;
  if (uffd < 0 || syscall(kIoctl, uffd, UFFDIO_API, api) != 0 ||
      syscall(kIoctl, uffd, UFFDIO_REGISTER, range) != 0 ||
      pthread_create(&thread, NULL, serve, (void*)uffd) != 0)
    exit(1);
}

static void swap_out(char* memory, const char* reclaim) {
  char* begin = memory + 16UL * kMiB;
  for (size_t at = 0; at < 32UL * kMiB; at += kPage) begin[at] = 1;
  syscall(kMadvise, begin, 32UL * kMiB, (long)kPageOut);
  usleep(500000);
  const int fd = open(reclaim, 1);  // O_WRONLY
  if (fd < 0) exit(1);
  write(fd, "32M", 3);  // EAGAIN: there was less
}

// QEMU asks for huge pages for the guest's memory before the guest has any.
int madvise(void* memory, size_t size, int advice) {
  static int taken;
  if (advice != kHugePage || size != 64UL * kMiB)
    return (int)syscall(kMadvise, memory, size, (long)advice);
  const int done = (int)syscall(kMadvise, memory, size, (long)kNoHugePage);
  const char* swapped = getenv("PLANT_SWAP");
  if (!taken && getenv("PLANT_UFFD") != NULL) take(memory);
  if (!taken && swapped != NULL) swap_out(memory, swapped);
  taken = 1;
  return done;
}
