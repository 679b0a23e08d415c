"""Processes of the program: started in a session of their own, waited for within a limit, ended by their ids."""
import os
import signal
import subprocess
import threading
import time

LIMIT = 90  # seconds for a run of the sizes used here; longer is a hang


class Result:
    """How a command ended: its code (negative: a signal), its words, whether it was ended for taking too long."""

    def __init__(self, words, environment, code, out, err, hung):
        self.words, self.environment, self.code = words, environment, code
        self.out, self.err, self.hung = out, err, hung

    def command(self):
        """The line that a person types to do it again."""
        pairs = ["%s=%s" % pair for pair in sorted(self.environment.items())]
        return " ".join(pairs + [quote(word) for word in self.words])


def quote(word):
    import shlex
    return shlex.quote(str(word))


def children_of(pid):
    """The ids of all descendants, the nearest first."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                    parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
            except (OSError, IndexError):
                pass
    found, todo = [], [pid]
    while todo:
        below = sorted(parents.get(todo.pop(0), []))
        found += below
        todo += below
    return found


def program_of(pid):
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return ""


class Job:
    """A command that is under way. Its words go to files, so that nothing waits for a reader."""

    live = {}
    guard = threading.Lock()

    def __init__(self, words, folder, environment=None, name="job"):
        self.words = [str(word) for word in words]
        self.environment = {key: str(value) for key, value in (environment or {}).items()}
        self.paths = [os.path.join(folder, name + ending) for ending in (".out", ".err")]
        every = dict(os.environ, OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     ZINC_ALLOW_OVERSUBSCRIPTION="1", **self.environment)
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                            env=every, start_new_session=True)
        self.known = set()
        with Job.guard:
            Job.live[self.process.pid] = self

    def ranks(self):
        """The ids of the processes that train."""
        below = children_of(self.process.pid)
        self.known.update(below)
        zinc = [pid for pid in below if program_of(pid) == os.path.basename(self.words[0])]
        return zinc or [self.process.pid]

    def send(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        """Ends it and all that it started."""
        self.known.update(children_of(self.process.pid))
        for pid in [self.process.pid] + sorted(self.known):
            self.send(pid, signal.SIGKILL)

    def left(self, seconds):
        """Those of its ranks that are still there so long after its end."""
        end = time.monotonic() + seconds
        while True:
            there = [pid for pid in self.known if program_of(pid) == os.path.basename(self.words[0])]
            if not there or time.monotonic() > end:
                return there
            time.sleep(0.05)

    def wait(self, limit=LIMIT):
        hung = False
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            hung = True
            self.end()
            self.process.wait()
        with Job.guard:
            Job.live.pop(self.process.pid, None)
        texts = []
        for path in self.paths:
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return Result(self.words, self.environment, self.process.returncode, texts[0], texts[1], hung)


def run(words, folder, environment=None, name="job", limit=LIMIT):
    return Job(words, folder, environment, name).wait(limit)


def end_all():
    with Job.guard:
        jobs = list(Job.live.values())
    for job in jobs:
        job.end()
