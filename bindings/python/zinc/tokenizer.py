"""Text to ids and back."""

import ctypes

import numpy

from ._library import Ids, bytes_of, lib


class Tokenizer:
    """The tokenizer.json of a hub folder."""

    def __init__(self, folder):
        self._handle = ctypes.c_void_p()
        lib.zn_tokenizer_open(bytes_of(folder), ctypes.byref(self._handle))

    def encode(self, text, add_special=False):
        """An array of int32."""
        ids = Ids()
        data = text.encode()
        try:
            lib.zn_tokenizer_encode(self._handle, data, len(data), add_special, ctypes.byref(ids))
            return numpy.array(ids.id[: ids.n] if ids.n else [], dtype=numpy.int32)
        finally:
            lib.zn_ids_fini(ctypes.byref(ids))

    def decode(self, ids, skip_special=False):
        ids = numpy.ascontiguousarray(ids, dtype=numpy.int32)
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        lib.zn_tokenizer_decode(self._handle, ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), len(ids), skip_special,
                                ctypes.byref(text), ctypes.byref(n))
        try:
            return ctypes.string_at(text, n.value).decode("utf-8", "replace")
        finally:
            lib.zn_free(text)

    def __len__(self):
        return lib.zn_tokenizer_n_ids(self._handle)

    @property
    def eos(self):
        """The id that ends a text; None where the folder names none."""
        eos = lib.zn_tokenizer_eos(self._handle)
        return eos if eos >= 0 else None

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.zn_tokenizer_close(self._handle)
            self._handle = None
