"""The shared library by ctypes: where it is, and what its functions take. Nothing is compiled."""

import ctypes
import ctypes.util
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p


def _candidates():
    given = os.environ.get("ZINC_LIBRARY")
    if given:
        yield given
        return
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), "libzinc.so")
    yield "libzinc.so.0"


def _load():
    reasons = []
    for path in _candidates():
        if os.sep in path and not os.path.exists(path):
            reasons.append(f"{path} is not there")
            continue
        try:
            # MPI loads parts of itself that look for its symbols among those that are global.
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reasons.append(str(error))
    raise ImportError("zinc: no shared library: " + "; ".join(reasons) + " (ZINC_LIBRARY names one)")


lib = _load()


class Error(RuntimeError):
    """A failure of the library: its text, and `status`, the code of zinc/status.h."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class StepResult(Structure):
    _fields_ = [
        ("size", c_size_t), ("step", c_int64), ("steps", c_int64), ("loss", c_double), ("grad_norm", c_double), ("lr", c_double),
        ("seconds", c_double), ("scale", c_double), ("tokens", c_int64), ("targets", c_int64), ("eval_loss", c_double),
        ("skipped", c_int), ("evaluated", c_int), ("reason", c_char_p), ("device_bytes", c_size_t), ("host_bytes", c_size_t),
        ("nvme_bytes", c_size_t),
    ]


class EvaluationResult(Structure):
    _fields_ = [("size", c_size_t), ("loss", c_double), ("perplexity", c_double), ("windows", c_int64), ("tokens", c_int64),
                ("targets", c_int64)]


class ModelInfo(Structure):
    _fields_ = [("size", c_size_t), ("architecture", c_char_p), ("folder", c_char_p), ("n_parameters", c_size_t), ("n_elements", c_int64),
                ("max_seq_len", c_int64), ("vocabulary", c_int64)]


class ParameterInfo(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("n_dims", c_int), ("dims", c_int64 * 4), ("n_elements", c_int64),
                ("is_trained", c_int)]


class ContextOptions(Structure):
    _fields_ = [("size", c_size_t), ("ranks", c_int), ("memory_limit", c_size_t), ("threads", c_int)]


class Ids(Structure):
    _fields_ = [("id", POINTER(c_int32)), ("n", c_size_t), ("capacity", c_size_t)]


class CheckpointInfo(Structure):
    _fields_ = [("size", c_size_t), ("step", c_int64), ("updates", c_int64), ("n_bytes", c_uint64), ("optimizer", c_char_p),
                ("precision", c_char_p), ("folder", c_char_p), ("type", c_char_p)]


TELL_TEXT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Listener(Structure):
    """struct zn_train_listener; only notes are heard."""

    _fields_ = [("self", c_void_p), ("plan", c_void_p), ("step", c_void_p), ("note", TELL_TEXT), ("end", c_void_p), ("saved", c_void_p),
                ("failed", c_void_p), ("summary", c_void_p), ("progress", c_void_p)]


class EngineSetup(Structure):
    _fields_ = [("size", c_size_t), ("context", c_void_p), ("options", c_void_p), ("model", c_void_p), ("data", c_void_p),
                ("eval_data", c_void_p), ("listener", POINTER(Listener)), ("stop", c_void_p), ("stop_self", c_void_p)]


class GenerateResult(Structure):
    _fields_ = [("text", c_void_p), ("n_bytes", c_size_t), ("ids", POINTER(c_int32)), ("n_ids", c_size_t), ("prompt_ids", POINTER(c_int32)),
                ("n_prompt_ids", c_size_t), ("n_kept", c_size_t), ("is_stopped", c_bool), ("is_shown", c_bool)]


_FLOATS = POINTER(c_float)
_TEXT = POINTER(c_void_p)  # a text that zn_free frees

# name: (arguments, result). "status" raises Error where it is not 0.
_FUNCTIONS = {
    "zn_error_message": ([], c_char_p),
    "zn_version": ([], c_char_p),
    "zn_free": ([c_void_p], None),
    "zn_options_create": ([c_char_p, POINTER(c_void_p)], "status"),
    "zn_options_destroy": ([c_void_p], None),
    "zn_options_set": ([c_void_p, c_char_p, c_char_p], "status"),
    "zn_options_unset": ([c_void_p, c_char_p], "status"),
    "zn_options_load": ([c_void_p, c_char_p], "status"),
    "zn_options_get": ([c_void_p, c_char_p, _TEXT], "status"),
    "zn_options_print": ([c_void_p, _TEXT], "status"),
    "zn_context_create": ([POINTER(ContextOptions), POINTER(c_void_p)], "status"),
    "zn_context_destroy": ([c_void_p], None),
    "zn_context_rank": ([c_void_p], c_int),
    "zn_context_n_ranks": ([c_void_p], c_int),
    "zn_model_open": ([c_char_p, POINTER(c_void_p)], "status"),
    "zn_model_close": ([c_void_p], None),
    "zn_model_info": ([c_void_p, POINTER(ModelInfo)], "status"),
    "zn_model_parameter": ([c_void_p, c_size_t, POINTER(ParameterInfo)], "status"),
    "zn_data_create": ([POINTER(c_void_p)], "status"),
    "zn_data_destroy": ([c_void_p], None),
    "zn_data_add_path": ([c_void_p, c_char_p], "status"),
    "zn_data_add_text": ([c_void_p, c_char_p, c_size_t], "status"),
    "zn_data_add_row": ([c_void_p, c_char_p], "status"),
    "zn_data_add_tokens": ([c_void_p, POINTER(c_int32), c_size_t], "status"),
    "zn_engine_create": ([POINTER(EngineSetup), POINTER(c_void_p)], "status"),
    "zn_engine_destroy": ([c_void_p], None),
    "zn_engine_step": ([c_void_p, POINTER(StepResult)], "status"),
    "zn_engine_is_done": ([c_void_p], c_int),
    "zn_engine_finish": ([c_void_p], "status"),
    "zn_engine_evaluate": ([c_void_p, POINTER(EvaluationResult)], "status"),
    "zn_engine_n_parameters": ([c_void_p], c_size_t),
    "zn_engine_parameter": ([c_void_p, c_size_t, POINTER(ParameterInfo)], "status"),
    "zn_engine_state": ([c_void_p, c_int], c_char_p),
    "zn_engine_read": ([c_void_p, c_char_p, c_char_p, _FLOATS, c_int64], "status"),
    "zn_engine_save": ([c_void_p, c_char_p], "status"),
    "zn_engine_load": ([c_void_p, c_char_p], "status"),
    "zn_engine_export": ([c_void_p, c_char_p], "status"),
    "zn_engine_get": ([c_void_p, c_char_p, _TEXT], "status"),
    "zn_engine_program": ([c_void_p, _TEXT], "status"),
    "zn_tokenizer_open": ([c_char_p, POINTER(c_void_p)], "status"),
    "zn_tokenizer_close": ([c_void_p], None),
    "zn_tokenizer_encode": ([c_void_p, c_char_p, c_size_t, c_bool, POINTER(Ids)], "status"),
    "zn_tokenizer_decode": ([c_void_p, POINTER(c_int32), c_size_t, c_bool, _TEXT, POINTER(c_size_t)], "status"),
    "zn_tokenizer_n_ids": ([c_void_p], c_int64),
    "zn_tokenizer_eos": ([c_void_p], c_int32),
    "zn_ids_fini": ([POINTER(Ids)], None),
    "zn_checkpoint_list": ([c_char_p, TELL_TEXT, c_void_p], "status"),
    "zn_checkpoint_open": ([c_char_p, POINTER(c_void_p)], "status"),
    "zn_checkpoint_close": ([c_void_p], None),
    "zn_checkpoint_info": ([c_void_p, POINTER(CheckpointInfo)], "status"),
    "zn_checkpoint_verify": ([c_char_p, c_void_p, c_void_p, c_void_p], "status"),
    "zn_checkpoint_export": ([c_void_p, c_char_p, c_char_p], "status"),
    "zn_merge": ([c_char_p, c_char_p, c_char_p, c_char_p, TELL_TEXT, c_void_p], "status"),
    "zn_plan_create": ([c_void_p, POINTER(c_void_p)], "status"),
    "zn_plan_destroy": ([c_void_p], None),
    "zn_plan_json": ([c_void_p, _TEXT], "status"),
    "zn_plan_text": ([c_void_p, _TEXT], "status"),
    "zn_plan_program": ([c_void_p, _TEXT], "status"),
    "zn_plan_write_config": ([c_void_p, c_char_p], "status"),
    "zn_plan_is_fitting": ([c_void_p], c_int),
    "zn_generator_open": ([c_void_p, c_void_p, c_void_p, POINTER(c_void_p)], "status"),
    "zn_generator_destroy": ([c_void_p], None),
    "zn_generator_answer": ([c_void_p, c_size_t, POINTER(GenerateResult)], "status"),
    "zn_generate_result_fini": ([POINTER(GenerateResult)], None),
}


def _check(status, function, arguments):
    if status != 0:
        raise Error(status, lib.zn_error_message().decode("utf-8", "replace"))
    return status


for _name, (_arguments, _result) in _FUNCTIONS.items():
    _function = getattr(lib, _name)
    _function.argtypes = _arguments
    _function.restype = c_int if _result == "status" else _result
    if _result == "status":
        _function.errcheck = _check


def text_of(function, *arguments):
    """The text that a function returns last, which is freed here; None where there is none."""
    text = c_void_p()
    function(*arguments, byref(text))
    if not text:
        return None
    try:
        return ctypes.string_at(text).decode("utf-8")
    finally:
        lib.zn_free(text)


def bytes_of(text):
    return os.fsencode(text)
