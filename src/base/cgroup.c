/* Control groups: where a process's group is, and what its files say. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine_files.h"

enum { TEXT_BYTES = 65536 };

struct group {
    char path[PATH_MAX]; /* the group's folder */
    size_t mount_length; /* how much of it is the mount point: the walk ends there */
    bool is_v2;
};

/* Whether the comma-separated list of n bytes holds the word. */
static bool holds(const char *list, size_t n, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = list, *end = list + n; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t m = (size_t)((comma ? comma : end) - p);
        if (m == length && memcmp(p, word, m) == 0)
            return true;
        p += m + 1;
    }
    return false;
}

/* The path of the group in its hierarchy, from lines "4:memory,cpu:/path" (version 2: "0::/path"). */
static bool group_of(const char *text, const char *controller, char path[PATH_MAX])
{
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *list = strchr(line, ':');
        const char *colon = list ? strchr(list + 1, ':') : NULL;
        if (!colon)
            continue;
        size_t n = (size_t)(colon - list - 1);
        if (controller ? !holds(list + 1, n, controller) : n != 0)
            continue;
        snprintf(path, PATH_MAX, "%.*s", (int)strcspn(colon + 1, "\n"), colon + 1);
        return true;
    }
    return false;
}

struct mount {
    char top[1024];   /* the part of the hierarchy that is mounted */
    char point[1024]; /* where */
};

/* From lines "26 25 0:22 TOP POINT options … - cgroup2 source options". */
static bool mount_of(const char *text, const char *controller, struct mount *mount)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        char type[32], options[256];
        const char *dash = strstr(line, " - ");
        if (!dash || dash > line + strcspn(line, "\n") ||
            sscanf(dash, " - %31s %*s %255s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %1023s %1023s", mount->top, mount->point) != 2)
            continue;
        bool fits = controller
                        ? strcmp(type, "cgroup") == 0 && holds(options, strlen(options), controller)
                        : strcmp(type, "cgroup2") == 0;
        if (fits)
            return true;
    }
    return false;
}

/* Finds the group of a version 1 controller, or of version 2 when `controller` is NULL. */
static bool group_find(const char *root, const char *controller, struct group *group)
{
    bool found = false;
    char path[PATH_MAX];
    struct mount mount;
    char *text = malloc(TEXT_BYTES);
    if (!text)
        return false;
    if (!machine_file_read(root, "/proc/self/cgroup", text, TEXT_BYTES) ||
        !group_of(text, controller, path) ||
        !machine_file_read(root, "/proc/self/mountinfo", text, TEXT_BYTES) ||
        !mount_of(text, controller, &mount))
        goto done;

    /* In a container the mount may begin at the group itself. */
    size_t top = strcmp(mount.top, "/") == 0 ? 0 : strlen(mount.top);
    const char *below = strncmp(path, mount.top, top) == 0 ? path + top : "";
    int n = snprintf(group->path, sizeof group->path, "%s%s", mount.point, below);
    if (n < 0 || (size_t)n >= sizeof group->path)
        goto done;
    group->mount_length = strlen(mount.point);
    group->is_v2 = controller == NULL;
    found = true;
done:
    free(text);
    return found;
}

/* Goes to the group above; false at the mount point. */
static bool group_up(struct group *group)
{
    char *slash = strrchr(group->path, '/');
    if (!slash || (size_t)(slash - group->path) < group->mount_length)
        return false;
    *slash = '\0';
    return true;
}

static bool group_text(const char *root, const struct group *group, const char *name, char *text,
                       size_t size)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group->path, name);
    return machine_file_read(root, path, text, size);
}

/* A number in a file of its own; false for "max" and absent files. */
static bool group_number(const char *root, const struct group *group, const char *name,
                         uint64_t *value)
{
    char text[64];
    if (!group_text(root, group, name, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return false;
    *value = strtoull(text, NULL, 10);
    return true;
}

/* The number behind `key` in memory.stat; 0 when there is none. */
static uint64_t memory_stat(const char *root, const struct group *group, const char *key)
{
    char text[8192];
    size_t n = strlen(key);
    if (!group_text(root, group, "memory.stat", text, sizeof text))
        return 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return strtoull(line + n, NULL, 10);
    return 0;
}

/* Version 2 writes both numbers into one file, "max 100000" for no limit. */
static double level_quota(const char *root, const struct group *group)
{
    char text[64];
    uint64_t quota = 0, period = 0;
    if (group->is_v2) {
        char *end;
        if (!group_text(root, group, "cpu.max", text, sizeof text))
            return 0;
        quota = strtoull(text, &end, 10);
        period = strtoull(end, NULL, 10);
        if (end == text)
            return 0;
    } else if (!group_number(root, group, "cpu.cfs_quota_us", &quota) ||
               !group_number(root, group, "cpu.cfs_period_us", &period)) {
        return 0;
    }
    return period > 0 ? (double)quota / (double)period : 0;
}

double cgroup_cpu_quota(const char *root)
{
    static const char *const controllers[] = {NULL, "cpu"};
    double least = 0;
    for (int i = 0; i < 2; i++) {
        struct group group;
        if (!group_find(root, controllers[i], &group))
            continue;
        do {
            double quota = level_quota(root, &group);
            if (quota > 0 && (least == 0 || quota < least))
                least = quota;
        } while (group_up(&group));
    }
    return least;
}

static void level_memory(const char *root, const struct group *group, size_t *limit, size_t *left)
{
    const bool v2 = group->is_v2;
    uint64_t max, used = 0;
    if (!group_number(root, group, v2 ? "memory.max" : "memory.limit_in_bytes", &max))
        return;
    group_number(root, group, v2 ? "memory.current" : "memory.usage_in_bytes", &used);
    uint64_t droppable = memory_stat(root, group, v2 ? "inactive_file" : "total_inactive_file");
    used -= droppable < used ? droppable : used;
    uint64_t free_bytes = used < max ? max - used : 0;
    if (*limit == 0 || max < *limit)
        *limit = (size_t)max;
    if (free_bytes < *left)
        *left = (size_t)free_bytes;
}

void cgroup_memory(const char *root, size_t *limit, size_t *left)
{
    static const char *const controllers[] = {NULL, "memory"};
    *limit = 0;
    *left = SIZE_MAX;
    for (int i = 0; i < 2; i++) {
        struct group group;
        if (!group_find(root, controllers[i], &group))
            continue;
        do {
            level_memory(root, &group, limit, left);
        } while (group_up(&group));
    }
}
