"""Zinc from Python: train and fine-tune language models bigger than memory.

    import zinc

    with zinc.Engine("SmolLM2-135M", ["Once upon a time…", …], seq_len=64, epochs=3, lr=1e-4) as engine:
        for step in engine:
            print(step.step, step.loss)
        engine.export("tuned")

Options are those of `zinc train` with underscores for dashes. Under mpirun every rank runs the same script."""

from ._library import Error, lib
from .context import Context
from .engine import Engine, Evaluation, Step
from .generator import Generator
from .model import Model, Parameter
from .options import Options
from .plan import Plan
from .tokenizer import Tokenizer
from .checkpoint import Checkpoint, checkpoints, merge

__version__ = lib.zn_version().decode()
__all__ = ["Checkpoint", "Context", "Engine", "Error", "Evaluation", "Generator", "Model", "Options", "Parameter", "Plan", "Step", "Tokenizer",
           "checkpoints", "merge"]
