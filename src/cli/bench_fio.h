/* fio, the yardstick of `zinc bench io`: sequential transfers with io_uring and O_DIRECT in blocks of
 * 1 MiB at several depths, on files that are open in this process. */
#ifndef ZN_CLI_BENCH_FIO_H
#define ZN_CLI_BENCH_FIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum bench_mode { BENCH_READ, BENCH_WRITE, BENCH_MIXED, BENCH_N_MODES };
enum { FIO_N_DEPTHS = 3, FIO_SAME = 1 /* the depth that Zinc takes unless it measures a better one */ };

extern const char *const bench_mode_name[BENCH_N_MODES];
extern const int fio_depth[FIO_N_DEPTHS];

/* Whether fio is on PATH, and its version. Blocks. */
bool fio_find(char version[64]);

/* Bytes a second of the mode at each depth, one after the other in one process. The files hold n_bytes
 * together. Blocks. */
zn_status fio_run(const int *fds, size_t n_fds, uint64_t n_bytes, bool direct, enum bench_mode mode,
                  double rate[FIO_N_DEPTHS]);

#endif
