"""What makes the towers of a CLIP faster, and how far it changes embeddings: each variant by its rate and its cosine."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .finding import Finding, Missing, Setting
from .process import results_of
from .similarity import model_of, rate

_COMPARED = 64  # pictures whose embeddings are compared with those in fp32
_COMPILING = 75.0  # seconds at most
_SHAPES = 24  # batches of the text tower, each of another shape


def towers(setting: Setting) -> Iterator[Finding]:
    """Run variants of the towers: the text tower on changing shapes, then the image tower, changed step by step."""
    yield from _findings(setting, compiles=False)


def compiled(setting: Setting) -> Iterator[Finding]:
    """Compile the image tower, with all changes of the other variants."""
    if not setting.cuda:
        raise Missing("needs a GPU")
    try:
        yield from _findings(setting, compiles=True)
    except RuntimeError as error:  # it is of interest only if it is soon done
        yield Finding("a compiled image tower", str(error))


def _findings(setting: Setting, *, compiles: bool) -> Iterator[Finding]:
    small = setting.quick or not setting.cuda
    base = "ViT-B-32" if small else "ViT-L-14"
    arguments = {
        "device": setting.device,
        "model": model_of(setting, base),
        "size": 2 if small else 512,
        "seconds": 0.0 if small else 1.5,
        "compiles": compiles,
    }
    for found in results_of((variants, arguments), min(setting.left, _COMPILING) if compiles else setting.left):
        told = found["failed"] if "failed" in found else f"{found['rate']:,.0f}/s"
        if "cosine" in found:
            told += f", smallest cosine to fp32 {found['cosine']:.5f}"
        if "alike" in found:
            told += f", smallest cosine to the one before {found['alike']:.5f}"
        if "took" in found:
            told += f", {found['took']:.0f} s to make"
        yield Finding(f"{base}, {found['variant']}", told, details=found)


def variants(device: str, model: str, size: int, seconds: float, *, compiles: bool) -> Iterator[dict[str, Any]]:
    """Yield the rate of each variant, and the smallest cosine of its embeddings to those of fp32."""
    import open_clip
    import torch

    from wdsflow.stages.scores.model.clip_model import normalise_in

    torch.manual_seed(1)
    pictures = torch.randn(size, 3, 224, 224, device=device)
    some = pictures[:_COMPARED]
    plain: Any = open_clip.create_model(model, precision="fp32").eval().to(device)
    with torch.inference_mode():
        expected = _unit(plain.visual(some))
    del plain
    net: Any = open_clip.create_model(model, precision="bf16").eval().to(device)
    half = pictures.bfloat16()

    def measured(variant: str, run: Callable[[Any], Any], batch: Any = half, **more: Any) -> dict[str, Any]:
        found = _unit(run(batch[:_COMPARED])) if not more else _unit(run(batch))[:_COMPARED]
        cosine = float((found * expected).sum(-1).min())
        return {"variant": variant, "rate": rate(lambda: run(batch), size, seconds), "cosine": cosine, **more}

    with torch.inference_mode():
        if not compiles:
            yield from _texts(net, device, size)
            yield measured("image tower in bf16, as OpenCLIP has it", net.visual)
            net.visual.to(memory_format=torch.channels_last)
            yield measured("the same, channels_last", net.visual, half.contiguous(memory_format=torch.channels_last))
            net.visual.to(memory_format=torch.contiguous_format)
        normalise_in(torch.bfloat16, net)
        if not compiles:
            yield measured("with LayerNorm in bf16 (in use)", net.visual)
        for block in net.visual.transformer.resblocks:
            block.attention = _Attention(block.attn)
        if not compiles:
            yield measured("and attention without copies of q, k and v", net.visual)
            yield from _quick_gelus(net, half, seconds)
            return
        yield _compiled(net, half, measured)


def _compiled(net: Any, half: Any, measured: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    import torch

    begun = time.perf_counter()
    name = "and compiled"
    try:
        run: Any = torch.compile(net.visual, dynamic=False)
        run(half)
        return measured(name, run, took=time.perf_counter() - begun)
    except Exception as error:  # noqa: BLE001 - without a compiler, for instance
        return {"variant": name, "failed": f"{type(error).__name__}: {error}"[:200]}


def _quick_gelus(net: Any, half: Any, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield rates with the activation of OpenAI's models: three kernels, then one that is compiled by NVRTC."""
    import torch
    from open_clip.transformer import QuickGELU

    found = None
    for name, make in (("QuickGELU in place of GELU", QuickGELU), ("QuickGELU in one kernel", _OneKernel)):
        try:
            for block in net.visual.transformer.resblocks:
                block.mlp.gelu = make()
            features = _unit(net.visual(half[:_COMPARED]))
        except Exception as error:  # noqa: BLE001 - without CUDA, for instance
            yield {"variant": name, "failed": f"{type(error).__name__}: {error}"[:200]}
            continue
        found = features if found is None else found
        cosine = float((features * found).sum(-1).min())
        each = {"variant": name, "rate": rate(lambda: net.visual(half), len(half), seconds)}
        yield each | ({"alike": cosine} if features is not found else {})
    torch.cuda.empty_cache()


class _OneKernel:
    """A module's part of QuickGELU, x * sigmoid(1.702 x), without intermediate tensors."""

    def __new__(cls) -> Any:
        import torch

        code = "template <typename T> T quick_gelu(T x) { return x / (T(1) + exp(T(-1.702) * x)); }"
        jiterator: Any = torch.cuda.jiterator
        function = jiterator._create_jit_fn(code)  # noqa: SLF001 - there is no public one

        class Module(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return function(x)

        return Module()


class _Attention:
    """Self-attention on views of one projection."""

    def __init__(self, attention: Any) -> None:
        self._of = attention

    def __call__(self, q_x: Any, k_x: Any = None, v_x: Any = None, attn_mask: Any = None) -> Any:
        from torch.nn.functional import linear, scaled_dot_product_attention

        assert k_x is None
        assert v_x is None
        assert attn_mask is None
        of, (count, length, width) = self._of, q_x.shape
        packed = linear(q_x, of.in_proj_weight, of.in_proj_bias)
        query, key, value = packed.view(count, length, 3, of.num_heads, -1).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(query, key, value)
        return of.out_proj(found.transpose(1, 2).reshape(count, length, width))


def _texts(net: Any, device: str, size: int) -> Iterator[dict[str, Any]]:
    """Yield the rate of the text tower on batches of changing shapes, with attention as PyTorch chooses it and as here."""
    import torch

    from wdsflow.memory.batching.device import current_device
    from wdsflow.stages.scores.model.clip_tokens import TextTower

    tower = TextTower(net)
    ways: dict[str, AbstractContextManager[None]] = {
        "text tower, attention as PyTorch chooses": nullcontext(),
        "text tower, without cuDNN's (in use)": current_device(device),
    }
    for seed, (name, way) in enumerate(ways.items()):
        draw = torch.Generator().manual_seed(seed)  # shapes that the other way has not seen
        done, begun = 0, time.perf_counter()
        with way:
            for _ in range(_SHAPES if size > 4 else 2):
                count = int(torch.randint(max(1, size // 2), size + 1, (1,), generator=draw))
                length = int(torch.randint(8, 40, (1,), generator=draw))
                tokens = torch.randint(1, 49_000, (count, length), device=device)
                float(tower(tokens).sum())
                done += count
        yield {"variant": name, "rate": done / (time.perf_counter() - begun), "shapes": _SHAPES}


def _unit(features: Any) -> Any:
    import torch

    return torch.nn.functional.normalize(features.float(), dim=-1)
