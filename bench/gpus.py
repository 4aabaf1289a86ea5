"""The largest batch predicted for a GPU that is not here, against what people found on real ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench import child
from bench.measure import Ratio

_WITHIN = 0.15


class Row(NamedTuple):
    """What somebody found.

    Attributes:
        setting: the model, as `BUILD` has it.
        card: the GPU, as the catalogue has it.
        fits: a batch that ran.
        fails: the smallest one that did not; None where nobody tried.
        source: who said so.
    """

    setting: str
    card: str
    fits: int
    fails: int | None
    source: str


ROWS = (
    Row("BERT-Base, 128 tokens", "Titan X", 32, 33, "google-research/bert, README"),
    Row("BERT-Base, 320 tokens", "Titan X", 14, 15, "google-research/bert, README"),
    Row("BERT-Large, 128 tokens", "Titan X", 6, 7, "google-research/bert, README"),
    Row("ResNet50, 240 × 320, Adam", "RTX 3080", 48, 49, "tensorflow/tensorflow issue 53608"),
    Row("EfficientNetB4, 380 × 380, Adam", "RTX 2080 Ti", 8, 9, "qubvel/efficientnet issue 64"),
    Row("ResNet50, 224 × 224, SGD", "RTX 2080 Ti", 64, None, "Lambda's benchmark tables"),
    Row("VGG16, 224 × 224, SGD", "RTX 2080 Ti", 56, None, "Lambda's benchmark tables"),
    Row("BERT-Large pretraining, LAMB", "V100 32GB", 32, 60, "NVIDIA's BERT for TensorFlow 2, README"),
    Row("BERT-Large pretraining, LAMB, 16 bits", "V100 32GB", 60, None, "NVIDIA's BERT for TensorFlow 2, README"),
    Row("EfficientNetB0, 224 × 224, RMSprop", "V100 32GB", 256, None, "NVIDIA's EfficientNet, README"),
)


def application(name: str, shape: tuple[int, int, int], classes: int, optimizer: str) -> Any:
    import keras

    model = getattr(keras.applications, name)(weights=None, input_shape=shape, classes=classes)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _gelu(x: Any) -> Any:
    """As published: every step of it a tensor of its own."""
    from keras import ops

    return 0.5 * x * (1.0 + ops.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _encoded(inputs: list[Any], blocks: int, width: int, heads: int) -> Any:
    """BERT's blocks, as published."""
    from keras import layers as kl
    from keras import ops

    def normed(x: Any) -> Any:
        return kl.LayerNormalization(epsilon=1e-12)(x)

    tokens, segments, mask = inputs
    length = tokens.shape[1]
    places = kl.Embedding(512, width)(ops.cumsum(ops.ones_like(tokens), axis=1) - 1)
    x = kl.Embedding(30_522, width)(tokens) + kl.Embedding(2, width)(segments) + places
    x = kl.Dropout(0.1)(normed(x))
    seen = kl.Reshape((1, length))(mask)
    for _ in range(blocks):
        attended = kl.MultiHeadAttention(heads, width // heads, dropout=0.1)(x, x, attention_mask=seen)
        x = normed(x + kl.Dropout(0.1)(attended))
        x = normed(x + kl.Dropout(0.1)(kl.Dense(width)(_gelu(kl.Dense(4 * width)(x)))))
    return x


def _bert_inputs(length: int) -> list[Any]:
    import keras

    return [keras.Input((length,), dtype="int32") for _ in range(3)]


def bert(blocks: int, width: int, heads: int, length: int) -> Any:
    """Fine-tuning: gradients clipped together, decay of weights."""
    import keras
    from keras import layers as kl

    inputs = _bert_inputs(length)
    x = _encoded(inputs, blocks, width, heads)
    pooled = kl.Dropout(0.1)(kl.Dense(width, activation="tanh")(x[:, 0]))
    model = keras.Model(inputs, kl.Dense(2)(pooled))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(2e-5, weight_decay=0.01, global_clipnorm=1.0), loss)
    return model


def bert_pretraining(precision: str = "float32", masked: int = 20) -> Any:
    """BERT-Large's first phase: masked words and the next sentence, with LAMB. The words' weights are not shared."""
    import keras
    from keras import layers as kl
    from keras import ops

    keras.config.set_dtype_policy(precision)
    inputs = _bert_inputs(128)
    x = _encoded(inputs, 24, 1024, 16)
    places = keras.Input((masked,), dtype="int32")
    words = kl.LayerNormalization(epsilon=1e-12)(_gelu(kl.Dense(1024)(ops.take_along_axis(x, places[..., None], 1))))
    follows = kl.Dense(2, dtype="float32")(kl.Dense(1024, activation="tanh")(x[:, 0]))
    model = keras.Model([*inputs, places], [kl.Dense(30_522, dtype="float32")(words), follows])
    losses = [keras.losses.SparseCategoricalCrossentropy(from_logits=True) for _ in range(2)]
    model.compile(keras.optimizers.Lamb(6e-3, weight_decay=0.01), losses)
    return model


BUILD: dict[str, Callable[[], Any]] = {
    "BERT-Base, 128 tokens": lambda: bert(12, 768, 12, 128),
    "BERT-Base, 320 tokens": lambda: bert(12, 768, 12, 320),
    "BERT-Large, 128 tokens": lambda: bert(24, 1024, 16, 128),
    "BERT-Large pretraining, LAMB": bert_pretraining,
    # bfloat16, which takes as many bytes as float16, and less time on a CPU
    "BERT-Large pretraining, LAMB, 16 bits": lambda: bert_pretraining("mixed_bfloat16"),
    "ResNet50, 240 × 320, Adam": lambda: application("ResNet50", (240, 320, 3), 27, "adam"),
    "EfficientNetB4, 380 × 380, Adam": lambda: application("EfficientNetB4", (380, 380, 3), 1000, "adam"),
    "ResNet50, 224 × 224, SGD": lambda: application("ResNet50", (224, 224, 3), 1000, "sgd"),
    "VGG16, 224 × 224, SGD": lambda: application("VGG16", (224, 224, 3), 1000, "sgd"),
    "EfficientNetB0, 224 × 224, RMSprop": lambda: application("EfficientNetB0", (224, 224, 3), 1000, "rmsprop"),
}


def run(rows: tuple[Row, ...] = ROWS) -> Iterator[Ratio]:
    for row in rows:
        found = int(child.run("on_card", row.setting, row.card, limit="12GiB")["batch"])
        print(f"{row.setting} on {row.card}: predicted {found}, real {row.fits}", file=sys.stderr)
        least = row.fits / found if found else float("inf")
        if row.fails is None:
            what = f"{row.setting}, {row.card}: predicted {found} ÷ real {row.fits}"
            note = " real ÷ predicted: known to fit; nobody said what does not"
            yield Ratio(what, least, least, least, goal=1 + _WITHIN, note=note)
        else:
            real = f"{row.fits} to {row.fails - 1}" if row.fails > row.fits + 1 else f"{row.fits}"
            off = max(found / (row.fails - 1), least)
            what = f"{row.setting}, {row.card}: predicted {found} ÷ real {real}"
            yield Ratio(what, off, off, off, goal=1 + _WITHIN, note=f" off by this factor; {row.source}")
