"""Nearest-neighbour classification and its error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.validation import check_count, checked
from boostmetric.neighbors import nearest, rounding_of_distances

__all__ = ["knn_error", "knn_predict"]


def knn_predict(X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, n_neighbors: int = 3) -> NDArray[Any]:
    """Predict the label of each test point by a majority vote of its nearest training points; the nearest breaks ties.

    In scikit-learn's classifier the smallest label wins a tie, which on the paper's Letters and USPS is half a
    percentage point away from the printed errors.

    Parameters
    ----------
    X_train : array-like of shape (n_train, n_features)
    y_train : array-like of shape (n_train,)
    X_test : array-like of shape (n_test, n_features)
    n_neighbors : int, default=3

    Returns
    -------
    ndarray of shape (n_test,)

    Examples
    --------
    >>> from boostmetric.evaluation.knn import knn_predict
    >>> knn_predict([[0.0], [1.0], [2.0]], ["c", "b", "a"], [[0.1]]).item()
    'c'
    """
    check_count("n_neighbors", n_neighbors)
    return vote(neighbor_labels(X_train, y_train, X_test, n_neighbors))


def neighbor_labels(
    X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, n_neighbors: int, device: str = "cpu"
) -> NDArray[Any]:
    """Labels of the nearest training points of each test point, nearest first."""
    train, test = (checked(check_array, X, dtype=[np.float64, np.float32]) for X in (X_train, X_test))
    if train.shape[1] != test.shape[1]:
        raise ValueError(
            f"X_train has {train.shape[1]} features and X_test {test.shape[1]}. Both must have the same features."
        )
    known = column_or_1d(y_train)
    check_consistent_length(train, known)
    if n_neighbors > len(known):
        raise ParameterError(
            "{n_neighbors}={value} is more than the {n} training points.", value=n_neighbors, n=len(known)
        )
    return np.asarray(known[nearest(train, test, n_neighbors, rounding_of_distances(train), device=device)])


def vote(labels: NDArray[Any]) -> NDArray[Any]:
    """Most frequent label of each row; the first breaks ties."""
    # Votes for the label of each neighbour, nearest first: the first of the largest counts wins.
    votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    return np.asarray(labels[np.arange(len(labels)), votes.argmax(axis=1)])


def knn_error(
    X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, y_test: ArrayLike, n_neighbors: int = 3
) -> float:
    """Fraction of test points that `knn_predict` gets wrong.

    Parameters
    ----------
    X_train, y_train, X_test, n_neighbors
        As in `knn_predict`.
    y_test : array-like of shape (n_test,)
        Right labels.
    """
    predicted = knn_predict(X_train, y_train, X_test, n_neighbors)
    right = column_or_1d(y_test)
    check_consistent_length(predicted, right)
    return float(np.mean(predicted != right))
