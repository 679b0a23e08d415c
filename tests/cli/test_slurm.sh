#!/bin/bash
# examples/slurm/train.sbatch on a Slurm of one node, started here with a configuration of its own: two ranks train; a job that is told
# that its time is over saves, is queued again, and ends with the weights of a run that was never stopped.
# test_slurm.sh ZINC SOURCE BUILD
set -u
zinc=$1 source=$2 data=$2/tests/data/parity
PATH=$PATH:/usr/sbin:/sbin
skip() { echo "skipped: $*"; exit 77; }
for tool in munged slurmctld slurmd sbatch srun scontrol; do
    command -v "$tool" >/dev/null || skip "$tool is not installed (Debian: slurm-wlm, munge)"
done
[ "$(id -u)" = 0 ] || skip "slurmd starts jobs only for root"
case $("$zinc" version) in *"Open MPI"*) ;; *) skip "zinc is built with another MPI than Debian's Slurm has PMIx for" ;; esac
export OMP_WAIT_POLICY=passive
work=$(mktemp -d) || exit 1
cd "$work" || exit 1
daemons=()
finish()
{
    for pid in "${daemons[@]}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap finish EXIT

fail()
{
    echo "FAIL $*"
    tail -n 5 ./*.log ./*.txt 2>/dev/null
    exit 1
}

# waits_for COMMAND…: until it succeeds. Waiting may be long, it must only have an end.
waits_for()
{
    local i
    for ((i = 0; i < 3000; i++)); do
        "$@" && return
        sleep 0.2
    done
    fail "waited in vain for: $*"
}

# Ports that nobody has: Slurm takes none by itself.
read -r port other < <(python3 -c '
import socket
ends = [socket.socket() for _ in range(2)]
for end in ends:
    end.bind(("", 0))
print(*(end.getsockname()[1] for end in ends))')
node=$(hostname -s)
mkdir state spool
chmod 700 "$work"
head -c 1024 /dev/urandom >munge.key
chmod 600 munge.key
cat >slurm.conf <<CONF
ClusterName=zinc
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$other
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
munged --force --foreground --socket="$work/munge.socket" --key-file="$work/munge.key" --log-file="$work/munged.log" \
    --pid-file="$work/munged.pid" --seed-file="$work/munge.seed" >munged.out 2>&1 &
daemons+=($!)
waits_for test -S munge.socket
slurmctld -D >slurmctld.out 2>&1 &
daemons+=($!)
slurmd -D -N "$node" >slurmd.out 2>&1 &
daemons+=($!)
is_idle() { sinfo -h -o %T 2>/dev/null | grep -q '^idle'; }
is_dead() { ! kill -0 "${daemons[1]}" 2>/dev/null || ! kill -0 "${daemons[2]}" 2>/dev/null; }
for ((i = 0; i < 600; i++)); do # a container may forbid what slurmd needs: then it is gone at once
    is_idle && break
    is_dead && skip "Slurm does not start here: $(cat slurmctld.out slurmd.out ./*.log 2>/dev/null | tail -n 1)"
    sleep 0.2
done
is_idle || skip "Slurm's node does not come up: $(tail -n 1 slurmd.log)"

export ZINC=$zinc ZINC_CHECKPOINT_EVERY=50
words=(--model "$data/llama3" --data "$data/tokens.bin" --seq-len 16 --threads 1 --stage 3)
submit() { sbatch --parsable --nodes=1 "$@"; }
state_of() { scontrol -o show job "$1" 2>/dev/null | sed -E 's/.* JobState=([A-Z_]+) .*/\1/'; }
has_ended() { case $(state_of "$1") in COMPLETED | FAILED | TIMEOUT | CANCELLED | NODE_FAIL) ;; *) false ;; esac; }

# Two ranks, to the end.
job=$(submit "$source/examples/slurm/train.sbatch" "${words[@]}" --steps 60 --output whole) || fail "sbatch"
waits_for has_ended "$job"
[ "$(state_of "$job")" = COMPLETED ] || fail "job $job: $(state_of "$job")"
grep -q ' 2 ranks, stage 3' "zinc-$job.txt" || fail "not two ranks"

# Told to stop in the middle: queued again, gone on, and the same weights in the end. A run that ends before it is told is made longer.
n_lines() { wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0; }
has_begun() { [ -e stopped/metrics.jsonl ] && [ "$(n_lines stopped)" -gt 20 ]; }
is_queued_again() { grep -q 'back to the queue' "zinc-$job.txt" || has_ended "$job"; }
for steps in 3000 15000 75000; do
    rm -rf stopped
    job=$(submit "$source/examples/slurm/train.sbatch" "${words[@]}" --steps $steps --output stopped) || fail "sbatch"
    waits_for has_begun
    scancel --batch --signal=USR1 "$job"
    waits_for is_queued_again
    grep -q 'stopped by SIGUSR1 after step' "zinc-$job.txt" && break
    [ "$(state_of "$job")" = COMPLETED ] || fail "the ranks were not told"
done
waits_for has_ended "$job"
[ "$(state_of "$job")" = COMPLETED ] || fail "job $job: $(state_of "$job")"
[ "$(grep -c '2 ranks, stage 3' "zinc-$job.txt")" = 2 ] || fail "it did not begin twice"
[ "$(n_lines stopped)" = $steps ] || fail "$(n_lines stopped) steps, not $steps"
job=$(submit "$source/examples/slurm/train.sbatch" "${words[@]}" --steps $steps --output straight) || fail "sbatch"
waits_for has_ended "$job"
cmp stopped/model.safetensors straight/model.safetensors || fail "stopped and gone on gives other weights"
