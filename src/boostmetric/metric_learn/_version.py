"""Version of metric-learn whose interface this is."""

__version__ = "0.7.0"
