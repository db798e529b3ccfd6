"""What the content of an output shows of the samples in it."""

from collections.abc import Sequence

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.validate.pipeline.observed.copies_run import COPIES, single_valued
from wdsflow.validate.pipeline.observed.input_content import InputSample
from wdsflow.validate.pipeline.observed.output_content import OutputContent
from wdsflow.validate.pipeline.values.marks import mark_of
from wdsflow.validate.pipeline.values.rows import row_of_sample, rows_of_batch
from wdsflow.validate.pipeline.values.sample_contents import content_of

LOSS = 0.05


def picture(number: int) -> bytes:
    return b"a picture of some bytes %06d" % number


def decoded(number: int) -> numpy.ndarray:
    return numpy.random.default_rng(number).integers(0, 255, (8, 8, 3))


def inputs(count: int, captions: int | None = None, copies: int = 1) -> list[InputSample]:
    """Return samples of which some have the same caption, or are copies of each other."""
    samples = []
    for number in range(count):
        content = number // copies
        caption = f"a caption with the number {content % (captions or count)}"
        fields: dict[object, object] = {
            "jpg": picture(content),
            "txt": caption.encode(),
            "cls": b"%d" % (content % 3),
        }
        samples.append(InputSample(content_of(fields)))
    return samples


def output(items: Sequence[object], samples: Sequence[InputSample]) -> OutputContent:
    return OutputContent([row_of_sample(item, ()) for item in items], lambda: samples)


def test_rows_that_repeat_a_field_more_often_than_the_shards_stand_in_for_others() -> None:
    halves = [(picture(number // 2 * 2), number % 3) for number in range(40)]

    assert output(halves, inputs(40)).replaced == 20
    assert output(halves, inputs(40, copies=2)).replaced == 0


def test_of_two_fields_with_the_same_values_the_one_that_repeats_them_is_meant() -> None:
    captions = [b"a caption with the number %d" % number for number in range(40)]
    halves = [captions[number // 2 * 2] for number in range(40)]
    once = [InputSample(content_of({"txt": each})) for each in captions]
    both = [
        InputSample(content_of({"txt": each, "alt": half}))
        for each, half in zip(captions, halves, strict=True)
    ]

    items = [(half.decode(),) for half in halves]
    assert output(items, once).replaced == 20
    assert output(items, both).replaced == 0


def test_pictures_that_were_decoded_may_repeat_as_the_shards_do() -> None:
    halves = [decoded(number // 2) for number in range(40)]

    assert output(halves, inputs(40)).replaced == 20
    assert output(halves, inputs(40, copies=2)).replaced == 0


def test_labels_and_single_numbers_may_repeat() -> None:
    labels = [(str(number % 3), number % 7, decoded(number)) for number in range(40)]

    content = output(labels, inputs(40))

    assert (content.replaced, content.is_doubtful(LOSS)) == (0, False)


def test_one_caption_of_several_pictures_is_no_repeat() -> None:
    rows = [(decoded(number), f"a caption with the number {number % 25}") for number in range(40)]

    content = output(rows, inputs(40, captions=25))

    assert (content.replaced, content.is_doubtful(LOSS)) == (0, False)


def test_tokens_that_repeat_more_than_texts_are_doubtful() -> None:
    tokens = [(decoded(number), [number // 2, 5, 9]) for number in range(40)]

    assert output(tokens, inputs(40)).is_doubtful(LOSS)
    assert not output(tokens, inputs(40, captions=20)).is_doubtful(LOSS)


def test_a_mask_beside_tokens_is_not_doubtful() -> None:
    """It is the same for all texts of one length, but the tokens are not."""
    rows = [
        (decoded(number), [number % 25, 5, 9], [1] * (number % 25 // 2)) for number in range(40)
    ]

    assert not output(rows, inputs(40, captions=25)).is_doubtful(LOSS)


def test_an_output_that_is_always_the_same_is_doubtful() -> None:
    assert output([decoded(0)] * 40, inputs(40)).is_doubtful(LOSS)


def test_a_repeated_caption_proves_one_sample_and_its_picture_proves_which() -> None:
    samples = inputs(40, captions=25)
    captions = [f"a caption with the number {number % 25}" for number in range(40)]

    assert output(captions, samples).proven_samples() == 25
    assert (
        output(
            [(picture(number), text) for number, text in enumerate(captions)], samples
        ).proven_samples()
        == 40
    )


def test_equal_samples_prove_each_other() -> None:
    copies = inputs(40, copies=2)

    assert output([picture(number // 2) for number in range(40)], copies).proven_samples() == 40
    assert output([decoded(number // 2) for number in range(40)], copies).proven_samples({""}) == 40


def test_what_comes_in_each_pass_is_one_sample() -> None:
    """Equal samples without captions never come out.

    Others that come out twice do not prove that these came out.
    """
    samples = [InputSample(content_of({"jpg": picture(0)})) for _ in range(4)]
    samples += [
        InputSample(content_of({"jpg": picture(0), "txt": b"caption %d" % (number // 2)}))
        for number in range(8)
    ]

    captions = output([f"caption {number // 2}" for number in range(8)] * 2, samples)

    assert captions.proven_samples() == 8
    assert captions.proven_samples({""}) == 8


def test_two_captions_of_one_sample_prove_one_sample() -> None:
    both = b'{"captions": ["the first of its captions %d", "the second of its captions %d"]}'
    samples = [InputSample(content_of({"json": both % (number, number)})) for number in range(20)]
    rows = [
        f"the {name} of its captions {number}"
        for number in range(10)
        for name in ("first", "second")
    ]

    content = output(rows, samples)

    assert content.proven_samples() == 10


def test_two_samples_in_one_row_are_both_proven() -> None:
    rows = [((picture(number), 0), (picture(number + 20), 1)) for number in range(20)]

    assert output(rows, inputs(40)).proven_samples() == 40


def test_different_pictures_prove_nothing_unless_each_sample_gives_one() -> None:
    content = output([decoded(number) for number in range(40)], inputs(40))

    assert content.proven_samples() == 0
    assert content.proven_samples({""}) == 40


@given(st.lists(st.integers(0, 19), max_size=60), st.integers(1, 3))
def test_no_more_is_proven_than_came_out(numbers: list[int], copies: int) -> None:
    """This holds for any output, with any number of repeats.

    Tested by fields, and by values of which each sample yields one.
    """
    samples = inputs(20, captions=7, copies=copies)
    truth = 0
    contents = [number // copies for number in numbers]
    for content in set(contents):
        held = sum(number // copies == content for number in range(20))
        truth += min(held, contents.count(content))

    raw = output([picture(content) for content in contents], samples)
    captions = output([f"a caption with the number {content % 7}" for content in contents], samples)

    assert raw.proven_samples() <= truth
    if len(numbers) <= len(samples):
        assert raw.proven_samples() == truth
    assert raw.replaced == len(numbers) - truth
    assert captions.proven_samples() <= truth


def copies_of(values: Sequence[int], times: Sequence[int]) -> list[dict[str, str]]:
    return [
        {"": str(value)} for value, count in zip(values, times, strict=True) for _ in range(count)
    ]


def test_a_column_with_a_value_for_each_sample_is_determined_by_it() -> None:
    assert single_valued(copies_of(range(10), COPIES), COPIES, unfilled=0) == {""}
    twice = [2 * count for count in COPIES]
    assert single_valued(copies_of(range(10), twice), COPIES, unfilled=0) == {""}


def test_copies_that_a_batch_leaves_out_are_allowed_for() -> None:
    fewer = [*COPIES[:-1], COPIES[-1] - 7]

    assert single_valued(copies_of(range(10), fewer), COPIES, unfilled=7) == {""}
    assert single_valued(copies_of(range(10), fewer), COPIES, unfilled=0) == set()


@pytest.mark.parametrize(
    "given_twice", [(0, 2, 4, 6, 8), (1, 3, 5, 7, 9), (5, 6, 7, 8, 9), (0, 1, 2, 3, 4)]
)
def test_half_of_the_samples_left_out_and_the_others_given_twice_differently_is_noticed(
    given_twice: tuple[int, ...],
) -> None:
    """As an image and its mirror image: there are as many values as samples."""
    times = [COPIES[number] for number in given_twice for _ in range(2)]

    assert single_valued(copies_of(range(10), times), COPIES, unfilled=0) == set()


def test_random_values_are_not_determined() -> None:
    assert (
        single_valued(copies_of(range(sum(COPIES)), [1] * sum(COPIES)), COPIES, unfilled=0) == set()
    )


def test_equal_contents_have_equal_marks_in_whatever_form_they_are_batched() -> None:
    torch = pytest.importorskip("torch")
    images = [torch.from_numpy(decoded(number)).float() for number in range(3)]
    alone = [row_of_sample((image, number), ()) for number, image in enumerate(images)]

    assert rows_of_batch([torch.stack(images), torch.arange(3)], 3, ()) == alone
    assert rows_of_batch([(image, number) for number, image in enumerate(images)], 3, ()) == alone
    assert mark_of(images[0].to(torch.bfloat16)) != mark_of(images[1].to(torch.bfloat16))


def test_arrays_of_objects_are_compared_by_what_they_hold() -> None:
    def words(last: str) -> numpy.ndarray:
        # Equal texts, but other objects at other addresses.
        return numpy.array([f"{len(last)} cats", f"a {last}"], dtype=object)

    assert mark_of(words("dog")) == mark_of(words("dog"))
    assert mark_of(words("dog")) != mark_of(words("cow"))


def test_objects_whose_content_is_hidden_are_equal_to_nothing() -> None:
    hidden = [lambda: number for number in range(40)]  # noqa: B023 - they are never called

    content = output([[each] for each in hidden], inputs(40))

    assert (content.replaced, content.is_doubtful(LOSS), content.proven_samples({"0"})) == (
        0,
        False,
        0,
    )
