"""Evaluate a learned metric against the base: scores, intervals, and a verdict."""

from boostmetric.evaluation.class_gains import ClassGain, class_gains
from boostmetric.evaluation.compare import (
    compare,
    evaluate,
    evaluate_comparisons,
    evaluate_rankings,
    scores_by_rank,
)
from boostmetric.evaluation.comparison_task import ComparisonTask
from boostmetric.evaluation.drift import Drift, drift
from boostmetric.evaluation.keeping import Kept, keep_better
from boostmetric.evaluation.knn import knn_error, knn_predict
from boostmetric.evaluation.label_task import LabelTask
from boostmetric.evaluation.ranking_scores import (
    average_precision_at_k,
    hit_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
)
from boostmetric.evaluation.ranking_task import RankingTask
from boostmetric.evaluation.splitting import fraction_to_hold_out, split_classes, split_queries, split_rows
from boostmetric.evaluation.verdict import Evaluation, Row

__all__ = [
    "ClassGain",
    "ComparisonTask",
    "Drift",
    "Evaluation",
    "Kept",
    "LabelTask",
    "RankingTask",
    "Row",
    "average_precision_at_k",
    "class_gains",
    "compare",
    "drift",
    "evaluate",
    "evaluate_comparisons",
    "evaluate_rankings",
    "fraction_to_hold_out",
    "hit_at_k",
    "keep_better",
    "knn_error",
    "knn_predict",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
    "reciprocal_rank_at_k",
    "scores_by_rank",
    "split_classes",
    "split_queries",
    "split_rows",
]
