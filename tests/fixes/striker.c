/* Loaded into the tools that a fix runs: strikes at the Nth of their operations on files.

   SCENE_COUNT is a file that grows by a byte at each operation, over all processes. At the SCENE_AT-th, SCENE_HOW is
   done in its place: 0 kills the tool with all of its group, and SCENE_FIXER (if not 0) before that; -1 interrupts
   SCENE_FIXER and goes on a while later; any other number is the errno with which the operation fails. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static int struck(void) {
    const char *count = getenv("SCENE_COUNT");
    struct stat found;
    if (count == NULL || number("SCENE_AT") == 0) return 0;
    int saved = errno;
    int handle = (int)syscall(SYS_openat, AT_FDCWD, count, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (handle < 0) return 0;
    (void)!syscall(SYS_write, handle, "x", 1);
    int there = fstat(handle, &found) == 0 ? (int)found.st_size : 0;
    syscall(SYS_close, handle);
    errno = saved;
    if (there != number("SCENE_AT")) return 0;
    if (number("SCENE_HOW") == -1) {
        kill(number("SCENE_FIXER"), SIGINT);
        usleep(400000);
        return 0;
    }
    if (number("SCENE_HOW") != 0) {
        errno = number("SCENE_HOW");
        return 1;
    }
    if (number("SCENE_FIXER") != 0) kill(number("SCENE_FIXER"), SIGKILL);
    kill(0, SIGKILL);
    return 0;
}

static int is_file(int handle) {
    struct stat found;
    return fstat(handle, &found) == 0 && S_ISREG(found.st_mode);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(type, name, told, given) \
    type name told { return struck() ? (type)-1 : NEXT(name) given; }
#define OPEN(name, told, given) \
    int name told { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        return (flags & (O_CREAT | O_TRUNC)) && struck() ? -1 : NEXT(name) given; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned c), (a, from, b, to, c))
WRAP(ssize_t, copy_file_range, (int a, off_t *b, int c, off_t *d, size_t e, unsigned f), (a, b, c, d, e, f))
WRAP(int, link, (const char *from, const char *to), (from, to))
WRAP(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
WRAP(int, symlink, (const char *from, const char *to), (from, to))
WRAP(int, symlinkat, (const char *from, int folder, const char *to), (from, folder, to))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
WRAP(int, rmdir, (const char *path), (path))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode))
WRAP(int, fchmod, (int handle, mode_t mode), (handle, mode))
WRAP(int, fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags))
WRAP(int, fsync, (int handle), (handle))
WRAP(int, mount, (const char *a, const char *b, const char *c, unsigned long d, const void *e), (a, b, c, d, e))

ssize_t write(int handle, const void *data, size_t length) {
    return handle > 2 && is_file(handle) && struck() ? -1 : NEXT(write)(handle, data, length);
}

FILE *fopen(const char *path, const char *mode) {
    return strchr(mode, 'r') == NULL && struck() ? NULL : NEXT(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return strchr(mode, 'r') == NULL && struck() ? NULL : NEXT(fopen64)(path, mode);
}
