"""Checkpoints of runs."""

import ctypes

from ._library import TELL_TEXT, CheckpointInfo, bytes_of, lib


def checkpoints(folder):
    """The paths of the checkpoints that a folder stands for, the oldest first."""
    paths = []
    tell = TELL_TEXT(lambda _, path: paths.append(path.decode()))
    lib.zn_checkpoint_list(bytes_of(folder), tell, None)
    return paths


def merge(model, adapter, output, type=None, note=None):
    """Writes a model and the adapters of a PEFT folder as one hub folder, of type "fp32", "bf16" or "fp16"."""
    tell = TELL_TEXT(lambda _, text: note(text.decode("utf-8", "replace"))) if note else TELL_TEXT()
    lib.zn_merge(bytes_of(model), bytes_of(adapter), bytes_of(output), type.encode() if type else None, tell, None)


class Checkpoint:
    """One of them: step, updates, n_bytes, optimizer, precision, type."""

    def __init__(self, folder):
        self._handle = ctypes.c_void_p()
        lib.zn_checkpoint_open(bytes_of(folder), ctypes.byref(self._handle))
        info = CheckpointInfo(ctypes.sizeof(CheckpointInfo))
        lib.zn_checkpoint_info(self._handle, ctypes.byref(info))
        self.folder = str(folder)
        self.step, self.updates, self.n_bytes = info.step, info.updates, info.n_bytes
        self.optimizer, self.precision, self.type = info.optimizer.decode(), info.precision.decode(), info.type.decode()

    def verify(self):
        """Raises where a byte is not what it was."""
        lib.zn_checkpoint_verify(bytes_of(self.folder), None, None, None)

    def export(self, folder, type=None):
        """The weights as a hub folder, of type "fp32", "bf16" or "fp16"."""
        lib.zn_checkpoint_export(self._handle, bytes_of(folder), type.encode() if type else None)

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.zn_checkpoint_close(self._handle)
            self._handle = None
