"""Processes of the Ray cluster that a test has started, to be lost."""

import os
from contextlib import suppress
from pathlib import Path


def processes(name):
    """Numbers of those that do what Ray calls by this name, a class of workers or the function of a task.

    Clusters that others have started on this machine are not touched.
    """
    parents = {}
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit():
                pid, status = int(folder.name), (folder / "stat").read_text()
                # After the name, which may hold anything, in parentheses: the state and the parent.
                parents[pid] = int(status.rpartition(")")[2].split()[1])
                if (folder / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                    found.append(pid)
    return sorted(pid for pid in found if os.getpid() in _ancestors(pid, parents))


def _ancestors(pid, parents):
    while pid in parents:
        pid = parents[pid]
        yield pid
