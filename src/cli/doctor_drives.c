/* Looking at drives: what is mounted where, direct writes, rates. */
#include "cli/doctor_drives.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/size.h"
#include "plan/calibrate_drive.h"
#include "show/words.h"

static void name_type(long magic, char text[32])
{
    static const struct {
        long magic;
        const char *name;
    } types[] = {
        {0xef53, "ext4"},        {0x58465342, "xfs"},  {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},
        {0x794c7630, "overlay"}, {0x6969, "nfs"},      {0x2fc12fc1, "zfs"},   {0xf2f52010, "f2fs"},
        {0x0bd00bd0, "lustre"},  {0x65735546, "fuse"}, {0x01021997, "9p"},    {0xff534d42, "cifs"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].magic == magic) {
            snprintf(text, 32, "%s", types[i].name);
            return;
        }
    }
    snprintf(text, 32, "type 0x%lx", (unsigned long)magic);
}

/* Writes one aligned block past the page cache into a file without a name. */
static bool can_write_direct(const char *folder)
{
    enum { BLOCK = 4096 };
    bool works = false;
    void *block = NULL;
    int file = open(folder, O_TMPFILE | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    if (posix_memalign(&block, BLOCK, BLOCK) == 0) {
        memset(block, 0, BLOCK);
        works = pwrite(file, block, BLOCK, 0) == BLOCK;
    }
    free(block);
    close(file);
    return works;
}

/* ---- What is mounted ---- */

/* Calls `visit` with each mount until it returns false. A system without the list has no mounts. */
static void visit_mounts(bool (*visit)(void *self, const struct mntent *mount), void *self)
{
    FILE *file = setmntent("/proc/self/mounts", "r");
    struct mntent mount;
    char line[4096];
    while (file && getmntent_r(file, &mount, line, sizeof line) && visit(self, &mount))
        ;
    if (file)
        endmntent(file);
}

struct device_search {
    dev_t id;
    char *device;
    size_t size;
};

/* Names of devices only: "overlay" and "tmpfs" say nothing that the type does not. */
static bool find_device(void *self, const struct mntent *mount)
{
    const struct device_search *search = self;
    struct stat s;
    bool has_name = strchr(mount->mnt_fsname, '/') || strcmp(mount->mnt_type, "zfs") == 0;
    if (has_name && stat(mount->mnt_dir, &s) == 0 && s.st_dev == search->id)
        snprintf(search->device, search->size, "%s", mount->mnt_fsname);
    return search->device[0] == '\0';
}

/* ---- The list ---- */

static zn_status add_drive(struct doctor_drives *drives, const char *folder)
{
    struct doctor_drive *d = &drives->drive[drives->n];
    struct statfs fs;
    struct stat s;
    char *path = realpath(folder, NULL);
    if (!path || stat(path, &s) != 0 || statfs(path, &fs) != 0) {
        free(path);
        return zn_fail(ZN_ERR_IO, "%s: %s", folder, strerror(errno));
    }
    *d = (struct doctor_drive){.free_bytes = (size_t)fs.f_bavail * (size_t)fs.f_bsize, .is_direct = can_write_direct(path)};
    snprintf(d->path, sizeof d->path, "%s", path);
    free(path);
    name_type((long)fs.f_type, d->type);
    visit_mounts(find_device, &(struct device_search){s.st_dev, d->device, sizeof d->device});
    drives->n++;
    return ZN_OK;
}

static bool is_listed(const struct doctor_drives *drives, const char *folder)
{
    struct stat s, other;
    for (size_t i = 0; i < drives->n; i++)
        if (stat(folder, &s) == 0 && stat(drives->drive[i].path, &other) == 0 && s.st_dev == other.st_dev)
            return true;
    return false;
}

/* Images, packages and what the machine boots from are no place for swap. */
static bool add_mount(void *self, const struct mntent *mount)
{
    struct doctor_drives *drives = self;
    bool is_drive = strncmp(mount->mnt_fsname, "/dev/", 5) == 0 && strncmp(mount->mnt_fsname, "/dev/loop", 9) != 0 &&
                    strncmp(mount->mnt_dir, "/boot", 5) != 0;
    struct stat s;
    if (is_drive && stat(mount->mnt_dir, &s) == 0 && S_ISDIR(s.st_mode) && access(mount->mnt_dir, W_OK) == 0 &&
        !is_listed(drives, mount->mnt_dir))
        (void)add_drive(drives, mount->mnt_dir); /* one that went away meanwhile is not there */
    return drives->n < DOCTOR_MAX_DRIVES;
}

zn_status doctor_drives_read(const struct zn_words *folders, bool measures, struct doctor_drives *drives)
{
    zn_clock clock;
    drives->n = 0;
    if (folders->n > DOCTOR_MAX_DRIVES)
        return zn_fail(ZN_ERR_USAGE, "--nvme-path: at most %d folders", DOCTOR_MAX_DRIVES);
    for (size_t i = 0; i < folders->n; i++)
        ZN_TRY(add_drive(drives, folders->word[i]));
    if (folders->n == 0) {
        ZN_TRY(add_drive(drives, "."));
        visit_mounts(add_mount, drives);
    }
    zn_clock_init_real(&clock);
    for (size_t i = 0; measures && i < drives->n; i++) {
        struct doctor_drive *d = &drives->drive[i];
        if (drive_measure_alone(&clock, d->path, &d->read_rate, &d->write_rate) != ZN_OK)
            snprintf(d->reason, sizeof d->reason, "%s", zn_error_message());
    }
    return ZN_OK;
}

/* ---- Telling ---- */

static bool is_in_memory(const struct doctor_drive *d)
{
    return strcmp(d->type, "tmpfs") == 0;
}

void doctor_drives_print(const struct doctor_drives *drives)
{
    char size[ZN_SIZE_TEXT], read_rate[ZN_WORDS], write_rate[ZN_WORDS];
    for (size_t i = 0; i < drives->n; i++) {
        const struct doctor_drive *d = &drives->drive[i];
        printf("%-14s %s: %s%s%s, %s free, O_DIRECT %s", i ? "" : "drives", d->path, d->type, d->device[0] ? " on " : "", d->device,
               zn_size_text(d->free_bytes, size), d->is_direct ? "works" : "does not work");
        if (d->read_rate > 0)
            printf("; reads %s, writes %s", zn_words_rate(d->read_rate, read_rate), zn_words_rate(d->write_rate, write_rate));
        printf("\n");
        if (d->reason[0])
            printf("%-14s   not for swap: %s\n", "", d->reason);
        else if (!d->is_direct || is_in_memory(d))
            printf("%-14s   not for swap: %s; give `zinc train --nvme-path` a folder on a drive\n", "",
                   is_in_memory(d) ? "it lies in memory" : "writes would go through the page cache");
    }
}

static void put_rate(const char *name, double rate)
{
    printf(",\"%s\":", name);
    if (rate > 0)
        printf("%.6g", rate);
    else
        printf("null");
}

void doctor_drives_put(const struct doctor_drives *drives)
{
    printf("[");
    for (size_t i = 0; i < drives->n; i++) {
        const struct doctor_drive *d = &drives->drive[i];
        printf("%s{\"path\":", i ? "," : "");
        zn_json_put_string(stdout, d->path);
        printf(",\"device\":");
        zn_json_put_string(stdout, d->device[0] ? d->device : NULL);
        printf(",\"type\":");
        zn_json_put_string(stdout, d->type);
        printf(",\"free\":%zu,\"direct\":%s", d->free_bytes, d->is_direct ? "true" : "false");
        put_rate("read_bytes_per_second", d->read_rate);
        put_rate("write_bytes_per_second", d->write_rate);
        printf("}");
    }
    printf("]");
}
