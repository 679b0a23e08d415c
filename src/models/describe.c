/* Copies of what a model declares. */
#include "models/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/network.h"

/* The description owns the model. */
static zn_status describe(zn_description *d, zn_model *model)
{
    const zn_module *module = model->module;
    *d = (zn_description){.n_elements = zn_model_n_elements(model),
                          .max_seq_len = model->max_positions,
                          .vocabulary = module->vocabulary,
                          .parameters = calloc((size_t)module->n_params, sizeof *d->parameters),
                          .n_parameters = (size_t)module->n_params,
                          .model = model};
    if (!d->parameters) {
        zn_description_fini(d);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a list of parameters");
    }
    snprintf(d->architecture, sizeof d->architecture, "%s", model->architecture);
    for (int i = 0; i < module->n_params; i++) {
        const zn_param *p = &module->params[i];
        d->parameters[i] = (struct zn_described_parameter){.name = p->name, .n_dims = p->ndim, .n_elements = p->n_elements};
        memcpy(d->parameters[i].dims, p->dims, sizeof d->parameters[i].dims);
    }
    return ZN_OK;
}

zn_status zn_description_init(zn_description *d, const char *config, size_t n_bytes, const char *name)
{
    zn_json *root;
    zn_model *model;
    ZN_TRY(zn_json_load_buffer(config, n_bytes, name, &root));
    zn_status status = zn_model_create(root, 1, &model);
    zn_json_destroy(root);
    return status == ZN_OK ? describe(d, model) : status;
}

zn_status zn_description_of_network(zn_description *d, const zn_network *network)
{
    zn_model *model;
    ZN_TRY(zn_network_make_model(network, 0, &model));
    return describe(d, model);
}

void zn_description_fini(zn_description *d)
{
    zn_model_destroy(d->model);
    free(d->parameters);
    *d = (zn_description){0};
}
