/* Starting fio and reading its JSON. */
#include "cli/bench_fio.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"

const char *const bench_mode_name[BENCH_N_MODES] = {"read", "write", "mixed"};
const int fio_depth[FIO_N_DEPTHS] = {1, 8, 32};

static const char *const fio_mode[BENCH_N_MODES] = {"read", "write", "rw"};

/* All that the command prints. */
static zn_status run_command(const char *command, zn_text *output)
{
    char part[4096];
    size_t n;
    FILE *pipe = popen(command, "re");
    if (!pipe)
        return zn_fail(ZN_ERR_IO, "cannot start fio: %s", strerror(errno));
    while ((n = fread(part, 1, sizeof part, pipe)) > 0)
        zn_text_add_bytes(output, part, n);
    int code = pclose(pipe);
    ZN_TRY(zn_text_status(output));
    if (code != 0)
        return zn_fail(ZN_ERR_IO, "fio failed: %s", zn_shown(output->data ? output->data : "no output").text);
    return ZN_OK;
}

bool fio_find(char version[64])
{
    zn_text output;
    zn_text_init(&output);
    bool found = run_command("fio --version 2>/dev/null", &output) == ZN_OK && output.n_bytes > 0;
    if (found)
        snprintf(version, 64, "%.*s", (int)strcspn(output.data, "\n"), output.data);
    zn_text_fini(&output);
    return found;
}

/* One job for each depth. The files have no names, so fio finds them through this process. */
static void write_command(zn_text *command, const int *fds, size_t n_fds, uint64_t n_bytes, bool direct,
                          enum bench_mode mode)
{
    zn_text_add(command,
                "fio --output-format=json --thread --direct=%d --ioengine=io_uring --bs=1M --fallocate=none "
                "--size=%llu --filename=",
                direct, (unsigned long long)n_bytes);
    for (size_t i = 0; i < n_fds; i++)
        zn_text_add(command, "%s/proc/%ld/fd/%d", i ? ":" : "", (long)getpid(), fds[i]);
    for (int d = 0; d < FIO_N_DEPTHS; d++)
        zn_text_add(command, " --name=depth-%d --stonewall --rw=%s --iodepth=%d", fio_depth[d], fio_mode[mode],
                    fio_depth[d]);
    zn_text_add(command, " 2>&1");
}

static zn_status read_job(zn_json *job, uint64_t wanted, double *rate)
{
    static const char *const directions[] = {"read", "write"};
    int64_t n_bytes, milliseconds, sum = 0, longest = 0;
    for (int i = 0; i < 2; i++) {
        zn_json *direction;
        ZN_TRY(zn_json_get_object(job, directions[i], &direction));
        ZN_TRY(zn_json_get_int(direction, "io_bytes", 0, INT64_MAX / 2, &n_bytes));
        ZN_TRY(zn_json_get_int(direction, "runtime", 0, INT64_MAX / 2, &milliseconds));
        sum += n_bytes;
        longest = milliseconds > longest ? milliseconds : longest;
    }
    if (longest == 0 || (uint64_t)sum < wanted / 2)
        return zn_json_fail(job, "moved %lld of %llu bytes in %lld ms", (long long)sum, (unsigned long long)wanted,
                            (long long)longest);
    *rate = (double)sum / (1e-3 * (double)longest);
    return ZN_OK;
}

static zn_status read_jobs(zn_json *root, uint64_t n_bytes, double rate[FIO_N_DEPTHS])
{
    zn_json *jobs, *job;
    ZN_TRY(zn_json_get_array(root, "jobs", &jobs));
    if (zn_json_n_items(jobs) != FIO_N_DEPTHS)
        return zn_json_fail(jobs, "%zu jobs, not %d", zn_json_n_items(jobs), FIO_N_DEPTHS);
    for (size_t i = 0; i < FIO_N_DEPTHS; i++) {
        ZN_TRY(zn_json_item_object(jobs, i, &job));
        ZN_TRY(read_job(job, n_bytes, &rate[i]));
    }
    return ZN_OK;
}

zn_status fio_run(const int *fds, size_t n_fds, uint64_t n_bytes, bool direct, enum bench_mode mode,
                  double rate[FIO_N_DEPTHS])
{
    zn_text command, output;
    zn_json *root = NULL;
    zn_text_init(&command);
    zn_text_init(&output);
    write_command(&command, fds, n_fds, n_bytes, direct, mode);
    zn_status status = zn_text_status(&command);
    if (status == ZN_OK)
        status = run_command(command.data, &output);
    if (status == ZN_OK) {
        /* Notes come before the object. */
        const char *start = output.data ? strchr(output.data, '{') : NULL;
        status = start ? zn_json_load_buffer(start, strlen(start), "fio's output", &root)
                       : zn_fail(ZN_ERR_IO, "fio printed no JSON");
    }
    if (status == ZN_OK)
        status = read_jobs(root, n_bytes, rate);
    zn_json_destroy(root);
    zn_text_fini(&output);
    zn_text_fini(&command);
    return status;
}
