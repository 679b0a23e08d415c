/* The layout of units and their partition. */
#include "schedule/unit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/size.h"

/* No part, partition or tile cuts a quantum. */
_Static_assert((int)ZN_PART_ALIGNMENT % (int)ZN_QUANTUM == 0 && (int)ZN_TILE_ROWS % (int)ZN_QUANTUM == 0, "whole quanta");

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

static zn_unit_class class_of(const struct zn_units_options *o, const zn_param *p)
{
    return !is_frozen(o, p) ? ZN_UNIT_TRAINED : o->quantised && o->quantised[p->index] ? ZN_UNIT_QUANTISED : ZN_UNIT_FROZEN;
}

static zn_dtype type_of(const struct zn_units_options *o, zn_unit_class class)
{
    return class == ZN_UNIT_TRAINED ? o->type : class == ZN_UNIT_FROZEN ? o->frozen_type : o->quantised_type;
}

/* Rows of a parameter's tiles: all of them when it is not split. */
static int64_t rows_of_tiles(const zn_param *p, const struct zn_units_options *o)
{
    zn_dtype type = type_of(o, class_of(o, p));
    size_t tile_bytes = zn_dtype_size(type, columns(p) * ZN_TILE_ROWS);
    if (o->tile_bytes == 0 || zn_dtype_size(type, p->n_elements) <= o->tile_bytes || p->ndim != 2 || p->stays_whole)
        return p->dims[0];
    int64_t rows = (int64_t)(o->tile_bytes / tile_bytes) * ZN_TILE_ROWS;
    rows = rows < ZN_TILE_ROWS ? ZN_TILE_ROWS : rows;
    return rows < p->dims[0] ? rows : p->dims[0];
}

static bool is_tiled(const zn_units *units, const zn_param *p)
{
    return units->tile_rows[p->index] < p->dims[0];
}

/* In what parameters of a unit are alike. */
struct kind {
    zn_unit_class class;
    bool by_matrix;
};

static struct kind kind_of(const struct zn_units_options *o, const zn_param *p, int n_segments)
{
    zn_unit_class class = class_of(o, p);
    return (struct kind){class, class == ZN_UNIT_TRAINED && o->by_matrix && zn_param_is_hidden_matrix(p, n_segments)};
}

/* Elements that are laid out so far, by class of their units; and of trained ones by element and by matrix. */
struct ends {
    int64_t of[ZN_N_UNIT_CLASSES], of_kind[2];
};

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

/* Elements whose bytes are whole alignments of partitions. */
static int64_t partition_multiple(zn_dtype type)
{
    int64_t n = ZN_PART_ALIGNMENT;
    while (zn_dtype_size(type, n) % ZN_PARTITION_ALIGNMENT != 0)
        n *= 2;
    return n;
}

/* Ends the unit whose parts are those from first_part on. */
static void end_unit(zn_units *units, int first_part, int64_t end, const struct zn_units_options *o, struct kind kind,
                     struct ends *ends)
{
    struct zn_unit *unit = &units->units[units->n_units++];
    unit->type = type_of(o, kind.class);
    unit->is_trained = kind.class == ZN_UNIT_TRAINED;
    unit->by_matrix = kind.by_matrix;
    unit->first = ends->of[kind.class];
    unit->first_of_kind = unit->is_trained ? ends->of_kind[kind.by_matrix] : 0;
    unit->first_part = first_part;
    unit->n_parts = units->n_parts - first_part;
    unit->n_elements = (int64_t)zn_round_up((size_t)(end - unit->first), (size_t)(units->n_ranks * partition_multiple(unit->type)));
    unit->partition = unit->n_elements / units->n_ranks;
    ends->of[kind.class] += unit->n_elements;
    if (unit->is_trained)
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
    int64_t at = ends->of[kind.class];
    for (int i = 0; i < s->n_params; i++) {
        const zn_param *p = s->params[i];
        struct kind k = kind_of(o, p, s->n_segments);
        if (is_tiled(units, p) || k.class != kind.class || k.by_matrix != kind.by_matrix)
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
    lay_out_whole(units, s, o, (struct kind){ZN_UNIT_TRAINED, .by_matrix = true}, ends);
    for (int class = 0; class < ZN_N_UNIT_CLASSES; class++)
        lay_out_whole(units, s, o, (struct kind){(zn_unit_class)class, .by_matrix = false}, ends);
    for (int u = n_units; u + 1 < units->n_units; u++)
        units->units[u].joins_next = true;
    for (int i = 0; i < s->n_params; i++) {
        const zn_param *p = s->params[i];
        if (!is_tiled(units, p))
            continue;
        units->first_part[p->index] = units->n_parts;
        int64_t tile = units->tile_rows[p->index];
        for (int64_t row = 0; row < p->dims[0]; row += tile) {
            int first_part = units->n_parts;
            int64_t at = ends->of[class_of(o, p)];
            add_part(units, p, row, p->dims[0] - row < tile ? p->dims[0] - row : tile, &at);
            end_unit(units, first_part, at, o, kind_of(o, p, s->n_segments), ends);
        }
    }
}

/* Frozen units come after all that are trained, quantised ones after those. */
static void place_classes(zn_units *units, const struct ends *ends)
{
    units->n_trained = ends->of[ZN_UNIT_TRAINED];
    units->n_plain = units->n_trained + ends->of[ZN_UNIT_FROZEN];
    units->n_elements = units->n_plain + ends->of[ZN_UNIT_QUANTISED];
    for (int u = 0; u < units->n_units; u++) {
        struct zn_unit *unit = &units->units[u];
        int64_t before = zn_units_class_first(units, zn_unit_class_of(unit));
        unit->first += before;
        for (int i = 0; i < unit->n_parts; i++)
            units->parts[unit->first_part + i].place += before;
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
        place_classes(units, &ends);
    else
        zn_units_fini(units);
    free(sorted);
    free(first);
    return status;
}

int64_t zn_units_class_first(const zn_units *units, zn_unit_class class)
{
    return class == ZN_UNIT_TRAINED ? 0 : class == ZN_UNIT_FROZEN ? units->n_trained : units->n_plain;
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
