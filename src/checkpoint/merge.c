/* Merged values, computed as they are read. */
#include "checkpoint/merge.h"

#include <stdlib.h>

enum { RUN = 1024 }; /* columns at once */

struct zn_merging {
    const zn_peft *peft;
    zn_model *model;
    /* Of the weight that was found last, as its file has it: left (rows, rank) and right (rank, columns). */
    float *left, *right;
    int64_t columns, rank;
    float scale;
};

zn_status zn_merging_create(const zn_peft *peft, zn_model *model, zn_merging **merging)
{
    ZN_TRY(zn_model_add_adapters(model, zn_peft_options(peft)));
    ZN_TRY(zn_peft_check(peft, model));
    zn_merging *m = calloc(1, sizeof *m);
    if (!m)
        return zn_fail(ZN_ERR_MEMORY, "no memory to merge an adapter");
    m->peft = peft;
    m->model = model;
    *merging = m;
    return ZN_OK;
}

static void forget(zn_merging *m)
{
    free(m->left);
    free(m->right);
    m->left = m->right = NULL;
}

void zn_merging_destroy(zn_merging *m)
{
    if (m)
        forget(m);
    free(m);
}

/* (rows, cols) becomes (cols, rows). */
static void transpose(float *to, const float *from, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            to[c * rows + r] = from[r * cols + c];
}

/* The parameter as it is, or turned round; the caller frees it. */
static zn_status read_param(const zn_merging *m, const zn_param *p, bool turned, float **values)
{
    float *read = malloc((size_t)p->n_elements * sizeof *read), *made = read;
    zn_status status = read ? zn_peft_read(m->peft, p, 0, p->n_elements, read) : zn_fail(ZN_ERR_MEMORY, "no memory for '%s'", p->name);
    if (status == ZN_OK && turned) {
        made = malloc((size_t)p->n_elements * sizeof *made);
        if (made)
            transpose(made, read, p->dims[0], p->dims[1]);
        else
            status = zn_fail(ZN_ERR_MEMORY, "no memory for '%s'", p->name);
        free(read);
    } else if (status != ZN_OK) {
        free(read);
    }
    if (status == ZN_OK)
        *values = made;
    return status;
}

/* n values of a row, from column `column` on. */
static void add_run(const zn_merging *m, int64_t row, int64_t column, int64_t n, float *restrict values)
{
    float delta[RUN] = {0};
    for (int64_t k = 0; k < m->rank; k++) {
        const float left = m->left[row * m->rank + k], *restrict right = m->right + k * m->columns + column;
        for (int64_t i = 0; i < n; i++)
            delta[i] += left * right[i];
    }
    for (int64_t i = 0; i < n; i++)
        values[i] += m->scale * delta[i];
}

static void add_delta(const void *self, int64_t first, int64_t n_elements, float *values)
{
    const zn_merging *m = self;
    for (int64_t done = 0; done < n_elements;) {
        int64_t row = (first + done) / m->columns, column = (first + done) % m->columns, n = n_elements - done;
        n = n < m->columns - column ? n : m->columns - column;
        n = n < RUN ? n : RUN;
        add_run(m, row, column, n, values + done);
        done += n;
    }
}

/* A weight stored (out, in) gets B A, one stored (in, out) its transpose. */
static zn_status take_adapter(zn_merging *m, const zn_param *weight)
{
    const struct zn_adapter *adapter = weight->adapter;
    bool is_in_out = m->model->is_in_out;
    m->columns = weight->dims[1];
    m->rank = adapter->a->dims[0];
    m->scale = adapter->scale;
    ZN_TRY(read_param(m, is_in_out ? adapter->a : adapter->b, is_in_out, &m->left));
    return read_param(m, is_in_out ? adapter->b : adapter->a, is_in_out, &m->right);
}

zn_status zn_merging_find(zn_merging *m, const zn_model_files *files, const struct zn_weights_style *style, const zn_param *param,
                          struct zn_model_tensor *found)
{
    struct zn_model_tensor tensor;
    ZN_TRY(zn_weights_find(m->model, files, style, param, &tensor));
    forget(m);
    if (param->adapter) {
        ZN_TRY(take_adapter(m, param));
        tensor.change = add_delta;
        tensor.change_self = m;
    }
    *found = tensor;
    return ZN_OK;
}
