"""Captions in cells of tables.

Cells hold text, lists of text, Data-Juicer's chunks, or LLaVA conversations.
"""

import re
from typing import Any

from ..unusable import LONG_TEXT, NO_CAPTION, NOT_TEXT, Unusable, described

# LLaVA's column.
TURNS = "conversations"
# What stands for an image, a video or a sound in captions.
TOKENS = re.compile(r"<__dj__(?:image|video|audio)>|<(?:image|video|audio)>")
# Bytes of a caption.
_LONGEST = 1 << 20
# Data-Juicer's end of a chunk.
_CHUNK_END = "<|__dj__eoc|>"


def caption_bytes(value: Any, column: str) -> bytes:
    """Return a caption in UTF-8; of a list its first text. Raises Unusable."""
    if isinstance(value, list):
        value = next((text for text in value if not _is_blank(text)), None)
    if value is None or _is_blank(value):
        raise Unusable(NO_CAPTION, "it is empty", column)
    if not isinstance(value, str):
        raise Unusable(NOT_TEXT, described(value), column)
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unusable(NOT_TEXT, f"{value!r:.80} is not UTF-8", column) from None
    if len(data) > _LONGEST:
        raise Unusable(LONG_TEXT, f"{value!r:.40}... has {len(data):,} bytes", column)
    return data


def without_tokens(text: Any, tokens: re.Pattern[str] = TOKENS) -> Any:
    r"""Return Data-Juicer's text without its tokens, a line for each chunk.

    >>> without_tokens("<__dj__image> a cat <|__dj__eoc|><__dj__image> a dog")
    'a cat\na dog'
    """
    if not isinstance(text, str):
        return text
    chunks = (tokens.sub("", chunk).strip() for chunk in text.split(_CHUNK_END))
    return "\n".join(filter(None, chunks))


def first_answer(turns: Any, tokens: re.Pattern[str] = TOKENS) -> str:
    r"""Return the model's first answer in a LLaVA conversation, without image tokens.

    Raises Unusable.

    >>> first_answer([{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}])
    'A cat.'
    """
    if turns is not None and not isinstance(turns, list):
        raise Unusable(NOT_TEXT, f"{described(turns)}, and no list of turns", TURNS)
    for turn in turns or ():
        if not isinstance(turn, dict) or turn.get("from") != "gpt":
            continue
        text = turn.get("value")
        if text is None:
            break
        if not isinstance(text, str):
            raise Unusable(NOT_TEXT, f"of the answer of gpt, {described(text)}", TURNS)
        return tokens.sub("", text).strip()
    raise Unusable(NO_CAPTION, "no answer of gpt", TURNS)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()
