# Sourced by the tests that run the pages' commands; they have $zinc, $source and $work. make_fixtures FOLDER: the folders and files that
# pages speak of, with one small model in the place of each real one.
make_fixtures()
{
    local to=$1 name
    mkdir -p "$to/corpus" "$work/bin" "$work/home/.local/share/bash-completion/completions"
    ln -s "$zinc" "$work/bin/zinc"
    for name in tests examples bench scripts data; do
        ln -s "$source/$name" "$to/$name"
    done
    mkdir -p "$to/build" "$work/made"
    ln -s "$zinc" "$to/build/zinc"
    cp "$source"/tests/data/chat/bytes/tokenizer*.json "$work/made"
    sed 's/"vocab_size": 257/"vocab_size": 380/; s/"hidden_size": 192/"hidden_size": 96/; s/"eos_token_id": 256/"eos_token_id": 2/
         s/"num_attention_heads": 6/"num_attention_heads": 3/; s/"num_key_value_heads": 2/"num_key_value_heads": 1/' \
        "$source/examples/demo/config.json" >"$work/made/config.json"
    head -c 4000 "$source/examples/demo/demo.txt" >"$to/book.txt"
    head -c 3000 "$source/examples/demo/heldout.txt" | tee "$to/held-out.txt" >"$to/corpus/text.txt"
    for name in chats conversations others; do
        head -4 "$source/tests/data/chat/owl.jsonl" >"$to/$name.jsonl"
    done
    for name in one two three four; do
        echo "{\"prompt\": \"Say $name.\", \"chosen\": \"$name\", \"rejected\": \"no\"}" >>"$to/pairs.jsonl"
    done
    "$zinc" train --model "$work/made" --from-scratch --data "$to/book.txt" --seq-len 64 --steps 0 --output "$work/small" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
    mkdir "$work/model"
    cp "$work"/small/{config,tokenizer,tokenizer_config}.json "$work/small/model.safetensors" "$work/model"
    for name in gpt2 my-model SmolLM2-135M SmolLM2-135M-Instruct Qwen2.5-0.5B Qwen2.5-1.5B; do
        cp -r "$work/model" "$to/$name"
    done
    for name in zinc-out first second third gpt2-book; do
        "$zinc" train --model "$work/model" --data "$to/book.txt" --seq-len 64 --steps 4 --checkpoint-every 4 --output "$to/$name" \
            >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    done
    "$zinc" train --model "$work/model" --data "$to/book.txt" --seq-len 64 --steps 2 --lora-rank 2 --output "$to/owl" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
    cp "$source/tests/data/deepspeed/stage3_nvme.json" "$to/ds_config.json"
    export PATH=$work/bin:$PATH HOME=$work/home XDG_CACHE_HOME=$work/home/.cache SMALL_MODEL=$work/model
}
