"""Images and videos of rows: the tokens that assign them to parts of a text, and the folder that they must be in."""

import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.shards.source.base import local_file
from wdsflow.stages.scores.base import ScoreError

_AUDIO = "<__dj__audio>"  # ignored, but not part of a caption
_LIKE_A_TOKEN = re.compile(r"<[^<>\s]{1,40}>")
_MOST_KINDS = 1000


class MediaChunk(NamedTuple):
    """A part of a text: its caption, and the indices of its images and videos in the row."""

    caption: str
    images: tuple[int, ...]
    videos: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MediaTokens:
    """The tokens of a data set, as a value that is passed to all code that reads texts."""

    image: str = "<__dj__image>"
    video: str = "<__dj__video>"
    end: str = "<|__dj__eoc|>"

    def __post_init__(self) -> None:
        """Refuse tokens that cannot be distinguished."""
        tokens = (self.image, self.video, self.end)
        if not all(token.strip() for token in tokens):
            raise ValueError("a special token is empty: it would match everywhere")
        for token, other in permutations(tokens, 2):
            if token in other:
                raise ValueError(f"the special tokens {token!r} and {other!r} cannot be distinguished")

    @staticmethod
    def of(recipe: Recipe) -> "MediaTokens":
        """Return the tokens of a recipe. Raises ValueError."""
        return MediaTokens(image=recipe.image_token, video=recipe.video_token, end=recipe.chunk_end)

    def chunks(self, text: str) -> list[MediaChunk]:
        """Return the chunks of a text, in order, those without images, videos and words left out.

        A chunk ends at each ``end``. If the image token is in it k times, it has the next k images. Its caption is its
        text without tokens, stripped. Source: Data-Juicer's image_text_similarity_filter.
        """
        found, images, videos = [], 0, 0
        for part in text.split(self.end):
            own_images = range(images, images + part.count(self.image))
            own_videos = range(videos, videos + part.count(self.video))
            images, videos = own_images.stop, own_videos.stop
            caption = part
            for token in (self.image, self.video, _AUDIO):
                caption = caption.replace(token, "")
            caption = caption.strip()
            if caption or own_images or own_videos:
                found.append(MediaChunk(caption, tuple(own_images), tuple(own_videos)))
        return found


class TokensSeen:
    """Counts the tokens in the texts of a file, to report a wrong token instead of reading no image."""

    def __init__(self, tokens: MediaTokens) -> None:
        self._tokens = tokens
        self._with = {"image": 0, "video": 0}  # rows with such files
        self._found = {"image": 0, "video": 0}  # rows whose text has the token
        self._like: Counter[str] = Counter()

    def add(self, text: str, images: int, videos: int) -> None:
        """Note a row."""
        for name, token, count in (("image", self._tokens.image, images), ("video", self._tokens.video, videos)):
            self._with[name] += count > 0
            self._found[name] += token in text
        if len(self._like) < _MOST_KINDS:
            self._like.update(dict.fromkeys(_LIKE_A_TOKEN.findall(text), 1))

    def problem(self) -> str:
        """Return what is wrong with the tokens, "" if nothing."""
        known = {self._tokens.image, self._tokens.video, self._tokens.end}
        for name, token in (("image", self._tokens.image), ("video", self._tokens.video)):
            if self._with[name] and not self._found[name]:
                others = [like for like, _ in self._like.most_common(8) if like not in known][:5]
                there = f"the texts have {', '.join(map(repr, others))}" if others else "none has anything like a token"
                return (
                    f"{self._with[name]:,} {'row has' if self._with[name] == 1 else 'rows have'} {name}s, and no text has the token {token!r}; {there}:"
                    f" give the right one with --{name}-token"
                )
        return ""


@dataclass(frozen=True)
class MediaRoot:
    """The folder to which paths are relative. ``absolute``: the user gave it, so absolute paths into it are valid too."""

    folder: str
    absolute: bool = False

    @staticmethod
    def of(url: str, recipe: Recipe) -> "MediaRoot":
        """Return the folder of a file's images: the given one, otherwise that of the file. Raises ValueError."""
        if recipe.media_root:
            return MediaRoot(os.path.expanduser(recipe.media_root), absolute=True)
        path = local_file(url)
        if path is None:
            raise ValueError(f"{url} is on a server: name the folder of its images with --media-root")
        return MediaRoot(os.path.dirname(os.path.abspath(path)))

    def path(self, name: str) -> str:
        """Return the path of a file, links resolved. Raises ScoreError "outside", "missing-file"."""
        if "\0" in name or not name:
            raise ScoreError("missing-file", f"{name!r} is not a path")
        if os.path.isabs(name) and not self.absolute:
            raise ScoreError(
                "outside", f"{name!r} is an absolute path: name the folder that may be read with --media-root"
            )
        root = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath((root, path)) != root:
            raise ScoreError("outside", f"{name!r} is outside of {self.folder}: name another folder with --media-root")
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise ScoreError("missing-file", f"{name!r}: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise ScoreError("missing-file", f"{name!r} is not a regular file")
        return path
