"""The server: a page for each judge, behind a link with a secret token, and nothing else.

Blocking work, such as storing an answer, is done by threads, and learning by another process, so that pages never wait
for a fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from boostmetric.judge.limits import MOST_BYTES, Rates, is_from_this_site
from boostmetric.judge.pictures import MEDIA_TYPES
from boostmetric.judge.records import Judge, StaleAnswerError
from boostmetric.judge.sitting import Sitting
from boostmetric.optional import require

if TYPE_CHECKING:
    from starlette.applications import Starlette

_PURPOSE = "boostmetric judge"
_STATIC = {"judge.js": "text/javascript", "judge.css": "text/css"}
_POLICY = "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'"
_HEADERS = {
    "content-security-policy": f"{_POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_LONGEST_KEY = 64
_LARGEST_NUMBER = 2**53  # of a question


class RequestError(Exception):
    """A request that is refused, with its status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def application(sitting: Sitting, *, loopback: bool, finish: Callable[[Judge], dict[str, Any]]) -> Starlette:
    """Build the application.

    Parameters
    ----------
    sitting : Sitting
    loopback : bool
        Whether only this machine is served.
    finish : callable
        Called when a judge has finished; returns what the page then says.
    """
    starlette = require("starlette.applications", "judge", _PURPOSE)
    routing = require("starlette.routing", "judge", _PURPOSE)
    responses = require("starlette.responses", "judge", _PURPOSE)
    threads = require("starlette.concurrency", "judge", _PURPOSE)
    rates = Rates()

    def guarded(work: Callable[[Judge, Any, Any], Any], *, changes: bool = False) -> Any:
        """Check a request, let a thread do its work, and answer with JSON, or with the response that it returns."""

        async def endpoint(request: Any) -> Any:
            try:
                judge = admitted(request, changes=changes)
                body = await read_body(request) if changes else None
                result = await threads.run_in_threadpool(work, judge, request, body)
            except RequestError as error:
                return answer({"error": str(error)}, error.status)
            except StaleAnswerError as error:
                return answer({"error": str(error), **await threads.run_in_threadpool(sitting.next, judge)}, 409)
            except ValueError as error:
                return answer({"error": str(error)}, 400)
            return result if isinstance(result, responses.Response) else answer(result)

        return endpoint

    def answer(content: Any, status: int = 200) -> Any:
        # Lone surrogates, which a text from a file may hold, are kept as escapes.
        text = json.dumps(content, allow_nan=False)
        headers = {**_HEADERS, "cache-control": "no-store"}
        if status == 429:
            headers["retry-after"] = "1"
        return responses.Response(text, status, headers, "application/json")

    def admitted(request: Any, *, changes: bool) -> Judge:
        client = request.client.host if request.client else ""
        judge = sitting.judge_of(request.path_params["token"])
        # A judge is counted alone, so that others behind the same address are not in the way.
        if not rates.allow(judge.token if judge else client):
            raise RequestError(429, "Too many requests. Wait a moment.")
        if not is_from_this_site(request.headers, loopback=loopback, changes=changes):
            raise RequestError(403, "Requests from other sites are refused.")
        if judge is None:
            raise RequestError(404, "There is no such page. Use the link that the command printed.")
        return judge

    def page(judge: Judge, request: Any, body: Any) -> Any:
        return responses.Response(part("page.html"), 200, {**_HEADERS, "cache-control": "no-store"}, "text/html")

    def static(judge: Judge, request: Any, body: Any) -> Any:
        name = request.path_params["name"]
        if name not in _STATIC:
            raise RequestError(404, "There is no such page.")
        return responses.Response(part(name), 200, {**_HEADERS, "cache-control": "no-cache"}, _STATIC[name])

    def picture(judge: Judge, request: Any, body: Any) -> Any:
        pictures, number = sitting.objects.pictures or (), request.path_params["number"]
        if not number < len(pictures):
            raise RequestError(404, "There is no such picture.")
        path = pictures[number]
        headers = {**_HEADERS, "cache-control": "private, max-age=86400"}
        try:
            return responses.Response(path.read_bytes(), 200, headers, MEDIA_TYPES[path.suffix.lower()])
        except OSError:
            raise RequestError(404, "The picture cannot be read.") from None

    def begin(judge: Judge, request: Any, body: Any) -> Any:
        return sitting.page(judge)

    def state(judge: Judge, request: Any, body: Any) -> Any:
        return sitting.next(judge)

    def store(judge: Judge, request: Any, body: Any) -> Any:
        number, chosen, seconds = body.get("question"), body.get("chosen"), body.get("seconds")
        is_number = isinstance(number, int) and 0 < number < _LARGEST_NUMBER
        if not (is_number and isinstance(chosen, list) and len(chosen) <= sitting.file.mode.n_options):
            raise RequestError(400, "An answer names a question and what was chosen.")
        if not all(isinstance(id, str | int) and not isinstance(id, bool) for id in chosen):
            raise RequestError(400, "An answer chooses objects by id.")
        if not (isinstance(seconds, int | float) and 0 <= seconds < 1e9):
            raise RequestError(400, "An answer says how many seconds it took.")
        return sitting.answer(judge, number, chosen, key_of(body), float(seconds))

    def take_back(judge: Judge, request: Any, body: Any) -> Any:
        return sitting.undo(judge, key_of(body))

    def key_of(body: Any) -> str:
        key = body.get("key")
        if not (isinstance(key, str) and 8 <= len(key) <= _LONGEST_KEY and key.isascii()):
            raise RequestError(400, f"An answer has a key of 8 to {_LONGEST_KEY} characters.")
        return key

    def end(judge: Judge, request: Any, body: Any) -> Any:
        return finish(judge)

    async def read_body(request: Any) -> dict[str, Any]:
        content = b""
        async for some in request.stream():
            content += some
            if len(content) > MOST_BYTES:
                raise RequestError(413, f"A request has at most {MOST_BYTES} bytes.")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise RequestError(400, "The request is not JSON.") from None
        if not isinstance(body, dict):
            raise RequestError(400, "The request is not a JSON object.")
        return body

    async def nothing(request: Any, error: Exception) -> Any:
        return answer({"error": "There is nothing here."}, getattr(error, "status_code", 404))

    get, post = partial(routing.Route, methods=["GET"]), partial(routing.Route, methods=["POST"])
    built: Starlette = starlette.Starlette(
        routes=[
            get("/{token}/", guarded(page)),
            get("/{token}/begin", guarded(begin)),
            get("/{token}/state", guarded(state)),
            get("/{token}/static/{name}", guarded(static)),
            get("/{token}/picture/{number:int}", guarded(picture)),
            post("/{token}/answer", guarded(store, changes=True)),
            post("/{token}/undo", guarded(take_back, changes=True)),
            post("/{token}/finish", guarded(end, changes=True)),
        ],
        exception_handlers={404: nothing, 405: nothing},
    )
    return built


def part(name: str) -> str:
    """Text of a file that comes with this package."""
    return resources.files("boostmetric.judge").joinpath(name).read_text(encoding="utf-8")
