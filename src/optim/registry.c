/* Finding an optimizer by its name. */
#include "optim/registry.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OPTIMIZERS = 32 };

#define ADDRESS(name, typed) &zn_optimizer_##name,
static const zn_optimizer *registry[MAX_OPTIMIZERS] = {ZN_OPTIMIZERS(ADDRESS, )};

static const zn_optimizer *with_name(const char *name)
{
    for (int i = 0; i < MAX_OPTIMIZERS && registry[i]; i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i];
    return NULL;
}

/* "adamw, adam, sgd" */
static void list_names(char *text, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < MAX_OPTIMIZERS && registry[i] && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", registry[i]->name);
}

static zn_status find(const char *name, const zn_optimizer **optimizer)
{
    char names[512] = "";
    *optimizer = with_name(name);
    if (*optimizer)
        return ZN_OK;
    list_names(names, sizeof names);
    return zn_fail(ZN_ERR_USAGE, "--optimizer: '%s' is not one of %s", name, names);
}

zn_status zn_optimizer_defaults(const char *name, struct zn_hyperparameters *defaults)
{
    const zn_optimizer *found;
    ZN_TRY(find(name, &found));
    *defaults = found->defaults;
    return ZN_OK;
}

zn_status zn_optimizer_find(const char *name, const struct zn_hyperparameters *hyperparameters, const zn_optimizer **optimizer)
{
    const zn_optimizer *found;
    ZN_TRY(find(name, &found));
    *optimizer = found->choose ? found->choose(hyperparameters) : found;
    return ZN_OK;
}

zn_status zn_optimizer_register(const zn_optimizer *optimizer)
{
    int n = 0;
    ZN_TRY(zn_optimizer_check(optimizer));
    if (with_name(optimizer->name))
        return zn_fail(ZN_ERR_USAGE, "an optimizer of the name '%s' is there already", optimizer->name);
    while (n < MAX_OPTIMIZERS && registry[n])
        n++;
    if (n == MAX_OPTIMIZERS)
        return zn_fail(ZN_ERR_UNSUPPORTED, "more than %d optimizers", MAX_OPTIMIZERS);
    registry[n] = optimizer;
    return ZN_OK;
}
