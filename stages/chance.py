"""Chance that is the same for the same sample, whoever asks, in whatever order."""

from hashlib import blake2b


def uniform(seed: int, key: str, what: str = "") -> float:
    """Return a number in [0, 1) that depends on nothing but the arguments.

    >>> uniform(0, "000001") == uniform(0, "000001") != uniform(1, "000001")
    True
    """
    text = f"{seed}\0{what}\0{key}".encode(errors="surrogatepass")
    # 53 bits: as many as a float holds, so that the quotient is never rounded up to 1.
    return (int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 11) / (1 << 53)
