#!/bin/bash
# The storage that offload swaps to, beside fio, on the disk of this folder. usage: bench_io.sh PROGRAM [--quick]
program=$1
shift
case "${1-}" in
--quick) set -- --size 128MiB ;;
esac
exec "$program" bench io --json "$@"
