"""Turn images into vectors: interest regions, SIFT descriptors, visual words, histograms.

Needs OpenCV with its contributed modules: ``pip install 'boostmetric[vision]'``.
"""

from boostmetric.vision.images import UnusableImageError
from boostmetric.vision.words import VisualWords

__all__ = ["UnusableImageError", "VisualWords"]
