"""The models and the data that configurations are drawn from: the folders of tests/data/parity, and odd shapes made here."""
import json
import os
import random
import shutil

WORDS = ("the owl said that a river of zinc runs below every hill and no one who has seen it can tell how deep "
         "it is or where it ends while the night is long").split()

# Shapes whose sizes divide by nothing that ranks, tiles and kernels are cut by.
ODD = {
    "odd-qwen3": {"model_type": "qwen3", "hidden_size": 72, "intermediate_size": 155, "num_hidden_layers": 3,
                  "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 20, "vocab_size": 391,
                  "tie_word_embeddings": True, "max_position_embeddings": 256, "initializer_range": 0.1},
    "odd-llama": {"model_type": "llama", "hidden_size": 60, "intermediate_size": 101, "num_hidden_layers": 5,
                  "num_attention_heads": 6, "num_key_value_heads": 3, "vocab_size": 407, "hidden_act": "silu",
                  "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "max_position_embeddings": 128,
                  "initializer_range": 0.1},
    "odd-gpt2": {"model_type": "gpt2", "n_embd": 52, "n_head": 2, "n_layer": 3, "n_positions": 96, "n_ctx": 96,
                 "vocab_size": 403, "initializer_range": 0.1, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                 "attn_pdrop": 0.0},
    "odd-wide": {"model_type": "qwen2", "hidden_size": 136, "intermediate_size": 331, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1511, "hidden_act": "silu",
                 "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "max_position_embeddings": 256,
                 "initializer_range": 0.1},
}
GIVEN = ("gpt2", "gpt2-gelu", "llama-bias", "llama-linear", "llama2", "llama3", "mistral", "qwen2", "qwen2-window",
         "qwen3", "qwen3-window")
DATA = ("tokens", "text", "chat", "prompts", "mixed")


def sentence(rng, least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def write_rows(path, make, n):
    rng = random.Random(path.rsplit("/", 1)[1])
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(n):
            file.write(json.dumps(make(rng)) + "\n")


def chat(rng):
    messages = []
    for _ in range(rng.randint(1, 2)):
        messages += [{"role": "user", "content": sentence(rng, 1, 6)},
                     {"role": "assistant", "content": sentence(rng, 1, 8)}]
    return {"messages": messages}


def prompt(rng):
    return {"prompt": sentence(rng, 1, 7), "completion": sentence(rng, 1, 9)}


def mixed(rng):
    return rng.choice((chat, prompt))(rng)


def make(source, folder):
    """Writes the odd models and the data below a folder."""
    data = os.path.join(source, "tests/data")
    for name, config in ODD.items():
        path = os.path.join(folder, name)
        os.makedirs(path)
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        for part in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(data, "chat/bytes", part), path)
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as file:
        file.write(sentence(random.Random("text"), 900, 900))
    for name, row in (("chat", chat), ("prompts", prompt), ("mixed", mixed)):
        write_rows(os.path.join(folder, name + ".jsonl"), row, 60)


def model_path(source, folder, name):
    return os.path.join(folder, name) if name in ODD else os.path.join(source, "tests/data/parity", name)


def data_path(source, folder, name):
    if name == "tokens":
        return os.path.join(source, "tests/data/parity/tokens.bin")
    return os.path.join(folder, name + (".txt" if name == "text" else ".jsonl"))
