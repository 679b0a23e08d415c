/* Which instruction sets this machine has. A set counts only when the system saves its registers
 * on a task switch, which XGETBV tells (Intel SDM volume 1, sections 14.3 and 15.2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* The register state the system saves: bits of XCR0. */
enum {
    STATE_AVX = 0x06,    /* xmm, ymm */
    STATE_AVX512 = 0xe6, /* and opmask, upper halves of zmm0-15, zmm16-31 */
};

static unsigned saved_state(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

static bool has_avx2(void)
{
    unsigned a, b, c, d;
    if ((saved_state() & STATE_AVX) != STATE_AVX)
        return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_F16C))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

static bool has_avx512(void)
{
    const unsigned needed = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d;
    return has_avx2() && (saved_state() & STATE_AVX512) == STATE_AVX512 &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & needed) == needed;
}
#endif

#if defined(__aarch64__)
/* Part of the architecture. */
static bool has_neon(void)
{
    return true;
}
#endif

static bool has_plain(void)
{
    return true;
}

/* The best first. */
static const struct {
    const char *name;
    bool (*exists)(void);
} isas[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512},
    {"avx2", has_avx2},
#elif defined(__aarch64__)
    {"neon", has_neon},
#endif
    {"plain", has_plain},
};

enum { N_ISAS = sizeof isas / sizeof isas[0] };

bool zn_cpu_has_isa(const char *isa)
{
    for (int i = 0; i < N_ISAS; i++)
        if (strcmp(isa, isas[i].name) == 0)
            return isas[i].exists();
    return false;
}

/* "plain, avx2" */
static const char *list_isas(char text[64])
{
    size_t n = 0;
    for (int i = N_ISAS - 1; i >= 0; i--)
        if (isas[i].exists())
            n += (size_t)snprintf(text + n, 64 - n, "%s%s", n ? ", " : "", isas[i].name);
    return text;
}

zn_status zn_cpu_isa_choose(const char *wanted, const char **isa)
{
    const char *source = "instruction set";
    if (!wanted || !*wanted) {
        wanted = getenv("ZINC_ISA");
        source = "ZINC_ISA";
    }
    bool any = !wanted || !*wanted;
    char list[64];
    for (int i = 0; i < N_ISAS; i++) {
        if (!any && strcmp(wanted, isas[i].name) != 0)
            continue;
        if (isas[i].exists()) {
            *isa = isas[i].name;
            return ZN_OK;
        }
        if (!any)
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: this machine has no %s; it has %s", source,
                           wanted, list_isas(list));
    }
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not an instruction set; this machine has %s", source,
                   wanted, list_isas(list));
}
