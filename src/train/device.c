/* Opening, limits and description of a run's device. */
#include "train/device.h"

#include "base/size.h"
#include "plan/calibrate_device.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t default_limit(const struct zn_run *run)
{
    const struct zn_device_info *info = zn_accelerator_info(run->accelerator);
    size_t n_sharing = (size_t)zn_accelerator_n_sharing(run->accelerator);
    size_t there = (info->free_bytes ? info->free_bytes : info->memory_bytes) / n_sharing / 10 * 9;
    return info->shares_memory ? smaller(run->memory_limit / 2, there) : there;
}

/* Ranks that share a device have a part of what it does each. */
static void share_figures(struct zn_run *run)
{
    double n_sharing = zn_accelerator_n_sharing(run->accelerator);
    struct zn_cluster *c = &run->figures;
    for (int type = ZN_F32; type <= ZN_F16; type++)
        c->device.flops[type] /= n_sharing;
    c->device.rate /= n_sharing;
    c->device_host.alone /= n_sharing;
}

static void note_device(const struct zn_run *run, bool is_measured)
{
    const struct zn_device_info *info = zn_accelerator_info(run->accelerator);
    char memory[ZN_SIZE_TEXT], limit[ZN_SIZE_TEXT];
    zn_run_note(run, "%s: %s, %s of memory%s, at most %s for each rank%s", zn_accelerator_name(run->accelerator), info->name,
                zn_size_text(info->memory_bytes, memory), info->shares_memory ? " shared with the host" : "",
                zn_size_text(run->device_limit, limit),
                is_measured ? "" : "; plans are compared by stated figures, as `zinc doctor --device NAME --check` has not measured it");
}

zn_status zn_run_open_device(struct zn_run *run, const struct zn_settings *settings)
{
    struct zn_device_name name;
    bool is_measured;
    ZN_TRY(zn_device_name_parse(settings->device, &name));
    if (!name.backend && ZN_GIVEN(settings, device_memory_limit))
        return zn_fail(ZN_ERR_USAGE, "--device-memory-limit: --device cpu has no memory of its own; --memory-limit is the process's");
    if (!name.backend)
        return ZN_OK;
    zn_progress_begin(run->listener.progress, "opening the device", NULL, 0);
    const struct zn_accelerator_choice choice = {settings->device, zn_comm_local_rank(run->comm), zn_comm_n_local(run->comm),
                                                 run->threads};
    ZN_TRY(zn_accelerator_open(&choice, &run->accelerator));
    const struct zn_cluster host = run->figures;
    if (zn_device_describe(run->accelerator, &host, &run->figures, &is_measured) != ZN_OK) /* damaged: it decides speed alone */
        zn_run_note(run, "%s", zn_error_message());
    run->peak_flops_known = is_measured;
    share_figures(run);
    run->device_limit = ZN_GIVEN(settings, device_memory_limit) ? settings->device_memory_limit : default_limit(run);
    note_device(run, is_measured);
    return ZN_OK;
}

/* Each rank has a device or its share of one; what the process holds beside its plan is in the host's memory. */
void zn_run_describe_device(const struct zn_run *run, struct zn_plan_setup *setup, struct zn_cluster *machine)
{
    size_t overhead = zn_run_overhead(run), n_local = (size_t)zn_plan_ranks_per_node(setup);
    machine->devices = (int)n_local;
    machine->device_host.node = machine->device_host.alone * (double)n_local;
    machine->host_memory = (run->memory_limit > overhead ? run->memory_limit - overhead : 0) * n_local;
    setup->memory_limit = run->device_limit;
    setup->overhead = 0;
    setup->engine.is_discrete = setup->engine.stages_comm = true;
}

zn_status zn_run_create_devices(struct zn_run *run, const struct zn_engine_options *options)
{
    if (run->accelerator) { /* the host updates while the device computes */
        ZN_TRY(zn_device_create_on(run->accelerator, &run->ledger, &run->clock, &run->device));
        return zn_device_create_cpu(&run->ledger, &run->clock, run->threads, NULL, &run->host);
    }
    ZN_TRY(zn_device_create_cpu(&run->ledger, &run->clock, run->threads, NULL, &run->device));
    if (zn_placement_wants_host(options)) /* updates wait for storage and memory more than they compute */
        ZN_TRY(zn_device_create_cpu(&run->ledger, &run->clock, 1, NULL, &run->host));
    return ZN_OK;
}

static zn_status fail_on_device(const struct zn_run *run, const struct zn_prediction *p, const char *hint)
{
    const struct zn_device_info *info = zn_accelerator_info(run->accelerator);
    size_t device = p->tier[ZN_TIER_DEVICE] + p->reserved, host = p->tier[ZN_TIER_HOST] + zn_run_overhead(run);
    char text[4][ZN_SIZE_TEXT];
    if (info->allocation_bytes && p->largest_buffer > info->allocation_bytes)
        return zn_fail(ZN_ERR_MEMORY, "needs %s on %s in one piece, which allocates at most %s; %s",
                       zn_size_text(p->largest_buffer, text[0]), info->name, zn_size_text(info->allocation_bytes, text[1]), hint);
    host += info->shares_memory ? device : 0;
    return zn_fail(ZN_ERR_MEMORY, "needs %s of the device's memory and %s of the process%s at the least, the limits are %s "
                   "(--device-memory-limit) and %s (--memory-limit); %s", zn_size_text(device, text[0]), zn_size_text(host, text[1]),
                   info->shares_memory ? ", which holds both," : "", zn_size_text(run->device_limit, text[2]),
                   zn_size_text(run->memory_limit, text[3]), hint);
}

zn_status zn_run_fail_plan(const struct zn_run *run, const struct zn_prediction *p, const char *hint)
{
    char least[ZN_SIZE_TEXT], limit[ZN_SIZE_TEXT];
    zn_status status;
    if (run->accelerator)
        status = fail_on_device(run, p, hint);
    else
        status = zn_fail(ZN_ERR_MEMORY, "needs %s at the least, the limit is %s; %s",
                         zn_size_text(p->tier[ZN_TIER_DEVICE] + p->tier[ZN_TIER_HOST] + p->reserved, least),
                         zn_size_text(run->memory_limit, limit), hint);
    return run->process_is_limited ? zn_add_context(status, "the process is limited (`ulimit -v`, `ulimit -d`: raise it)") : status;
}
