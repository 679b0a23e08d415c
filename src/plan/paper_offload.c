/* ZeRO-Offload (ATC'21), section 3: mixed-precision training as a graph whose nodes are the model states
 * and the computations, and whose edges are the bytes that flow between them in a step.
 *
 * Forward and backward are on the device, as their work grows with the batch. Everything else may be
 * on either side; an edge between sides is moved over the slow link:
 *
 *   param16 → forward, param16 → backward   2M each
 *   backward → gradient16 → update          2M each
 *   fp32 states ↔ update                    12M each way: parameter, momentum, variance
 *   update → param16                        2M */
#include <assert.h>
#include <limits.h>
#include <stddef.h>

#include "plan/paper_private.h"

enum { PARAM = 2, GRADIENT = 2, STATES = 12 };

static struct zn_strategy placement(int bits)
{
    struct zn_strategy s = {.param_on_cpu = bits & 1,
                            .gradient_on_cpu = bits & 2,
                            .update_on_cpu = bits & 4,
                            .states_on_cpu = bits & 8};
    s.moved += s.param_on_cpu ? 2 * PARAM : 0;
    s.moved += s.gradient_on_cpu ? GRADIENT : 0;
    s.moved += s.gradient_on_cpu != s.update_on_cpu ? GRADIENT : 0;
    s.moved += s.states_on_cpu != s.update_on_cpu ? 2 * STATES : 0;
    s.moved += s.update_on_cpu != s.param_on_cpu ? PARAM : 0;
    s.device = (s.param_on_cpu ? 0 : PARAM) + (s.gradient_on_cpu ? 0 : GRADIENT) + (s.states_on_cpu ? 0 : STATES);
    return s;
}

/* A placement that holds everything on the device is no strategy. */
static bool offloads(const struct zn_strategy *s)
{
    return s->device < PARAM + GRADIENT + STATES;
}

int zn_strategies(struct zn_strategy strategies[ZN_N_STRATEGIES], int *best)
{
    int least_moved = INT_MAX, least_device = INT_MAX, n_best = 0;
    for (int i = 0; i < ZN_N_STRATEGIES; i++) {
        strategies[i] = placement(i);
        if (offloads(&strategies[i]) && strategies[i].moved < least_moved)
            least_moved = strategies[i].moved;
    }
    for (int i = 0; i < ZN_N_STRATEGIES; i++) {
        const struct zn_strategy *s = &strategies[i];
        if (!offloads(s) || s->moved != least_moved || s->device > least_device)
            continue;
        if (s->device < least_device) {
            least_device = s->device;
            n_best = 0;
            *best = i;
        }
        n_best++;
    }
    return n_best;
}

static const char *side(bool on_cpu)
{
    return on_cpu ? "CPU" : "device";
}

/* The paper's figures: nothing offloaded holds 16M; with the update and its states on the CPU 4M are moved,
 * the least; with the gradients there too 2M stay, an eighth. */
static void print(struct zn_paper_row *row, const struct zn_strategy *s)
{
    bool paper_s = s->update_on_cpu && s->states_on_cpu && !s->param_on_cpu;
    bool best = paper_s && s->gradient_on_cpu;
    row->cell[0] = paper_cell(s->moved, paper_s ? "4" : NULL, 0);
    row->cell[1] = paper_cell(s->device, !offloads(s) && !s->update_on_cpu ? "16" : best ? "2" : NULL, 0);
    row->cell[2] = paper_cell(s->device ? 16.0 / s->device : 0, best ? "8" : NULL, 0);
}

void paper_offload_strategies(struct zn_paper *paper)
{
    static const char *const columns[] = {"moved a step, M bytes", "on the device, M bytes",
                                          "times less than 16M (0: none left)"};
    struct zn_strategy strategies[ZN_N_STRATEGIES];
    int best = -1, n_best = zn_strategies(strategies, &best);
    assert(n_best == 1);
    (void)n_best;
    struct zn_paper_table *t =
        paper_add_table(paper, "param16 / gradient16 / update / fp32 states; the least moved, then the least "
                               "on the device, is marked", 3, columns);
    for (int i = 0; i < ZN_N_STRATEGIES; i++) {
        const struct zn_strategy *s = &strategies[i];
        struct zn_paper_row *row = paper_add_row(t, "%s / %s / %s / %s", side(s->param_on_cpu),
                                                 side(s->gradient_on_cpu), side(s->update_on_cpu),
                                                 side(s->states_on_cpu));
        print(row, s);
        row->marked = i == best;
    }
}
