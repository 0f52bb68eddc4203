"""Arrays: their types, coordinates, rows of different lengths, tensors, and checks of what users give.

Nothing is imported here: loading a model needs NumPy and safetensors only.
"""
