"""Many tenants: what a few directions of their own bring on the query side, where one index serves all of them.

Tenants are topics: the domains of CLINC150, and the scenarios of HWU64 that have more than one intent. The shared
metric is learned from all training rows, which are the documents. The validation rows of a topic are the queries of its
tenant, to which the tenant's documents of the same intent are relevant; scores are those of its test rows.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.evaluation import RankingTask
from boostmetric.evaluation.bootstrap import interval_of_difference
from boostmetric.paper.datasets import MissingDataError, own_file
from boostmetric.tenants import TenantDirections, TenantMetrics
from boostmetric.tenants.file import save_tenants

_MANY = 10_000
# Of the repository clinc/oos-eval, data/domains.json.
_CLINC_DOMAINS = {
    "banking": "freeze_account routing pin_change bill_due pay_bill account_blocked interest_rate min_payment "
    "bill_balance transfer order_checks balance spending_history transactions report_fraud",
    "credit cards": "replacement_card_duration expiration_date damaged_card improve_credit_score report_lost_card "
    "card_declined credit_limit_change apr redeem_rewards credit_limit rewards_balance application_status "
    "credit_score new_card international_fees",
    "kitchen and dining": "food_last confirm_reservation how_busy ingredients_list calories nutrition_info recipe "
    "restaurant_reviews restaurant_reservation meal_suggestion restaurant_suggestion cancel_reservation "
    "ingredient_substitution cook_time accept_reservations",
    "home": "what_song play_music todo_list_update reminder reminder_update calendar_update order_status "
    "update_playlist shopping_list calendar next_song order todo_list shopping_list_update smart_home",
    "auto and commute": "current_location oil_change_when oil_change_how uber traffic tire_pressure "
    "schedule_maintenance gas mpg distance directions last_maintenance gas_type tire_change jump_start",
    "travel": "plug_type travel_notification translate flight_status international_visa timezone exchange_rate "
    "travel_suggestion travel_alert vaccines lost_luggage book_flight book_hotel carry_on car_rental",
    "utility": "weather alarm date find_phone share_location timer make_call calculator definition "
    "measurement_conversion flip_coin spelling time roll_dice text",
    "work": "pto_request_status next_holiday insurance_change insurance meeting_schedule payday taxes income "
    "rollover_401k pto_balance pto_request w2 schedule_meeting direct_deposit pto_used",
    "small talk": "who_made_you meaning_of_life who_do_you_work_for do_you_have_pets what_are_your_hobbies fun_fact "
    "what_is_your_name where_are_you_from goodbye thank_you greeting tell_joke are_you_a_bot how_old_are_you "
    "what_can_i_ask_you",
    "meta": "change_speed user_name whisper_mode yes change_volume no change_language repeat change_accent cancel "
    "sync_device change_user_name change_ai_name reset_settings maybe",
}


class Data(NamedTuple):
    """Embeddings, their classes, parts (train, validation, test) and topics; "" for those that are no tenant's."""

    X: np.ndarray
    y: np.ndarray
    part: np.ndarray
    topic: np.ndarray

    @classmethod
    def read(cls, source: str, topics: Callable[[np.ndarray], np.ndarray], data_dir: Path | None) -> "Data":
        """Read a file with a split."""
        path = own_file(source, data_dir)
        if path is None or not path.exists():
            raise MissingDataError(f"Name the folder of {source}.npz by --data-dir or in BOOSTMETRIC_DATA.")
        with np.load(path) as stored:
            y = stored["y"]
            return cls(stored["X"].astype(np.float32), y, stored["split"], topics(stored["labels"])[y])

    def rows(self, part: int, topic: str) -> np.ndarray:
        """Numbers of the rows of one topic."""
        return np.flatnonzero((self.part == part) & (self.topic == topic))

    def relevance(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """Rows (query, document, grade): documents of the query's class are relevant."""
        same = np.argwhere(self.y[queries][:, None] == self.y[documents])
        return np.column_stack([same, np.ones(len(same), dtype=int)])


def scenarios(labels: np.ndarray) -> np.ndarray:
    """Topic of each class of HWU64: the first part of its name, if other classes share it."""
    topics = np.array([label.split("_")[0] for label in labels])
    return np.where([(topics == topic).sum() > 1 for topic in topics], topics, "")


def domains(labels: np.ndarray) -> np.ndarray:
    """Topic of each class of CLINC150: its domain."""
    topic_of = {intent: topic for topic, intents in _CLINC_DOMAINS.items() for intent in intents.split()}
    return np.array([topic_of.get(label, "") for label in labels])


SETS = {"HWU64": ("hwu64_minilm", scenarios), "CLINC150": ("clinc150_minilm", domains)}


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """nDCG@10 of each tenant's test rows under the shared metric and its own, and seconds to load 10,000."""
    rows: list[dict[str, object]] = []
    for name, (source, topics) in SETS.items():
        try:
            data = Data.read(source, topics, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
            continue
        rows += by_tenant(name, data)
    return [*rows, loading(_MANY)]


def by_tenant(name: str, data: Data, **parameters: object) -> list[dict[str, object]]:
    """One row for each tenant, and their mean; `parameters` are those of the shared metric."""
    known = (data.part == 0) & (data.topic != "")
    shared = BoostMetric(**{"n_components": 64, "normalize": True, "random_state": 0, **parameters})
    tenants = TenantMetrics(shared.fit(data.X[known], data.y[known]))
    rows = []
    for tenant in np.unique(data.topic[known]).tolist():
        documents, asked, tested = (data.rows(part, tenant) for part in (0, 1, 2))
        start = perf_counter()
        fit = tenants.fit(tenant, data.X[asked], data.X[documents], data.relevance(asked, documents))
        seconds = perf_counter() - start
        index = tenants.transform_documents(data.X[documents])
        task = RankingTask.of(data.X[tested], data.X[documents], data.relevance(tested, documents), k=10)
        before, after = (
            task.measure((tenants.transform_queries(data.X[tested], who), index)) for who in (None, tenant)
        )
        column = task.names.index(task.headline)
        low, high = interval_of_difference(before, after, 1000, np.random.RandomState(0))
        row = {"set": name, "tenant": tenant, "queries": fit.n_queries, "directions": fit.n_directions}
        row |= {"shared": float(before[0].mean[column]), "own": float(after[0].mean[column])}
        row |= {"low": float(low[column]), "high": float(high[column]), "learning, s": seconds}
        rows.append(row)
        print("  " + "; ".join(f"{k}: {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
    clear = {
        "clearly better": sum(row["low"] > 0 for row in rows),
        "clearly worse": sum(row["high"] < 0 for row in rows),
    }
    means = {key: float(np.mean([row[key] for row in rows])) for key in ("shared", "own")}
    return [*rows, {"set": name, "tenants": len(rows)} | means | clear]


def loading(n_tenants: int, n_features: int = 384, n_components: int = 64, n_directions: int = 4) -> dict[str, object]:
    """Size of a file with many tenants and seconds to load it, the best of three."""
    rng = np.random.default_rng(0)
    shared = MahalanobisMetric(rng.standard_normal((n_components, n_features)))
    directions = rng.standard_normal((n_tenants, n_directions, n_components))
    many = {f"tenant {i}": TenantDirections(rows, rows[:, 0]) for i, rows in enumerate(directions)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tenants.safetensors"
        save_tenants(path, shared, many)
        seconds = []
        for _ in range(3):
            start = perf_counter()
            TenantMetrics.load(path)
            seconds.append(perf_counter() - start)
        return {"tenants loaded": n_tenants, "MB": path.stat().st_size / 1e6, "load, s": min(seconds)}
