/* The limits of this process's control groups, version 1 and 2. A limit of any group above counts
 * as well, so each hierarchy is walked up to where it is mounted. */
#ifndef ZN_BASE_CGROUP_H
#define ZN_BASE_CGROUP_H

#include <stddef.h>

/* Processors' worth of time; 0 when there is no limit. */
double cgroup_cpu_quota(const char *root);

/* The tightest limit (0: none), and the least that is left below any limit; file pages that the
 * kernel can drop count as left. */
void cgroup_memory(const char *root, size_t *limit, size_t *left);

#endif
