"""Array types, coordinates, ragged rows, tensors, and validation of user input.

Nothing is imported here, because loading a model must need only NumPy and safetensors.
"""
