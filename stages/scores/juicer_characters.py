"""Data-Juicer's special characters.

Its caption filters strip and count these, whatever their category in Unicode.

Data-Juicer 1.6.1, ``data_juicer/ops/common/special_characters.py`` (Apache License 2.0, after
BigScience's text-data-filtering): ASCII punctuation, digits and white space, a table of other
characters, which has letters such as "ø" and "一", and the emoji of one code point in the package
emoji 2.2.0 (BSD License, from Unicode's data files), which Data-Juicer pins. Emoji of several code
points are never equal to a character.
"""

import string

# Code points, hexadecimal; "ab-ae" is a range that includes both ends.
_TABLE = (
    "81-85 91-93 95-99 9c-9d a1-ab ad-b4 b7-bf d7 f7-f8 131 26a 2ba-2bc 2c8 2cc 2d0 2d8 2da 2dc 3c0 413 60c 647 66a "
    "66c 6e9 93e 940 947 94d 97d 9be e51 2002-2003 2005 2008-200b 2010-2011 2013-2016 2018-201a 201c-2020 2022 2024 "
    "2026 202f-2030 2032-2033 2039-203a 203f 2043-2044 20a8 20aa 20ac 2103 2122 2190-2193 21d3 2206 2208 2212 221a "
    "221e-221f 223c 2248 2256 2264-2265 2295 22c5 2550 25a0 25ac 25b2 25b4 25b7 25ba-25bc 25c6 25cf 25e6 2605-2606 "
    "261b 263b 2661 2665 266b 2713 2726 2731 2756 27a4 27a9 2800 3000-3002 300a-300d 3010-3011 309c 30b7 30c3-30c4 "
    "30f3 30fb-30fc 4e00 4e0a 58eb fd3e-fd3f feff ff01 ff08-ff09 ff0c ff0e ff11 ff1a-ff1b ff1f ff3e ff5e fffc-fffd"
)
_EMOJI = (
    "203c 2049 2139 2194-2199 21a9-21aa 231a-231b 2328 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 25c0 25fb-25fe "
    "2600-2604 260e 2611 2614-2615 2618 261d 2620 2622-2623 2626 262a 262e-262f 2638-263a 2640 2642 2648-2653 "
    "265f-2660 2663 2666 2668 267b 267e-267f 2692-2697 2699 269b-269c 26a0-26a1 26a7 26aa-26ab 26b0-26b1 26bd-26be "
    "26c4-26c5 26c8 26ce-26cf 26d1 26d3-26d4 26e9-26ea 26f0-26f5 26f7-26fa 26fd 2702 2705 2708-270d 270f 2712 2714 "
    "2716 271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2764 2795-2797 27a1 27b0 27bf 2934-2935 "
    "2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f004 1f0cf 1f170-1f171 1f17e-1f17f 1f18e 1f191-1f19a "
    "1f201-1f202 1f21a 1f22f 1f232-1f23a 1f250-1f251 1f300-1f321 1f324-1f393 1f396-1f397 1f399-1f39b 1f39e-1f3f0 "
    "1f3f3-1f3f5 1f3f7-1f4fd 1f4ff-1f53d 1f549-1f54e 1f550-1f567 1f56f-1f570 1f573-1f57a 1f587 1f58a-1f58d 1f590 "
    "1f595-1f596 1f5a4-1f5a5 1f5a8 1f5b1-1f5b2 1f5bc 1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de 1f5e1 1f5e3 1f5e8 1f5ef "
    "1f5f3 1f5fa-1f64f 1f680-1f6c5 1f6cb-1f6d2 1f6d5-1f6d7 1f6dc-1f6e5 1f6e9 1f6eb-1f6ec 1f6f0 1f6f3-1f6fc "
    "1f7e0-1f7eb 1f7f0 1f90c-1f93a 1f93c-1f945 1f947-1f9ff 1fa70-1fa7c 1fa80-1fa88 1fa90-1fabd 1fabf-1fac5 "
    "1face-1fadb 1fae0-1fae8 1faf0-1faf8"
)


def _characters(ranges: str) -> str:
    """Return the characters of some ranges of code points."""
    found: list[str] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        found += map(chr, range(int(first, 16), int(last or first, 16) + 1))
    return "".join(found)


JUICER_SPECIAL = (
    string.punctuation + string.digits + string.whitespace + _characters(f"{_TABLE} {_EMOJI}")
)
