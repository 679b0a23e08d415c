/* `zinc bench io`: the storage that offload uses, beside fio on a file of the same making. They
 * take turns, so that a disk that is slow for a while is slow for both. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/json_text.h"
#include "base/machine.h"
#include "base/median.h"
#include "base/size.h"
#include "cli/bench.h"
#include "cli/bench_fio.h"
#include "cli/commands.h"
#include "device/device.h"
#include "storage/storage.h"
#include "storage/swap.h"

/* As the optimizer asks: some MiB at once, a few requests under way. All together it is little memory,
 * as fio's is: transfers to what lies in the processor's caches are faster. */
enum { WINDOW = 4, MAX_ROUNDS = 99 };
static const size_t request_bytes = 4 * ZN_MIB;
static const size_t min_bytes = 64 * ZN_MIB;

struct io_flags {
    struct zn_words nvme_path;
    size_t size;
    int64_t rounds;
    bool allow_buffered, json;
};

#define AT(field) offsetof(struct io_flags, field)

static const struct zn_option flags[] = {
    {.name = "--nvme-path", .kind = ZN_OPTION_LIST, .offset = AT(nvme_path), .value = "DIR", .otherwise = ".",
     .help = "Folders to swap to; several are used side by side."},
    {.name = "--size", .kind = ZN_OPTION_SIZE, .offset = AT(size), .value = "SIZE", .initial = "512MiB",
     .help = "Bytes of a transfer; twice this is taken on the disk while it runs."},
    {.name = "--rounds", .kind = ZN_OPTION_INT, .offset = AT(rounds), .value = "N", .initial = "5",
     .range = "[1, 99]", .help = "Rounds that the medians are taken of."},
    {.name = "--allow-buffered-swap", .kind = ZN_OPTION_FLAG, .offset = AT(allow_buffered),
     .help = "Take folders in memory or without direct I/O, too."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json),
     .help = "Print one JSON object instead of text."},
};

static const struct zn_command command = {
    .name = "zinc bench io",
    .summary = "swap on disk, beside fio",
    .usage = "[--nvme-path DIR…] [--size SIZE] [--json]",
    .example = "zinc bench io --nvme-path /mnt/nvme --size 1GiB",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
};

struct figures {
    double zinc[BENCH_N_MODES][MAX_ROUNDS];
    double fio[BENCH_N_MODES][FIO_N_DEPTHS][MAX_ROUNDS];
};

struct bench {
    const char *const *paths;
    size_t n_paths, n_bytes;
    int n_rounds;
    zn_storage *storage;
    zn_clock clock;
    zn_ledger ledger;
    zn_device *device; /* has the memory, of the kind that training has */
    unsigned char *memory;
    bool has_fio, direct;
    char fio_version[64];
    struct swap_file *fio_file;
    size_t n_fio_files;
    struct figures figures;
};

/* ---- Measuring ---- */

/* Every other request of a mixed pass is a write. */
static zn_status ask(struct bench *b, enum bench_mode mode, size_t i, zn_event *done)
{
    size_t at = i * request_bytes, n = b->n_bytes - at < request_bytes ? b->n_bytes - at : request_bytes;
    void *memory = b->memory + i % WINDOW * request_bytes;
    zn_event_reset(done);
    if (mode == BENCH_WRITE || (mode == BENCH_MIXED && i % 2))
        return zn_storage_write(b->storage, at, zn_extent_of(memory, n), n, NULL, done);
    return zn_storage_read(b->storage, at, zn_extent_of(memory, n), n, NULL, done);
}

/* One pass over the space; bytes a second. */
static zn_status pass(struct bench *b, enum bench_mode mode, double *rate)
{
    zn_event done[WINDOW];
    zn_status status = ZN_OK;
    size_t n_requests = (b->n_bytes + request_bytes - 1) / request_bytes, asked = 0, waited = 0;
    for (int i = 0; i < WINDOW; i++)
        zn_event_init(&done[i]);
    double start = zn_clock_now(&b->clock);
    while (waited < asked || (status == ZN_OK && asked < n_requests)) {
        if (status == ZN_OK && asked < n_requests && asked < waited + WINDOW) {
            status = ask(b, mode, asked, &done[asked % WINDOW]);
            asked += status == ZN_OK;
        } else {
            zn_status ended = zn_event_wait(&done[waited++ % WINDOW], &b->clock);
            status = status == ZN_OK ? ended : status;
        }
    }
    *rate = (double)b->n_bytes / (zn_clock_now(&b->clock) - start);
    for (int i = 0; i < WINDOW; i++)
        zn_event_fini(&done[i]);
    return status;
}

static zn_status measure_fio(struct bench *b, enum bench_mode mode, double rate[FIO_N_DEPTHS])
{
    int fds[ZN_STORAGE_MAX_PATHS];
    for (size_t i = 0; i < b->n_fio_files; i++)
        fds[i] = b->fio_file[i].fd;
    return fio_run(fds, b->n_fio_files, b->n_bytes, b->direct, mode, rate);
}

static zn_status measure_round(struct bench *b, int round)
{
    double rate[FIO_N_DEPTHS];
    for (int mode = 0; mode < BENCH_N_MODES; mode++) {
        ZN_TRY(pass(b, (enum bench_mode)mode, &b->figures.zinc[mode][round]));
        if (!b->has_fio)
            continue;
        ZN_TRY(measure_fio(b, (enum bench_mode)mode, rate));
        for (int d = 0; d < FIO_N_DEPTHS; d++)
            b->figures.fio[mode][d][round] = rate[d];
    }
    return ZN_OK;
}

/* Both files are written once before: a reserved block is slower the first time. */
static zn_status measure(struct bench *b)
{
    double unused, rate[FIO_N_DEPTHS];
    ZN_TRY(pass(b, BENCH_WRITE, &unused));
    if (b->has_fio)
        ZN_TRY(measure_fio(b, BENCH_WRITE, rate));
    for (int round = 0; round < b->n_rounds; round++)
        ZN_TRY(measure_round(b, round));
    return ZN_OK;
}

/* ---- Printing ---- */

/* Of rounds that stay in their order. */
static double median(const double *values, int n)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    return zn_median(sorted, n);
}

/* Of the rounds' ratios, not the ratio of the medians: a round is a pair. */
static double median_ratio(const double *ours, const double *theirs, int n)
{
    double ratio[MAX_ROUNDS];
    for (int i = 0; i < n; i++)
        ratio[i] = ours[i] / theirs[i];
    return zn_median(ratio, n);
}

static int best_depth(const struct bench *b, int mode)
{
    int best = 0;
    for (int d = 1; d < FIO_N_DEPTHS; d++)
        if (median(b->figures.fio[mode][d], b->n_rounds) > median(b->figures.fio[mode][best], b->n_rounds))
            best = d;
    return best;
}

static void print_text(const struct bench *b)
{
    char size[ZN_SIZE_TEXT];
    const struct figures *f = &b->figures;
    printf("%s\n%s sequentially, median of %d rounds; GB/s\n", zn_storage_description(b->storage),
           zn_size_text(b->n_bytes, size), b->n_rounds);
    if (!b->has_fio)
        printf("fio is not on PATH: nothing to compare with\n");
    else
        printf("%-8s %8s %16s %8s %16s %8s\n", "", "zinc", b->fio_version, "ratio", "fio, best depth", "ratio");
    for (int mode = 0; mode < BENCH_N_MODES; mode++) {
        const double *zinc = f->zinc[mode];
        printf("%-8s %8.3f", bench_mode_name[mode], 1e-9 * median(zinc, b->n_rounds));
        if (b->has_fio) {
            int best = best_depth(b, mode);
            const double *same = f->fio[mode][FIO_SAME], *fastest = f->fio[mode][best];
            printf(" %16.3f %8.3f %10.3f (%3d) %8.3f", 1e-9 * median(same, b->n_rounds),
                   median_ratio(zinc, same, b->n_rounds), 1e-9 * median(fastest, b->n_rounds), fio_depth[best],
                   median_ratio(zinc, fastest, b->n_rounds));
        }
        putchar('\n');
    }
}

static void put_mode(const struct bench *b, int mode)
{
    const double *zinc = b->figures.zinc[mode];
    int n = b->n_rounds;
    printf(",\"%s\":{\"bytes_per_second\":%.9g,\"fio\":", bench_mode_name[mode], median(zinc, n));
    if (!b->has_fio) {
        printf("null,\"ratio\":null,\"best_fio\":null,\"best_fio_depth\":null,\"best_ratio\":null}");
        return;
    }
    int best = best_depth(b, mode);
    const double *same = b->figures.fio[mode][FIO_SAME], *fastest = b->figures.fio[mode][best];
    printf("%.9g,\"ratio\":%.4f,\"best_fio\":%.9g,\"best_fio_depth\":%d,\"best_ratio\":%.4f}", median(same, n),
           median_ratio(zinc, same, n), median(fastest, n), fio_depth[best], median_ratio(zinc, fastest, n));
}

static zn_status print_json(const struct bench *b)
{
    struct zn_machine machine;
    struct utsname system;
    ZN_TRY(zn_machine_read("", &machine));
    printf("{\"benchmark\":\"io\",\"cpu\":");
    zn_json_put_string(stdout, machine.cpu_model);
    printf(",\"cores\":%d,\"kernel\":", machine.n_cores);
    zn_json_put_string(stdout, uname(&system) == 0 ? system.release : NULL);
    printf(",\"paths\":[");
    for (size_t i = 0; i < b->n_paths; i++) {
        fputs(i ? "," : "", stdout);
        zn_json_put_string(stdout, b->paths[i]);
    }
    printf("],\"storage\":");
    zn_json_put_string(stdout, zn_storage_description(b->storage));
    printf(",\"fio\":");
    zn_json_put_string(stdout, b->has_fio ? b->fio_version : NULL);
    printf(",\"bytes\":%zu,\"rounds\":%d", b->n_bytes, b->n_rounds);
    for (int mode = 0; mode < BENCH_N_MODES; mode++)
        put_mode(b, mode);
    puts("}");
    return ZN_OK;
}

/* ---- The command ---- */

static zn_status open_fio_files(struct bench *b, bool allow_buffered)
{
    b->has_fio = fio_find(b->fio_version);
    if (!b->has_fio)
        return ZN_OK;
    b->fio_file = calloc(b->n_paths, sizeof *b->fio_file);
    if (!b->fio_file)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu paths", b->n_paths);
    size_t n_each = zn_round_up(b->n_bytes / b->n_paths + 1, ZN_MIB);
    b->direct = true;
    for (size_t i = 0; i < b->n_paths; i++) {
        ZN_TRY(swap_file_init(&b->fio_file[i], b->paths[i], n_each, allow_buffered));
        b->n_fio_files++;
        b->direct = b->direct && b->fio_file[i].direct;
    }
    return ZN_OK;
}

static zn_status open_all(struct bench *b, const struct io_flags *f)
{
    struct zn_storage_options options = {
        .paths = b->paths, .n_paths = b->n_paths, .n_bytes = b->n_bytes, .allow_buffered = f->allow_buffered};
    size_t n_bytes = WINDOW * request_bytes;
    zn_addr memory;
    zn_clock_init_real(&b->clock);
    zn_ledger_init(&b->ledger);
    ZN_TRY(zn_storage_create_files(&options, &b->storage));
    ZN_TRY(zn_device_create_cpu(&b->ledger, &b->clock, 1, NULL, &b->device));
    ZN_TRY(zn_device_alloc(b->device, ZN_TIER_HOST, ZN_KIND_BUFFERS, n_bytes, &memory)); /* huge pages where there are any */
    b->memory = (unsigned char *)(uintptr_t)memory;
    memset(b->memory, 0x5a, n_bytes);
    zn_storage_register(b->storage, zn_extent_of(b->memory, n_bytes));
    return open_fio_files(b, f->allow_buffered);
}

static zn_status run(struct bench *b, const struct io_flags *f)
{
    static const char *const here[] = {"."};
    if (f->size < min_bytes)
        return zn_fail(ZN_ERR_USAGE, "--size: %zu bytes are too few to measure with; at least 64MiB", f->size);
    b->n_bytes = zn_round_up(f->size, ZN_MIB);
    b->n_rounds = (int)f->rounds;
    b->paths = f->nvme_path.n ? f->nvme_path.word : here;
    b->n_paths = f->nvme_path.n ? f->nvme_path.n : 1;
    ZN_TRY(open_all(b, f));
    ZN_TRY(measure(b));
    if (f->json)
        ZN_TRY(print_json(b));
    else
        print_text(b);
    if (fflush(stdout) != 0 || ferror(stdout))
        return zn_fail(ZN_ERR_IO, "standard output: %s", strerror(errno));
    return ZN_OK;
}

int zn_cli_bench_io(int argc, char **argv)
{
    struct io_flags given = {0};
    struct zn_options options;
    struct bench bench = {0};
    int code = zn_cli_begin(&command, argc, argv, &given, &options);
    if (code < 0) {
        code = zn_cli_end(&command, run(&bench, &given));
        zn_storage_destroy(bench.storage);
        for (size_t i = 0; i < bench.n_fio_files; i++)
            swap_file_fini(&bench.fio_file[i]);
        free(bench.fio_file);
        if (bench.memory)
            zn_device_free(bench.device, ZN_TIER_HOST, ZN_KIND_BUFFERS, (zn_addr)(uintptr_t)bench.memory, WINDOW * request_bytes);
        zn_device_destroy(bench.device);
    }
    zn_options_fini(&options, &given);
    return code;
}
