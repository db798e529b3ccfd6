"""A model that cannot be fetched: said once, with what to do."""

import importlib.util
import logging
import socket
from pathlib import Path

import pytest

from wdsflow.models.fetching import connection_fault, fetching
from wdsflow.models.loaded import ModelError
from wdsflow.models.processes import ModelProcesses
from wdsflow.stages.scores.model.clip.clip_similarity import ClipSimilarity
from wdsflow.stages.scores.model.model import ModelSource
from wdsflow.stages.scores.model.transformer.caption_perplexity import CaptionPerplexity

needs_models = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("open_clip", "transformers"))),
    reason="needs OpenCLIP and transformers",
)
SCORES = {
    "OpenCLIP": (
        ClipSimilarity(),
        "timm/vit_base_patch32_clip_224.openai",
        "model='local-dir:FOLDER', pretrained=''",
    ),
    "transformers": (CaptionPerplexity(), "openai-community/gpt2", "model='./FOLDER'"),
}


def test_a_model_of_the_hub_is_fetched_and_one_in_a_folder_is_not(tmp_path):
    (model,) = CaptionPerplexity(model="org/name@v1").models()
    assert model.download_source() == ModelSource("org/name", "v1", "model='./FOLDER'")
    (model,) = CaptionPerplexity(model=str(tmp_path)).models()
    assert model.download_source() is None


@pytest.mark.deep
@needs_models
@pytest.mark.parametrize(
    ("score", "repository", "folder"),
    [
        pytest.param(*given, id=name, marks=[pytest.mark.deep] if name == "OpenCLIP" else [])
        for name, given in SCORES.items()
    ],
)
def test_a_model_that_cannot_be_fetched_is_named_with_what_to_do(
    tmp_path, monkeypatch, capfd, score, repository, folder
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with ModelProcesses("cpu") as processes, pytest.raises(ModelError) as raised:
        processes.prepare(score.models()[:1])
    what, fetch, copy, other = str(raised.value).splitlines()
    assert (
        f"cannot be fetched: {repository} is not in {tmp_path}/hub, and its hub does not answer ("
        in what
    )
    assert fetch == f"  on a machine with a network: hf download {repository} --cache-dir models"
    assert copy.endswith(f"cp -r models/models--{repository.replace('/', '--')} {tmp_path}/hub")
    assert other.endswith(f"({folder}): hf download {repository} --local-dir FOLDER")
    assert "Failed to download" not in capfd.readouterr().err


@pytest.fixture
def closed():
    """The address of a server that refuses connections."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        yield f"http://127.0.0.1:{nobody.getsockname()[1]}"


@pytest.mark.deep
@needs_models
@pytest.mark.parametrize(("score", "repository", "folder"), SCORES.values(), ids=SCORES)
def test_a_hub_that_refuses_connections_is_not_asked_for_each_file(
    tmp_path, monkeypatch, capfd, closed, score, repository, folder
):
    monkeypatch.setenv("HF_ENDPOINT", closed)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with ModelProcesses("cpu") as processes, pytest.raises(ModelError) as raised:
        processes.prepare(score.models()[:1])
    told, *_ = str(raised.value).splitlines()
    reason = f"its hub does not answer ({closed.removeprefix('http://')}: [Errno 111] Connection refused)"
    assert told.endswith(f"cannot be fetched: {repository} is not in {tmp_path}/hub, and {reason}")
    assert "trying again" not in capfd.readouterr().err


@needs_models
def test_what_the_cache_holds_is_used_without_a_hub(tmp_path, monkeypatch, caplog, closed):
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    monkeypatch.setattr(constants, "ENDPOINT", closed)
    folder = tmp_path / "models--org--x"
    for name, text in (("refs/main", "0123abc"), ("snapshots/0123abc/config.json", "{}")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    with fetching(ClipSimilarity().models()[0]):
        assert hf_hub_download("org/x", "config.json", cache_dir=tmp_path).endswith(
            "snapshots/0123abc/config.json"
        )
        with pytest.raises(LocalEntryNotFoundError):
            hf_hub_download("org/x", "other.json", cache_dir=tmp_path)
    assert not caplog.messages  # nothing was tried again
    assert not constants.HF_HUB_OFFLINE


def test_a_proxy_is_asked_in_place_of_the_hub_behind_it(monkeypatch, closed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert connection_fault(here, 10) == ""
        assert "refused" in connection_fault(closed, 10)
        monkeypatch.setenv("http_proxy", here)
        assert connection_fault("http://hub.invalid", 10) == ""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert "refused" in connection_fault(closed, 10)


@needs_models
def test_of_all_retries_one_line_is_shown_and_what_did_not_answer_is_named(
    caplog, monkeypatch, closed
):
    """A tokenizer may come from another repository than its model."""
    from huggingface_hub import constants
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils._http import http_backoff

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        url = f"{closed}/org/tokens/resolve/main/config.json"
        model = ClipSimilarity().models()[0]
        with fetching(model) as heard, pytest.raises(Exception, match="refused") as raised:
            http_backoff("HEAD", url, max_retries=3, base_wait_time=0)
    (line,) = caplog.messages
    assert line.endswith("its hub does not answer; trying again")
    error = LocalEntryNotFoundError("not here")
    error.__cause__ = raised.value
    told = heard.instructions(model, error)
    assert "cannot be fetched: org/tokens is not in " in told
    assert "refused" in told
    assert "--local-dir" not in told
    assert heard.instructions(model, raised.value) == ""


def test_a_failed_download_that_openclip_logs_and_raises_is_shown_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (model,) = CaptionPerplexity(model=str(tmp_path)).models()
    log = logging.getLogger()

    with fetching(model):
        log.error("Failed to download weights for tag 'openai': no route to host")
        log.error("another error")
    log.error("Failed to download weights outside")

    assert caplog.messages == ["another error", "Failed to download weights outside"]
