"""Many runs, some at a time, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, current_thread, main_thread

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from hsa_pyg.experiments.experiment import TERMINATED, Progress
from hsa_pyg.experiments.running import AT_WORK, Run, RunAtWorkError, execute

Tell = Callable[[Progress], None]
#: Exit status of a run that Ctrl-C has ended.
_INTERRUPTED = 130


class Schedule:
    """Runs that are done ``jobs`` at a time.

    Args:
        runs: What to run.
        jobs: Processes at a time, of one thread each; 0 runs all in this process.
    """

    def __init__(self, runs: Sequence[Run], jobs: int) -> None:
        self.runs = runs
        self.jobs = jobs
        self._lock = Lock()
        self._children: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def execute(self) -> dict[str, str]:
        """Do them all, and show a bar for each at work.

        Returns:
            What became of the runs that did not come to their end, by their names.

        Raises:
            KeyboardInterrupt: After the runs at work have been ended; each goes on from
                its last epoch when it is run again.
            SystemExit: The same after SIGTERM, with status 143.
        """
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
        )
        failed: dict[str, str] = {}
        with Bars(*columns) as bars:
            whole = bars.add_task("all runs", total=len(self.runs), text="")

            def work(run: Run) -> None:
                bar = bars.add_task(run.name, total=None, text="")

                def tell(told: Progress) -> None:
                    text = f"{told.text}, {told.rate:,.0f} tokens/s"
                    bars.update(bar, completed=told.epoch, total=told.epochs, text=text)

                try:
                    finished = self._run(run, tell)
                except ChildProcessError as error:
                    failed[run.name] = str(error)
                    bars.update(whole, text=f"{len(failed)} not finished")
                else:
                    bars.advance(whole, int(finished))
                bars.remove_task(bar)

            if self.jobs == 0:
                for run in self.runs:
                    work(run)
            else:
                with _leaving_on_sigterm():
                    self._in_processes(work)
        return failed

    def _in_processes(self, work: Callable[[Run], None]) -> None:
        pool = ThreadPoolExecutor(self.jobs)
        try:
            for done in [pool.submit(work, run) for run in self.runs]:
                done.result()
        except BaseException:
            with self._lock:
                self._stopped = True
                for child in self._children:
                    child.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, run: Run, tell: Tell) -> bool:
        """Whether the run came to its end; if not, all are being ended.

        Raises:
            ChildProcessError: if its process failed.
        """
        if self.jobs == 0:
            execute(run, tell)
            return True
        run.folder.mkdir(parents=True, exist_ok=True)
        log = run.folder / "log.txt"
        command = [
            sys.executable,
            "-m",
            "hsa_pyg.experiments.running",
            run.specification(),
        ]
        with log.open("a", encoding="utf-8") as errors:
            with self._lock:
                if self._stopped:
                    return False
                child = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
                self._children.add(child)
            if child.stdout is not None:
                for line in child.stdout:
                    if line.startswith("{"):
                        tell(Progress(**json.loads(line)))
            code = child.wait()
            with self._lock:
                self._children.discard(child)
                stopped = self._stopped
        if code == AT_WORK and not stopped:
            raise RunAtWorkError(run.name)
        if code and not stopped:
            raise ChildProcessError(self._failure(log, code))
        if code == 0 and not run.record.exists():
            raise ChildProcessError(f"left no results (log: {log}).")
        return code == 0

    def _failure(self, log: Path, code: int) -> str:
        """Why a process failed, and what to do about it."""
        if code == -signal.SIGKILL:
            remedy = "Free some memory and repeat the command"
            if self.jobs > 1:
                remedy = "Repeat the command with --jobs 1"
            return f"was killed (out of memory?). {remedy} to go on."
        if code in (_INTERRUPTED, TERMINATED, -signal.SIGINT):
            return "was interrupted. Repeat the command to go on."
        if code < 0:
            cause = f"signal {-code}, {signal.strsignal(-code)}"
            return f"was ended by {cause} (log: {log}). Repeat the command to go on."
        lines = log.read_text(encoding="utf-8").strip().splitlines()
        said = lines[-1] if lines else "it said nothing"
        return f"failed, exit status {code}: {said} (all of it: {log})"


@contextmanager
def _leaving_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit, so that the runs at work are ended too.

    Python sets handlers in its main thread alone; elsewhere this does nothing.
    """
    if current_thread() is not main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
