"""Options by name."""

import ctypes
import os

from ._library import Error, bytes_of, lib, text_of


def _texts(value):
    """A value as texts of the command line."""
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, float):
        return [repr(value)]
    return [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]


class Options:
    """The options of a command, "train", "eval", "generate" or "plan": options["seq_len"] = 128. Names have underscores or dashes; values are
    numbers, texts as on the command line ("4GiB"), True and False, or lists of them. None takes a value back."""

    def __init__(self, command="train", config=None, **values):
        self._handle = ctypes.c_void_p()
        lib.zn_options_create(command.encode(), ctypes.byref(self._handle))
        for name, value in values.items():
            self[name] = value
        if config is not None:
            self.load(config)

    def __setitem__(self, name, value):
        name = name.encode()
        if value is None or isinstance(value, (list, tuple)):
            lib.zn_options_unset(self._handle, name)
        if isinstance(value, bool):
            self._set_bool(name, value)
        elif value is not None:
            for text in _texts(value):
                lib.zn_options_set(self._handle, name, bytes_of(text))

    def _set_bool(self, name, value):
        """Flags are true or false, switches on or off."""
        try:
            lib.zn_options_set(self._handle, name, b"true" if value else b"false")
        except Error:
            lib.zn_options_set(self._handle, name, b"on" if value else b"off")

    def __getitem__(self, name):
        """The value as text; None where the run decides it."""
        return text_of(lib.zn_options_get, self._handle, name.encode())

    def load(self, path):
        """Reads a configuration file (YAML, JSON, or DeepSpeed's ds_config.json); what was set before stands."""
        lib.zn_options_load(self._handle, bytes_of(path))

    def __str__(self):
        return text_of(lib.zn_options_print, self._handle)

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.zn_options_destroy(self._handle)
            self._handle = None
