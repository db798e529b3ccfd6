"""What is raised where a score cannot be computed."""


class ScoreError(Exception):
    """A score that could not be computed; ``slug`` is what it is counted under, ``detail`` says why for one sample.

    It is never the same as a score of nothing: there is no value then, and nothing may be concluded from that.
    """

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug, self.detail = slug, detail

    def __reduce__(self) -> tuple[type["ScoreError"], tuple[str, str]]:
        # An exception is rebuilt from its args, of which there is one: the pool it came from would break.
        return type(self), (self.slug, self.detail)
