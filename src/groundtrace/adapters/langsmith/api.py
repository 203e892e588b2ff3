"""LangSmith's REST API, through the SDK's own public client: who asks, how fast, how long, and what a refusal means.

This is the one seam behind which everything unverified sits: no real account was reachable. What is assumed of the
server, with its source, in brackets:

- `GET /info` says which generation of the query API is there: `instance_flags.sdb_query_enabled` (v2) and
  `ch_query_enabled` (v1) [the SDK's own rule]; where it can't be asked, v2 is tried and a 404 on its route means v1.
- Rates [LangSmith's documentation and command line; two vendor texts disagree on v2]: 10 queries in 10 s, 3 where the
  window is open or longer than 7 days, 1 with `search(...)`; 30 single runs a minute; 5000 writes and 2000 requests of
  any kind a minute. A 429 is believed over all of these.
- 403 with `org_scoped_key_requires_workspace`, 404 for a run not ingested yet, 409 for an id that is there, 422 for a
  body it does not take, 501 for feedback without its project [SDK].
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson
from langsmith import Client
from langsmith.utils import LangSmithError
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException
from urllib3.util import Retry

from groundtrace.adapters.lines import mended
from groundtrace.adapters.options import is_id
from groundtrace.adapters.patience import Patience, Refused, Stranger, deepest, is_page, retry_after, said
from groundtrace.adapters.throttle import Throttle
from groundtrace.errors import PlanError, PlatformError

Tier: TypeAlias = Literal["query", "wide", "search", "run", "read", "write"]
"""What kind of request it is: LangSmith counts them apart."""

Generation: TypeAlias = Literal["v1", "v2"]

RATES: Mapping[Tier, tuple[int, float]] = {
    "query": (10, 10.0),
    "wide": (3, 10.0),
    "search": (1, 10.0),
    "run": (30, 60.0),
    "read": (2000, 60.0),
    "write": (5000, 60.0),
}
"""Requests and seconds of each tier, as published."""

HOSTS = {
    "https://api.smith.langchain.com": "US",
    "https://eu.api.smith.langchain.com": "EU",
    "https://apac.api.smith.langchain.com": "APAC",
}
CONNECTIONS = 32
"""Requests that may be under way at once."""


class Project(NamedTuple):
    """A project, which LangSmith calls a session too."""

    id: str
    name: str
    workspace: str


class Api:
    """LangSmith as one key sees it. The key comes from LANGSMITH_API_KEY, or the SDK's profile, and is never kept.

    `url` is the API's address (else LANGSMITH_ENDPOINT, else the US one), `workspace` an id that a key of a whole
    organisation needs (else LANGSMITH_WORKSPACE_ID). The client is our own: it never samples, and sends at once.
    `patience` is how many seconds may pass until a request is sent for the last time; without it, that is PATIENCE, and
    a Retry-After of any length is kept to. `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        workspace: str | None = None,
        *,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url, self._workspace = url, workspace
        self._patience = Patience(patience, clock=clock, sleep=sleep)
        self._known: dict[str, Project] = {}
        self.mended = 0
        """Answers so far that held halves of characters, which are U+FFFD now."""
        self._spoke = False
        """Whether anything answered in JSON so far."""
        self._throttles = {
            tier: Throttle(most, seconds, clock=clock, sleep=sleep) for tier, (most, seconds) in RATES.items()
        }

    @functools.cached_property
    def client(self) -> Client:
        """The SDK's client; PlanError where it can't be made."""
        try:
            made = Client(
                api_url=self._url,
                workspace_id=self._workspace,
                auto_batch_tracing=False,
                tracing_sampling_rate=1.0,
                info={"version": ""},
                retry_config=Retry(0, status_forcelist=()),
                timeout_ms=(10_000, 60_000),
            )
        except (LangSmithError, ValueError) as error:
            raise PlanError("langsmith", self._url or "LangSmith", f"can't be reached: {error}") from None
        if not str(made.api_url).startswith(("https://", "http://")):
            hint = "write https://HOST, in LANGSMITH_ENDPOINT or the option url"
            raise PlanError("langsmith", made.api_url, "is no address of LangSmith's API", hint=hint)
        # As many connections are kept as there are threads; the SDK keeps ten, and makes the others anew each time.
        made.session.mount(str(made.api_url), HTTPAdapter(pool_maxsize=CONNECTIONS))
        return made

    @property
    def url(self) -> str:
        """The API's address."""
        return str(self.client.api_url)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Ask nothing again once `stopping` says so."""
        self._patience.stop_when(stopping)

    @property
    def region(self) -> str:
        """US, EU or APAC; "self-hosted" for any other address."""
        return HOSTS.get(self.url.removesuffix("/v1").removesuffix("/api"), "self-hosted")

    @functools.cached_property
    def info(self) -> Mapping[str, Any]:
        """What the server says of itself; empty where it does not."""
        try:
            told = self.call("GET", "/info", patience=10.0)
        except PlatformError:
            return {}
        return told if isinstance(told, dict) else {}

    @functools.cached_property
    def generation(self) -> Generation:
        """Which query API is asked: v2 wherever the server has it."""
        flags = self.info.get("instance_flags")
        if not isinstance(flags, dict):
            return "v2"
        if flags.get("sdb_query_enabled"):
            return "v2"
        return "v1" if flags.get("ch_query_enabled", True) else "v2"

    def project(self, name: str, *, patience: float | None = None) -> Project:
        """The project of a name or id; it is never created. PlanError where there is none."""
        if name not in self._known:
            found = self.call("GET", "/sessions", params={"name": name, "limit": 1}, patience=patience)
            rows = [row for row in found or () if isinstance(row, dict) and row.get("name") == name]
            if not rows and is_id(name):
                rows = [self.call("GET", f"/sessions/{name}", patience=patience)]
            if not rows:
                raise PlanError("langsmith", name, "is no project here", hint=self._unknown(name))
            row = rows[0]
            self._known[name] = Project(str(row["id"]), str(row.get("name") or name), str(row.get("tenant_id") or ""))
        return self._known[name]

    def _unknown(self, name: str) -> str:
        """What to say of a name that no project has."""
        head, _, option = name.partition(",")
        if "=" in option:
            return f"{option.partition('=')[0]} is no option of langsmith:{head}; `groundtrace doctor` says more"
        where = f"the API {self.url}" if self.region == "self-hosted" else f"the {self.region} region"
        return f"there is none in this workspace of {where}; `groundtrace doctor` says more"

    def call(
        self,
        method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"],
        path: str,
        *,
        json: object = None,
        params: Mapping[str, Any] | None = None,
        tier: Tier = "read",
        patience: float | None = None,
    ) -> Any:
        """What LangSmith answers, decoded; asked again, in its own time, where it may be well the next time.

        Raises Refused. With `patience`, or that of this line, no time is waited that would end after so many seconds,
        whoever named it. Without either, a Retry-After of any length is kept to.
        """
        return self._patience.asked(lambda: self._once(method, path, json, params, tier), seconds=patience)

    def _once(self, method: Any, path: str, json: object, params: Mapping[str, Any] | None, tier: Tier) -> Any:
        self._throttles["write" if tier == "write" else "read"].wait()
        if tier not in ("read", "write"):
            self._throttles[tier].wait()
        more: dict[str, Any] = {} if json is None else {"data": orjson.dumps(json)}
        if params:
            more["params"] = {name: value for name, value in params.items() if value is not None}
        try:
            response = self.client.request_with_retries(method, path, **more)
        except (LangSmithError, RequestException) as error:
            raise _refused(error, method, path) from None
        if not response.content:
            return None
        try:
            answer = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            try:
                told = mended(response.content)
            except ValueError:  # it was cut on its way, or is a page for people
                if is_page(response.text) and not self._spoke:
                    what = f"this is no LangSmith: {method} {path} is answered with {said(response.text)}"
                    why = "; is the address right (LANGSMITH_ENDPOINT), and no login before it?"
                    raise Stranger(what + why, status=response.status_code) from None
                raise Refused(f"LangSmith's answer to {method} {path} is no JSON", status=502) from None
            answer, self.mended = told, self.mended + 1
        self._spoke = True
        return answer


def _refused(error: Exception, method: str, path: str) -> Refused:
    """What an error of the SDK says: the answer it is about hangs on what it was raised from."""
    response = None
    at: BaseException | None = error
    while at is not None and response is None:
        response = getattr(at, "response", None)
        at = at.__cause__ or at.__context__
    if response is None:
        why = f"{deepest(error)}; is the address right (LANGSMITH_ENDPOINT)?"
        return Refused(f"LangSmith did not answer {method} {path}: {why}", status=0)
    status = int(response.status_code)
    told = said(response.text)
    message = f"LangSmith refused {method} {path} with {status}{f': {told}' if told else ''}{_REMEDIES.get(status, '')}"
    return Refused(message, status=status, detail=told, retry_after=retry_after(response.headers))


_REMEDIES = {
    401: "; is LANGSMITH_API_KEY right?",
    403: "; the key may be of another region or workspace, or lack the permission: `groundtrace doctor` says more",
}
