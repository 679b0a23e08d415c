#!/usr/bin/env bash
# What a person sees: the live panel of `zinc train` in tmux at 60, 100 and 200 columns and through a resize, Ctrl-C with and
# without -n, and plain lines where there is no terminal. Needs tmux.
set -euo pipefail
zinc=$1
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
socket=zinc-live-$$ n_sessions=0

# A run that is hung up saves before it leaves.
clean_up() {
    tmux -L "$socket" kill-server 2>/dev/null || true
    for ((i = 0; i < 600; i++)); do
        rm -rf "$work" 2>/dev/null && return
        sleep 0.1
    done
}
trap clean_up EXIT
cd "$work"

fail() {
    echo "failed: $*" >&2
    exit 1
}

mkdir model
echo '{"model_type":"gpt2","n_layer":2,"n_head":2,"n_embd":64,"vocab_size":256,"n_positions":64,
       "resid_pdrop":0,"embd_pdrop":0,"attn_pdrop":0}' >model/config.json
seq 1 20000 | tr '\n' ' ' >text.txt
words="--model model --from-scratch --byte-tokenizer --data text.txt --seq-len 32 --threads 1"

# ---- Plain lines ----

"$zinc" train $words --steps 3 --output plain >plain.out 2>plain.err
grep -q $'\033\|\r' plain.out plain.err && fail "escapes where there is no terminal"
[ "$(grep -c '^step [123]/3  loss ' plain.out)" = 3 ] || fail "no line a step: $(cat plain.out)"
"$zinc" train $words --steps 3 --output quiet --quiet >quiet.out 2>quiet.err
[ ! -s quiet.out ] && [ ! -s quiet.err ] || fail "--quiet: $(cat quiet.out quiet.err)"
"$zinc" train $words --steps 3 --output verbose --verbose >verbose.out 2>verbose.err
grep -q '^zinc train: making random weights: .* parameters in ' verbose.err || fail "--verbose: $(cat verbose.err)"
cmp -s plain/model.safetensors verbose/model.safetensors || fail "--verbose changes the weights"
cmp -s plain/model.safetensors quiet/model.safetensors || fail "--quiet changes the weights"
! "$zinc" train $words --quiet --verbose --output both 2>both.err || fail "--quiet goes with --verbose"

command -v tmux >/dev/null || { echo "skipped: tmux is not installed"; exit 77; }

# ---- A terminal ----

# begin WIDTH COMMAND: runs it in a shell of a terminal of this width.
begin() {
    tmux -L "$socket" kill-server 2>/dev/null || true
    socket=zinc-live-$$-$((++n_sessions))
    tmux -L "$socket" -f /dev/null new-session -d -x "$1" -y 40 "cd $work; exec env LC_ALL=C.UTF-8 PS1=READY: bash --norc --noprofile"
    tmux -L "$socket" send-keys "$2" Enter
}

# Waiting may be long on a machine that is busy; it must only have an end. The screen is looked at 10 times a second.
n_looks=6000
look() { tmux -L "$socket" capture-pane -p "$@" >screen.txt; }

# shown PATTERN: waits until the screen has it; leaves it in screen.txt.
shown() {
    for ((i = 0; i < n_looks; i++)); do
        look -S -
        grep -qE -- "$1" screen.txt && return
        sleep 0.1
    done
    fail "the terminal does not show '$1': $(cat screen.txt)"
}

# The panel is there once, below the lines of steps.
panel_is_whole() {
    [ "$(grep -c '^step  *[0-9]* of 1000000 ' screen.txt)" = 1 ] && [ "$(grep -c '^memory  ' screen.txt)" = 1 ] &&
        [ "$(grep -c '^now  ' screen.txt)" = 1 ] && grep -q 'tokens/s.* a step' screen.txt &&
        [ "$(grep -n '^step  *[0-9]* of ' screen.txt | cut -d: -f1)" -gt \
            "$(grep -n '^step [0-9]*/1000000' screen.txt | tail -1 | cut -d: -f1)" ]
}

# shows_panel WHAT [FLAG…]: a look may fall between two parts of a redraw, so it is whole three times in a row; what is drawn wrong stays
# so, and ends the waiting.
shows_panel() {
    local what=$1 n_whole=0
    shift
    for ((i = 0; i < n_looks && n_whole < 3; i++)); do
        look "$@"
        if panel_is_whole; then n_whole=$((n_whole + 1)); else n_whole=0; fi
        sleep 0.1
    done
    [ $n_whole = 3 ] || fail "$what: not one panel below the steps: $(cat screen.txt)"
}

train="$zinc train $words --steps 1000000 --overwrite"
for width in 60 100 200; do
    begin $width "$train --output run-$width"
    shown '^step  *[1-9][0-9]* of 1000000 '
    shown '^loss  *[0-9.]*  [▁▂▃▄▅▆▇█]+'
    shows_panel "$width columns" -S -
    [ $width != 100 ] && continue
    for to in 60 150 80; do
        tmux -L "$socket" resize-window -x $to -y 40
        shows_panel "from 100 to $to columns"
    done
done
tmux -L "$socket" send-keys C-c
shown '^zinc train: stopped by SIGINT after step [0-9]* of 1000000; a checkpoint is saved'
shown '^READY:'
tail -5 screen.txt | grep -q '^now ' && fail "the panel stays after the end: $(cat screen.txt)"

# Without UTF-8 and colours.
begin 100 "LC_ALL=C NO_COLOR=1 $train --output ascii"
shown '^loss  *[0-9.]*  [_.=+*#-]+'
shows_panel ascii -S -
tmux -L "$socket" capture-pane -pe | grep -q $'\033' && fail "colours in spite of NO_COLOR"
begin 100 "TERM=dumb $zinc train $words --steps 2 --output dumb 2>&1 | cat -v; TERM=dumb $zinc train $words --steps 2 --output dumb2"
shown '^wrote dumb2'
grep -q '\^\[' screen.txt && fail "escapes on a dumb terminal"

# ---- Ctrl-C is answered at once, within a step that takes long ----

# As many micro-batches as take some eight seconds here, whatever the build and the load.
n_micro_batches=$(python3 -c 'import json, sys
print(int(8 / min(json.loads(line)["seconds"] for line in open(sys.argv[1]))) + 1)' plain/metrics.jsonl)
begin 100 "$train --output asked --accumulate $n_micro_batches"
shown "now  *step [0-9]+ .*micro-batch [0-9]+ of $n_micro_batches, (forward|backward), segment "
tmux -L "$socket" send-keys C-c
shown '^stopping after this step; once more to stop now$'
shown '^zinc train: stopped by SIGINT after step '
if command -v mpirun >/dev/null; then
    begin 100 "$train --output ranks --accumulate $n_micro_batches -n 2"
    shown "now  *step [0-9]+ .*micro-batch [0-9]+ of $n_micro_batches, (forward|backward), segment "
    tmux -L "$socket" send-keys C-c
    shown '^stopping after this step; once more to stop now$'
    shown '^zinc train: stopped as asked after step [0-9]* of 1000000; a checkpoint is saved'
    shown '^READY:'
    grep -q 'to job\|SIGUSR1\|mpirun' screen.txt && fail "-n speaks of signals: $(cat screen.txt)"
    tail -5 screen.txt | grep -q '^now ' && fail "the panel of ranks stays: $(cat screen.txt)"
fi
exit 0
