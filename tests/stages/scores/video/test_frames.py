import contextlib
import gc
import weakref

import numpy as np
import pytest

pytest.importorskip("av")

from tests.stages.scores.fields import Counting
from tests.videos import at_keys, decoded, sampled, video
from wdsflow.stages.scores import ScoreError, View, ViewOptions
from wdsflow.stages.scores.video_frames import Sampling


def frames(data, how="uniform", count=3, budget=1 << 30):
    return View({"mp4": data}, ViewOptions(budget=budget)).frames("mp4", Sampling(how, count))


def same(found, expected):
    return len(found) == len(expected) and all(
        np.array_equal(each, np.asarray(other)) for each, other in zip(found, expected, strict=True)
    )


@pytest.mark.sample(6)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 30, 90])
@pytest.mark.parametrize("keys", [1, 7, 300])
def test_uniform_frames_are_those_that_data_juicer_takes(count, keys):
    data = video(53, keys=keys)
    assert same(frames(data, count=count), sampled(data, count))


@pytest.mark.parametrize("pictures", [1, 2, 3, 4])
def test_short_videos_give_as_many_frames_as_they_have(pictures):
    data = video(pictures)
    for count in (1, 2, 3, 5):
        assert same(frames(data, count=count), sampled(data, count))


@pytest.mark.parametrize(
    ("kind", "codec"), [("mkv", "mpeg4"), ("avi", "mpeg4"), ("webm", "libvpx-vp9")]
)
def test_other_containers_give_first_middle_and_last(kind, codec):
    data = video(41, kind=kind, codec=codec)
    every = decoded(data)
    found = frames(data)
    assert same([found[0], found[2]], [every[0][1], every[-1][1]])
    assert any(np.array_equal(found[1], np.asarray(image)) for _, image in every[19:23])


def test_b_frames_do_not_change_what_is_found():
    data = video(60, codec="libx264", keys=20)
    for count in (3, 11):
        assert same(frames(data, count=count), sampled(data, count))


def test_key_frames_are_where_the_encoder_put_them():
    for kind in ("mp4", "mkv", "avi"):
        data = video(60, keys=10, kind=kind)
        keys = at_keys(data)
        assert len(keys) >= 6
        assert same(frames(data, "key", 0), keys)
        assert same(frames(data, "key", 99), keys)
        assert same(frames(data, "key", 1), [keys[len(keys) // 2]])
        assert same(frames(data, "key", 2), [keys[0], keys[-1]])
        assert same(frames(data, "key", 3), [keys[0], keys[(len(keys) - 1) // 2], keys[-1]])


@pytest.mark.deep
def test_a_long_video_is_sought_in_not_read_through():
    data = video(3000, keys=30, movflags="faststart")
    fields = Counting({"mp4": data})
    assert len(View(fields).frames("mp4", Sampling("uniform", 3))) == 3
    assert sum(size for _, _, size in fields.reads) < len(data) / 2


def test_frames_beyond_the_budget_are_refused_before_they_are_held():
    data = video(30, size=(320, 240))
    assert len(frames(data, count=5, budget=12 * 320 * 240 + 5 * 3 * 320 * 240)) == 5
    for count, budget in ((6, 12 * 320 * 240 + 5 * 3 * 320 * 240), (1, 320 * 240)):
        with pytest.raises(ScoreError, match="over-budget"):
            frames(data, count=count, budget=budget)


def test_a_budget_may_be_larger_than_what_a_decoder_can_be_told():
    assert len(frames(video(5), budget=1 << 60)) == 3


def test_cut_videos_are_errors_not_fewer_frames():
    whole = video(200, keys=10)
    front = video(200, keys=10, movflags="faststart")
    avi = video(200, keys=10, kind="avi")
    mkv = video(200, keys=10, kind="mkv")
    for data in (
        whole[: len(whole) // 2],
        front[: len(front) // 2],
        avi[: len(avi) // 2],
        mkv[: len(mkv) // 2],
    ):
        with pytest.raises(ScoreError, match=r"truncated|undecodable"):
            frames(data)


def test_a_stream_that_ends_before_its_header_says_is_cut():
    data = video(200, keys=10, kind="avi")
    end = data.index(b"idx1") - 8000
    cut = data[:4] + (end - 8).to_bytes(4, "little") + data[8:end]
    with pytest.raises(ScoreError, match=r"truncated|undecodable"):
        frames(cut)


def test_no_damage_makes_anything_but_frames_or_a_score_error():
    data = video(40, keys=10)
    for start in range(0, len(data), max(1, len(data) // 100)):
        hurt = data[:start] + b"\xff\0\xaa" * 5 + data[start + 15 :]
        with contextlib.suppress(ScoreError):
            assert frames(hurt)


def test_frames_are_shared_as_long_as_somebody_holds_them():
    view = View({"mp4": video(20)})
    held = view.frames("mp4", Sampling())
    assert view.frames("mp4", Sampling()) is held
    watched = weakref.ref(held)
    del held
    gc.collect()
    assert watched() is None
    assert view.frame_count("mp4", Sampling()) == 3


def test_a_sound_is_no_video():
    import io

    import av

    stream = io.BytesIO()
    with av.open(stream, "w", format="mp4") as container:
        track = container.add_stream("aac", rate=8000)
        sound = av.AudioFrame(format="fltp", layout="mono", samples=1024)
        sound.rate = 8000
        for plane in sound.planes:
            plane.update(bytes(plane.buffer_size))
        for packet in (*track.encode(sound), *track.encode()):
            container.mux(packet)
    with pytest.raises(ScoreError, match="no-video-stream"):
        View({"mp4": stream.getvalue()}).videos()
