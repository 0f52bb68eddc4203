"""How good a learned metric is, beside the base: scores, intervals, and a verdict."""

from boostmetric.evaluation.compare import (
    compare,
    evaluate,
    evaluate_comparisons,
    evaluate_rankings,
    scores_by_rank,
)
from boostmetric.evaluation.comparisons import ComparisonTask
from boostmetric.evaluation.labels import LabelTask
from boostmetric.evaluation.rankings import RankingTask
from boostmetric.evaluation.result import Evaluation, Row
from boostmetric.evaluation.splitting import split_classes, split_queries

__all__ = [
    "ComparisonTask",
    "Evaluation",
    "LabelTask",
    "RankingTask",
    "Row",
    "compare",
    "evaluate",
    "evaluate_comparisons",
    "evaluate_rankings",
    "scores_by_rank",
    "split_classes",
    "split_queries",
]
