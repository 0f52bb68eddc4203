"""Comparisons "this pair is closer than that pair", from every kind of input."""

from boostmetric.comparisons.comparisons import Comparisons as Comparisons
from boostmetric.comparisons.points import Points as Points
