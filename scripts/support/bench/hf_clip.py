"""The weights of a CLIP of OpenCLIP, written as transformers has them: what Data-Juicer loads."""

import gzip
import json
from pathlib import Path
from typing import Any

_LAYERS = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_OTHERS = {
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
}


def write_hf_clip(source: Path, folder: Path) -> None:
    """Write the model of ``random_clip.write_clip`` with its processor and tokenizer.

    Files that exist are kept.
    """
    if (folder / "done").is_file():
        return
    import open_clip
    import torch
    from transformers import CLIPConfig, CLIPModel

    config = json.loads((source / "open_clip_config.json").read_text())["model_cfg"]
    towers = {
        name: _tower(config[f"{name}_cfg"], config["embed_dim"]) for name in ("text", "vision")
    }
    towers["text"] |= {
        "max_position_embeddings": config["text_cfg"]["context_length"],
        "vocab_size": 49408,
    }
    towers["text"] |= {"eos_token_id": 49407, "bos_token_id": 49406, "pad_token_id": 0}
    towers["vision"] |= {"image_size": config["vision_cfg"]["image_size"]}
    towers["vision"] |= {"patch_size": config["vision_cfg"]["patch_size"]}
    model = CLIPModel(
        CLIPConfig(
            text_config=towers["text"],
            vision_config=towers["vision"],
            projection_dim=config["embed_dim"],
        )
    )
    state = torch.load(source / "open_clip_pytorch_model.bin", weights_only=True)
    missing, unknown = model.load_state_dict(_converted(state), strict=False)
    if unknown or [name for name in missing if not name.endswith("position_ids")]:
        raise SystemExit(f"weights that do not fit: {missing}, {unknown}")
    model.save_pretrained(folder)
    vocabulary = Path(open_clip.__file__).with_name("bpe_simple_vocab_16e6.txt.gz")
    _write_processor(
        folder, config["vision_cfg"]["image_size"], config["text_cfg"]["context_length"], vocabulary
    )
    (folder / "done").touch()


def _tower(config: dict[str, Any], embed: int) -> dict[str, Any]:
    width = config["width"]
    heads = config.get("heads") or width // config.get("head_width", 64)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": heads}
    return {
        **sizes,
        "num_hidden_layers": config["layers"],
        "hidden_act": "gelu",
        "projection_dim": embed,
    }


def _converted(state: dict[str, Any]) -> dict[str, Any]:
    import torch

    converted = {_OTHERS[name]: value for name, value in state.items() if name in _OTHERS}
    # As in trained models: Data-Juicer takes it for granted.
    converted["logit_scale"] = torch.tensor(100.0).log()
    converted["text_projection.weight"] = state["text_projection"].T.contiguous()
    converted["visual_projection.weight"] = state["visual.proj"].T.contiguous()
    for name, value in state.items():
        tower, _, rest = name.partition("transformer.resblocks.")
        if not rest:
            continue
        number, _, part = rest.partition(".")
        layer = f"{'vision' if tower else 'text'}_model.encoder.layers.{number}"
        if part.startswith("attn.in_proj_"):
            for projection, weights in zip("qkv", value.chunk(3), strict=True):
                kind = part.removeprefix("attn.in_proj_")
                converted[f"{layer}.self_attn.{projection}_proj.{kind}"] = weights.contiguous()
        else:
            stem, _, kind = part.rpartition(".")
            converted[f"{layer}.{_LAYERS[stem]}.{kind}"] = value
    return converted


def _write_processor(folder: Path, side: int, context: int, vocabulary: Path) -> None:
    """Write vocabulary, merges and settings by hand: processors cannot be made without files."""
    from wdsflow.stages.scores.model.clip.clip_words import clip_words

    words = clip_words()
    assert words is not None
    lines = gzip.decompress(vocabulary.read_bytes()).decode().split("\n")[1 : 1 + 49152 - 256 - 2]
    numbers = dict(words.numbers)
    numbers["<|startoftext|>"], numbers["<|endoftext|>"] = (
        numbers.pop("<start_of_text>"),
        numbers.pop("<end_of_text>"),
    )
    (folder / "vocab.json").write_text(json.dumps(numbers))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines]) + "\n")
    tokenizer = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": context,
        "bos_token": "<|startoftext|>",
    }
    tokenizer |= {
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    pictures = {
        "image_processor_type": "CLIPImageProcessor",
        "processor_class": "CLIPProcessor",
        "size": {"shortest_edge": side},
        "crop_size": {"height": side, "width": side},
        "resample": 3,
        "do_convert_rgb": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
