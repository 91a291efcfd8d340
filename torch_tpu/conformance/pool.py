"""Runs tasks in processes of their own, so that a crash or a hang costs one task.

Workers are forked before any plugin is loaded, tell which case they are at, and are replaced after a number of tasks,
for compiled programs stay in memory. A worker that says nothing for `timeout` seconds is ended."""
import collections
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import re
import tempfile
import time
import traceback


def _serve(connection, work, log, others):
    for other in others:  # inherited from the parent: a worker outlives it while somebody holds its end
        other.close()
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(log)
    while True:
        task = connection.recv()
        if task is None:
            connection.close()
            os._exit(0)  # no exit handlers: they would wait for a plugin that may be stuck
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        try:
            result = work(task, lambda i: connection.send(("at", i)))
        except Exception as e:  # the runner's own trouble, shown as such
            result = {
                "status": "fail",
                "message": f"conformance: {type(e).__name__}: {e}",
                "trace": traceback.format_exc()[-2000:],
            }
        connection.send(("result", result))


class Worker:
    def __init__(self, work, others):
        fork = multiprocessing.get_context("fork")
        self.connection, theirs = fork.Pipe()
        self.log = tempfile.TemporaryFile()
        self.process = fork.Process(
            target=_serve,
            args=(theirs, work, self.log.fileno(), [w.connection for w in others] + [self.connection]),
            daemon=True,
        )
        self.process.start()
        theirs.close()
        self.task, self.at, self.done = None, None, 0

    def give(self, task):
        """False if it died while it had nothing to do."""
        if not self.send(task):
            return False
        self.task, self.at, self.since = task, None, time.time()
        return True

    def send(self, what):
        try:
            self.connection.send(what)
        except OSError:
            return False
        return True

    def last_words(self):
        """What it printed before it died: the line that says why, else the last ones."""
        self.log.seek(0)
        lines = [line for line in self.log.read().decode(errors="replace").splitlines() if line.strip()]
        telling = [
            line for line in lines if re.search(r"^F\d{4} |terminate called|what\(\)|Check failed|Fatal|rror", line)
        ]
        return " | ".join(telling[:3] or lines[-3:])[:400]

    def end(self, ask=False):
        if ask and self.send(None):
            self.process.join(10)
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.log.close()


def run(tasks, work, jobs=2, timeout=60, renew=200):
    """Yields (task, result) as they come. work(task, at) runs in a worker, and calls at(i) for each of its steps."""
    todo, workers = collections.deque(tasks), []
    try:
        while todo or any(w.task is not None for w in workers):
            for w in [w for w in workers if w.task is None and w.done >= renew]:
                workers.remove(w)
                w.end(ask=True)
            while len(workers) < jobs and sum(w.task is None for w in workers) < len(todo):
                workers.append(Worker(work, workers))
            for w in [w for w in workers if w.task is None]:
                if not todo:
                    break
                if w.give(todo[0]):
                    todo.popleft()
                else:
                    workers.remove(w)
                    w.end()
            busy = [w for w in workers if w.task is not None]
            ready = multiprocessing.connection.wait([w.connection for w in busy], timeout=1)
            for w in busy:
                task, result = w.task, None
                if w.connection in ready:
                    try:
                        kind, value = w.connection.recv()
                    except (EOFError, ConnectionResetError):
                        w.process.join(5)
                        result = {
                            "status": "crash",
                            "message": f"exit status {w.process.exitcode} at case {w.at}: {w.last_words()}",
                        }
                    else:
                        w.since = time.time()
                        if kind == "at":
                            w.at = value
                        else:
                            w.task, w.done = None, w.done + 1
                            yield task, value
                            continue
                elif time.time() - w.since > timeout:
                    result = {"status": "timeout", "message": f"nothing for {timeout} s at case {w.at}"}
                if result is not None:
                    workers.remove(w)
                    w.end()
                    yield task, result
    finally:
        for w in workers:
            w.end(ask=w.task is None)
