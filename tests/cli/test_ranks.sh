#!/bin/bash
# The program as several processes: stages that give the same bits, ranks that disagree, fail or die, and steps that
# are skipped. test_ranks.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
# MPI's libraries leak, unloaded by then so that no suppression knows them; ranks as threads show leaks of Zinc's own.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
mpi=(timeout -k 5 60 mpirun --oversubscribe --bind-to none)
limit=10 # seconds in which a job that fails must have ended

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# words MODEL DATA FLAGS…: the command line of a rank, into $words
words()
{
    local model=$1 tokens=$2
    shift 2
    words=("$zinc" train --model "$model" --data "$tokens" --seq-len 16 --threads 1 "$@")
}

# run NAME MODEL FLAGS…: a run that must work
run()
{
    local name=$1
    words "$2" "$data/tokens.bin" --output "$1" "${@:3}"
    timeout 120 "${words[@]}" >"$name.out" 2>"$name.err" && return
    fail "$name: zinc train ${*:3} ended with $?: $(head -3 "$name.err")"
}

# columns NAME: what must not depend on the stage
columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

same()
{
    [ "$(columns "$1" | wc -l)" -ge 2 ] || fail "$1: $(columns "$1" | wc -l) lines of metrics"
    cmp -s <(columns "$1") <(columns "$2") || fail "$1 and $2 differ in loss or norm"
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || fail "$1 and $2 differ in their weights"
}

# once FILE TEXT END: the cause is told once, then that the job has ended, and mpirun adds nothing
once()
{
    local n
    n=$(grep -c "zinc train: .*$2" "$1")
    [ "$n" = 1 ] || fail "$1: says '$2' $n times: $(cat "$1")"
    n=$(grep -cx "zinc train: the job ended$3" "$1")
    [ "$n" = 1 ] || fail "$1: says $n times that the job ended$3: $(cat "$1")"
    grep -q -- '-------' "$1" && fail "$1: mpirun's own words: $(cat "$1")"
}

# value KEY FILE: of every line
value()
{
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"
}

# place FILE TENSOR: where its first byte is
place()
{
    local length
    length=$(od -An -tu8 -N8 "$1")
    echo $((8 + length + $(head -c $((8 + length)) "$1" | sed "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")))
}

# put FILE TENSOR: standard input over its first bytes
put()
{
    dd of="$1" bs=1 seek="$(place "$1" "$2")" conv=notrunc 2>/dev/null
}

# ---- The same bits at every stage ----
common=(--steps 4 --micro-batch 2 --lr 3e-3 --weight-decay 0.1 --precision fp32)
for ranks in 2 3; do
    for stage in 0 1 2 3; do
        run $ranks-$stage "$data/gpt2" "${common[@]}" -n $ranks --stage $stage --persist-below 0 --prefetch-bytes 16KiB
        same $ranks-0 $ranks-$stage
    done
    grep -q "$ranks ranks, stage 3" $ranks-3.out || fail "the plan does not say $ranks ranks, stage 3"
done
cmp -s <(columns 2-0) <(columns 3-0) && fail "two and three ranks see the same data"
run alone "$data/gpt2" "${common[@]}"
run one "$data/gpt2" "${common[@]}" -n 1
same alone one

# ---- Started wrongly ----
words "$data/gpt2" "$data/tokens.bin" --steps 2 --output twice
"${mpi[@]}" -n 2 "${words[@]}" -n 2 >twice.out 2>twice.err
code=$?
[ $code = 2 ] || fail "-n under mpirun: code $code"
grep -q '^zinc train: -n: ' twice.err || fail "-n under mpirun: $(cat twice.err)"
"${words[@]}" -n 2 --mpirun /nonexistent >nowhere.out 2>nowhere.err
code=$?
[ $code = 1 ] && [ "$(wc -l <nowhere.err)" = 1 ] && grep -q /nonexistent nowhere.err ||
    fail "--mpirun /nonexistent: code $code: $(cat nowhere.err)"
[ -e twice ] && fail "a run that never started wrote something"

# ---- Ranks that disagree, and one that cannot read its files ----

# apart NAME TEXT: rank 0 runs ${first[@]}, rank 1 ${words[@]}; the job ends with the text
apart()
{
    local begin=$SECONDS code
    rm -rf apart
    "${mpi[@]}" -n 1 "${first[@]}" : -n 1 "${words[@]}" >"$1.out" 2>&1
    code=$?
    [ $code -ne 0 ] && [ $code -ne 124 ] || fail "$1: code $code"
    [ $((SECONDS - begin)) -le $limit ] || fail "$1: ended after $((SECONDS - begin)) seconds"
    [ "$(grep -c "^zinc train: .*$2" "$1.out")" = 1 ] || fail "$1: does not say '$2' once: $(cat "$1.out")"
    [ -e apart/model.safetensors ] && fail "$1: wrote a model"
    [ -z "$(pgrep -f -- "--output $work/apart")" ] || fail "$1: left processes behind"
}

tail -c +1 "$data/tokens.bin" >other.bin # of the same length; tokens 300 to 303 are others
printf '\1\0\2\0\3\0\4\0' | dd of=other.bin bs=1 seek=$((1024 + 2 * 300)) conv=notrunc 2>/dev/null
head -c 3024 "$data/tokens.bin" >short.bin
printf '\350\3\0\0' | dd of=short.bin bs=1 seek=8 conv=notrunc 2>/dev/null # 1000 tokens
cp -r "$data/gpt2" retrained
head -c 64 /dev/zero | put retrained/model.safetensors h.1.mlp.c_proj.weight
together=(--steps 2 --output "$work/apart")
words "$data/gpt2" "$data/tokens.bin" "${together[@]}"
first=("${words[@]}")
words "$data/gpt2" "$data/tokens.bin" "${together[@]}" --lr 2
apart options "rank 1 and rank 0 differ in --lr"
words "$data/gpt2" "$data/tokens.bin" --steps 3 --output "$work/apart"
apart steps "rank 1 and rank 0 differ in --steps"
words "$data/qwen3" "$data/tokens.bin" "${together[@]}"
apart model "rank 1 and rank 0 differ in the model's config.json"
words retrained "$data/tokens.bin" "${together[@]}"
apart weights "rank 1 and rank 0 differ in the model's weights"
words "$data/gpt2" short.bin "${together[@]}"
apart data "rank 1 and rank 0 differ in the data"
words "$data/gpt2" other.bin "${together[@]}"
apart tokens "rank 1 and rank 0 differ in the data"
words "$work/nowhere" "$data/tokens.bin" "${together[@]}"
apart no-model "rank 1: $work/nowhere: no such folder"
words "$data/gpt2" "$work/nowhere.bin" "${together[@]}"
apart no-data "rank 1: .*$work/nowhere.bin"
mkdir cut
cp "$data/gpt2/config.json" cut/
head -c 50000 "$data/gpt2/model.safetensors" >cut/model.safetensors
words cut "$data/tokens.bin" "${together[@]}"
apart cut-model "rank 1: .*cut/model.safetensors"

words "$data/gpt2" "$data/tokens.bin" "${together[@]}" --resume
apart resume "rank 1 and rank 0 differ in --resume"
words=(env ZINC_ISA=none "${first[@]}")
apart isa "rank 1: ZINC_ISA: 'none' is not an instruction set"
words=("${first[@]}" --freeze nothing)
apart freeze "rank 1: --freeze 'nothing'"

# One that fails while it fills its parameters, when the others are sharing theirs already: its cause, not what they asked for.
swap=(--offload-optimizer nvme --stage 3 --allow-buffered-swap)
words "$data/gpt2" "$data/tokens.bin" "${together[@]}" "${swap[@]}" --nvme-path "$work"
plain=("${words[@]}") broken=(env ZINC_STORAGE_FAULT=1:EIO "${words[@]}")
first=("${plain[@]}") words=("${broken[@]}")
apart fill-1 "rank 1: $work: cannot write .*: Input/output error"
first=("${broken[@]}") words=("${plain[@]}")
apart fill-0 "rank 0: $work: cannot write .*: Input/output error"
words "$data/gpt2" "$data/tokens.bin" "${together[@]}" "${swap[@]}" --nvme-path "$work/nowhere"
first=("${plain[@]}")
apart no-swap "rank 1: $work/nowhere: cannot make a swap file here"

# A checkpoint that one rank does not see is not passed over.
words "$data/gpt2" "$data/tokens.bin" --steps 2 --checkpoint-every 1 --output "$work/seen" -n 2
timeout 60 "${words[@]}" >seen.out 2>&1 || fail "seen: $(cat seen.out)"
words "$data/gpt2" "$data/tokens.bin" --steps 3 --output "$work/seen" --resume
first=("${words[@]}")
words=(env LD_PRELOAD="$3/tests/libfail_calls.so" FAIL_CALL='pread:*/state.json:5' "${words[@]}")
apart seen-by-one "--resume: $work/seen/checkpoints/step-0000000[12] can be opened on 1 of 2 ranks.* rank 1: .*state.json"
[ -e seen/checkpoints/step-00000001 ] || fail "seen-by-one: the checkpoint is gone"

# One that fails in mid-run is heard, whichever it is.
swap=(--offload-optimizer nvme --stage 3 --nvme-path "$work" --allow-buffered-swap)
words "$data/gpt2" "$data/tokens.bin" --steps 100000000 --output "$work/apart" "${swap[@]}"
plain=("${words[@]}") broken=(env ZINC_STORAGE_FAULT=400:EIO "${words[@]}")
first=("${plain[@]}") words=("${broken[@]}")
apart fault-1 "rank 1: $work: cannot .*: Input/output error"
first=("${broken[@]}") words=("${plain[@]}")
apart fault-0 "rank 0: $work: cannot .*: Input/output error"
words "$data/gpt2" "$data/tokens.bin" --steps 100000000 --output "$work/apart" -n 3 "${swap[@]}"
rm -rf apart
ZINC_STORAGE_FAULT=400:EIO timeout 60 "${words[@]}" >fault.out 2>fault.err
once fault.err "rank [012]: $work: cannot .*: Input/output error" " with code 1"
words "$data/gpt2" "$data/tokens.bin" --steps 2 --output "$work/apart" -n 3 --freeze nothing
timeout 60 "${words[@]}" >usage.out 2>usage.err
[ $? = 2 ] || fail "a mistake that ranks find: not code 2"
once usage.err "--freeze 'nothing': no parameter" " with code 2"
"${words[@]}" --mpirun /bin/false >false.out 2>false.err
once false.err "" " with code 1"

# ---- Ranks that die ----

# of_job: processes of the present job
of_job()
{
    pgrep -f -- "--output $work/victim"
}

# dies HOW: a job of three ranks in the middle of training; then HOW, and all must end
dies()
{
    local how=$1 job rank begin code segments
    rm -rf victim
    words "$data/gpt2" "$data/tokens.bin" --steps 100000000 --output "$work/victim" -n 3 --stage 3
    "${words[@]}" >victim.out 2>&1 &
    job=$!
    for ((i = 0; i < 300; i++)); do
        grep -q '^{"step":20,' victim/metrics.jsonl 2>/dev/null && break
        sleep 0.1
    done
    ((i < 300)) || fail "$how: training did not begin: $(cat victim.out)"
    mapfile -t ranks < <(for rank in $(of_job | grep -vx $job); do
        grep -qx zinc "/proc/$rank/comm" && echo "$rank"
    done)
    ((${#ranks[@]} == 3)) || fail "$how: ${#ranks[@]} ranks, not 3"
    segments=$(for rank in "${ranks[@]}"; do grep -o '/dev/shm/[^ ]*' "/proc/$rank/maps"; done | sort -u)
    begin=$SECONDS
    case $how in
        rank*) kill -9 "${ranks[${how#rank}]}" ;;
        mpirun) kill -TERM $job ;;
    esac
    wait $job
    code=$?
    [ $code -ne 0 ] || fail "$how: code 0"
    for ((i = 0; i < 100; i++)); do
        [ -z "$(of_job)" ] && break
        sleep 0.1
    done
    [ $((SECONDS - begin)) -le $limit ] || fail "$how: ended after $((SECONDS - begin)) seconds"
    mapfile -t ranks < <(of_job)
    ((${#ranks[@]} == 0)) || { fail "$how: processes are left"; kill -9 "${ranks[@]}"; }
    case $how in
        rank*) once victim.out "rank ${how#rank} died" ': signal 9 (Killed)' ;;
        mpirun) once victim.out "stopped as asked after step" " with code 1" ;;
    esac
    for segment in $segments; do
        [ ! -e "$segment" ] || [[ $segment == */__KMP* ]] || fail "$how: left $segment behind"
    done
}

dies rank0
dies rank2
dies mpirun

# ---- Gradients that are not finite ----

# One large value that meets a row of zeros: forward does not see it, only the gradient of that row overflows. The loud
# last norm makes gradients large enough for that.
cp -r "$data/gpt2" overflow
printf '\377\377\177\177' | put overflow/model.safetensors h.1.ln_2.bias
head -c 512 /dev/zero | put overflow/model.safetensors h.1.mlp.c_fc.weight
for ((i = 0; i < 32; i++)); do printf '\0\0\200\103'; done | put overflow/model.safetensors ln_f.weight
# One infinity: nothing is finite any more.
cp -r "$data/gpt2" infinite
printf '\0\0\200\177' | put infinite/model.safetensors h.0.attn.c_attn.weight

# skips NAME TENSOR FLAGS…: ten skipped steps, each naming the tensor, then the end
skips()
{
    local name=$1 tensor=$2 code
    words "${name%%-*}" "$data/tokens.bin" --steps 40 --output "$name" "${@:3}"
    timeout 120 "${words[@]}" >"$name.out" 2>"$name.err"
    code=$?
    [ $code = 1 ] || fail "$name: code $code: $(tail -1 "$name.err")"
    grep -q "^zinc train: 10 steps in a row were skipped.* gradient of $tensor is not finite" "$name.err" ||
        fail "$name: does not name $tensor: $(cat "$name.err")"
    case $* in
        *" -n "*) once "$name.err" "10 steps in a row were skipped" " with code 1" ;;
    esac
    local log=$name/metrics.jsonl n
    n=$(grep -c "\"loss\":null,\"skipped\":true,\"reason\":\"gradient of $tensor is not finite\"" "$log")
    [ "$n" = 10 ] && [ "$(wc -l <"$log")" = 10 ] || fail "$name: $n skipped steps in the log"
    [ -e "$name/model.safetensors" ] && fail "$name: wrote a model"
}

skips overflow-1 transformer.h.1.mlp.c_fc.weight
for stage in 0 3; do
    skips overflow-2-$stage transformer.h.1.mlp.c_fc.weight -n 2 --stage $stage
    skips infinite-2-$stage transformer.wte.weight -n 2 --stage $stage
done

# ---- fp16 ----

# scale_is NAME SCALE: in every step
scale_is()
{
    local scales
    scales=$(value scale "$1/metrics.jsonl" | sort -u)
    [ "$scales" = "$2" ] || fail "$1: scales are" $scales
}

half=(--precision fp16 --no-shuffle --micro-batch 4 --lr 1e-3)
run fp16 "$data/gpt2-calm" "${half[@]}" --steps 40 --epochs 1 -n 2 --stage 3
scale_is fp16 65536
grep -q skipped fp16/metrics.jsonl && fail "fp16: a step was skipped"
value loss fp16/metrics.jsonl | awk 'NR <= 5 { a += $1 } NR > 35 { b += $1 } END { exit !(b > 0 && b < 0.9 * a) }' ||
    fail "fp16: the loss does not fall"
run given "$data/gpt2-calm" "${half[@]}" --steps 2 --loss-scale-init 1024
scale_is given 1024
run static "$data/gpt2-calm" "${half[@]}" --steps 2 --loss-scale 512
scale_is static 512

# From far too high: the first overflow is forgiven, each of the others halves the scale, then training goes on.
for stage in 0 3; do
    run high-$stage "$data/gpt2-calm" "${half[@]}" --steps 120 --loss-scale-init 1e30 -n 2 --stage $stage
    awk -F '"scale":' '{ scale = $2 + 0; bad = /"skipped":true/
                         want = NR == 1 ? 1e30 : before_bad && NR > 2 ? before / 2 : before
                         if (scale < want * 0.999999 || scale > want * 1.000001 || (bad && good)) wrong = NR
                         good += !bad; before = scale; before_bad = bad }
                       END { exit !(!wrong && good > 5 && good < NR - 50) }' high-$stage/metrics.jsonl ||
        fail "a scale of 1e30 at stage $stage: $(value scale high-$stage/metrics.jsonl | tr '\n' ' ')"
done
same high-0 high-3

exit $((failures > 0))
