"""Oracles: they keep distances and weights to themselves and answer five questions with small sums."""
