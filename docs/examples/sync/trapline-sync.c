/* trapline-sync: reads this guest's clocks before and after each operation that the host, the plugin
 * or the guest's recording sees too, so that Trapline can align them. One file, any Linux guest:
 *   cc -static -O2 trapline-sync.c -o trapline-sync
 * --help lists the options. Until it is ended it makes a round each second of: the magic no-op (under
 * TCG with the plugin), a write to port 0x80 (x86, as root), PTP_KVM, the guest's own trace_marker. --mmio
 * writes to a device's page through /dev/mem instead (arm64 has no ports): choose a register that
 * may be written. docs/formats/sync.md describes what it prints, and writes to trace_marker. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/ptp_clock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>
#include "trapline-noop.h"
#if defined(__x86_64__)
#include <setjmp.h>
#include <sys/io.h>
#define COUNTER "tsc"
#elif defined(__aarch64__)
#define COUNTER "cntvct"
#else
#define COUNTER "time"
#endif

enum { kTries = 16, kText = 400 };
enum way { kNoop, kPort, kMmio, kPtp, kMarker, kWays };
static const char* const kNames[] = {"noop", "port", "mmio", "ptp", "marker"};
static unsigned long port = 0x80, mmio;
static volatile uint32_t* mmio_page;
static int ptp = -1, marker = -1;
static int device_ports = -1; /* a PCI device's, through sysfs */
static off_t port_in_device;

#if defined(__x86_64__)
/* The device whose ports contain `port`: the kernel writes to it for us. */
static int open_device_ports(void) {
  glob_t devices;
  char path[300];
  if (glob("/sys/bus/pci/devices/*/resource", 0, NULL, &devices) != 0) return -1;
  for (size_t i = 0; i < devices.gl_pathc && device_ports < 0; ++i) {
    unsigned long first, last, flags;
    FILE* regions = fopen(devices.gl_pathv[i], "r");
    for (int n = 0; regions && fscanf(regions, "%lx %lx %lx", &first, &last, &flags) == 3; ++n) {
      if ((flags & 0x100) == 0 || port < first || port + 3 > last) continue;
      snprintf(path, sizeof path, "%s%d", devices.gl_pathv[i], n);
      device_ports = open(path, O_WRONLY);
      port_in_device = (off_t)(port - first);
    }
    if (regions) fclose(regions);
  }
  globfree(&devices);
  return device_ports;
}

/* Programs may use ports where the kernel has iopl() (CONFIG_X86_IOPL_IOPERM) and where it works:
 * in a guest of a KVM that QEMU emulates it returns 0 and the write faults. */
static sigjmp_buf refused;
static void on_fault(int signal) { siglongjmp(refused, signal); }
static int open_port(void) {
  volatile int allowed = 0;
  struct sigaction before, fault;
  memset(&fault, 0, sizeof fault);
  fault.sa_handler = on_fault;
  if (port == 0) return 0;
  sigaction(SIGSEGV, &fault, &before);
  if (iopl(3) == 0 && sigsetjmp(refused, 1) == 0) {
    outl(0, (unsigned short)port);
    allowed = 1;
  }
  sigaction(SIGSEGV, &before, NULL);
  return allowed || open_device_ports() >= 0;
}
static void write_port(uint32_t value) {
  if (device_ports < 0)
    outl(value, (unsigned short)port);
  else if (pwrite(device_ports, &value, sizeof value, port_in_device) < 0)
    port = 0;
}
#endif

/* PTP_KVM's device, by its name where udev makes no link: another clock's would not be the host's.
 */
static int open_ptp(const char* device) {
  char path[40], name[32];
  int file = open(device, O_RDWR);
  for (int i = 0; file < 0 && i < 8; ++i) {
    sprintf(path, "/sys/class/ptp/ptp%d/clock_name", i);
    FILE* text = fopen(path, "r");
    if (text == NULL) continue;
    sprintf(path, "/dev/ptp%d", i);
    if (fgets(name, sizeof name, text) != NULL && strncmp(name, "KVM virtual PTP", 15) == 0)
      file = open(path, O_RDWR);
    fclose(text);
  }
  return file;
}

static struct trapline_reading take_reading(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (struct trapline_reading){(uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                                   trapline_counter()};
}

static void put(const char* text) {
  puts(text);
  if (marker >= 0 && write(marker, text, strlen(text)) < 0) marker = -1;
}

/* How the kernel adjusts its clocks: whether their rate was the same at all rounds. */
static int put_adjustment(char* to) {
  struct timex now, single;
  memset(&now, 0, sizeof now), memset(&single, 0, sizeof single);
  single.modes = ADJ_OFFSET_SS_READ;
  if (adjtimex(&now) < 0 || adjtimex(&single) < 0) return 0;
  return sprintf(to, " ntp=%d:%ld:%ld:%ld:%ld:%ld", now.status, (long)now.freq, (long)now.tick,
                 (long)now.offset * (now.status & STA_NANO ? 1 : 1000), (long)now.constant,
                 (long)single.offset);
}

static volatile sig_atomic_t ended;
static void on_end(int signal) { ended = signal; }

static uint64_t ns(struct ptp_clock_time t) { return (uint64_t)t.sec * 1000000000u + t.nsec; }

/* Between two no-ops and two readings of the clocks, one action that the other side sees. */
static void series(enum way way, uint32_t id) {
  struct trapline_reading before[kTries + 1], after[kTries + 1];
  struct ptp_sys_offset_precise precise[kTries];
  char texts[kTries][80], line[kText];
  unsigned where = way == kPort ? (unsigned)port : way == kMmio ? (unsigned)mmio : 0;
  unsigned flags = way == kPort ? TRAPLINE_PORT : way == kMmio ? TRAPLINE_MMIO : 0;
  memset(before, 0, sizeof before), memset(after, 0, sizeof after),
      memset(precise, 0, sizeof precise);
  for (unsigned i = 0; i < kTries; ++i)
    sprintf(texts[i], "trapline: guest 1 %" PRIu32 " %u marker", id, i);
  for (unsigned i = 0; i < kTries; ++i) {
    uint32_t value = trapline_value(id, i);
    unsigned both = flags | TRAPLINE_BEFORE | (i > 0 ? TRAPLINE_AFTER : 0);
    before[i] = take_reading();
    trapline_noop(trapline_header(id, i, both, TRAPLINE_MONO), trapline_write(where, value),
                  before[i], after[i]);
#if defined(__x86_64__)
    if (way == kPort) write_port(value);
#endif
    if (way == kMmio) *mmio_page = value;
    if (way == kPtp && ioctl(ptp, PTP_SYS_OFFSET_PRECISE2, &precise[i]) != 0)
      precise[i].device.sec = 0;
    if (way == kMarker && write(marker, texts[i], strlen(texts[i])) < 0) return;
    after[i + 1] = take_reading();
  }
  trapline_noop(trapline_header(id, kTries, TRAPLINE_AFTER, TRAPLINE_MONO), 0, before[kTries],
                after[kTries]);
  for (unsigned i = 0; i <= kTries; ++i) {
    int n = sprintf(line, "trapline: guest 1 %" PRIu32 " %u", id, i);
    if (i < kTries && where)
      n += sprintf(line + n, " %s=0x%x:0x%" PRIx32, kNames[way], where, trapline_value(id, i));
    if (i < kTries && way == kPtp && precise[i].device.sec != 0)
      n += sprintf(line + n, " ptp=%" PRIu64 ":%" PRIu64 ":%" PRIu64, ns(precise[i].device),
                   ns(precise[i].sys_realtime), ns(precise[i].sys_monoraw));
    if (i == 0) n += put_adjustment(line + n);
    if (i < kTries)
      n += sprintf(line + n, " before mono=%" PRIu64 " " COUNTER "=%" PRIu64, before[i].clock,
                   before[i].counter);
    if (i > 0)
      sprintf(line + n, " after mono=%" PRIu64 " " COUNTER "=%" PRIu64, after[i].clock,
              after[i].counter);
    put(line);
  }
  fflush(stdout); /* it may be ended by a signal */
}

static int print_usage(FILE* out, int status) {
  fputs(
      "usage: trapline-sync [OPTION]...\n"
      "In a guest, prints readings of its clocks, before and after operations that the host sees "
      "too,\n"
      "to align the guest's recordings with the host's.\n\n"
      "  -p, --port PORT      I/O port to write to (x86, as root); 0: none (default: 128)\n"
      "  -m, --mmio ADDRESS   physical address of a device register to write to, through "
      "/dev/mem;\n"
      "                       the write must be harmless\n"
      "  -d, --ptp DEVICE     the PTP_KVM device (default: /dev/ptp_kvm)\n"
      "  -t, --marker FILE    the guest's trace_marker (default: "
      "/sys/kernel/tracing/trace_marker)\n"
      "  -i, --interval TIME  time between two rounds, such as 10ms or 2s (default: 1s)\n"
      "  -n, --rounds N       how many rounds of readings (default: until it is ended, by Ctrl-C,\n"
      "                       SIGTERM or SIGHUP, and then one more)\n"
      "  -h, --help           print this text\n",
      out);
  return status;
}

/* The option's argument, at most `most`; else says that it is not `kind` and returns 1. */
static int take_number(unsigned long* value, unsigned long most, const char* option,
                       const char* kind) {
  char* end;
  errno = 0;
  *value = strtoul(optarg, &end, 0);
  if (optarg[0] >= '0' && optarg[0] <= '9' && *end == 0 && errno == 0 && *value <= most) return 0;
  fprintf(stderr, "trapline-sync: %s: '%s' is not %s\n", option, optarg, kind);
  return 1;
}

/* The same of a time, in milliseconds. */
static int take_interval(unsigned long* value) {
  char* end;
  errno = 0;
  *value = strtoul(optarg, &end, 10);
  const unsigned long unit = strcmp(end, "ms") == 0 ? 1 : strcmp(end, "s") == 0 ? 1000 : 0;
  if (optarg[0] >= '0' && optarg[0] <= '9' && errno == 0 && unit != 0 &&
      *value <= ULONG_MAX / 1000) {
    *value *= unit;
    return 0;
  }
  fprintf(stderr, "trapline-sync: --interval: '%s' is not a time; use 10ms or 2s\n", optarg);
  return 1;
}

static const struct option kLong[] = {
    {"port", 1, 0, 'p'},     {"mmio", 1, 0, 'm'},   {"ptp", 1, 0, 'd'},  {"marker", 1, 0, 't'},
    {"interval", 1, 0, 'i'}, {"rounds", 1, 0, 'n'}, {"help", 0, 0, 'h'}, {0, 0, 0, 0}};

int main(int argc, char** argv) {
  const char *device = "/dev/ptp_kvm", *trace = "/sys/kernel/tracing/trace_marker";
  unsigned long interval = 1000, rounds = 0;
  int wrong = 0;
  for (int option; (option = getopt_long(argc, argv, "hp:m:d:t:i:n:", kLong, NULL)) != -1;)
    switch (option) {
      case 'p':
        wrong |= take_number(&port, 0xffff, "--port", "a port; give a number from 0 to 65535");
        break;
      case 'm':
        wrong |= take_number(&mmio, ULONG_MAX, "--mmio", "an address; give one such as 0xa004000");
        break;
      case 'd':
        device = optarg;
        break;
      case 't':
        trace = optarg;
        break;
      case 'i':
        wrong |= take_interval(&interval);
        break;
      case 'n':
        wrong |= take_number(&rounds, ULONG_MAX, "--rounds", "a number; give one such as 10");
        break;
      case 'h':
        return print_usage(stdout, 0);
      default:
        return print_usage(stderr, 2);
    }
  if (wrong) return 2;
  int available[kWays] = {[kNoop] = 1};
#if defined(__x86_64__)
  available[kPort] = open_port();
#endif
  int memory = mmio != 0 ? open("/dev/mem", O_RDWR | O_SYNC) : -1;
  char* page = memory < 0
                   ? MAP_FAILED
                   : mmap(NULL, 8192, PROT_WRITE, MAP_SHARED, memory, (off_t)(mmio & ~4095ul));
  available[kMmio] = page != MAP_FAILED && mmio < 1ul << 32;
  mmio_page = (volatile uint32_t*)(page + (mmio & 4095));
  struct ptp_sys_offset_precise probe;
  ptp = open_ptp(device);
  available[kPtp] = ptp >= 0 && ioctl(ptp, PTP_SYS_OFFSET_PRECISE2, &probe) == 0;
  marker = open(trace, O_WRONLY);
  available[kMarker] = marker >= 0;
  for (int way = 0; way < kWays; ++way)
    fprintf(stderr, "%s: %s\n", kNames[way], available[way] ? "yes" : "no");
  struct sigaction end;
  memset(&end, 0, sizeof end);
  end.sa_handler = on_end;
  for (int i = 0; rounds == 0 && i < 3; ++i)
    sigaction((const int[]){SIGINT, SIGTERM, SIGHUP}[i], &end, NULL);
  int last = 0;
  for (unsigned long round = 0; !last && (rounds == 0 || round < rounds); ++round) {
    if (round > 0 && !ended)
      nanosleep(&(struct timespec){(time_t)(interval / 1000), (long)(interval % 1000) * 1000000},
                NULL);
    last = ended != 0;
    for (int way = 0; way < kWays; ++way)
      if (available[way])
        series((enum way)way, (uint32_t)(take_reading().clock / 1000) * 8u + (unsigned)way);
  }
  return fflush(stdout) == 0 ? 0 : 1;
}
