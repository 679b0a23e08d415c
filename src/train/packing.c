/* Windows by the room they have left: a queue for each amount, and a set of the amounts that some window has. */
#include "train/packing.h"

#include <stdbool.h>
#include <stdlib.h>

enum { WORD = 64 };

struct packer {
    int64_t room, n_items;
    uint32_t *order;             /* items, longest first */
    uint32_t *window_of;         /* by item */
    uint32_t *next;              /* by window: the one after it in its queue */
    uint32_t *head, *tail;       /* by room left */
    uint64_t *has, *has_words;   /* amounts with a window; words of `has` that are not 0 */
    int64_t n_windows;
};

static zn_status fail_memory(int64_t n_items)
{
    return zn_fail(ZN_ERR_MEMORY, "no memory to pack %lld examples", (long long)n_items);
}

void zn_packed_fini(struct zn_packed *packed)
{
    free(packed->first);
    free(packed->member);
    *packed = (struct zn_packed){0};
}

static zn_status packed_init(struct zn_packed *packed, int64_t n_items)
{
    *packed = (struct zn_packed){.first = calloc((size_t)n_items + 1, sizeof *packed->first),
                                 .member = calloc((size_t)n_items + 1, sizeof *packed->member)};
    if (n_items <= UINT32_MAX && packed->first && packed->member)
        return ZN_OK;
    zn_packed_fini(packed);
    return fail_memory(n_items);
}

static void packer_fini(struct packer *p)
{
    free(p->order);
    free(p->window_of);
    free(p->next);
    free(p->head);
    free(p->tail);
    free(p->has);
    free(p->has_words);
}

static zn_status packer_init(struct packer *p, int64_t n_items, int64_t room)
{
    size_t n = (size_t)n_items + 1, n_amounts = (size_t)room + 1, n_words = n_amounts / WORD + 1;
    *p = (struct packer){.room = room,
                         .n_items = n_items,
                         .order = calloc(n, sizeof *p->order),
                         .window_of = calloc(n, sizeof *p->window_of),
                         .next = calloc(n, sizeof *p->next),
                         .head = calloc(n_amounts, sizeof *p->head),
                         .tail = calloc(n_amounts, sizeof *p->tail),
                         .has = calloc(n_words, sizeof *p->has),
                         .has_words = calloc(n_words / WORD + 1, sizeof *p->has_words)};
    if (p->order && p->window_of && p->next && p->head && p->tail && p->has && p->has_words)
        return ZN_OK;
    packer_fini(p);
    return fail_memory(n_items);
}

/* By counting, so that equal sizes stay in their order. Returns how many there are. */
static zn_status sort_items(struct packer *p, const uint32_t *sizes, int64_t *n_sorted)
{
    int64_t *at = calloc((size_t)p->room + 2, sizeof *at);
    if (!at)
        return fail_memory(p->n_items);
    for (int64_t i = 0; i < p->n_items; i++)
        at[sizes[i]]++;
    int64_t sum = 0;
    for (int64_t size = p->room; size > 0; size--) {
        int64_t n = at[size];
        at[size] = sum;
        sum += n;
    }
    for (int64_t i = 0; i < p->n_items; i++)
        if (sizes[i] > 0)
            p->order[at[sizes[i]]++] = (uint32_t)i;
    free(at);
    *n_sorted = sum;
    return ZN_OK;
}

/* The first bit that is set at or after `from`; -1: none. */
static int64_t next_bit(const uint64_t *words, int64_t n_words, int64_t from)
{
    int64_t w = from / WORD;
    if (w >= n_words)
        return -1;
    uint64_t word = words[w] & ~(uint64_t)0 << from % WORD;
    while (word == 0 && ++w < n_words)
        word = words[w];
    return word ? w * WORD + __builtin_ctzll(word) : -1;
}

/* The least amount of room at or above `size` that a window has; -1: none has that much. */
static int64_t find_room(const struct packer *p, int64_t size)
{
    int64_t n_words = (p->room + 1) / WORD + 1, w = size / WORD;
    uint64_t word = p->has[w] & ~(uint64_t)0 << size % WORD;
    if (word)
        return w * WORD + __builtin_ctzll(word);
    w = next_bit(p->has_words, n_words / WORD + 1, w + 1);
    return w < 0 ? -1 : w * WORD + __builtin_ctzll(p->has[w]);
}

static uint32_t take_window(struct packer *p, int64_t room)
{
    uint32_t window = p->head[room];
    if (window == p->tail[room]) {
        p->has[room / WORD] &= ~((uint64_t)1 << room % WORD);
        if (p->has[room / WORD] == 0)
            p->has_words[room / WORD / WORD] &= ~((uint64_t)1 << room / WORD % WORD);
    }
    p->head[room] = p->next[window];
    return window;
}

static void put_window(struct packer *p, uint32_t window, int64_t room)
{
    bool is_first = !(p->has[room / WORD] >> room % WORD & 1);
    *(is_first ? &p->head[room] : &p->next[p->tail[room]]) = window;
    p->tail[room] = window;
    p->has[room / WORD] |= (uint64_t)1 << room % WORD;
    p->has_words[room / WORD / WORD] |= (uint64_t)1 << room / WORD % WORD;
}

static void place_items(struct packer *p, const uint32_t *sizes, int64_t n_sorted)
{
    for (int64_t k = 0; k < n_sorted; k++) {
        uint32_t item = p->order[k];
        int64_t room = find_room(p, sizes[item]);
        uint32_t window = room < 0 ? (uint32_t)p->n_windows++ : take_window(p, room);
        p->window_of[item] = window;
        put_window(p, window, (room < 0 ? p->room : room) - sizes[item]);
    }
}

/* The members of each window, in the order in which they were placed. */
static void list_members(const struct packer *p, int64_t n_sorted, struct zn_packed *packed)
{
    packed->n_windows = p->n_windows;
    for (int64_t k = 0; k < n_sorted; k++)
        packed->first[p->window_of[p->order[k]] + 1]++;
    for (int64_t w = 0; w < p->n_windows; w++)
        packed->first[w + 1] += packed->first[w];
    for (int64_t k = 0; k < n_sorted; k++) {
        uint32_t item = p->order[k];
        packed->member[packed->first[p->window_of[item]]++] = item;
    }
    for (int64_t w = p->n_windows; w > 0; w--)
        packed->first[w] = packed->first[w - 1];
    packed->first[0] = 0;
}

zn_status zn_pack_best_fit(const uint32_t *sizes, int64_t n_items, int64_t room, struct zn_packed *packed)
{
    struct packer p;
    int64_t n_sorted = 0;
    ZN_TRY(packed_init(packed, n_items));
    zn_status status = packer_init(&p, n_items, room);
    if (status == ZN_OK) {
        status = sort_items(&p, sizes, &n_sorted);
        if (status == ZN_OK) {
            place_items(&p, sizes, n_sorted);
            list_members(&p, n_sorted, packed);
        }
        packer_fini(&p);
    }
    if (status != ZN_OK)
        zn_packed_fini(packed);
    return status;
}

zn_status zn_pack_one_each(const uint32_t *sizes, int64_t n_items, struct zn_packed *packed)
{
    ZN_TRY(packed_init(packed, n_items));
    for (int64_t i = 0; i < n_items; i++)
        if (sizes[i] > 0)
            packed->member[packed->n_windows++] = (uint32_t)i;
    for (int64_t w = 0; w <= packed->n_windows; w++)
        packed->first[w] = w;
    return ZN_OK;
}
