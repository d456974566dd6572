/* A tiny disk in a process of its own, as a vhost-user back end is: requests arrive over a Unix
 * socket, the data is a file. Its events go into ftrace, beside the kernel's.
 *
 *   device SOCKET FILE            serves until it is killed
 *   device --client SOCKET COUNT  sends COUNT reads and writes
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "trace-device.h"

enum { kRead = 0, kWrite = 1, kMaxLength = 65536 };

struct request {
  uint64_t id;
  uint64_t offset;
  uint32_t length;
  uint32_t kind;
};

struct reply {
  uint64_t id;
  int32_t status; /* 0 or a negative errno */
  uint32_t length;
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* All of it, or false: the other end is gone. */
static bool transfer(int fd, void* data, size_t size, bool receive) {
  char* at = data;
  while (size > 0) {
    ssize_t done = receive ? recv(fd, at, size, 0) : send(fd, at, size, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= (size_t)done;
  }
  return true;
}

static bool serve_one(int client, int disk, const struct request* request) {
  static char data[kMaxLength];
  bool write_it = request->kind == kWrite;
  struct reply reply = {request->id, 0, request->length};
  if (request->length > kMaxLength || request->kind > kWrite || request->offset > INT64_MAX) {
    trace_device_error(client, "malformed request");
    return false; /* where the next request begins is unknown */
  }
  if (write_it && !transfer(client, data, request->length, true)) return false;
  ssize_t done = write_it ? pwrite(disk, data, request->length, (off_t)request->offset)
                          : pread(disk, data, request->length, (off_t)request->offset);
  if (done < 0) {
    reply.status = -errno;
    reply.length = 0;
  } else {
    reply.length = (uint32_t)done;
  }
  if (!transfer(client, &reply, sizeof reply, false)) return false;
  return write_it || transfer(client, data, reply.length, false);
}

static void serve(int client, int disk) {
  uint64_t served = 0;
  struct request request;
  trace_device_connect(client);
  while (transfer(client, &request, sizeof request, true)) {
    uint64_t begin = 0;
    trace_device_request(client, request.id, request.kind == kWrite ? "write" : "read",
                         request.offset, request.length);
    /* The clock is read for the event only. */
    if (trace_event_get_state_backends(TRACE_DEVICE_COMPLETE)) begin = now_ns();
    if (!serve_one(client, disk, &request)) break;
    if (trace_event_get_state_backends(TRACE_DEVICE_COMPLETE)) {
      trace_device_complete(client, request.id, 0, now_ns() - begin);
    }
    served++;
  }
  trace_device_disconnect(client, served);
}

static int open_socket(const char* path, bool listening) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  if (listening) unlink(path);
  int failed = listening ? bind(fd, (struct sockaddr*)&address, sizeof address) || listen(fd, 4)
                         : connect(fd, (struct sockaddr*)&address, sizeof address);
  if (fd >= 0 && !failed) return fd;
  fprintf(stderr, "device: %s: %s\n", path, strerror(errno));
  exit(1);
}

static int run_client(const char* path, long count) {
  static char data[4096];
  int fd = open_socket(path, false);
  for (long i = 0; i < count; i++) {
    struct request request = {(uint64_t)i + 1, (uint64_t)(i / 2) * sizeof data, sizeof data,
                              i % 2 == 0 ? kWrite : kRead};
    struct reply reply;
    bool good = transfer(fd, &request, sizeof request, false);
    if (request.kind == kWrite) good = good && transfer(fd, data, sizeof data, false);
    good = good && transfer(fd, &reply, sizeof reply, true) && reply.length <= sizeof data;
    if (request.kind == kRead) good = good && transfer(fd, data, reply.length, true);
    if (!good || reply.status != 0) return 1;
  }
  close(fd);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "--client") == 0) return run_client(argv[2], atol(argv[3]));
  if (argc != 3) {
    fprintf(stderr, "usage: device SOCKET FILE | device --client SOCKET COUNT\n");
    return 2;
  }
  int disk = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (disk < 0) {
    fprintf(stderr, "device: %s: %s\n", argv[2], strerror(errno));
    return 1;
  }
  int listener = open_socket(argv[1], true);
  for (;;) {
    int client = accept(listener, NULL, NULL);
    if (client < 0) continue;
    serve(client, disk);
    close(client);
  }
}
