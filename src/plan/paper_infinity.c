/* ZeRO-Infinity (SC21): memory of its five models, and bandwidth against efficiency. */
#include <stddef.h>

#include "plan/paper_private.h"

#define K 1024.0
#define BINARY_GB (K * K * K)
#define BINARY_TB (K * BINARY_GB)

static const double SEQ = 1024, PEAK = 70e12;

const struct zn_paper_shape zn_paper_shapes[ZN_PAPER_SHAPES] = {
    {"0.10T", 80, 10 * K, 128},   {"0.50T", 100, 20 * K, 160},    {"1.01T", 128, 25 * K, 256},
    {"10.05T", 195, 64 * K, 512}, {"101.47T", 315, 160 * K, 1024},
};

double zn_paper_parameters(const struct zn_paper_shape *s)
{
    return 12 * s->layers * s->hidden * s->hidden;
}

/* Of a group of `interval` blocks between two activation checkpoints. */
static double activations(const struct zn_paper_shape *s, double batch, double interval)
{
    return batch * SEQ * interval * (16 * s->hidden + 2 * s->heads * SEQ);
}

static double checkpoints(const struct zn_paper_shape *s, double batch)
{
    return 2 * batch * SEQ * s->hidden * s->layers;
}

void paper_infinity_models(struct zn_paper *paper)
{
    enum { PARAMETERS, STATES, ACTIVATIONS, CHECKPOINTS, OPERATOR, WORKING, N };
    static const char *const columns[N] = {"parameters, 10^12", "model states, TB", "full activations, TB",
                                           "activation checkpoints, TB", "largest operator, GB",
                                           "activation working memory, GB"};
    static const char *const printed[ZN_PAPER_SHAPES][N] = {
        {"0.10", "1.83", "2.03", "0.05", "1.95", "1.63"},
        {"0.50", "9.16", "3.91", "0.12", "6.25", "2.50"},
        {"1.01", "18.31", "7.13", "0.20", "9.77", "3.56"},
        {"10.05", "182.81", "24.38", "0.76", "64", "8"},
        {"101.47", "1845.70", "88.59", "3.08", "400", "18"},
    };
    struct zn_paper_table *t = paper_add_table(
        paper, "full activations of 64 sequences, checkpoints of 32, working memory of 4 a device", N, columns);
    for (int i = 0; i < ZN_PAPER_SHAPES; i++) {
        const struct zn_paper_shape *s = &zn_paper_shapes[i];
        const double computed[N] = {
            [PARAMETERS] = zn_paper_parameters(s) / 1e12,
            [STATES] = 240 * s->layers * s->hidden * s->hidden / BINARY_TB,
            [ACTIVATIONS] = activations(s, 64, s->layers) / BINARY_TB,
            [CHECKPOINTS] = checkpoints(s, 32) / BINARY_TB,
            [OPERATOR] = 4 * s->hidden * 4 * s->hidden / BINARY_GB,
            [WORKING] = activations(s, 4, 1) / BINARY_GB,
        };
        struct zn_paper_row *row = paper_add_row(t, "%.0f layers, hidden %.0fK, %.0f heads", s->layers,
                                                 s->hidden / K, s->heads);
        for (int c = 0; c < N; c++)
            row->cell[c] = paper_cell(computed[c], printed[i][c], 0.5);
    }
    t->row[0].cell[OPERATOR].corrected = "1.56";
}

double zn_paper_efficiency(double intensity, double bandwidth, double peak)
{
    return intensity * bandwidth / (intensity * bandwidth + peak);
}

static void add_node(struct zn_paper *paper)
{
    static const char *const columns[] = {"a node"};
    static const struct {
        const char *label;
        double computed;
        const char *printed;
        double units;
    } rows[] = {
        {"device memory: 16 of 32 GB, in TB", 16 * 32 / K, "0.5", 0.5},
        {"links to the host: 16 at 3.0 GB/s, in GB/s", 16 * 3.0, "48", 0.5},
        {"links to NVMe: 16 at 1.6 GB/s, in GB/s", 16 * 1.6, "25", 1},
        {"network: 800 Gb/s, in GB/s", 800.0 / 8, "100", 0.5},
    };
    struct zn_paper_table *t = paper_add_table(paper, "a DGX-2 node: what its devices have in all", 1, columns);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        paper_add_row(t, "%s", rows[i].label)->cell[0] =
            paper_cell(rows[i].computed, rows[i].printed, rows[i].units);
}

enum { N_LOADS = 14 };

/* What crosses a link, and how many flops are computed for each of its bytes. */
struct load {
    const char *kind, *size;
    double value, intensity;
};

static int list_loads(struct load loads[N_LOADS])
{
    static const double batches[] = {1, 2, 4, 8, 16}, hiddens[] = {2 * K, 8 * K, 25 * K, 64 * K};
    int n = 0;
    for (size_t i = 0; i < 5; i++)
        loads[n++] = (struct load){"parameters and gradients", "batch", batches[i], SEQ * batches[i]};
    for (size_t i = 0; i < 5; i++)
        loads[n++] = (struct load){"optimizer states", "batch", batches[i], SEQ * batches[i] / 4};
    for (size_t i = 0; i < 4; i++)
        loads[n++] = (struct load){"activation checkpoints", "hidden", hiddens[i], 24 * hiddens[i]};
    return n;
}

void paper_infinity_bandwidth(struct zn_paper *paper)
{
    static const char *const needs[] = {"intensity, flop/byte", "for 50%, GB/s", "for 90%, GB/s"};
    static const char *const links[] = {"NVMe, all use it, 1.6",  "host, all use it, 3", "host, alone, 12",
                                        "network, 60",            "network, 100",        "in a node, 150",
                                        "in a node, 300"};
    static const double rates[] = {1.6e9, 3e9, 12e9, 60e9, 100e9, 150e9, 300e9};
    struct load loads[N_LOADS];
    int n_loads = list_loads(loads);
    add_node(paper);
    struct zn_paper_table *need =
        paper_add_table(paper, "bandwidth a device needs for an efficiency", 3, needs);
    struct zn_paper_table *reached =
        paper_add_table(paper, "efficiency, %, with all of it over one link of a device, GB/s", 7, links);
    for (int i = 0; i < n_loads; i++) {
        const struct load *l = &loads[i];
        struct zn_paper_row *row = paper_add_row(need, "%s, %s %.0f", l->kind, l->size, l->value);
        row->cell[0] = paper_cell(l->intensity, NULL, 0);
        row->cell[1] = paper_cell(PEAK / l->intensity / 1e9, NULL, 0);
        row->cell[2] = paper_cell(9 * PEAK / l->intensity / 1e9, NULL, 0);
        row = paper_add_row(reached, "%s, %s %.0f", l->kind, l->size, l->value);
        for (int c = 0; c < 7; c++)
            row->cell[c] = paper_cell(100 * zn_paper_efficiency(l->intensity, rates[c], PEAK), NULL, 0);
    }
}
