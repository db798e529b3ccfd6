"""The root over all shards: the Merkle tree hash of RFC 6962, section 2.1, with SHA-256."""

from collections.abc import Iterable
from hashlib import sha256


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the 32 bytes of the root over the inputs of the leaves, in their order.

    >>> root_of([]).hex()[:16], root_of([b""]).hex()[:16]
    ('e3b0c44298fc1c14', '6e340b9cffb37a98')
    """
    whole: list[tuple[int, bytes]] = []  # complete trees, the largest first: their height, and their root
    for leaf in leaves:
        height, node = 0, sha256(b"\0" + leaf).digest()
        while whole and whole[-1][0] == height:
            height, node = height + 1, _node(whole.pop()[1], node)
        whole.append((height, node))
    if not whole:
        return sha256().digest()
    root = whole.pop()[1]
    while whole:
        root = _node(whole.pop()[1], root)
    return root


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()
