#!/usr/bin/env python3
"""--objective dpo against TRL's DPOTrainer, for small models in fp32.

    check_dpo.py PROGRAM DATA_DIR WORK_DIR FIXTURE...

For each fixture, with a tokenizer of letters: zinc makes new adapters; TRL and zinc train them 10 steps on the same pairs, which must agree
in losses, margins and accuracies. The first fixture also with conversations, of which only the last answers count.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import uuid
import warnings

import datasets.fingerprint
import torch
from datasets import Dataset
from peft import PeftModel
from torch.utils.data import SequentialSampler
from transformers import PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

import reference

STEPS, PAIRS_A_STEP, BETA, LR = 10, 4, 0.3, 1e-2
LOSS_BOUND = 1e-4
TEMPLATE = ("{% for m in messages %}{{ '<' + m['role'][0] + '>' + m['content'] + '<end>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<a>' }}{% endif %}")


def zinc(program, *args):
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"zinc {' '.join(map(str, args))}: {done.stderr[-2000:]}")


def make_model(source, folder):
    """The fixture with a tokenizer of single letters."""
    shutil.copytree(source, folder)
    special = ["<pad>", "<end>", "<u>", "<a>", "<s>"]
    vocab = {c: i for i, c in enumerate(special)} | {chr(c): c for c in range(ord("A"), ord("d"))}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": True} for i, c in enumerate(special)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "pad_token": "<pad>", "chat_template": TEMPLATE}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None}))


def letters(n):
    return "".join(random.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(n))


def make_pairs(chat):
    rows = []
    for _ in range(STEPS * PAIRS_A_STEP):
        prompt, chosen, rejected = letters(random.randint(1, 6)), letters(random.randint(1, 7)), letters(random.randint(1, 7))
        if chat:
            prompt = [{"role": "user", "content": prompt}, {"role": "assistant", "content": letters(3)}, {"role": "user", "content": letters(2)}]
            chosen, rejected = [{"role": "assistant", "content": chosen}], [{"role": "assistant", "content": rejected}]
        rows.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    return rows


class Trainer(DPOTrainer):
    """In the order of the data, with every loss kept as it is."""

    def _get_train_sampler(self, *args):
        return SequentialSampler(self.train_dataset)

    def compute_loss(self, *args, **kwargs):
        out = super().compute_loss(*args, **kwargs)
        self.losses = getattr(self, "losses", []) + [(out[0] if isinstance(out, tuple) else out).item()]
        return out


def train_trl(model, start, rows, work):
    config = DPOConfig(output_dir=str(work), use_cpu=True, bf16=False, fp16=False, per_device_train_batch_size=PAIRS_A_STEP,
                       gradient_accumulation_steps=1, max_steps=STEPS, learning_rate=LR, lr_scheduler_type="constant", warmup_steps=0,
                       weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, max_grad_norm=1.0, beta=BETA,
                       max_length=None, logging_steps=1, save_strategy="no", report_to="none", gradient_checkpointing=False,
                       disable_tqdm=True, remove_unused_columns=False, dataloader_num_workers=0)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    adapted = PeftModel.from_pretrained(reference.load(model, torch.float32), start, is_trainable=True)
    trainer = Trainer(model=adapted, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
    trainer.train()
    logs = [line for line in trainer.state.log_history if "rewards/margins" in line]
    return trainer.losses, [l["rewards/margins"] for l in logs], [l["rewards/accuracies"] for l in logs]


def read_log(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [[line[key] for line in lines] for key in ("loss", "margin", "accuracy")]


def worst(a, b):
    assert len(a) == len(b), f"{len(a)} steps, not {len(b)}"
    return max(abs(x - y) for x, y in zip(a, b))


def check(program, data, work, name, chat):
    work.mkdir()
    model, start, seq_len = work / "model", work / "start", 64 if chat else 40
    make_model(data / name, model)
    rows = make_pairs(chat)
    (work / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = ("--model", model, "--data", work / "pairs.jsonl", "--objective", "dpo", "--dpo-beta", BETA, "--precision", "fp32")
    zinc(program, "train", *common, "--lora-rank", 4, "--lora-alpha", 8, "--steps", 0, "--seq-len", seq_len, "--output", start)
    theirs = train_trl(model, start, rows, work / "trl")
    flags = (*common, "--adapter", start, "--no-shuffle", "--lr", LR, "--steps", STEPS, "--seq-len", seq_len)
    for batch in 1, 2:
        out = work / f"run-{batch}"
        zinc(program, "train", *flags, "--packing", "none", "--micro-batch", batch, "--accumulate", PAIRS_A_STEP // batch, "--output", out)
        ours = read_log(out)
        found = [worst(a, b) for a, b in zip(ours, theirs)]
        print(f"{name}{' as conversations' if chat else ''}, micro-batch {batch}: of {STEPS} steps losses differ by at most {found[0]:.1e}, "
              f"margins {found[1]:.1e}, accuracies {found[2]:.1e}; losses {ours[0][0]:.6f} to {ours[0][-1]:.6f}")
        if not (found[0] <= LOSS_BOUND and found[1] <= LOSS_BOUND and found[2] <= 1e-6):
            sys.exit(f"{name}: above {LOSS_BOUND:.0e}: {ours} and {theirs}")
        if not ours[0][-1] < ours[0][0]:
            sys.exit(f"{name}: nothing is learnt")


def main():
    program, data, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    warnings.filterwarnings("ignore")
    datasets.fingerprint.Hasher.hash = classmethod(lambda cls, value: uuid.uuid4().hex)  # nothing is to be found in a cache
    random.seed(7)
    for i, name in enumerate(sys.argv[4:]):
        check(program, data, work / name, name, False)
        if i == 0:
            check(program, data, work / f"{name}-chat", name, True)


main()
