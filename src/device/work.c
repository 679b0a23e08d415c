/* What a processor's kernels do beyond the work that must be done: products come in the blocks of a grid that cores take one
 * after the other, attention in groups of queries. */
#include "device/kernels.h"

enum { MAX_CORES = 64, MANY = 16 }; /* so many blocks a core are as good as shared evenly */
enum { QUERIES = 16 };              /* that attention takes at once */

static int64_t pieces(int64_t n, int64_t piece)
{
    return (n + piece - 1) / piece;
}

static int64_t length_of(int64_t n, int64_t piece, int64_t i)
{
    return n - i * piece < piece ? n - i * piece : piece;
}

/* How much longer the core that ends last works than it would if all had the same: each takes the next block, down the
 * columns of the grid, when it is done with the one before. */
static double unevenness(const struct zn_gemm_args *g, int n_cores)
{
    double busy[MAX_CORES] = {0}, longest = 0;
    int64_t rows = pieces(g->m, ZN_GEMM_M), cols = pieces(g->n, ZN_GEMM_N);
    if (n_cores == 1 || n_cores > MAX_CORES || rows > MANY * n_cores || cols > MANY * n_cores || rows * cols > MANY * n_cores)
        return 1;
    for (int64_t i = 0; i < rows * cols; i++) {
        int first = 0;
        for (int c = 1; c < n_cores; c++)
            first = busy[c] < busy[first] ? c : first;
        busy[first] += (double)length_of(g->m, ZN_GEMM_M, i % rows) * (double)length_of(g->n, ZN_GEMM_N, i / rows);
        longest = busy[first] > longest ? busy[first] : longest;
    }
    return longest > 0 ? longest * n_cores / ((double)g->m * (double)g->n) : 1;
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
