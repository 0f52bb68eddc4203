"""Facts about a metric and its training, for people to read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sklearn.base import BaseEstimator

import boostmetric
from boostmetric import baselines
from boostmetric.estimators.summary import plain
from boostmetric.metric import MahalanobisMetric
from boostmetric.report.page import Html, html, percent
from boostmetric.storage.origin import in_words

_SHARES = {"satisfied": "Comparisons satisfied", "held_out": "Held-out comparisons satisfied"}


def facts_block(metric: MahalanobisMetric) -> list[Html]:
    """List of facts, followed by all recorded details in a collapsed section."""
    written = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, boostmetric {boostmetric.__version__}"
    listed = [*facts(metric), ("Report written", written)]
    items = "".join(f"<div><dt>{html(name)}</dt><dd>{html(value)}</dd></div>" for name, value in listed)
    everything = "".join(
        f"<tr><td>{html(name)}</td><td>{html(value)}</td></tr>" for name, value in _flat("", metric.about)
    )
    blocks = [Html(f'<dl class="facts">{items}</dl>')]
    if everything:
        blocks.append(
            Html(
                "<details><summary>All details recorded in the model</summary>"
                f'<div class="wide"><table class="plain"><tbody>{everything}</tbody></table></div></details>'
            )
        )
    return blocks


def facts(metric: MahalanobisMetric) -> list[tuple[str, str]]:
    """Names and values of the facts about a metric.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.report.facts import facts
    >>> facts(MahalanobisMetric([[1.0, 0.0, 2.0]]))[0]
    ('Linear map', '3 features to 1 dimension')
    """
    about = metric.about
    estimator, training = _mapping(about, "estimator"), _mapping(about, "training")
    rank, n_features = len(metric.truncate().components), metric.components.shape[1]
    listed = [("Linear map", f"{_count(n_features, 'feature')} to {_count(rank, 'dimension')}")]
    if metric.normalize:
        listed.append(("Distances", "between vectors of unit length (cosine): scaled after the linear map"))
    if "name" in estimator:
        listed.append(("Learned by", str(estimator["name"])))
        listed.append(_parameters(str(estimator["name"]), _mapping(estimator, "parameters")))
    if "n_iter" in training:
        listed.append(("Iterations", str(training["n_iter"])))
    if "stop_reason" in training:
        listed.append(("Why it stopped", str(training["stop_reason"])))
    for key, name in _SHARES.items():
        if isinstance(training.get(key), float):
            listed.append((name, percent(training[key], 1)))
    return [*listed, *_measured(about), *_origin(about)]


def _measured(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the metric was learned from, and what it scored."""
    listed = []
    data, scores = _mapping(about, "data"), _mapping(about, "scores")
    sizes = [f"{name.removeprefix('n_')} {value:,}" for name, value in data.items() if type(value) is int]
    if sizes:
        listed.append(("Data", ", ".join(sizes)))
    if "validation" in data:
        listed.append(("Validated on", str(data["validation"])))
    for key, name in (("evaluation", "Scores"), ("rejected", "Rejected")):
        if "sentence" in (found := _mapping(scores, key)):
            listed.append((name, str(found["sentence"])))
    errors = _mapping(scores, "validation_error")
    if all(isinstance(errors.get(which), float) for which in ("base", "chosen")):
        listed.append(("Validation error", f"base {percent(errors['base'], 1)}, chosen {percent(errors['chosen'], 1)}"))
    return listed


def _origin(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """When, by which command and versions, and from which files."""
    origin = _mapping(about, "origin")
    listed = []
    for key, name in (("date", "Date"), ("tag", "Tag"), ("command", "Command")):
        if origin.get(key) is not None:
            listed.append((name, str(origin[key])))
    files = origin.get("files")
    records = files if isinstance(files, list) else []
    listed += [("File", in_words(record)) for record in records if isinstance(record, Mapping)]
    versions = _mapping(origin, "versions") or ({"boostmetric": about["library"]} if "library" in about else {})
    if versions:
        listed.append(("Versions", ", ".join(f"{name} {number}" for name, number in versions.items())))
    return listed


def _parameters(name: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """Parameters that differ from the defaults, or all of them if the learner is unknown."""
    defaults = _defaults(name)
    if defaults is None:
        return "Parameters", ", ".join(f"{key}={_short(value)}" for key, value in given.items()) or "none"
    other = [f"{key}={_short(value)}" for key, value in given.items() if key not in defaults or defaults[key] != value]
    return "Parameters", f"defaults, except {', '.join(other)}" if other else "all at their defaults"


def _defaults(name: str) -> dict[str, Any] | None:
    for home in (boostmetric, baselines):
        learner = getattr(home, name) if name in home.__all__ else None
        if isinstance(learner, type) and issubclass(learner, BaseEstimator):
            return {key: plain(given.default) for key, given in inspect.signature(learner).parameters.items()}
    return None


def _flat(prefix: str, about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Flatten nested dictionaries into names, joined by dots, and values; long lists are shortened."""
    listed: list[tuple[str, str]] = []
    for key, value in about.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            listed += _flat(f"{name}.", value)
        else:
            listed.append((name, _short(value)))
    return listed


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 10:
        return f"{len(value)} values, the last {value[-1]!r}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _mapping(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = about.get(key)
    return found if isinstance(found, Mapping) else {}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
