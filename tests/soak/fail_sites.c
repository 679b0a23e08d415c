/* Counts and fails the calls of a program for memory, files and storage, by call site, for a program that is started with
 * this library in LD_PRELOAD:
 *
 *   SITES_LIST=FOLDER            at its end each process writes FOLDER/WHO: a line "KIND SITE COUNT ADDRESS…" for each site
 *   FAIL_SITE=KIND:SITE:N:ERRNO[@WHO]   the N-th call of the site fails
 *   FAIL_NTH=KIND:N:ERRNO[@WHO]         the N-th call of the kind fails
 *   FAIL_MARK=FILE               gets a line when the call was failed
 *   SITES_PROGRAM=NAME           the program it is meant for; others, like mpirun, are left alone
 *
 * KIND is memory, file or storage (the ring's own calls); WHO is the rank, or "alone". A site is a hash of the innermost
 * SITE_DEPTH return addresses in the program. Only calls that the program makes itself count, also those that it makes through
 * the C library or a library of formats: what MPI, OpenMP, BLAS and hwloc do for themselves does not. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SITE_DEPTH = 4, MAX_SITES = 8192, MAX_FRAMES = 48, MAX_RANGES = 64 };
enum kind { MEMORY, FILES, STORAGE, N_KINDS };
static const char *const kind_names[N_KINDS] = {"memory", "file", "storage"};

struct site {
    enum kind kind;
    uint32_t hash;
    long count;
    uintptr_t frames[SITE_DEPTH];
};

struct range {
    uintptr_t first, end;
};

static struct site sites[MAX_SITES];
static int n_sites;
static long n_calls[N_KINDS];
static struct range program, ranges[MAX_RANGES]; /* ranges: of libraries that call in the program's name */
static uintptr_t program_base; /* addresses are noted relative to it, as addr2line takes them */
static int n_ranges;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static bool active;
static __thread int inside;

static enum kind wanted_kind;
static uint32_t wanted_hash;
static long wanted_n;
static int wanted_errno;
static bool wants_site, wants_nth;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

/* ---- Whose call it is ---- */

static bool is_neutral(const char *path)
{
    static const char *const names[] = {"libc.so",    "libjansson",  "liburing", "libpcre2",
                                        "libxxhash",  "libutf8proc", "libm.so",  "libfail_sites"};
    const char *name = strrchr(path, '/');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name ? name + 1 : path, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *self)
{
    (void)size;
    (void)self;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        struct range range = {info->dlpi_addr + p->p_vaddr, info->dlpi_addr + p->p_vaddr + p->p_memsz};
        if (info->dlpi_name[0] == '\0' && !program.end) {
            program = range;
            program_base = info->dlpi_addr;
        } else if (is_neutral(info->dlpi_name) && n_ranges < MAX_RANGES)
            ranges[n_ranges++] = range;
    }
    return 0;
}

static bool holds(const struct range *range, uintptr_t address)
{
    return address >= range->first && address < range->end;
}

static bool in_neutral(uintptr_t address)
{
    for (int i = 0; i < n_ranges; i++)
        if (holds(&ranges[i], address))
            return true;
    return false;
}

/* The innermost frames in the program; false where another library made the call. */
static bool find_frames(uintptr_t frames[SITE_DEPTH])
{
    void *all[MAX_FRAMES];
    int n = backtrace(all, MAX_FRAMES), found = 0;
    memset(frames, 0, SITE_DEPTH * sizeof frames[0]);
    for (int i = 0; i < n && found < SITE_DEPTH; i++) {
        uintptr_t address = (uintptr_t)all[i];
        if (holds(&program, address))
            frames[found++] = address - program_base;
        else if (found == 0 && !in_neutral(address))
            return false;
    }
    return found > 0;
}

static uint32_t hash_of(const uintptr_t frames[SITE_DEPTH])
{
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < SITE_DEPTH; i++)
        hash = (hash ^ frames[i]) * 1099511628211u;
    return (uint32_t)(hash ^ hash >> 32);
}

/* ---- Counting and failing ---- */

/* Which call of its site this is; under the lock. */
static long count_site(enum kind kind, uint32_t hash, const uintptr_t frames[SITE_DEPTH])
{
    for (int i = 0; i < n_sites; i++)
        if (sites[i].hash == hash && sites[i].kind == kind)
            return ++sites[i].count;
    if (n_sites == MAX_SITES)
        return 0;
    sites[n_sites] = (struct site){.kind = kind, .hash = hash, .count = 1};
    memcpy(sites[n_sites++].frames, frames, sizeof sites[0].frames);
    return 1;
}

static void leave_mark(enum kind kind, const uintptr_t frames[SITE_DEPTH])
{
    char line[256];
    const char *path = getenv("FAIL_MARK");
    if (!path)
        return;
    int n = snprintf(line, sizeof line, "%s", kind_names[kind]);
    for (int i = 0; i < SITE_DEPTH && frames[i]; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %#lx", (unsigned long)frames[i]);
    line[n++] = '\n';
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    syscall(SYS_write, fd, line, n);
    syscall(SYS_close, fd);
}

/* Counts a call; 0, or what it is to fail with. */
static int fault(enum kind kind)
{
    uintptr_t frames[SITE_DEPTH];
    if (!active || inside)
        return 0;
    int code = 0, saved = errno;
    inside = 1;
    if (find_frames(frames)) {
        uint32_t hash = hash_of(frames);
        while (atomic_flag_test_and_set(&lock))
            ;
        long n = count_site(kind, hash, frames);
        long nth = ++n_calls[kind];
        atomic_flag_clear(&lock);
        if (kind == wanted_kind && ((wants_site && hash == wanted_hash && n == wanted_n) || (wants_nth && nth == wanted_n)))
            code = wanted_errno;
        if (code)
            leave_mark(kind, frames);
    }
    inside = 0;
    errno = code ? code : saved;
    return code;
}

static const char *who(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : "alone";
}

static void read_wish(void)
{
    char kind[16] = "", of[16] = "";
    const char *site = getenv("FAIL_SITE"), *nth = getenv("FAIL_NTH");
    if (site && sscanf(site, "%15[^:]:%x:%ld:%d@%15s", kind, &wanted_hash, &wanted_n, &wanted_errno, of) >= 4)
        wants_site = true;
    else if (nth && sscanf(nth, "%15[^:]:%ld:%d@%15s", kind, &wanted_n, &wanted_errno, of) >= 3)
        wants_nth = true;
    if (of[0] && strcmp(of, who()) != 0)
        wants_site = wants_nth = false;
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kind, kind_names[i]) == 0)
            wanted_kind = (enum kind)i;
}

__attribute__((constructor)) static void begin(void)
{
    char self[4096];
    void *frames[2];
    const char *name = getenv("SITES_PROGRAM");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *base = strrchr(self, '/');
    if (!base || strcmp(base + 1, name ? name : "zinc") != 0)
        return;
    backtrace(frames, 2); /* loads what it needs now */
    dl_iterate_phdr(add_object, NULL);
    read_wish();
    active = true;
}

/* Each process of its own name: a launcher and a rank may both be there. */
__attribute__((destructor)) static void end(void)
{
    char path[4096];
    const char *folder = getenv("SITES_LIST");
    bool was_active = active;
    active = false;
    if (!was_active || !folder)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, who());
    FILE *file = fopen(path, "we");
    if (!file)
        return;
    for (int i = 0; i < n_sites; i++) {
        fprintf(file, "%s %08x %ld", kind_names[sites[i].kind], sites[i].hash, sites[i].count);
        for (int k = 0; k < SITE_DEPTH && sites[i].frames[k]; k++)
            fprintf(file, " %#lx", (unsigned long)sites[i].frames[k]);
        fputc('\n', file);
    }
    fclose(file);
}

/* ---- Memory ---- */

void *malloc(size_t n_bytes)
{
    return fault(MEMORY) ? NULL : __libc_malloc(n_bytes);
}

void *calloc(size_t n, size_t n_bytes)
{
    return fault(MEMORY) ? NULL : __libc_calloc(n, n_bytes);
}

void *realloc(void *old, size_t n_bytes)
{
    return fault(MEMORY) ? NULL : __libc_realloc(old, n_bytes);
}

void *aligned_alloc(size_t alignment, size_t n_bytes)
{
    return fault(MEMORY) ? NULL : __libc_memalign(alignment, n_bytes);
}

int posix_memalign(void **out, size_t alignment, size_t n_bytes)
{
    if (fault(MEMORY))
        return ENOMEM;
    void *memory = __libc_memalign(alignment, n_bytes);
    if (memory)
        *out = memory;
    return memory ? 0 : ENOMEM;
}

/* ---- Files ---- */

/* The system's own function of this name. */
static void *real(const char *name)
{
    void *address = dlsym(RTLD_NEXT, name);
    if (!address)
        abort();
    return address;
}

/* A call that fails with FAILED and errno, else goes to the system. */
#define PASS_ON(kind, type, failed, name, parameters, arguments)                                   \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*system) parameters;                                                           \
        if (!system) {                                                                             \
            void *address = real(#name);                                                           \
            memcpy(&system, &address, sizeof system);                                              \
        }                                                                                          \
        if (fault(kind))                                                                           \
            return failed;                                                                         \
        return system arguments;                                                                   \
    }

PASS_ON(MEMORY, void *, MAP_FAILED, mmap, (void *at, size_t n, int protection, int flags, int fd, off_t offset),
        (at, n, protection, flags, fd, offset))
PASS_ON(FILES, ssize_t, -1, read, (int fd, void *data, size_t n), (fd, data, n))
PASS_ON(FILES, ssize_t, -1, pread, (int fd, void *data, size_t n, off_t offset), (fd, data, n, offset))
PASS_ON(FILES, ssize_t, -1, pwrite, (int fd, const void *data, size_t n, off_t offset), (fd, data, n, offset))
PASS_ON(FILES, int, -1, fsync, (int fd), (fd))
PASS_ON(FILES, int, -1, ftruncate, (int fd, off_t length), (fd, length))
PASS_ON(FILES, int, -1, fallocate, (int fd, int mode, off_t offset, off_t n), (fd, mode, offset, n))
PASS_ON(FILES, int, -1, flock, (int fd, int operation), (fd, operation))
PASS_ON(FILES, int, -1, fstat, (int fd, struct stat *out), (fd, out))
PASS_ON(FILES, int, -1, stat, (const char *path, struct stat *out), (path, out))
PASS_ON(FILES, int, -1, statvfs, (const char *path, struct statvfs *out), (path, out))
PASS_ON(FILES, int, -1, fstatvfs, (int fd, struct statvfs *out), (fd, out))
PASS_ON(FILES, int, -1, statfs, (const char *path, struct statfs *out), (path, out))
PASS_ON(FILES, int, -1, fstatfs, (int fd, struct statfs *out), (fd, out))
PASS_ON(FILES, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
PASS_ON(FILES, int, -1, mkostemp, (char *path, int flags), (path, flags))
PASS_ON(FILES, int, -1, rename, (const char *from, const char *to), (from, to))
PASS_ON(FILES, int, -1, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
PASS_ON(FILES, int, -1, unlink, (const char *path), (path))
PASS_ON(FILES, int, -1, rmdir, (const char *path), (path))
PASS_ON(FILES, int, -1, remove, (const char *path), (path))
PASS_ON(FILES, DIR *, NULL, opendir, (const char *path), (path))
PASS_ON(FILES, struct dirent *, NULL, readdir, (DIR *folder), (folder))
PASS_ON(FILES, char *, NULL, realpath, (const char *path, char *out), (path, out))
PASS_ON(FILES, FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
PASS_ON(FILES, FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode))
PASS_ON(FILES, int, -1, fseeko, (FILE *file, off_t offset, int whence), (file, offset, whence))
PASS_ON(FILES, int, -1, eventfd, (unsigned count, int flags), (count, flags))
PASS_ON(FILES, int, -1, pipe2, (int fds[2], int flags), (fds, flags))

/* What is shown to the person is not a file. */
static bool is_screen(FILE *file)
{
    return file == stdout || file == stderr;
}

int fflush(FILE *file)
{
    int (*system)(FILE *);
    void *address = real("fflush");
    memcpy(&system, &address, sizeof system);
    return file && !is_screen(file) && fault(FILES) ? EOF : system(file);
}

/* The file is closed also when it fails, as the system does it. */
int fclose(FILE *file)
{
    int (*system)(FILE *);
    void *address = real("fclose");
    memcpy(&system, &address, sizeof system);
    int code = is_screen(file) ? 0 : fault(FILES);
    int result = system(file);
    if (code)
        errno = code;
    return code ? EOF : result;
}

enum { HAS_FAILED = 0x20 }; /* what ferror() looks at */

size_t fread(void *data, size_t size, size_t n, FILE *file)
{
    size_t (*system)(void *, size_t, size_t, FILE *);
    void *address = real("fread");
    memcpy(&system, &address, sizeof system);
    if (fault(FILES)) {
        file->_flags |= HAS_FAILED;
        return 0;
    }
    return system(data, size, n, file);
}

char *fgets(char *line, int size, FILE *file)
{
    char *(*system)(char *, int, FILE *);
    void *address = real("fgets");
    memcpy(&system, &address, sizeof system);
    if (fault(FILES)) {
        file->_flags |= HAS_FAILED;
        return NULL;
    }
    return system(line, size, file);
}

ssize_t getdelim(char **line, size_t *size, int end_of_line, FILE *file)
{
    ssize_t (*system)(char **, size_t *, int, FILE *);
    void *address = real("getdelim");
    memcpy(&system, &address, sizeof system);
    if (fault(FILES)) {
        file->_flags |= HAS_FAILED;
        return -1;
    }
    return system(line, size, end_of_line, file);
}

ssize_t __getdelim(char **line, size_t *size, int end_of_line, FILE *file)
{
    return getdelim(line, size, end_of_line, file);
}

size_t fwrite(const void *data, size_t size, size_t n, FILE *file)
{
    size_t (*system)(const void *, size_t, size_t, FILE *);
    void *address = real("fwrite");
    memcpy(&system, &address, sizeof system);
    if (!is_screen(file) && fault(FILES)) {
        file->_flags |= HAS_FAILED;
        return 0;
    }
    return system(data, size, n, file);
}

/* An eventfd, which wakes a thread of the process itself, has no type of file; the system never fails a write to it. */
static bool is_eventfd(int fd)
{
    struct stat s;
    return syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0 && (s.st_mode & S_IFMT) == 0;
}

ssize_t write(int fd, const void *data, size_t n)
{
    ssize_t (*system)(int, const void *, size_t);
    void *address = real("write");
    memcpy(&system, &address, sizeof system);
    return fd > STDERR_FILENO && !is_eventfd(fd) && fault(FILES) ? -1 : system(fd, data, n);
}

int open(const char *path, int flags, ...)
{
    int (*system)(const char *, int, ...);
    void *address = real("open");
    va_list list;
    memcpy(&system, &address, sizeof system);
    va_start(list, flags);
    mode_t mode = va_arg(list, mode_t);
    va_end(list);
    return fault(FILES) ? -1 : system(path, flags, mode);
}

int posix_fallocate(int fd, off_t offset, off_t n)
{
    int (*system)(int, off_t, off_t);
    void *address = real("posix_fallocate");
    memcpy(&system, &address, sizeof system);
    int code = fault(FILES);
    return code ? code : system(fd, offset, n);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *self)
{
    int (*system)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *address = real("pthread_create");
    memcpy(&system, &address, sizeof system);
    return fault(MEMORY) ? EAGAIN : system(thread, attributes, start, self);
}

/* ---- The ring ---- */

struct io_uring;

#define RING(name, parameters, arguments)                                                          \
    int name parameters                                                                            \
    {                                                                                              \
        int(*system) parameters;                                                                   \
        void *address = real(#name);                                                               \
        memcpy(&system, &address, sizeof system);                                                  \
        int code = fault(STORAGE);                                                                 \
        return code ? -code : system arguments;                                                    \
    }

int io_uring_queue_init(unsigned, struct io_uring *, unsigned);
int io_uring_register_buffers_sparse(struct io_uring *, unsigned);
int io_uring_register_buffers_update_tag(struct io_uring *, unsigned, const void *, const void *, unsigned);
int io_uring_register_files(struct io_uring *, const int *, unsigned);
int io_uring_submit_and_wait(struct io_uring *, unsigned);

RING(io_uring_queue_init, (unsigned entries, struct io_uring *ring, unsigned flags), (entries, ring, flags))
RING(io_uring_register_buffers_sparse, (struct io_uring * ring, unsigned n), (ring, n))
RING(io_uring_register_buffers_update_tag,
     (struct io_uring * ring, unsigned at, const void *vectors, const void *tags, unsigned n), (ring, at, vectors, tags, n))
RING(io_uring_register_files, (struct io_uring * ring, const int *files, unsigned n), (ring, files, n))
RING(io_uring_submit_and_wait, (struct io_uring * ring, unsigned n), (ring, n))
