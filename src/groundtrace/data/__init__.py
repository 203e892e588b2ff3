"""Data files of the package; read with importlib.resources."""
