"""What a request may not do: come from another site, be large, come too often, or know no secret.

Links hold a secret token, without which there is nothing to see and nothing to change. A page of another site knows no
token; what it sends is refused all the same, by its origin. On loopback, requests must also name this machine as their
host, so that no foreign name can be pointed at it (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping

MOST_BYTES = 4096
"""Largest body of a request."""

_PER_SECOND, _BURST = 40.0, 200.0  # requests: a question of nine pictures is ten of them
_MOST_CLIENTS = 1000


class Rates:
    """Counts requests by client and refuses more than a few a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def allow(self, client: str) -> bool:
        """Whether this client may send a request now.

        Parameters
        ----------
        client : str
        """
        now = self._clock()
        left, before = self._left.pop(client, (_BURST, now))
        left = min(_BURST, left + (now - before) * _PER_SECOND)
        if len(self._left) >= _MOST_CLIENTS:  # the one that was quiet longest
            self._left.pop(next(iter(self._left)))
        self._left[client] = (left - 1.0 if left >= 1.0 else left, now)
        return left >= 1.0


def is_loopback(host: str) -> bool:
    """Whether a name or address is of this machine only.

    Examples
    --------
    >>> from boostmetric.judge.limits import is_loopback
    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_from_this_site(headers: Mapping[str, str], *, loopback: bool, changes: bool) -> bool:
    """Whether a request was sent by our own page, or typed by somebody.

    Parameters
    ----------
    headers : mapping
        Of the request, in lower case.
    loopback : bool
        Whether only this machine is served.
    changes : bool
        Whether the request changes anything.
    """
    host = headers.get("host", "")
    if loopback and not is_loopback(_without_port(host)):
        return False
    if not changes:
        return True
    origin = headers.get("origin")
    if origin is None or origin.partition("://")[2] != host:
        return False
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    return headers.get("content-type", "").partition(";")[0].strip() == "application/json"


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
