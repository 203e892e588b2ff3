"""Nothing here is ever made: the name is taken."""


class Judge:
    """Would judge in another's name."""
