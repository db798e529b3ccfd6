"""Sounds: WAV by Python's wave, all other formats by PyAV."""

import io
import math
import struct
import wave

import av
import numpy as np

RATE = 44_100


def wav(seconds=0.1, *, rate=8_000):
    """Return a mono WAV of a 440 Hz tone."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        tone = (
            int(9_000 * math.sin(2 * math.pi * 440 * at / rate))
            for at in range(int(seconds * rate))
        )
        file.writeframes(b"".join(struct.pack("<h", each) for each in tone))
    return stream.getvalue()


def sound(kind, codec, tags=None):
    """Return an audio file with one second of silence.

    ``kind`` is FFmpeg's name of the container, "mp3" or "flac". Tags are written first.
    """
    stream = io.BytesIO()
    with av.open(stream, "w", format=kind) as file:
        file.metadata.update(tags or {})
        track = file.add_stream(codec, rate=RATE)
        track.layout = "mono"
        frame = av.AudioFrame.from_ndarray(
            np.zeros((1, RATE), "int16"), format="s16", layout="mono"
        )
        frame.sample_rate = RATE
        resampler = av.AudioResampler(format=track.codec_context.format, layout="mono", rate=RATE)
        for part in (*resampler.resample(frame), None):
            file.mux(track.encode(part))
    return stream.getvalue()
