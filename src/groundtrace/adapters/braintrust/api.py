"""Braintrust's REST API with one key: who asks, how often, where the API is, and rows page after page.

This is the one seam behind which everything unverified sits: no real account was reachable. What is assumed of the
server, with its source, in brackets:

- `POST {app}/api/apikey/login` names the organisations of a key and the address of each one's API [the SDK].
- `/btql` takes the query as a tree [the SDK], sorts by `_pagination_key` and compares it [braintrust-migrate]; about 20
  queries a minute on the lower plans, counted over a moving minute, 429 above [Braintrust's knowledge base].
- A page that can't be had in time is refused with 500 or 504, one too large with 413 [braintrust-migrate, bt]: half of
  it is asked for. Whether a page shorter than its limit is always the last is not known: the first one is checked, and
  each that is longer than those that were.
- Under load a good key may meet a 401 that heals in a minute or two [knowledge base].
- `POST /v1/{project_logs|experiment}/{id}/insert` stores a row whole, or merges with `_is_merge`; a merge into a row
  that is not there is stored as a new one [OpenAPI]. So nothing is merged here into a row that was not read before.
"""

from __future__ import annotations

import difflib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from orjson import Fragment

from groundtrace.adapters.braintrust import btql
from groundtrace.adapters.options import is_id
from groundtrace.adapters.patience import AGAIN, Refused
from groundtrace.adapters.rest import Method, Rest
from groundtrace.adapters.throttle import Throttle
from groundtrace.errors import PlanError, PlatformError

Row: TypeAlias = Mapping[str, Any]
"""A row of Braintrust's, as it came."""

Kind: TypeAlias = Literal["project_logs", "experiment"]

PLATFORM = "braintrust"
APP = "https://www.braintrust.dev"
KEY = "BRAINTRUST_API_KEY"
HOSTS = {"https://api.braintrust.dev": "US", "https://api-eu.braintrust.dev": "EU"}

QUERIES = 20
"""Queries in a minute, as documented of the lower plans."""

PAGE = 1000
"""Rows asked for at once; of what can't be had half is, and so on."""

_HALVED = frozenset({413, 500, 504})
_HEALS = 150.0
"""Seconds for which a key that was good before may be refused."""

_REMEDIES = {
    401: f"; is {KEY} right, and of this region? `groundtrace doctor` says more",
    403: "; the key may be of another organisation, or lack the permission: `groundtrace doctor` says more",
}


@dataclass
class _Known:
    """What all of a process know of an API that they ask."""

    throttle: Throttle
    named: bool = False
    """Whether somebody said how fast it may be asked."""

    cut: int = PAGE
    """The rows of the shortest page, shorter than was asked for, after which there were more: or they had just come."""

    whole: int = 0
    """The rows of the longest page, shorter than was asked for, that was seen to be the last."""

    def learn(self, rows: int, *, more: bool) -> None:
        """Note what came behind a page of so many rows, which was shorter than was asked for."""
        if more:
            self.cut = min(self.cut, rows)
        else:
            self.whole = max(self.whole, rows)


_known: dict[str, _Known] = {}
"""By the address of an API."""

_known_lock = threading.Lock()


def key() -> str:
    """The key, without what a file or a pipe put around it. PlanError, which does not show it, where it can't be one.

    An error of HTTP's own would show it.
    """
    told = os.environ.get(KEY, "").strip()
    if not told:
        raise PlanError(PLATFORM, KEY, "is not set", hint="make a key under Settings > API keys and export it")
    if not (told.isascii() and told.isprintable()):
        hint = "copy it once more: a key is of letters, digits and signs, on one line"
        raise PlanError(PLATFORM, KEY, "holds what is part of no key", hint=hint)
    return told


class Org(NamedTuple):
    """An organisation a key is of, and where its API is."""

    id: str
    name: str
    api: str


class Place(NamedTuple):
    """Where rows are kept: the logs of a project, or an experiment of it."""

    kind: Kind
    id: str
    project_id: str
    name: str


class Api:
    """Braintrust as one key sees it. The key comes from BRAINTRUST_API_KEY, and is never kept.

    `url` is the API's address (else BRAINTRUST_API_URL, else the one that `app_url` names: BRAINTRUST_APP_URL, or the
    hosted one), `org` the organisation, where the key is of several (else BRAINTRUST_ORG_NAME). `queries` is how many
    queries a minute may hold (else QUERIES), over all of this process that ask the same API: more where your plan, or
    your own server's RATELIMIT_BTQL_DEFAULT, has more. `patience` is as in `Rest`; `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        app_url: str | None = None,
        org: str | None = None,
        *,
        queries: int | None = None,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if queries is not None and queries < 1:
            raise PlanError("queries", queries, "is no number of queries a minute")
        self._url = url or os.environ.get("BRAINTRUST_API_URL") or ""
        self.app = (app_url or os.environ.get("BRAINTRUST_APP_URL") or APP).rstrip("/")
        self._org = org or os.environ.get("BRAINTRUST_ORG_NAME") or ""
        self.queries, self._named = queries or QUERIES, queries is not None
        self._patience, self._clock, self._sleep = patience, clock, sleep
        self._stopping: Callable[[], bool] | None = None
        self._projects: dict[str, Place] = {}
        self._welcomed = 0.0
        """When the key was last taken; 0 for never."""

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Ask nothing again once `stopping` says so."""
        self._stopping = stopping
        if "rest" in self.__dict__:
            self.rest.stop_when(stopping)

    # --- who and where ------------------------------------------------------------------------------------------------

    def orgs(self, *, patience: float | None = None) -> list[Org]:
        """The organisations of the key, as the app tells them. Raises Refused."""
        front = self._rest(self.app, "BRAINTRUST_APP_URL", org="")  # which one is meant is what is asked
        try:
            told = front.call("POST", "/api/apikey/login", patience=patience)
        finally:
            front.close()
        rows = (row for row in listed(told, "org_info") if row.get("id"))
        return [Org(str(row["id"]), str(row.get("name") or ""), str(row.get("api_url") or "")) for row in rows]

    @functools.cached_property
    def org(self) -> Org:
        """The organisation of the key; PlanError where it has several and none was named."""
        return self.chosen(self.orgs(patience=self._patience))

    def chosen(self, orgs: Sequence[Org]) -> Org:
        """The one of a key's organisations that is meant; PlanError where that is not told."""
        fit = [org for org in orgs if not self._org or org.name == self._org]
        if len(fit) == 1:
            return fit[0]
        names = [org.name for org in orgs]
        if not fit:
            raise PlanError("org", self._org, "is no organisation of this key", valid=names)
        hint = "say which, in BRAINTRUST_ORG_NAME or the option org"
        raise PlanError(
            "org", self._org, "is not named, and the key is of several organisations", valid=names, hint=hint
        )

    @property
    def told(self) -> bool:
        """Whether the API's address was given, and need not be asked for."""
        return bool(self._url)

    @functools.cached_property
    def url(self) -> str:
        """The API's address."""
        found = (self._url or self.org.api).rstrip("/")
        if not found.startswith(("https://", "http://")):
            hint = "write https://HOST, in BRAINTRUST_API_URL or the option url"
            raise PlanError(PLATFORM, found, "is no address of Braintrust's API", hint=hint)
        return found

    @property
    def region(self) -> str:
        """US or EU; "self-hosted" for any other address."""
        return HOSTS.get(self.url, "self-hosted")

    @functools.cached_property
    def rest(self) -> Rest:
        """The API itself."""
        return self._rest(self.url, "BRAINTRUST_API_URL", org=self._org)

    def _rest(self, url: str, where: str, *, org: str) -> Rest:
        headers = {"Authorization": f"Bearer {key()}"}
        if org.isascii() and org:  # else no header can say it; whose project it is is asked with its name
            headers["x-bt-org-name"] = org
        made = Rest(
            "Braintrust",
            url,
            where=where,
            headers=headers,
            remedies=_REMEDIES,
            patience=self._patience,
            clock=self._clock,
            sleep=self._sleep,
        )
        if self._stopping is not None:
            made.stop_when(self._stopping)
        return made

    def project(self, name: str, *, patience: float | None = None) -> Place:
        """The logs of a project, by its name or id; it is never created. PlanError where there is none."""
        if name not in self._projects:
            asked = {"project_name": name, "org_name": self._org or None}
            told = self.call("GET", "/v1/project", params=asked, patience=patience)
            row = _named(told, name) or self._by_id("project", name, patience)
            if row is None:
                raise self._unknown(name, asked | {"project_name": None}, patience)
            ident = str(row["id"])
            self._projects[name] = Place("project_logs", ident, ident, str(row.get("name") or name))
        return self._projects[name]

    def experiment(self, project: str, name: str) -> Place:
        """An experiment of a project, by its name or id. PlanError where there is none."""
        at = self.project(project)
        told = self.call("GET", "/v1/experiment", params={"project_id": at.id, "experiment_name": name})
        row = _named(told, name, project_id=at.id) or self._by_id("experiment", name, None)
        if row is None or str(row.get("project_id")) != at.id:
            near = self._near(name, "/v1/experiment", {"project_id": at.id}, None)
            raise PlanError(PLATFORM, name, f"is no experiment of {at.name}", valid=near)
        return Place("experiment", str(row["id"]), at.id, str(row.get("name") or name))

    def _unknown(self, name: str, asked: Mapping[str, Any], patience: float | None) -> PlanError:
        """What to say of a name that no project has."""
        head, _, option = name.partition(",")
        if "=" in option:
            hint = f"{option.partition('=')[0].strip()} is no option of braintrust:{head}"
            return PlanError(PLATFORM, name, "is no project here", hint=f"{hint}; `groundtrace doctor` says more")
        near = self._near(name, "/v1/project", asked, patience)
        lacks = "" if near else f"this key may see none of that name at {self.url}; "
        hint = f"{lacks}`groundtrace doctor` says more"
        return PlanError(PLATFORM, name, "is no project here", valid=near, hint=hint)

    def _near(self, name: str, path: str, asked: Mapping[str, Any], patience: float | None) -> list[str]:
        """The name that may be meant, of those that are there; none where they can't be had."""
        try:
            told = self.call("GET", path, params=asked, patience=patience)
        except Refused:
            return []
        listed = told.get("objects") if isinstance(told, Mapping) else None
        names = [str(row.get("name")) for row in listed or () if isinstance(row, Mapping)]
        return difflib.get_close_matches(name, names, n=1, cutoff=0.6)

    def _by_id(self, kind: str, ident: str, patience: float | None) -> Row | None:
        if not is_id(ident):
            return None
        try:
            row: Row = self.call("GET", f"/v1/{kind}/{ident}", patience=patience)
        except Refused as refused:
            if refused.status in (400, 404):
                return None
            raise
        return row

    # --- asking -------------------------------------------------------------------------------------------------------

    def call(
        self,
        method: Method,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, Any] | None = None,
        patience: float | None = None,
        passing: Callable[[Refused], bool] = lambda refused: refused.status in AGAIN,
        first: Callable[[], None] = lambda: None,
    ) -> Any:
        """What Braintrust answers, decoded; a key that was good a moment ago is tried again. Raises Refused."""

        def may_pass(refused: Refused) -> bool:
            heals = refused.status == 401 and self._welcomed > self._clock() - _HEALS and self._welcomed > 0
            return heals or passing(refused)

        told = self.rest.call(method, path, json=json, params=params, patience=patience, passing=may_pass, first=first)
        self._welcomed = self._clock() or 1e-9
        return told

    def insert(self, place: Place, events: Sequence[Row | Fragment]) -> None:
        """Store rows, whole or merged as each of them says. Raises Refused.

        A row may come as JSON that was made before.
        """
        self.call("POST", f"/v1/{place.kind}/{place.id}/insert", json={"events": events})

    def pages(
        self,
        place: Place,
        where: btql.Tree,
        *,
        size: int = PAGE,
        fields: Sequence[Sequence[str]] = (),
        patience: float | None = None,
    ) -> Iterator[list[Row]]:
        """All rows that fit, oldest first, page after page; `where` must hold a bound. Raises Refused.

        A row that changes while pages are read keeps its place, so none is passed over; `fields` always hold `id`.
        """
        chosen = [*fields, *((name,) for name in ("id", "_pagination_key") if fields and (name,) not in fields)]
        last: str | None = None
        rows, doubted, known = _Size(size), 0, self.known
        while True:
            after = btql.compared("gt", "_pagination_key", last) if last is not None else None
            asked = btql.query(place.kind, place.id, btql.every(where, after), limit=rows.now, fields=chosen)
            try:
                page = self._page(asked, patience, halving=rows.now > 1)
            except Refused as refused:
                if refused.status not in _HALVED or rows.now == 1:
                    raise
                rows.halve()
                continue
            if doubted:
                known.learn(doubted, more=bool(page))
            if not page:
                return
            yield page
            short = len(page) < min(rows.now, known.cut)
            if short and len(page) <= known.whole:
                return
            doubted = len(page) if len(page) < rows.now else 0
            last = _key(page[-1])
            if last is None and short:
                return
            if last is None:
                raise PlatformError("Braintrust's rows lack _pagination_key: more than one page of them can't be read")
            rows.grow()

    def first(
        self, place: Place, where: btql.Tree, *, sort: str, descending: bool, fields: Sequence[Sequence[str]]
    ) -> Row | None:
        """The first row that fits in an order of its own; None where there is none. Raises Refused."""
        asked = btql.query(place.kind, place.id, where, limit=1, sort=sort, descending=descending, fields=fields)
        return next(iter(self._page(asked, None, halving=False)), None)

    def _page(self, asked: Row, patience: float | None, *, halving: bool) -> list[Row]:
        body = {"query": asked, "fmt": "json", "brainstore_realtime": True, "query_source": "groundtrace"}

        def passing(refused: Refused) -> bool:
            return refused.status in AGAIN and not (halving and refused.status in _HALVED)

        told = self.call("POST", "/btql", json=body, patience=patience, passing=passing, first=self.known.throttle.wait)
        rows = told.get("data") if isinstance(told, Mapping) else None
        if not isinstance(rows, list):
            raise PlatformError("Braintrust's answer to a query holds no rows: is this address its API's?")
        return [row for row in rows if isinstance(row, Mapping)]

    @functools.cached_property
    def known(self) -> _Known:
        """What is known of the API, with one throttle for all of this process: as slow as the slowest who says so.

        With a clock of its own, its own.
        """
        if self._clock is not time.monotonic:
            return _Known(Throttle(self.queries, 60, clock=self._clock, sleep=self._sleep))
        with _known_lock:
            there = _known.setdefault(self.url, _Known(Throttle(self.queries, 60)))
            if self._named and not (there.named and there.throttle.most < self.queries):
                there.throttle.keep_to(self.queries)
            there.named = there.named or self._named
            return there


class _Size:
    """How many rows are asked for: half of what can't be had, then more again, each time later where that was vain.

    >>> size, asked = _Size(1000), []
    >>> for _ in range(12):
    ...     asked.append(size.now)
    ...     size.halve() if size.now > 300 else size.grow()
    >>> asked
    [1000, 500, 250, 500, 250, 250, 500, 250, 250, 250, 250, 500]
    """

    def __init__(self, most: int) -> None:
        self.now = self._most = most
        self._wait, self._well, self._grew = 1, 0, False

    def halve(self) -> None:
        """So many can't be had."""
        self._wait *= 2 if self._grew else 1
        self.now, self._well, self._grew = max(1, self.now // 2), 0, False

    def grow(self) -> None:
        """So many could be had."""
        self._wait, self._well = 1 if self._grew else self._wait, self._well + 1
        self._grew = self.now < self._most and self._well >= self._wait
        if self._grew:
            self.now, self._well = min(self._most, self.now * 2), 0


def _key(row: Row) -> str | None:
    """Where a row stands among all, as far as it says."""
    told = row.get("_pagination_key")
    return told if isinstance(told, str) and told else None


def listed(told: object, under: str) -> list[Row]:
    """The rows an answer lists under a name.

    >>> listed({"objects": [{"id": "a"}, 5]}, "objects"), listed("gone", "objects")
    ([{'id': 'a'}], [])
    """
    held = told.get(under) if isinstance(told, Mapping) else None
    return [row for row in held if isinstance(row, Mapping)] if isinstance(held, list) else []


def _named(told: object, name: str, **same: str) -> Row | None:
    """The one of that name, with all that it has to say; PlanError where it is one of several."""
    rows = (row for row in listed(told, "objects") if row.get("name") == name)
    fit = {str(row.get("id")): row for row in rows if all(row.get(key) == value for key, value in same.items())}
    if len(fit) > 1:
        hint = "write the id, or say which organisation, in BRAINTRUST_ORG_NAME or the option org"
        raise PlanError(PLATFORM, name, "is the name of several here, perhaps of several organisations", hint=hint)
    return next(iter(fit.values()), None)
