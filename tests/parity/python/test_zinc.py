"""The package against the command: losses and weights to the last bit, values, plans, tokens and checkpoints."""

import json
import os
import pathlib
import subprocess

import numpy
import pytest

import zinc

ZINC = os.environ["ZINC"]
DATA = pathlib.Path(os.environ["DATA"]) / "parity"
TOKENS = DATA / "tokens.bin"
FLAGS = dict(steps=4, micro_batch=2, accumulate=2, seq_len=16, lr=1e-3, threads=1)


def train(model, output, *flags, data=TOKENS):
    """The command's losses as its log has them."""
    words = [w for name, value in FLAGS.items() for w in ("--" + name.replace("_", "-"), str(value))]
    subprocess.run([ZINC, "train", "--model", model, "--data", data, "--output", output, "--quiet", *words, *flags], check=True)
    return [json.loads(line)["loss"] for line in open(output / "metrics.jsonl")]


def as_logged(loss):
    return float("%.9g" % loss)


def test_steps_are_those_of_the_command(tmp_path):
    losses = train(DATA / "llama2", tmp_path / "command")
    with zinc.Engine(DATA / "llama2", TOKENS, **FLAGS) as engine:
        assert [as_logged(step.loss) for step in engine] == losses
        engine.export(tmp_path / "python")
    assert (tmp_path / "command/model.safetensors").read_bytes() == (tmp_path / "python/model.safetensors").read_bytes()


def test_two_engines_in_turns():
    def alone(model):
        with zinc.Engine(DATA / model, TOKENS, **FLAGS) as engine:
            return [step.loss for step in engine]

    with zinc.Engine(DATA / "gpt2", TOKENS, **FLAGS) as a, zinc.Engine(DATA / "llama2", TOKENS, **FLAGS) as b:
        turns = [(x.loss, y.loss) for x, y in zip(a, b)]
    assert list(zip(alone("gpt2"), alone("llama2"))) == turns


def test_values_and_states():
    with zinc.Engine(DATA / "gpt2", TOKENS, **FLAGS) as engine:
        name = "transformer.h.0.mlp.c_fc.weight"
        before, shape = engine[name], engine.parameters[name].shape
        assert before.shape == shape and before.dtype == numpy.float32
        assert engine.states == ["master", "exp_avg", "exp_avg_sq"]
        assert not engine.read(name, "exp_avg").any()
        engine.step()
        assert (engine[name] != before).mean() > 0.9
        assert (numpy.sign(before - engine[name]) == numpy.sign(engine.read(name, "exp_avg"))).mean() > 0.9
        assert engine.option("precision") == "fp32"
        with pytest.raises(KeyError):
            engine["nobody"]
        with pytest.raises(zinc.Error, match="momentum"):
            engine.read(name, "momentum")


def test_tokens_rows_and_held_out_data():
    ids = numpy.fromfile(TOKENS, dtype=numpy.uint16)[512:]
    with zinc.Engine(DATA / "gpt2", TOKENS, **FLAGS) as engine:
        losses = [step.loss for step in engine]
    with zinc.Engine(DATA / "gpt2", ids, eval_data=ids[:400], **FLAGS) as engine:
        steps = list(engine)
        assert [step.loss for step in steps] == losses
        assert engine.evaluate().loss == steps[-1].eval_loss
        assert engine.evaluate().windows == 399 // 16
    with pytest.raises(TypeError):
        zinc.Engine(DATA / "gpt2", [3.5], **FLAGS)


def test_checkpoints(tmp_path):
    with zinc.Engine(DATA / "gpt2", TOKENS, **FLAGS) as engine:
        engine.step()
        engine.step()
        engine.save(tmp_path)
        rest = [step.loss for step in engine]
        engine.load(tmp_path)
        assert [step.loss for step in engine] == rest
    (path,) = zinc.checkpoints(tmp_path)
    checkpoint = zinc.Checkpoint(path)
    assert checkpoint.step == 2 and checkpoint.optimizer == "adamw"
    checkpoint.verify()
    checkpoint.export(tmp_path / "bf16", "bf16")
    assert zinc.Model(tmp_path / "bf16").architecture == "gpt2"


def test_options():
    options = zinc.Options("train", lr=1e-4, seq_len=64, from_scratch=True, keep_logits=True, data=["a.txt", "b.txt"], memory_limit="4GiB")
    assert float(options["lr"]) == 1e-4
    assert options["data"] == "a.txt\nb.txt"
    assert options["keep_logits"] == "on" and options["from_scratch"] == "true"
    assert options["memory-limit"] == str(4 << 30)
    assert options["steps"] is None
    assert "seq-len: 64" in str(options)
    with pytest.raises(zinc.Error, match="did you mean") as failure:
        options["seq_length"] = 3
    assert failure.value.status == 1
    with pytest.raises(zinc.Error, match="no such folder"):
        zinc.Engine("/nowhere", TOKENS)


def test_plan(tmp_path):
    plan = zinc.Plan(params="1.5B", cluster="dgx2-v100", ranks=16, stage=2, micro_batch=4)
    printed = subprocess.run([ZINC, "plan", "--params", "1.5B", "--cluster", "dgx2-v100", "--ranks", "16", "--stage", "2", "--micro-batch", "4",
                              "--json"], check=True, capture_output=True, text=True).stdout
    assert plan.fits and plan.json == json.loads(printed)
    assert "reduce" in plan.program and "16 ranks" in str(plan)


def test_adapters_are_trained_and_merged(tmp_path):
    with zinc.Engine(DATA / "llama2", TOKENS, lora_rank=2, **FLAGS) as engine:
        assert [name for name, p in engine.parameters.items() if p.is_trained] == [n for n in engine.parameters if "lora" in n]
        list(engine)
        engine.export(tmp_path / "adapter")
    zinc.merge(DATA / "llama2", tmp_path / "adapter", tmp_path / "python")
    subprocess.run([ZINC, "merge", "--model", DATA / "llama2", "--adapter", tmp_path / "adapter", "--output", tmp_path / "command"], check=True)
    assert (tmp_path / "command/model.safetensors").read_bytes() == (tmp_path / "python/model.safetensors").read_bytes()


def test_model_tells():
    model = zinc.Model(DATA / "gpt2")
    assert model.n_elements == sum(numpy.prod(p.shape) for p in model.parameters.values()) == 29984


# ---- A real model ----

smollm2 = pytest.mark.skipif("MODEL" not in os.environ, reason="SmolLM2 is not there")
TEXTS = ["In the beginning God created the heaven and the earth.", "And the earth was without form, and void; \"dark\" – é 日本.\n\nNew line.",
         "And God said, Let there be light: and there was light."] * 6


@smollm2
def test_tokenizer():
    tokenizer = zinc.Tokenizer(os.environ["MODEL"])
    for text in TEXTS[:3] + [""]:
        ids = tokenizer.encode(text)
        assert ids.dtype == numpy.int32 and tokenizer.decode(ids) == text
    printed = subprocess.run([ZINC, "tokenize", "--model", os.environ["MODEL"], "--text", TEXTS[1]], check=True, capture_output=True, text=True)
    assert [int(i) for i in printed.stdout.split()] == list(tokenizer.encode(TEXTS[1]))
    assert len(tokenizer) > 49000 and tokenizer.eos is not None


@smollm2
def test_texts_fine_tune_as_rows_of_a_file(tmp_path):
    model = os.environ["MODEL"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    flags = dict(seq_len=32, steps=3, lr=1e-4, precision="fp32")
    words = [w for name, value in flags.items() for w in ("--" + name.replace("_", "-"), str(value))]
    subprocess.run([ZINC, "train", "--model", model, "--data", tmp_path / "rows.jsonl", "--output", tmp_path / "command", "--quiet", *words],
                   check=True)
    losses = [json.loads(line)["loss"] for line in open(tmp_path / "command/metrics.jsonl")]
    with zinc.Engine(model, TEXTS, **flags) as engine:
        steps = list(engine)
        engine.export(tmp_path / "python")
    assert [as_logged(step.loss) for step in steps] == losses
    assert steps[-1].loss < steps[0].loss
    assert (tmp_path / "command/model.safetensors").read_bytes() == (tmp_path / "python/model.safetensors").read_bytes()
    with zinc.Generator(tmp_path / "python", "In the beginning", max_tokens=4) as generator:
        assert len(generator.text()) > 0
