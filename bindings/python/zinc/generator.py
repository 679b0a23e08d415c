"""Text from a model."""

import ctypes

from . import context as contexts
from ._library import GenerateResult, lib
from .options import Options


class Generator:
    """A model that answers one prompt, by the options of `zinc generate`: zinc.Generator("tuned", "Once", max_tokens=20).text()."""

    def __init__(self, model, prompt, *, options=None, context=None, **values):
        self._handle = ctypes.c_void_p()
        self.context = context if context is not None else contexts.default()
        options = options if options is not None else Options("generate")
        for name, value in {"model": model, "prompt": prompt, **values}.items():
            options[name] = value
        lib.zn_generator_open(self.context._handle, options._handle, None, ctypes.byref(self._handle))
        self.context._add(self)

    def text(self):
        """The text of the new tokens."""
        result = GenerateResult()
        lib.zn_generator_answer(self._handle, 0, ctypes.byref(result))
        try:
            return ctypes.string_at(result.text, result.n_bytes).decode("utf-8", "replace")
        finally:
            lib.zn_generate_result_fini(ctypes.byref(result))

    def close(self):
        if self._handle:
            lib.zn_generator_destroy(self._handle)
            self._handle = ctypes.c_void_p()
            self.context._remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()
