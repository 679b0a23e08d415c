"""What is trained."""

import ctypes
from collections import namedtuple

from ._library import ModelInfo, ParameterInfo, bytes_of, lib

Parameter = namedtuple("Parameter", "name shape is_trained")


def parameters_of(function, handle, n):
    """The parameters that a function of the library tells of, by name."""
    parameters = {}
    for i in range(n):
        info = ParameterInfo(ctypes.sizeof(ParameterInfo))
        function(handle, i, ctypes.byref(info))
        name = info.name.decode()
        parameters[name] = Parameter(name, tuple(info.dims[: info.n_dims]), bool(info.is_trained))
    return parameters


class Model:
    """A hub folder, or ORG/NAME in the hub's local cache. Its weights are read by engines."""

    def __init__(self, folder):
        self._handle = ctypes.c_void_p()
        lib.zn_model_open(bytes_of(folder), ctypes.byref(self._handle))
        info = ModelInfo(ctypes.sizeof(ModelInfo))
        lib.zn_model_info(self._handle, ctypes.byref(info))
        self.architecture = info.architecture.decode()
        self.folder = info.folder.decode()
        self.n_elements = info.n_elements
        self.max_seq_len = info.max_seq_len
        self.vocabulary = info.vocabulary
        self.parameters = parameters_of(lib.zn_model_parameter, self._handle, info.n_parameters)

    def __repr__(self):
        return f"<zinc.Model {self.architecture} of {self.n_elements:,} in {self.folder}>"

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.zn_model_close(self._handle)
            self._handle = None
