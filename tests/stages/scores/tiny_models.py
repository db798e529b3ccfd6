"""Small models with random weights, saved as their libraries save them."""

import json

import torch

WORDS = "a an the cat dog red blue of photo drawing two on is and ! . not very".split()
CLIP = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}


def clip(folder, *, weights="open_clip_model.safetensors", preprocess=None, **changes):
    """Write a CLIP as OpenCLIP does, return "local-dir:..."; ``weights`` "" leaves them out."""
    import open_clip
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    config = {"model_cfg": {**CLIP, **changes}, "preprocess_cfg": preprocess or {}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    if weights:
        torch.manual_seed(7)
        # Louder than OpenCLIP begins, so that cosines of different captions differ visibly.
        state = {
            name: (4 * value if "proj" in name else value).contiguous()
            for name, value in open_clip.create_model(f"local-dir:{folder}", load_weights=False)
            .state_dict()
            .items()
        }
        save_file(state, folder / weights)
    return f"local-dir:{folder}"


def tokenizer(folder):
    """Write a tokenizer of words, return it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    words = Tokenizer(
        models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        bos_token="[CLS]", eos_token="[SEP]", model_max_length=48,
    )  # fmt: skip
    fast.save_pretrained(folder)
    return fast


def image_classifier(folder, labels=("normal", "NSFW"), **settings):
    """Write a ViT and its processor, return the folder."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    names = dict(enumerate(labels))
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8,
        id2label=names, label2id={name: place for place, name in names.items()}, initializer_range=0.5, **settings,
    )  # fmt: skip
    torch.manual_seed(7)
    ViTForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return str(folder)


def text_classifier(folder, kind="bert", **settings):
    """Write a text classifier, "bert" or "gpt2", and its tokenizer; return the folder."""
    import transformers

    size = len(tokenizer(folder))
    if kind == "bert":
        config = transformers.BertConfig(
            vocab_size=size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=64, id2label={0: "bad", 1: "good", 2: "odd"}, initializer_range=0.5, **settings,
        )  # fmt: skip
        model = transformers.BertForSequenceClassification
    else:
        config = transformers.GPT2Config(
            vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5,
            id2label={0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
            bos_token_id=2, eos_token_id=3, **settings,
        )  # fmt: skip
        model = transformers.GPT2ForSequenceClassification
    torch.manual_seed(7)
    model(config).save_pretrained(folder)
    return str(folder)


def language_model(folder):
    """Write a GPT-2 and its tokenizer; return the folder."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(tokenizer(folder)), n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5,
        bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    torch.manual_seed(7)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def matcher(folder):
    """Write a BLIP for image-text retrieval and its processor; return the folder."""
    from transformers import (
        BlipConfig,
        BlipForImageTextRetrieval,
        BlipImageProcessor,
        BlipProcessor,
        BlipTextConfig,
        BlipVisionConfig,
    )

    words = tokenizer(folder)
    vision = BlipVisionConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
        projection_dim=16, initializer_range=0.4,
    )  # fmt: skip
    text = BlipTextConfig(
        vocab_size=len(words), hidden_size=32, encoder_hidden_size=32, intermediate_size=32, projection_dim=16,
        num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=48, initializer_range=0.4,
        bos_token_id=2, eos_token_id=3, sep_token_id=3, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(7)
    config = BlipConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), image_text_hidden_size=16
    )
    BlipForImageTextRetrieval(config).save_pretrained(folder)
    BlipProcessor(BlipImageProcessor(size={"height": 32, "width": 32}), words).save_pretrained(
        folder
    )
    return str(folder)
