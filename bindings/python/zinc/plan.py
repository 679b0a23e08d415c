"""Where every byte and second of a run goes, before it runs."""

import ctypes
import json

from ._library import bytes_of, lib, text_of
from .options import Options


class Plan:
    """A plan by the options of `zinc plan`: zinc.Plan(params="1.5B", cluster="dgx2-v100", ranks=16, stage=2)."""

    def __init__(self, *, options=None, **values):
        self._handle = ctypes.c_void_p()
        options = options if options is not None else Options("plan")
        for name, value in values.items():
            options[name] = value
        lib.zn_plan_create(options._handle, ctypes.byref(self._handle))

    @property
    def fits(self):
        return bool(lib.zn_plan_is_fitting(self._handle))

    @property
    def json(self):
        """What `zinc plan --json` prints, as a dict."""
        return json.loads(text_of(lib.zn_plan_json, self._handle))

    @property
    def program(self):
        """The program of a step, one instruction a line."""
        return text_of(lib.zn_plan_program, self._handle)

    def write_config(self, path):
        """The settings that were chosen, as a file for Options.load and --config."""
        lib.zn_plan_write_config(self._handle, bytes_of(path))

    def __str__(self):
        return text_of(lib.zn_plan_text, self._handle)

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.zn_plan_destroy(self._handle)
            self._handle = None
