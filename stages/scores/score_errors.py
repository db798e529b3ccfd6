"""The error of a score that cannot be computed."""


class ScoreError(Exception):
    """A score that could not be computed; it is counted by ``slug``, and ``detail`` is the reason for one sample.

    It differs from a score of 0 or "": there is no value, which proves nothing.
    """

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug, self.detail = slug, detail

    def __reduce__(self) -> tuple[type["ScoreError"], tuple[str, str]]:
        # An exception is rebuilt from its args, of which there is one: the pool it came from would break.
        return type(self), (self.slug, self.detail)
