/* What a processor's kernels do beyond the work that must be done: products come in strips that cores share, attention in groups
 * of queries. */
#include "device/kernels.h"

enum { STRIP = 32 };   /* lines of a product's operand that are not cut further (device/cpu/product_tile.h) */
enum { QUERIES = 16 }; /* that attention takes at once */

static int64_t pieces(int64_t n, int64_t piece)
{
    return (n + piece - 1) / piece;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How much longer the core that ends last works than it would if all had the same. The operand with more lines is cut, the other
 * too where that has fewer strips than there are cores. */
static double unevenness(const struct zn_gemm_args *g, int n_cores)
{
    int64_t strips = pieces(g->m > g->n ? g->m : g->n, STRIP), others = pieces(least(g->m, g->n), STRIP);
    if (strips == 0 || others == 0)
        return 1;
    int64_t parts = strips < n_cores ? strips * least(others, pieces(n_cores, strips)) : strips;
    return (double)(pieces(parts, n_cores) * n_cores) / (double)parts;
}

/* A group of queries meets all keys up to its last one. */
static double in_groups(int64_t seq_len, int64_t window)
{
    double t = (double)seq_len, groups = (double)pieces(seq_len, QUERIES);
    if (seq_len == 0 || (window > 0 && window < seq_len))
        return 1;
    return groups * (groups + 1) * QUERIES * QUERIES / (t * (t + 1));
}

double zn_kernel_work(zn_kernel kernel, const void *args, int n_cores)
{
    struct zn_kernel_cost cost = zn_kernel_cost(kernel, args);
    const struct zn_attention_forward_args *forward = args;
    const struct zn_attention_backward_args *backward = args;
    if (kernel == ZN_KERNEL_gemm)
        return cost.flops * unevenness(args, n_cores);
    if (kernel == ZN_KERNEL_attention_forward)
        return cost.flops * (forward->past ? 1 : in_groups(forward->seq_len, forward->window));
    if (kernel == ZN_KERNEL_attention_backward)
        return cost.flops * in_groups(backward->seq_len, backward->window);
    return cost.flops > 0 ? cost.flops : cost.n_bytes;
}
