import contextlib
import subprocess
import sys

import pytest

pytest.importorskip("av")

from tests.stages.scores.fields import Counting, score
from tests.videos import video
from wdsflow.stages.scores import ScoreError, View, ViewOptions, make_score

NAMES = ("duration", "fps", "video_width", "video_height")
KINDS = [
    ("mp4", "mpeg4"),
    ("mov", "mpeg4"),
    ("mkv", "mpeg4"),
    ("avi", "mpeg4"),
    ("webm", "libvpx-vp9"),
]


def slug(name, fields, **settings):
    with pytest.raises(ScoreError) as caught:
        score(name, fields, **settings)
    return caught.value.slug


@pytest.mark.parametrize(("kind", "codec"), KINDS)
def test_headers_tell_duration_rate_and_size(kind, codec):
    sample = {kind: video(30, kind=kind, codec=codec), "txt": b"a caption"}
    assert [score(name, sample) for name in NAMES] == [3.0, 10.0, 64, 48]


@pytest.mark.deep
def test_only_the_header_is_read_wherever_it_lies():
    many = video(600, keys=1, size=(320, 240))
    for data in (many, video(600, keys=1, size=(320, 240), movflags="faststart")):
        fields = Counting({"mp4": data})
        assert make_score("duration").score(View(fields)) == 60.0
        assert sum(size for _, _, size in fields.reads) < len(data) / 3


def test_several_videos_have_a_value_each_and_a_field_can_be_named():
    sample = {"0.mp4": video(10), "1.mp4": video(20), "clip.mov": video(30, kind="mov")}
    assert score("duration", sample) == [1.0, 2.0]
    assert score("duration", sample, video="clip.mov") == 3.0
    assert slug("duration", sample, video="mkv") == "no-video"


def test_a_sample_without_a_video_has_no_such_score():
    assert slug("duration", {"jpg": b"x", "txt": b"y"}) == "no-video"


def test_a_sample_without_an_image_is_no_error_for_scores_of_videos():
    sample = {"mp4": video(10), "txt": b"one two"}
    assert (score("duration", sample), score("caption_words", sample)) == (1.0, 2)
    assert slug("width", sample) == "no-image"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "not-a-video"),
        (b"<html>no</html>" * 99, "not-a-video"),
        (video(10)[:400], "undecodable"),
        (video(200, movflags="faststart")[:-2000], "truncated"),
        (video(200)[:-2000], "undecodable"),
        (video(200, kind="mkv")[:-2000], "truncated"),
        (video(200, kind="avi")[:-2000], "truncated"),
        (b"\0\0\0\x18ftypisom" + bytes(5000), "undecodable"),
        (b"\x1aE\xdf\xa3" + b"\xff" * 5000, "undecodable"),
    ],
)
def test_what_is_no_whole_video_is_an_error_of_its_sample(data, expected):
    found = slug("duration", {"mp4": data})
    assert found == expected or {found, expected} == {"truncated", "undecodable"}


def test_no_bytes_of_a_video_make_anything_but_a_value_or_a_score_error():
    data = video(30)
    for start in range(0, len(data), max(1, len(data) // 150)):
        for hurt in (data[:start], data[:start] + b"\xff" * 8 + data[start + 8 :], data[start:]):
            with contextlib.suppress(ScoreError):
                assert score("duration", {"mp4": hurt}) >= 0


def test_a_playlist_is_refused_before_what_it_names_is_opened(tmp_path):
    inner = tmp_path / "inner.mp4"
    inner.write_bytes(video(10))
    for text in (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n{inner}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile '{inner}'\n",
    ):
        assert slug("duration", {"mp4": text.encode()}) == "not-a-video"


def test_a_broken_video_prints_nothing():
    code = "import sys; from wdsflow.stages.scores import View, make_score, ScoreError\n"
    code += "try: make_score('duration').score(View({'mp4': sys.stdin.buffer.read()}))\nexcept ScoreError as e: print(e.slug)"
    data = video(10)[:-300]
    ran = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert ran.stdout.split() in ([b"undecodable"], [b"truncated"])
    assert ran.stderr == b""


def test_errors_of_the_disk_stay_those_of_the_disk():
    class Dying(Counting):
        def read(self, name, start, size):
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        make_score("duration").score(View(Dying({"mp4": video(10)})))


def test_a_shard_that_ends_within_a_video_is_unread():
    class Short(Counting):
        def read(self, name, start, size):
            return super().read(name, start, size)[: max(0, 600 - start)]

    with pytest.raises(ScoreError, match="unread"):
        make_score("duration").score(View(Short({"mp4": video(10)}), ViewOptions()))
