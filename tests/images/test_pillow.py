import os
import threading
import warnings

from PIL import Image, ImageFile

from wdsflow.images.pillow import MAX_IMAGE_PIXELS, quiet_pillow, silent_stderr


class Inside:
    """A thread that stays in a context until it has to leave."""

    def __init__(self, context):
        self.entered, self.leaves = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.stay, args=(context,))
        self.thread.start()
        assert self.entered.wait(10)

    def stay(self, context):
        with context:
            self.entered.set()
            self.leaves.wait(10)

    def leave(self):
        self.leaves.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


def test_switches_are_put_back_by_the_last_thread_that_leaves(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for first_leaves in (True, False):
        one, other = Inside(quiet_pillow()), Inside(quiet_pillow())
        (one if first_leaves else other).leave()
        assert (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES) == (
            MAX_IMAGE_PIXELS,
            False,
        )
        (other if first_leaves else one).leave()
        assert (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES) == (5, True)


def test_threads_leave_the_programs_warning_filters_alone():
    before = list(warnings.filters)
    one = Inside(quiet_pillow())
    assert warnings.filters == before
    with quiet_pillow():
        warnings.warn("not to be heard", stacklevel=1)
        one.leave()
        assert warnings.filters != before
    assert warnings.filters == before


def test_the_error_stream_comes_back_when_the_last_thread_leaves(capfd):
    for first_leaves in (True, False):
        one, other = Inside(silent_stderr()), Inside(silent_stderr())
        (one if first_leaves else other).leave()
        os.write(2, b"silenced ")
        (other if first_leaves else one).leave()
        os.write(2, b"heard ")
    assert capfd.readouterr().err == "heard heard "
