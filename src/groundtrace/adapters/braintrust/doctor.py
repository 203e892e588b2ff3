"""What is well and what is not between here and Braintrust, in plain words; nothing is written to find out."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Generator, Iterator, Mapping

from groundtrace.adapters.asked import asked
from groundtrace.adapters.braintrust import btql
from groundtrace.adapters.braintrust.api import HOSTS, KEY, Api, Place, Row, key, listed
from groundtrace.adapters.braintrust.columns import COLUMN, is_human, project_scores
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.adapters.options import meant
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Check

_MOST = 100
"""Projects named to find the one that was meant."""

_RECENT = dt.timedelta(hours=1)
_COMMENTS = (1, 1, 27)
"""The data plane from which on rows tell their comments [Braintrust's knowledge base]."""

_STATUS = "try again later; https://status.braintrust.dev"
_SETTINGS = "Settings > API keys"


def checks(api: Api, project: str | None = None, experiment: str = "", *, patience: float = 20.0) -> Iterator[Check]:
    """Key, organisation, address, project, queries, data plane, rate, score names; a key that is not taken ends it.

    `patience` is after how many seconds something is asked for the last time. One query is asked, of those a minute
    holds.
    """
    try:
        key()
    except PlanError as error:
        yield Check("Braintrust key", well=False, detail=f"{KEY} {error.problem}", remedy=error.hint)
        return
    found = yield from _organisation(api, patience)
    if not found:
        return
    try:
        yield Check("Braintrust address", well=True, detail=f"{api.url} ({api.region})")
    except PlanError as error:
        yield Check("Braintrust address", well=False, detail=f"{error.value!r} {error.problem}", remedy=error.hint)
        return
    try:
        told = api.call("GET", "/v1/project", params={"limit": _MOST}, patience=patience)
    except Refused as refused:
        yield _refused(refused, api)
        return
    yield Check("Braintrust key", well=True, detail=f"is taken by the {api.region} API")
    place: Place | None = None
    if project is not None:
        place = yield from _project(api, project, told, patience)
    if place is not None and experiment:
        place = yield from _experiment(api, place, experiment)
    if place is not None:
        yield _readable(api, place, patience)
    yield _data_plane(api, patience)
    detail = f"{api.queries} a minute at most; more only where your plan or server allows it (queries=N)"
    yield Check("Braintrust queries", well=True, detail=detail)
    if place is not None:
        yield from _names(api, place, patience)


# --- who and where ----------------------------------------------------------------------------------------------------


def _organisation(api: Api, patience: float) -> Generator[Check, None, bool]:
    """Whether the key is one, and of which organisation; gives whether the rest can be asked."""
    try:
        orgs = api.orgs(patience=patience)
    except Refused as refused:
        if refused.status == 401:
            detail = f"{api.app} does not know the key"
            remedy = f"set {KEY} to a key of {_SETTINGS}; where you host Braintrust yourself, BRAINTRUST_APP_URL too"
            yield Check("Braintrust key", well=False, detail=detail, remedy=remedy)
        else:
            remedy = "BRAINTRUST_APP_URL or the option app_url sets the app's address, BRAINTRUST_API_URL the API's"
            yield Check("Braintrust app", well=False, detail=str(refused), remedy=remedy)
        return api.told and refused.status not in (401, 403)
    try:
        org = api.chosen(orgs)
        address = api.told or bool(org.api)
    except PlanError as error:
        named = ", ".join(other.name for other in orgs) or "none"
        detail = f"{error.value!r} {error.problem}" if error.value else "the key is of several, and none is named"
        remedy = f"set BRAINTRUST_ORG_NAME, or write org=NAME: the key is of {named}"
        yield Check("Braintrust organisation", well=False, detail=detail, remedy=remedy)
        return False
    others = [other.name for other in orgs if other.id != org.id]
    more = f"; the key is of {', '.join(others)} too" if others else ""
    yield Check("Braintrust organisation", well=True, detail=f"{org.name} ({org.id}){more}")
    if not address:
        remedy = "set BRAINTRUST_API_URL to it: Settings > Data plane tells it"
        yield Check("Braintrust address", well=False, detail="the app does not tell the API's", remedy=remedy)
    return address


def _refused(refused: Refused, api: Api) -> Check:
    """Why the API does not take the key, as far as the answer tells."""
    regions = ", ".join(f"{host} ({name})" for host, name in HOSTS.items())
    if refused.status == 0:
        remedy = f"is the address right? BRAINTRUST_API_URL and the option url set it; Braintrust's are {regions}"
        return Check("Braintrust API", well=False, detail=str(refused), remedy=remedy)
    if refused.status == 401:
        detail = f"{api.url} does not take the key: it is of another region or data plane, or was revoked"
        remedy = f"leave BRAINTRUST_API_URL out, then the app tells the key's own address; Braintrust's are {regions}"
        return Check("Braintrust key", well=False, detail=detail, remedy=remedy)
    if refused.status == 403:
        detail = "the key may not see the projects of this organisation"
        remedy = (
            "set BRAINTRUST_ORG_NAME to the key's own; then ask an owner for a key that may read and update projects"
        )
        return Check("Braintrust key", well=False, detail=detail, remedy=remedy)
    if refused.status == 404:
        remedy = f"BRAINTRUST_API_URL is the API's address, not the app's; Braintrust's are {regions}"
        return Check("Braintrust API", well=False, detail=f"{api.url} is not Braintrust's API", remedy=remedy)
    return Check("Braintrust API", well=False, detail=str(refused), remedy=_STATUS)


def _project(api: Api, name: str, told: object, patience: float) -> Generator[Check, None, Place | None]:
    """Whether the project is there; else which one may be meant."""
    names = [str(row.get("name")) for row in listed(told, "objects")]
    try:
        place = api.project(name, patience=patience)
    except PlanError:
        near = meant(name, names)
        remedy = f"{near}nothing is created by asking; init_logger(project=...) of your code makes a project"
        detail = f"there is no project {name!r} that this key may see"
        yield Check("Braintrust project", well=False, detail=detail, remedy=remedy)
        return None
    except Refused as refused:
        yield Check("Braintrust project", well=False, detail=str(refused), remedy=_STATUS)
        return None
    yield Check("Braintrust project", well=True, detail=f"{place.name} ({place.id})")
    return place


def _experiment(api: Api, project: Place, name: str) -> Generator[Check, None, Place | None]:
    """Whether the experiment is there."""
    try:
        place = api.experiment(project.id, name)
    except PlanError:
        detail = f"there is no experiment {name!r} in {project.name}"
        remedy = "its name stands in the app, or in the summary that Eval prints; runs of one name get more behind it"
        yield Check("Braintrust experiment", well=False, detail=detail, remedy=remedy)
        return None
    except Refused as refused:
        yield Check("Braintrust experiment", well=False, detail=str(refused), remedy=_STATUS)
        return None
    yield Check("Braintrust experiment", well=True, detail=f"{place.name} ({place.id})")
    return place


# --- what it can do ---------------------------------------------------------------------------------------------------


def _readable(api: Api, place: Place, patience: float) -> Check:
    """Whether rows can be asked for, by one that began within the last hour."""
    since = (dt.datetime.now(dt.UTC) - _RECENT).isoformat().replace("+00:00", "Z")
    pages = api.pages(place, btql.compared("ge", "created", since), size=1, fields=(("id",),), patience=patience)
    try:
        page = next(pages, [])
    except Refused as refused:
        remedy = {
            401: "the key was taken a moment ago: try again in two minutes",
            403: "ask for a key that may read this project's logs",
            404: "this server has no /btql: its data plane is too old to be read",
            429: "others use up the queries of this minute: try again, or lower queries= where you run",
        }
        return Check("Braintrust logs", well=False, detail=str(refused), remedy=remedy.get(refused.status, _STATUS))
    except PlatformError as error:
        return Check("Braintrust logs", well=False, detail=str(error))
    recent = "something came in the last hour" if page else "nothing came in the last hour"
    return Check("Braintrust logs", well=True, detail=f"can be read; {recent}")


def _data_plane(api: Api, patience: float) -> Check:
    """Which version answers, and what it lacks."""
    try:
        told = api.call("GET", "/version", patience=min(patience, 5.0))
    except (Refused, PlatformError):
        told = None
    known = told if isinstance(told, Mapping) else {}
    version, most = known.get("version"), known.get("logs3_payload_max_bytes")
    detail = f"version {version}" if version else "its version is not told"
    if isinstance(most, int | float) and most > 0:
        detail += f"; rows of up to {most / 1_000_000:.0f} MB a request"
    numbers = tuple(int(part) for part in re.findall(r"\d+", str(version))[:3]) if version else ()
    if len(numbers) == 3 and numbers < _COMMENTS:
        detail += "; before 1.1.27 it does not tell people's comments"
    return Check("Braintrust data plane", well=True, detail=detail)


def _names(api: Api, place: Place, patience: float) -> Iterator[Check]:
    """Whether columns people fill in, or online rules, meet the names of our scores."""
    try:
        rows = project_scores(api, place.project_id, patience)
    except Refused as refused:
        detail = f"it is not known whether a column or a rule has the name of a score of ours: {refused}"
        yield Check("Braintrust scores", well=True, detail=detail)
        return
    ours = {name_of(told.name) for told in asked()}
    rules = [row for row in rows if row.get("score_type") == "online"]
    met = _sorted(row for row in rows if row.get("name") in ours and row.get("score_type") != "online")
    clash = _sorted(row for row in rules if row.get("name") in ours)
    if clash:
        remedy = "rename the rule: a scorer that gives a score of that name overwrites ours, and ours its"
        yield Check("Braintrust scores", well=False, detail=f"online rules are called {clash}", remedy=remedy)
    elif met:
        detail = f"{met} of this project: our scores are called so with _auto behind, and people's stay theirs"
        yield Check("Braintrust scores", well=True, detail=detail)
    else:
        yield Check("Braintrust scores", well=True, detail="no column or online rule has the name of a score of ours")
    columns = [row for row in rows if is_human(row) and str(row.get("name")).startswith(COLUMN)]
    detail = f"columns in which people give our scores: {len(columns)}"
    none = "no column asks people for our scores yet; review=true makes them"
    yield Check("Braintrust review", well=True, detail=detail if columns else none)
    if rules:
        detail = f"{len(rules)} in this project; whether they run again on a trace when scores are written is not known"
        yield Check("Braintrust online rules", well=True, detail=detail)


def _sorted(rows: Iterator[Row]) -> str:
    return ", ".join(sorted(str(row.get("name")) for row in rows))
