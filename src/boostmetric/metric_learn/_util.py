"""The names of metric-learn's module `_util` that its tests use."""

from boostmetric.metric_learn.inputs import (
    check_collapsed_pairs,
    check_input,
    check_tuple_size,
    check_y_valid_values_for_pairs,
    make_context,
    make_name,
    preprocess_points,
    preprocess_tuples,
    validate_vector,
)
from boostmetric.metric_learn.matrices import (
    _auto_select_init,
    _check_n_components,
    _check_sdp_from_eigen,
    _initialize_components,
    _initialize_metric_mahalanobis,
    _pseudo_inverse_from_eig,
    components_from_metric,
)

__all__ = [
    "_auto_select_init",
    "_check_n_components",
    "_check_sdp_from_eigen",
    "_initialize_components",
    "_initialize_metric_mahalanobis",
    "_pseudo_inverse_from_eig",
    "check_collapsed_pairs",
    "check_input",
    "check_tuple_size",
    "check_y_valid_values_for_pairs",
    "components_from_metric",
    "make_context",
    "make_name",
    "preprocess_points",
    "preprocess_tuples",
    "validate_vector",
]
