/* What ranks do together: all must ask for the same in the same order. */
#include "base/rng.h"
#include "schedule/verify.h"

static bool is_collective(const struct zn_instr *i)
{
    return i->op == ZN_OP_GATHER || i->op == ZN_OP_GATHER_SUMS || i->op == ZN_OP_REDUCE || i->op == ZN_OP_PUBLISH ||
           i->op == ZN_OP_PUBLISH_TO || i->op == ZN_OP_SUM_SLICES || i->op == ZN_OP_GATHER_SLICES ||
           i->op == ZN_OP_GATHER_PIECES;
}

/* The first collective from `at` on; the section's end where there is none. */
static int next_collective(const struct zn_section *s, int at)
{
    while (at < s->n_instrs && !is_collective(&s->instrs[at]))
        at++;
    return at;
}

static bool is_same(const struct zn_instr *a, const struct zn_instr *b)
{
    return a->op == b->op && a->unit == b->unit && a->from.n_bytes == b->from.n_bytes && a->to.n_bytes == b->to.n_bytes;
}

static zn_status compare(zn_section_id id, const struct zn_section *a, const struct zn_section *b)
{
    for (int i = -1, j = -1, n = 0;; n++) {
        i = next_collective(a, i + 1);
        j = next_collective(b, j + 1);
        const struct zn_instr *x = i < a->n_instrs ? &a->instrs[i] : NULL, *y = j < b->n_instrs ? &b->instrs[j] : NULL;
        if (!x && !y)
            return ZN_OK;
        if (!x || !y || !is_same(x, y))
            return zn_fail(ZN_ERR_INTERNAL, "%s: collective %d is %s %d on one rank and %s %d on another", zn_section_name(id), n,
                           x ? zn_op_name((zn_op)x->op) : "none", x ? x->unit : -1, y ? zn_op_name((zn_op)y->op) : "none",
                           y ? y->unit : -1);
    }
}

zn_status zn_program_same_collectives(const zn_program *a, const zn_program *b)
{
    for (int id = 0; id < ZN_N_SECTIONS; id++)
        ZN_TRY(compare((zn_section_id)id, &a->sections[id], &b->sections[id]));
    return ZN_OK;
}

uint64_t zn_program_digest(const zn_program *program)
{
    uint64_t digest = 0;
    for (int id = 0; id < ZN_N_SECTIONS; id++) {
        const struct zn_section *s = &program->sections[id];
        digest = zn_random_bits(digest, (uint64_t)id);
        for (int i = next_collective(s, 0); i < s->n_instrs; i = next_collective(s, i + 1)) {
            digest = zn_random_bits(digest, s->instrs[i].op | (uint64_t)(uint32_t)s->instrs[i].unit << 8);
            digest = zn_random_bits(digest, s->instrs[i].from.n_bytes);
            digest = zn_random_bits(digest, s->instrs[i].to.n_bytes);
        }
    }
    return digest;
}
