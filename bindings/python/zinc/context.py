"""The ranks that engines run on."""

import atexit
import ctypes
import weakref

from ._library import ContextOptions, lib

_RANKS = {"launched": 0, "self": 1, "mpi": 2}
_default = None


class Context:
    """Ranks: "launched" (those of mpirun or srun where one has started this process, else this process alone), "self" or "mpi". A process can
    join MPI once. `memory_limit` (bytes) and `threads` are for engines that are not given their own."""

    def __init__(self, ranks="launched", memory_limit=0, threads=0):
        if ranks not in _RANKS:
            raise ValueError(f"ranks: {ranks!r} is not one of: launched, self, mpi")
        options = ContextOptions(ctypes.sizeof(ContextOptions), _RANKS[ranks], memory_limit, threads)
        self._handle = ctypes.c_void_p()
        lib.zn_context_create(ctypes.byref(options), ctypes.byref(self._handle))
        self._open = {}  # weak references to engines and generators, in the order in which they were made

    @property
    def rank(self):
        return lib.zn_context_rank(self._handle)

    @property
    def n_ranks(self):
        return lib.zn_context_n_ranks(self._handle)

    def close(self):
        """Closes the engines and generators that are still open, the newest first, and leaves the ranks. Collective."""
        for reference in reversed(list(self._open.values())):
            user = reference()
            if user is not None:
                user.close()
        if self._handle:
            lib.zn_context_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    def _add(self, user):
        self._open[id(user)] = weakref.ref(user)

    def _remove(self, user):
        self._open.pop(id(user), None)


def default():
    """The context of engines that are given none: made when it is first needed, left when Python ends."""
    global _default
    if _default is None or not _default._handle:
        _default = Context()
    return _default


@atexit.register
def _leave():
    if _default is not None:
        _default.close()
