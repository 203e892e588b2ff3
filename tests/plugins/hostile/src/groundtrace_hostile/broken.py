"""A module that cannot be imported, and not with an ImportError either."""


class NotConfiguredError(Exception):
    """An error of its own, straight below Exception."""


raise NotConfiguredError("set NEIGHBOUR_HOME first")
