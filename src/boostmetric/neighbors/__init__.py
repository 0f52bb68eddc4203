"""Nearest neighbours; every search method returns the same ones."""

from boostmetric.neighbors.alike import nearest_alike as nearest_alike
from boostmetric.neighbors.nearest_points import distances_to as distances_to
from boostmetric.neighbors.nearest_points import nearest as nearest
from boostmetric.neighbors.nearest_points import nearest_others as nearest_others
from boostmetric.neighbors.nearest_points import others_within as others_within
from boostmetric.neighbors.nearest_points import rounding_of_distances as rounding_of_distances
