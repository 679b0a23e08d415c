/* Slices of parameters: which elements of the whole a rank holds. */
#include "tensor/param.h"

const int64_t *zn_param_shape(const zn_param *p)
{
    return zn_is_sliced(p) ? p->shape : p->dims;
}

int64_t zn_param_n_whole(const zn_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= zn_param_shape(p)[i];
    return n;
}

/* Elements that a step along the sliced dimension skips. */
static int64_t inner(const zn_param *p)
{
    int64_t n = 1;
    for (int i = p->slice.dim + 1; i < p->ndim; i++)
        n *= p->dims[i];
    return n;
}

/* Only the last slice of a first dimension in one part has padding. */
int64_t zn_param_n_held_of(const zn_param *p, int slice)
{
    if (!zn_is_sliced(p) || p->slice.dim > 0 || p->slice.parts > 1)
        return p->n_elements;
    int64_t rows = p->shape[0] - slice * p->dims[0];
    return (rows < p->dims[0] ? rows : p->dims[0]) * inner(p);
}

int64_t zn_param_n_held(const zn_param *p)
{
    return zn_param_n_held_of(p, p->slice.index);
}

int64_t zn_param_whole_of(const zn_param *p, int slice, int64_t held, int64_t *n)
{
    *n = zn_param_n_held_of(p, slice) - held;
    if (!zn_is_sliced(p))
        return held;
    int64_t step = inner(p), local = p->dims[p->slice.dim], whole = p->shape[p->slice.dim];
    int64_t piece = local / p->slice.parts, at = held / step % local, outer = held / step / local;
    int64_t left = (piece - at % piece) * step - held % step;
    *n = left < *n ? left : *n;
    int64_t place = at / piece * (whole / p->slice.parts) + slice * piece + at % piece;
    return (outer * whole + place) * step + held % step;
}

int64_t zn_param_whole(const zn_param *p, int64_t held, int64_t *n)
{
    return zn_param_whole_of(p, p->slice.index, held, n);
}

int64_t zn_param_held(const zn_param *p, int64_t element)
{
    if (!zn_is_sliced(p))
        return element;
    int64_t step = inner(p), local = p->dims[p->slice.dim], whole = p->shape[p->slice.dim];
    int64_t piece = local / p->slice.parts, part = whole / p->slice.parts;
    int64_t place = element / step % whole, outer = element / step / whole, rest = element % step;
    int64_t at = place % part - p->slice.index * piece, first = place / part * piece;
    if (at < 0 || at >= piece) { /* the slice begins later in this part, or in the next */
        first += at < 0 ? 0 : piece;
        at = rest = 0;
    }
    int64_t held = (outer * local + first + at) * step + rest, end = zn_param_n_held(p);
    return held < end ? held : end;
}
