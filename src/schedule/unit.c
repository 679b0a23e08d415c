/* The layout of units and their partition. */
#include "schedule/unit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/size.h"

void zn_units_fini(zn_units *units)
{
    free(units->units);
    free(units->parts);
    free(units->first_part);
    free(units->tile_rows);
    *units = (zn_units){0};
}

static int64_t columns(const zn_param *p)
{
    return p->n_elements / p->dims[0];
}

static bool is_frozen(const struct zn_units_options *o, const zn_param *p)
{
    return o->freezes_all || (o->frozen && o->frozen[p->index]);
}

static zn_dtype type_of(const struct zn_units_options *o, bool is_frozen)
{
    return is_frozen ? o->frozen_type : o->type;
}

/* Rows of a parameter's tiles: all of them when it is not split. */
static int64_t rows_of_tiles(const zn_param *p, const struct zn_units_options *o)
{
    size_t width = zn_dtype_bytes(type_of(o, is_frozen(o, p))), row_bytes = (size_t)columns(p) * width;
    if (o->tile_bytes == 0 || (size_t)p->n_elements * width <= o->tile_bytes || p->ndim != 2 || p->stays_whole)
        return p->dims[0];
    int64_t rows = (int64_t)(o->tile_bytes / row_bytes) / ZN_TILE_ROWS * ZN_TILE_ROWS;
    rows = rows < ZN_TILE_ROWS ? ZN_TILE_ROWS : rows;
    return rows < p->dims[0] ? rows : p->dims[0];
}

static bool is_tiled(const zn_units *units, const zn_param *p)
{
    return units->tile_rows[p->index] < p->dims[0];
}

/* In what parameters of a unit are alike. */
struct kind {
    bool is_frozen, by_matrix;
};

static struct kind kind_of(const struct zn_units_options *o, const zn_param *p, int n_segments)
{
    bool frozen = is_frozen(o, p);
    return (struct kind){frozen, !frozen && o->by_matrix && zn_param_is_hidden_matrix(p, n_segments)};
}

/* Elements that are laid out so far, of units that are trained and of frozen ones; and of trained ones by element and by matrix. */
struct ends {
    int64_t trained, frozen, of_kind[2];
};

static int64_t *end_of(struct ends *ends, bool is_frozen)
{
    return is_frozen ? &ends->frozen : &ends->trained;
}

static void add_part(zn_units *units, const zn_param *p, int64_t first_row, int64_t n_rows, int64_t *at)
{
    int64_t n = n_rows * columns(p);
    units->parts[units->n_parts++] = (struct zn_part){.param = p->index,
                                                      .unit = units->n_units,
                                                      .first_row = first_row,
                                                      .n_rows = n_rows,
                                                      .first = first_row * columns(p),
                                                      .n_elements = n,
                                                      .place = *at};
    *at += (int64_t)zn_round_up((size_t)n, ZN_PART_ALIGNMENT);
}

/* Ends the unit whose parts are those from first_part on. */
static void end_unit(zn_units *units, int first_part, int64_t end, const struct zn_units_options *o, struct kind kind,
                     struct ends *ends)
{
    struct zn_unit *unit = &units->units[units->n_units++];
    unit->type = type_of(o, kind.is_frozen);
    unit->is_trained = !kind.is_frozen;
    unit->by_matrix = kind.by_matrix;
    unit->first = *end_of(ends, kind.is_frozen);
    unit->first_of_kind = kind.is_frozen ? 0 : ends->of_kind[kind.by_matrix];
    unit->first_part = first_part;
    unit->n_parts = units->n_parts - first_part;
    size_t multiple = (size_t)units->n_ranks * (ZN_PARTITION_ALIGNMENT / zn_dtype_bytes(unit->type));
    unit->n_elements = (int64_t)zn_round_up((size_t)(end - unit->first), multiple);
    unit->partition = unit->n_elements / units->n_ranks;
    *end_of(ends, kind.is_frozen) += unit->n_elements;
    if (!kind.is_frozen)
        ends->of_kind[kind.by_matrix] += unit->n_elements;
}

/* The parameters of one segment. */
struct segment {
    const zn_param *const *params;
    int n_params, n_segments;
};

/* Those of one kind that stay whole. */
static void lay_out_whole(zn_units *units, const struct segment *s, const struct zn_units_options *o, struct kind kind,
                          struct ends *ends)
{
    int first_part = units->n_parts;
    int64_t at = *end_of(ends, kind.is_frozen);
    for (int i = 0; i < s->n_params; i++) {
        const zn_param *p = s->params[i];
        struct kind k = kind_of(o, p, s->n_segments);
        if (is_tiled(units, p) || k.is_frozen != kind.is_frozen || k.by_matrix != kind.by_matrix)
            continue;
        units->first_part[p->index] = units->n_parts;
        add_part(units, p, 0, p->dims[0], &at);
    }
    if (units->n_parts > first_part)
        end_unit(units, first_part, at, o, kind, ends);
}

/* First those that stay whole, in a unit for each kind, then each tile. */
static void lay_out_segment(zn_units *units, const struct segment *s, const struct zn_units_options *o, struct ends *ends)
{
    int n_units = units->n_units;
    lay_out_whole(units, s, o, (struct kind){.by_matrix = true}, ends);
    lay_out_whole(units, s, o, (struct kind){0}, ends);
    lay_out_whole(units, s, o, (struct kind){.is_frozen = true}, ends);
    for (int u = n_units; u < units->n_units - 1; u++)
        units->units[u].joins_next = true;
    for (int i = 0; i < s->n_params; i++) {
        const zn_param *p = s->params[i];
        if (!is_tiled(units, p))
            continue;
        units->first_part[p->index] = units->n_parts;
        int64_t tile = units->tile_rows[p->index];
        for (int64_t row = 0; row < p->dims[0]; row += tile) {
            int first_part = units->n_parts;
            int64_t at = *end_of(ends, is_frozen(o, p));
            add_part(units, p, row, p->dims[0] - row < tile ? p->dims[0] - row : tile, &at);
            end_unit(units, first_part, at, o, kind_of(o, p, s->n_segments), ends);
        }
    }
}

/* Frozen units come after all that are trained. */
static void place_frozen(zn_units *units, const struct ends *ends)
{
    units->n_trained = ends->trained;
    units->n_elements = ends->trained + ends->frozen;
    for (int u = 0; u < units->n_units; u++) {
        struct zn_unit *unit = &units->units[u];
        if (unit->is_trained)
            continue;
        unit->first += units->n_trained;
        for (int i = 0; i < unit->n_parts; i++)
            units->parts[unit->first_part + i].place += units->n_trained;
    }
}

static zn_status alloc_lists(zn_units *units, const struct zn_params *params, const struct zn_units_options *options)
{
    size_t n_params = (size_t)params->n_params, n_parts = 0;
    units->first_part = calloc(n_params, sizeof *units->first_part);
    units->tile_rows = calloc(n_params, sizeof *units->tile_rows);
    if (!units->first_part || !units->tile_rows)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the units of %zu parameters", n_params);
    for (int i = 0; i < params->n_params; i++) {
        const zn_param *p = &params->params[i];
        int64_t tile = rows_of_tiles(p, options);
        units->tile_rows[i] = tile;
        n_parts += (size_t)((p->dims[0] + tile - 1) / tile);
    }
    units->parts = calloc(n_parts, sizeof *units->parts);
    units->units = calloc(n_parts, sizeof *units->units);
    if (!units->parts || !units->units)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the units of %zu parameters", n_params);
    return ZN_OK;
}

/* The parameters sorted by segment, each segment's in the order of the list. */
static zn_status sort_by_segment(const struct zn_params *params, const zn_param ***sorted, int **first)
{
    int n_segments = params->n_segments;
    const zn_param **list = calloc((size_t)params->n_params + 1, sizeof *list);
    int *begin = calloc((size_t)n_segments + 1, sizeof *begin);
    *sorted = list;
    *first = begin;
    if (!list || !begin)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the units of %d parameters", params->n_params);
    for (int i = 0; i < params->n_params; i++)
        if (params->params[i].segment < 0 || params->params[i].segment >= n_segments)
            return zn_fail(ZN_ERR_INTERNAL, "'%s' is in no segment of the model", params->params[i].name);
        else
            begin[params->params[i].segment + 1]++;
    for (int s = 0; s < n_segments; s++)
        begin[s + 1] += begin[s];
    for (int i = 0; i < params->n_params; i++) /* begin[s] moves to the end of segment s … */
        list[begin[params->params[i].segment]++] = &params->params[i];
    for (int s = n_segments; s > 0; s--) /* … and back to its beginning */
        begin[s] = begin[s - 1];
    begin[0] = 0;
    return ZN_OK;
}

zn_status zn_units_init(zn_units *units, const struct zn_params *params, const struct zn_units_options *options)
{
    const zn_param **sorted = NULL;
    int *first = NULL;
    struct ends ends = {0};
    *units = (zn_units){.n_ranks = options->n_ranks};
    zn_status status = alloc_lists(units, params, options);
    if (status == ZN_OK)
        status = sort_by_segment(params, &sorted, &first);
    for (int s = 0; s < params->n_segments && status == ZN_OK; s++)
        lay_out_segment(units, &(struct segment){sorted + first[s], first[s + 1] - first[s], params->n_segments}, options, &ends);
    if (status == ZN_OK)
        place_frozen(units, &ends);
    else
        zn_units_fini(units);
    free(sorted);
    free(first);
    return status;
}

const struct zn_part *zn_units_row(const zn_units *units, const zn_param *param, int64_t row)
{
    assert(row >= 0 && row < param->dims[0]);
    return &units->parts[units->first_part[param->index] + row / units->tile_rows[param->index]];
}

const struct zn_part *zn_units_element(const zn_units *units, const zn_param *param, int64_t element)
{
    return zn_units_row(units, param, element / columns(param));
}

struct zn_range zn_units_owned(const zn_units *units, const struct zn_part *part, int rank)
{
    const struct zn_unit *unit = &units->units[part->unit];
    int64_t begin = unit->first + rank * unit->partition - part->place, end = begin + unit->partition;
    if (begin < 0)
        begin = 0;
    if (end > part->n_elements)
        end = part->n_elements;
    return begin < end ? (struct zn_range){begin, end - begin} : (struct zn_range){0, 0};
}

int64_t zn_units_owned_place(const zn_units *units, const struct zn_part *part, int64_t first, int rank)
{
    const struct zn_unit *unit = &units->units[part->unit];
    int64_t in_unit = part->place - unit->first + first;
    return unit->first / units->n_ranks + in_unit - rank * unit->partition;
}
