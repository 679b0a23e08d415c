/* The measurements of `zinc bench`. Each is one file with one function, which gets its own name as
 * argv[0] and returns the exit code. */
#ifndef ZN_CLI_BENCH_H
#define ZN_CLI_BENCH_H

/* Those of this build: NAME(name, one line for `zinc bench --help`). */
#define ZN_CLI_BENCHES(X)                                                                          \
    X(adam, "the optimizer in memory, beside the speed of memory")                                 \
    X(gemm, "matrix products of real models, beside the peak of fused multiply-adds")               \
    X(io, "swap on disk, beside fio")                                                              \
    X(comm, "gathers and reductions between ranks, beside a copy of memory")                       \
    X(step, "a training step, beside its own matrix products alone")

#define ZN_CLI_BENCH_NAME(name, summary) #name " "
#define ZN_CLI_BENCH_NAMES ZN_CLI_BENCHES(ZN_CLI_BENCH_NAME)

#define ZN_CLI_BENCH_DECLARE(name, summary) int zn_cli_bench_##name(int argc, char **argv);
ZN_CLI_BENCHES(ZN_CLI_BENCH_DECLARE)
#undef ZN_CLI_BENCH_DECLARE

#endif
