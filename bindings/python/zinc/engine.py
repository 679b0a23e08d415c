"""Training, step by step."""

import ctypes
import json
import os
from collections import namedtuple
from collections.abc import Mapping

import numpy

from . import context as contexts
from ._library import TELL_TEXT, EngineSetup, EvaluationResult, Listener, StepResult, bytes_of, lib, text_of
from .model import Model, parameters_of
from .options import Options

Step = namedtuple("Step", "step steps loss grad_norm lr seconds scale tokens targets skipped reason eval_loss")
Evaluation = namedtuple("Evaluation", "loss perplexity windows tokens targets")


class _Data:
    """Texts (str), rows (dict), files (pathlib.Path) and tokens (numpy arrays of whole numbers) as data of the library."""

    def __init__(self, items):
        self.handle = ctypes.c_void_p()
        lib.zn_data_create(ctypes.byref(self.handle))
        if isinstance(items, (str, bytes, os.PathLike, numpy.ndarray, Mapping)):
            items = [items]
        for item in items:
            self._add(item)

    def _add(self, item):
        if isinstance(item, str):
            text = item.encode()
            lib.zn_data_add_text(self.handle, text, len(text))
        elif isinstance(item, Mapping):
            lib.zn_data_add_row(self.handle, json.dumps(item, ensure_ascii=False).encode())
        elif isinstance(item, os.PathLike):
            lib.zn_data_add_path(self.handle, bytes_of(item))
        elif isinstance(item, numpy.ndarray) and item.dtype.kind in "iu" and item.ndim == 1:
            ids = numpy.ascontiguousarray(item, dtype=numpy.int32)
            lib.zn_data_add_tokens(self.handle, ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), len(ids))
        else:
            raise TypeError(f"data are texts, dicts, pathlib.Path objects and arrays of token ids, not {type(item).__name__}")

    def __del__(self):
        if self.handle:
            lib.zn_data_destroy(self.handle)
            self.handle = None


class Engine:
    """A model with its optimizer.

    model      a folder, ORG/NAME in the hub's cache, or a zinc.Model
    data       texts, rows as dicts, pathlib.Path of files, arrays of token ids, or a list of them; None: options["data"]
    eval_data  the same, held out
    note       called with the text of each warning and each thing that is said once
    options    those of `zinc train`, as names or as zinc.Options; config= names a file of them

    Iterating takes the steps: `for step in engine`. All of its functions are collective: under mpirun every rank calls them."""

    def __init__(self, model=None, data=None, eval_data=None, *, options=None, context=None, note=None, **values):
        self._handle = ctypes.c_void_p()
        self.context = context if context is not None else contexts.default()
        options = options if options is not None else Options("train", config=values.pop("config", None))
        for name, value in values.items():
            options[name] = value
        model = model if model is None or isinstance(model, Model) else Model(model)
        data, eval_data = (None if d is None else _Data(d) for d in (data, eval_data))
        self._note = TELL_TEXT(lambda _, text: note(text.decode("utf-8", "replace"))) if note else TELL_TEXT()
        listener = Listener(note=self._note)
        setup = EngineSetup(ctypes.sizeof(EngineSetup), self.context._handle, options._handle, model._handle if model else None,
                            data.handle if data else None, eval_data.handle if eval_data else None, ctypes.pointer(listener))
        lib.zn_engine_create(ctypes.byref(setup), ctypes.byref(self._handle))
        self.context._add(self)
        self.parameters = parameters_of(lib.zn_engine_parameter, self._handle, lib.zn_engine_n_parameters(self._handle))

    # ---- Steps ----

    @property
    def is_done(self):
        return bool(lib.zn_engine_is_done(self._handle))

    def step(self):
        """The next step, with what is due after it."""
        r = StepResult(ctypes.sizeof(StepResult))
        lib.zn_engine_step(self._handle, ctypes.byref(r))
        return Step(r.step, r.steps, r.loss, r.grad_norm, r.lr, r.seconds, r.scale, r.tokens, r.targets, bool(r.skipped),
                    r.reason.decode() if r.reason else "", r.eval_loss if r.evaluated else None)

    def __iter__(self):
        while not self.is_done:
            yield self.step()

    def finish(self):
        """After the last step, with the option output: ends its log and run.json."""
        lib.zn_engine_finish(self._handle)

    def evaluate(self):
        """The mean loss on the held-out data."""
        r = EvaluationResult(ctypes.sizeof(EvaluationResult))
        lib.zn_engine_evaluate(self._handle, ctypes.byref(r))
        return Evaluation(r.loss, r.perplexity, r.windows, r.tokens, r.targets)

    # ---- Values ----

    @property
    def states(self):
        """Names of the states of a trained parameter: "master" and those of the optimizer."""
        names = []
        while True:
            name = lib.zn_engine_state(self._handle, len(names))
            if name is None:
                return names
            names.append(name.decode())

    def read(self, name, state=None):
        """The values of a parameter, or of a state of it, as an array of fp32."""
        if name not in self.parameters:
            raise KeyError(name)
        values = numpy.empty(self.parameters[name].shape, dtype=numpy.float32)
        lib.zn_engine_read(self._handle, name.encode(), state.encode() if state else None,
                           values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size)
        return values

    def __getitem__(self, name):
        return self.read(name)

    def option(self, name):
        """The value of an option as the run has it, as text."""
        return text_of(lib.zn_engine_get, self._handle, name.encode())

    @property
    def program(self):
        """The program of a step, one instruction a line."""
        return text_of(lib.zn_engine_program, self._handle)

    # ---- Files ----

    def save(self, folder):
        """A checkpoint as folder/step-N."""
        lib.zn_engine_save(self._handle, bytes_of(folder))

    def load(self, folder):
        """Goes on from a checkpoint."""
        lib.zn_engine_load(self._handle, bytes_of(folder))

    def export(self, folder):
        """The model with its present weights, or its adapters, as a hub folder."""
        lib.zn_engine_export(self._handle, bytes_of(folder))

    # ---- The end ----

    def close(self):
        """Frees all that it holds. What was not saved or exported is lost."""
        if self._handle:
            lib.zn_engine_destroy(self._handle)
            self._handle = ctypes.c_void_p()
            self.context._remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()
