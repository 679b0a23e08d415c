/* Cores and domains by hwloc, and the choice among them. */
#include "base/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* ---- The choice ---- */

struct machine {
    const struct zn_core *cores;
    int n_cores, n_domains;
};

/* i · n / d without overflow. */
static int scaled(int i, int n, int d)
{
    return (int)((int64_t)i * n / d);
}

/* The first core of a domain, n_cores behind the last. */
static int domain_begin(const struct machine *m, int domain)
{
    int i = 0;
    while (i < m->n_cores && m->cores[i].domain < domain)
        i++;
    return i;
}

/* The domain where the middle of the rank's even share lies. */
static int middle_domain(const struct machine *m, int rank, int n_ranks)
{
    return m->cores[(int)((2 * (int64_t)rank + 1) * m->n_cores / (2 * (int64_t)n_ranks))].domain;
}

/* A part of one domain, which the ranks cut evenly whose middles are there. */
static struct zn_core_range part_of_domain(const struct machine *m, int rank, int n_ranks)
{
    int domain = middle_domain(m, rank, n_ranks), first = rank, end = rank + 1;
    while (first > 0 && middle_domain(m, first - 1, n_ranks) == domain)
        first--;
    while (end < n_ranks && middle_domain(m, end, n_ranks) == domain)
        end++;
    int begin = domain_begin(m, domain), n = domain_begin(m, domain + 1) - begin;
    int from = scaled(rank - first, n, end - first), to = scaled(rank - first + 1, n, end - first);
    return (struct zn_core_range){begin + from, to - from};
}

static struct zn_core_range by_domains(const struct machine *m, int rank, int n_ranks)
{
    if (n_ranks > m->n_domains)
        return part_of_domain(m, rank, n_ranks);
    int from = domain_begin(m, scaled(rank, m->n_domains, n_ranks));
    int to = domain_begin(m, scaled(rank + 1, m->n_domains, n_ranks));
    return (struct zn_core_range){from, to - from};
}

static struct zn_core_range by_cores(const struct machine *m, int rank, int n_ranks)
{
    int from = scaled(rank, m->n_cores, n_ranks), to = scaled(rank + 1, m->n_cores, n_ranks);
    return (struct zn_core_range){from, to - from};
}

typedef struct zn_core_range (*rule)(const struct machine *m, int rank, int n_ranks);

static int n_processors(const struct machine *m, struct zn_core_range range)
{
    int n = 0;
    for (int i = range.first; i < range.first + range.n; i++)
        n += m->cores[i].n_processors;
    return n;
}

/* Of all ranks, so that every one of them comes to the same decision. */
static void least(const struct machine *m, rule choose, int n_ranks, int *n_cores, int *processors)
{
    *n_cores = *processors = INT_MAX;
    for (int rank = 0; rank < n_ranks; rank++) {
        struct zn_core_range range = choose(m, rank, n_ranks);
        int n = n_processors(m, range);
        *n_cores = range.n < *n_cores ? range.n : *n_cores;
        *processors = n < *processors ? n : *processors;
    }
}

struct zn_core_range zn_core_share(const struct zn_core *cores, int n_cores, int rank, int n_ranks, int n_threads)
{
    struct machine m = {cores, n_cores, cores[n_cores - 1].domain + 1};
    struct zn_core_range all = {0, n_cores};
    int even = n_cores / n_ranks, wanted = n_threads < even ? n_threads : even, least_cores, processors;
    if (even == 0 || n_ranks == 1)
        return all;
    rule choose = by_domains;
    least(&m, choose, n_ranks, &least_cores, &processors);
    if (least_cores < wanted || processors < n_threads) {
        choose = by_cores;
        least(&m, choose, n_ranks, &least_cores, &processors);
    }
    if (n_threads > processors)
        return all;
    struct zn_core_range range = choose(&m, rank, n_ranks);
    /* Domains that the threads do not need would only lengthen their ways. */
    for (int domain = cores[range.first].domain + 1; domain < m.n_domains; domain++) {
        int n = domain_begin(&m, domain) - range.first;
        if (n >= n_threads && n < range.n)
            range.n = n;
    }
    return range;
}

/* ---- The machine ---- */

struct zn_topology {
    hwloc_topology_t hwloc;
    hwloc_cpuset_t mask;
    struct zn_core *cores;
    hwloc_obj_t *objects; /* of each core; hwloc's own */
    int n_cores;
};

static zn_status no_memory(void)
{
    return zn_fail(ZN_ERR_MEMORY, "no memory for the topology of the machine");
}

/* Cores of which the mask has a processor. Where the system does not tell cores, each processor is one. Those next to
 * the same memory are one domain; hwloc's order has them together. */
static zn_status find_cores(zn_topology *t)
{
    int depth = hwloc_get_type_or_below_depth(t->hwloc, HWLOC_OBJ_CORE);
    unsigned n = hwloc_get_nbobjs_by_depth(t->hwloc, depth);
    t->cores = calloc(n + 1, sizeof *t->cores);
    t->objects = calloc(n + 1, sizeof *t->objects);
    hwloc_cpuset_t usable = hwloc_bitmap_alloc();
    zn_status status = t->cores && t->objects && usable ? ZN_OK : no_memory();
    for (unsigned i = 0; i < n && status == ZN_OK; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_depth(t->hwloc, depth, i);
        hwloc_bitmap_and(usable, core->cpuset, t->mask);
        if (hwloc_bitmap_iszero(usable))
            continue;
        int last = t->n_cores - 1;
        bool same = last >= 0 && hwloc_bitmap_isequal(core->nodeset, t->objects[last]->nodeset);
        t->objects[t->n_cores] = core;
        t->cores[t->n_cores++] = (struct zn_core){.domain = last < 0 ? 0 : t->cores[last].domain + !same,
                                                  .n_processors = hwloc_bitmap_weight(usable)};
    }
    if (status == ZN_OK && t->n_cores == 0)
        status = zn_fail(ZN_ERR_IO, "the topology of the machine has no processor that this process may run on");
    hwloc_bitmap_free(usable);
    return status;
}

/* With no description this machine, within the mask of this thread. */
static zn_status load(const char *description, const char *mask, zn_topology *t)
{
    t->mask = hwloc_bitmap_alloc_full();
    if (!t->mask || hwloc_topology_init(&t->hwloc) != 0)
        return no_memory();
    if (description && hwloc_topology_set_synthetic(t->hwloc, description) != 0)
        return zn_fail(ZN_ERR_USAGE, "hwloc cannot read the machine '%s'", description);
    if (hwloc_topology_load(t->hwloc) != 0)
        return zn_fail(ZN_ERR_IO, "the topology of the machine cannot be read: %s", strerror(errno));
    if (!description && hwloc_get_cpubind(t->hwloc, t->mask, HWLOC_CPUBIND_THREAD) != 0)
        return zn_fail(ZN_ERR_IO, "the affinity mask cannot be read: %s", strerror(errno));
    if (mask && hwloc_bitmap_list_sscanf(t->mask, mask) != 0)
        return zn_fail(ZN_ERR_USAGE, "'%s' is no list of processors", mask);
    hwloc_bitmap_and(t->mask, t->mask, hwloc_topology_get_topology_cpuset(t->hwloc));
    return find_cores(t);
}

static zn_status create(const char *description, const char *mask, zn_topology **topology)
{
    zn_topology *t = calloc(1, sizeof *t);
    if (!t)
        return no_memory();
    zn_status status = load(description, mask, t);
    if (status != ZN_OK) {
        zn_topology_destroy(t);
        return status;
    }
    *topology = t;
    return ZN_OK;
}

zn_status zn_topology_read(zn_topology **topology)
{
    return create(NULL, NULL, topology);
}

zn_status zn_topology_read_synthetic(const char *description, const char *mask, zn_topology **topology)
{
    return create(description, mask, topology);
}

void zn_topology_destroy(zn_topology *t)
{
    if (!t)
        return;
    if (t->hwloc)
        hwloc_topology_destroy(t->hwloc);
    hwloc_bitmap_free(t->mask);
    free(t->cores);
    free(t->objects);
    free(t);
}

int zn_topology_n_cores(const zn_topology *topology)
{
    return topology->n_cores;
}

int zn_topology_n_domains(const zn_topology *topology)
{
    return topology->cores[topology->n_cores - 1].domain + 1;
}

uint64_t zn_topology_mask_hash(const zn_topology *topology)
{
    uint64_t hash = 0;
    for (int i = hwloc_bitmap_first(topology->mask); i >= 0; i = hwloc_bitmap_next(topology->mask, i))
        hash = zn_random_bits(hash, (uint64_t)i);
    return hash;
}

/* ---- Places ---- */

/* The processors of a place; NULL: no memory. The caller frees. */
static hwloc_cpuset_t processors_of(const zn_topology *t, struct zn_core_range cores)
{
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    for (int i = cores.first; set && i < cores.first + cores.n; i++)
        hwloc_bitmap_or(set, set, t->objects[i]->cpuset);
    if (set)
        hwloc_bitmap_and(set, set, t->mask);
    return set;
}

void zn_topology_place(const zn_topology *t, int rank, int n_ranks, int n_threads, struct zn_place *place)
{
    struct zn_core_range cores = zn_core_share(t->cores, t->n_cores, rank, n_ranks, n_threads);
    const struct machine m = {.cores = t->cores};
    int last = cores.first + cores.n - 1, domain = t->cores[cores.first].domain;
    *place = (struct zn_place){.cores = cores,
                               .n_processors = n_processors(&m, cores),
                               .domain = t->cores[last].domain == domain ? domain : -1,
                               .is_all = cores.n == t->n_cores};
    hwloc_cpuset_t set = processors_of(t, cores);
    if (set)
        hwloc_bitmap_list_snprintf(place->processors, sizeof place->processors, set);
    hwloc_bitmap_free(set);
}

const char *zn_bind_is_off(void)
{
    static const char *const openmp[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
    const char *own = getenv("ZINC_BIND");
    if (own && strcmp(own, "off") == 0)
        return "ZINC_BIND=off";
    for (size_t i = 0; i < sizeof openmp / sizeof openmp[0]; i++)
        if (getenv(openmp[i]))
            return openmp[i];
    return NULL;
}

zn_status zn_topology_bind(const zn_topology *t, const struct zn_place *place)
{
    hwloc_cpuset_t set = processors_of(t, place->cores);
    zn_status status = set ? ZN_OK : no_memory();
    if (status == ZN_OK && hwloc_set_cpubind(t->hwloc, set, HWLOC_CPUBIND_PROCESS) != 0)
        status = zn_fail(ZN_ERR_UNSUPPORTED, "cannot bind to processors %s: %s", place->processors, strerror(errno));
    hwloc_const_nodeset_t near = t->objects[place->cores.first]->nodeset;
    if (status == ZN_OK && place->domain >= 0 && hwloc_bitmap_weight(near) == 1 && zn_topology_n_domains(t) > 1 &&
        hwloc_set_membind(t->hwloc, near, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) != 0)
        status = zn_fail(ZN_ERR_UNSUPPORTED, "cannot prefer the memory next to processors %s: %s", place->processors,
                         strerror(errno));
    hwloc_bitmap_free(set);
    return status;
}

void zn_topology_unbind(const zn_topology *t)
{
    hwloc_set_cpubind(t->hwloc, t->mask, HWLOC_CPUBIND_PROCESS);
    hwloc_set_membind(t->hwloc, hwloc_topology_get_topology_nodeset(t->hwloc), HWLOC_MEMBIND_DEFAULT,
                      HWLOC_MEMBIND_BYNODESET);
}
