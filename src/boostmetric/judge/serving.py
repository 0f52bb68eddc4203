"""Running the server until all judges have finished, or somebody stops it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.finish import Outputs, finish
from boostmetric.judge.records import Judge
from boostmetric.judge.server import application
from boostmetric.judge.sitting import Objects, Sitting
from boostmetric.optional import require

_GRACE = 1.0  # seconds between the last answer and the end, in which pages learn of it
_MOST_CONNECTIONS = 200


def bound(host: str, port: int) -> socket.socket:
    """Open a socket on an address, before anything else is started.

    Parameters
    ----------
    host : str
    port : int
        0 for any free one.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_MOST_CONNECTIONS)  # a browser may come before the server runs
    except OSError:
        listening.close()
        raise
    return listening


class Served:
    """A sitting and its server.

    Parameters
    ----------
    file : AnswerFile
    objects : Objects
    people : sequence of Judge
    outputs : Outputs
        What is written when all have finished.
    loopback : bool
        Whether only this machine is served.
    """

    def __init__(
        self, file: AnswerFile, objects: Objects, people: Sequence[Judge], outputs: Outputs, *, loopback: bool
    ) -> None:
        self.sitting = Sitting(file, objects, people)
        self._file, self._objects, self._outputs = file, objects, outputs
        self._ending = threading.Lock()
        uvicorn = require("uvicorn", "judge", "boostmetric judge")
        self._server: Any = uvicorn.Server(
            uvicorn.Config(
                application(self.sitting, loopback=loopback, finish=self._finish),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_keep_alive=20,
                timeout_graceful_shutdown=2,
                lifespan="off",
                ws="none",
            )
        )
        for judge in people:  # who comes back answers again
            file.set_done(judge, done=False)

    def run(self, listening: socket.socket) -> None:
        """Serve until the end. Ctrl-C raises KeyboardInterrupt, after requests were answered.

        Parameters
        ----------
        listening : socket
        """
        self._server.run(sockets=[listening])

    def stop(self) -> None:
        """End from another thread, as Ctrl-C does."""
        self._server.should_exit = True

    def _finish(self, judge: Judge) -> dict[str, Any]:
        """Note that a judge has finished; after the last one, write the model and end."""
        self._file.set_done(judge, done=True)
        if not self.sitting.all_done:
            return {"text": "Your answers are stored. Others are still answering; this page can be closed."}
        with self._ending:
            if self.sitting.outcome is None:
                self.sitting.outcome = finish(self._file, self._objects, self._outputs)
                threading.Timer(_GRACE, self.stop).start()
        return {name: self.sitting.outcome[name] for name in ("text", "commands")}
