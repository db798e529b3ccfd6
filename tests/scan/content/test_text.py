import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.scan.content.text_content import decode_text
from wdsflow.scan.tallies import TALLIES


@pytest.mark.parametrize(
    "text",
    [
        "A photo of a brown dog running over green grass.",
        "dog",
        "Ein Foto eines Hundes auf grüner Wiese",
        "São Paulo, À LA CARTE, NÃO, Ñandú, Škoda, œuvre – “quoted” … naïve",
        "Собака бежит по траве, Σκύλος, 犬が走る, 🐕‍🦺 کلب",
        "x < y and y > z, a<b, R&D at AT&T; black & white",
        "<person> and <PERSON> at the <unknown> place",
        "a photo on example.com in the file system v1.0",
        "line one\nline two\ttabbed\r\n",
        "none of these, nan bread, nullable",
        " ".join(["word"] * 75),
    ],
)
def test_ordinary_captions_have_no_notes(text):
    assert decode_text(text.encode()) == ("ok", (), text)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("\ufeffA dog", "text.bom"),
        ("A\0dog", "text.nul"),
        ("A \x1b[31mred\x1b[0m dog", "text.control"),
        ("A \x9b31m dog", "text.control"),
        ("A dog<br>on grass", "text.html"),
        ("<p>A dog</p>", "text.html"),
        ('<a href="https://x.example">dog</a>', "text.html"),
        ("dogs &amp; cats", "text.html"),
        ("the dog&#39;s ball", "text.html"),
        ("caf&eacute; au lait", "text.html"),
        ("nan", "text.none"),
        (" None\n", "text.none"),
        ("NULL", "text.none"),
        ("IMG_1234.jpg", "text.filename"),
        ("photos/2019/DSC_0012.JPEG\n", "text.filename"),
        ("cafÃ© au lait", "text.mojibake"),
        ("the dogâ€™s ball", "text.mojibake"),
        ("at 20Â°C", "text.mojibake"),
        (
            "Привет".encode()
            .decode("latin-1")
            .replace("\x9f", "Ÿ")
            .replace("\x80", "€")
            .replace("\x82", "‚"),
            "text.mojibake",
        ),
        (" ".join(["word"] * 76), "text.long"),
    ],
)
def test_signs_that_a_text_is_no_caption_are_noted(text, note):
    status, notes, found = decode_text(text.encode())
    assert (status, notes, found) == ("ok", (note,), text)
    assert note in TALLIES


@pytest.mark.parametrize(
    "text",
    ["IMG_1234.jpg and more", "see IMG_1234.jpg", "a.b.c", "U.S.", "fig. 1.2", "example.com"],
)
def test_only_a_file_name_alone_is_taken_for_one(text):
    assert decode_text(text.encode())[1] == ()


def test_empty_blank_and_unreadable_are_told_apart():
    assert decode_text(b"") == ("empty", ("text.empty",), "")
    assert decode_text(b" \t\r\n\x0b\x0c ") == ("blank", ("text.blank",), " \t\r\n\x0b\x0c ")
    assert decode_text("\u3000\u2003\x85".encode())[:2] == ("blank", ("text.blank",))
    assert decode_text("café".encode("latin-1")) == ("not-utf8", ("text.not-utf8",), None)
    assert decode_text("a dog".encode("utf-16")) == ("not-utf8", ("text.not-utf8",), None)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_the_status_is_what_decoding_and_stripping_say(data):
    status, notes, text = decode_text(data)
    try:
        expected = data.decode("utf-8")
    except UnicodeDecodeError:
        assert (status, text) == ("not-utf8", None)
        return
    assert text == expected
    assert status == ("empty" if not data else "ok" if expected.strip() else "blank")
    assert TALLIES.keys() >= set(notes)


@pytest.mark.parametrize(
    "piece",
    [b"<a ", b"&", b"&amp", b"a.jpg", b" ", b"\xc3\x83", b"\xf0\x9f", b"\0", b"a\n", b"<!--"],
)
def test_a_mebibyte_of_anything_is_looked_at(piece):
    data = piece * ((1 << 20) // len(piece))
    status, _, text = decode_text(data)
    assert status in ("ok", "blank", "not-utf8")
    assert text is None or text.encode() == data
