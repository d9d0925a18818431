/* A disk that fails on demand. The file named by FAULTY_DISK says how: "<call> <errno> <part of the path>", where the
 * call is `sync` or `write`. Empty or missing: the disk is well. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(const char *call, int file) {
  const char *control = getenv("FAULTY_DISK");
  if (!control) return 0;
  int saved = errno;
  char text[512];
  long from = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
  if (from < 0) { errno = saved; return 0; }
  long length = syscall(SYS_read, (int)from, text, sizeof text - 1);
  syscall(SYS_close, (int)from);
  errno = saved;
  if (length <= 0) return 0;
  text[length] = 0;
  char wanted[16], part[256], link[64], path[512];
  int number;
  if (sscanf(text, "%15s %d %255s", wanted, &number, part) != 3 || strcmp(wanted, call)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  length = readlink(link, path, sizeof path - 1);
  errno = saved;
  if (length <= 0) return 0;
  path[length] = 0;
  if (!strstr(path, part)) return 0;
  errno = number;
  return 1;
}

int fsync(int file) { return fails("sync", file) ? -1 : (int)syscall(SYS_fsync, file); }
int fdatasync(int file) { return fails("sync", file) ? -1 : (int)syscall(SYS_fdatasync, file); }
ssize_t write(int file, const void *bytes, size_t count) {
  return fails("write", file) ? -1 : syscall(SYS_write, file, bytes, count);
}
ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
  return fails("write", file) ? -1 : syscall(SYS_pwrite64, file, bytes, count, at);
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
  return fails("write", file) ? -1 : syscall(SYS_pwrite64, file, bytes, count, at);
}
