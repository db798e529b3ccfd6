"""Variants of a CLIP's towers that may be faster.

Measures the rate of each, and how much it changes embeddings.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .finding import Finding, Setting
from .process import results_of
from .similarity import model_of, rate

# Pictures whose embeddings are compared with those in fp32.
_COMPARED = 64
# Batches of the text tower, each of another shape, and seconds for them.
_SHAPES = 64
_LONGEST = 6.0


def towers(setting: Setting) -> Iterator[Finding]:
    """Measure variants of the image tower, then of the text tower.

    The image tower is changed step by step. The text tower gets batches of changing shapes.
    """
    small = setting.quick or not setting.cuda
    base = "ViT-B-32" if small else "ViT-L-14"
    arguments = {
        "device": setting.device,
        "model": model_of(setting, base),
        "size": 2 if small else 512,
        "seconds": 0.0 if small else 1.5,
    }
    for figures in results_of((variants, arguments), setting.remaining):
        value = figures["failed"] if "failed" in figures else f"{figures['rate']:,.0f}/s"
        if "cosine" in figures:
            value += f", smallest cosine to fp32 {figures['cosine']:.5f}"
        if "alike" in figures:
            value += f", smallest cosine to the one before {figures['alike']:.5f}"
        if "shapes" in figures:
            value += f", {figures['shapes']} shapes"
        yield Finding(f"{base}, {figures['variant']}", value, details=figures)


def variants(device: str, model: str, size: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the rate of each variant in bf16, and the change of its embeddings.

    The change is the smallest cosine to embeddings in fp32.
    """
    import torch

    from wdsflow.stages.scores.model.clip.load_clip import load_clip

    torch.manual_seed(1)
    pictures = torch.randn(size, 3, 224, 224, device=device)
    net = load_clip(model, "", "fp32", device).model
    with torch.inference_mode():
        expected = _normalized(net.visual(pictures[:_COMPARED]))
    _to_bf16(net)
    half = pictures.bfloat16()

    def measured(variant: str) -> dict[str, Any]:
        features = _normalized(net.visual(half[:_COMPARED]))
        cosine = float((features * expected).sum(-1).min())
        return {
            "variant": variant,
            "rate": rate(lambda: net.visual(half), size, seconds),
            "cosine": cosine,
        }

    with torch.inference_mode():
        yield measured("image tower in bf16, as OpenCLIP has it")
        for block in net.visual.transformer.resblocks:
            block.attention = _Attention(block.attn)
        yield measured("with attention without copies of q, k and v")
        yield from _quick_gelus(net, half, seconds)
        yield from _texts(net, device, size)


def _to_bf16(net: Any) -> None:
    """Convert a model in fp32 into the one that OpenCLIP creates in bf16.

    Creating a second model would take ten seconds.
    """
    import torch
    from open_clip.model import convert_weights_to_lp
    from open_clip.transformer import LayerNorm, LayerNormFp32

    for module in net.modules():
        if type(module) is LayerNorm:
            module.__class__ = LayerNormFp32
    convert_weights_to_lp(net, dtype=torch.bfloat16)


def _quick_gelus(net: Any, half: Any, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the rates of two versions of the activation of OpenAI's models.

    First three kernels, then one that is compiled by NVRTC.
    """
    import torch
    from open_clip.transformer import QuickGELU

    first = None
    for name, make in (
        ("QuickGELU in place of GELU", QuickGELU),
        ("QuickGELU in one kernel", _OneKernel),
    ):
        try:
            for block in net.visual.transformer.resblocks:
                block.mlp.gelu = make()
            features = _normalized(net.visual(half[:_COMPARED]))
        except Exception as error:  # noqa: BLE001 - without CUDA, for instance
            yield {"variant": name, "failed": f"{type(error).__name__}: {error}"[:200]}
            continue
        figures = {"variant": name, "rate": rate(lambda: net.visual(half), len(half), seconds)}
        if first is None:
            first = features
        else:
            figures["alike"] = float((features * first).sum(-1).min())
        yield figures
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
        self._attention = attention

    def __call__(self, q_x: Any, k_x: Any = None, v_x: Any = None, attn_mask: Any = None) -> Any:
        from torch.nn.functional import linear, scaled_dot_product_attention

        assert k_x is None
        assert v_x is None
        assert attn_mask is None
        attention = self._attention
        count, length, width = q_x.shape
        packed = linear(q_x, attention.in_proj_weight, attention.in_proj_bias)
        heads = packed.view(count, length, 3, attention.num_heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(query, key, value)
        return attention.out_proj(attended.transpose(1, 2).reshape(count, length, width))


def _texts(net: Any, device: str, size: int) -> Iterator[dict[str, Any]]:
    """Yield the rate of the text tower on batches of changing shapes.

    Attention is as PyTorch chooses it, then as here.
    """
    import torch

    from wdsflow.memory.batching.device import current_device
    from wdsflow.stages.scores.model.clip.text_tower import TextTower

    tower = TextTower(net)
    contexts: dict[str, AbstractContextManager[None]] = {
        "text tower, attention as PyTorch chooses": nullcontext(),
        "text tower, without cuDNN's (in use)": current_device(device),
    }
    most_shapes = _SHAPES if size > 4 else 2
    for seed, (name, context) in enumerate(contexts.items()):
        # Shapes that were not used in the other context.
        draw = torch.Generator().manual_seed(seed)
        texts = 0
        shapes = 0
        start = time.perf_counter()
        with context:
            while shapes < most_shapes and time.perf_counter() - start < _LONGEST:
                count = int(torch.randint(max(1, size // 2), size + 1, (1,), generator=draw))
                length = int(torch.randint(8, 40, (1,), generator=draw))
                tokens = torch.randint(1, 49_000, (count, length), device=device)
                float(tower(tokens).sum())
                texts += count
                shapes += 1
        yield {"variant": name, "rate": texts / (time.perf_counter() - start), "shapes": shapes}


def _normalized(features: Any) -> Any:
    import torch

    return torch.nn.functional.normalize(features.float(), dim=-1)
