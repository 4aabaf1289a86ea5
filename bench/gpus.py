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
    Row("EfficientNetB0, 224 × 224, RMSprop", "V100 32GB", 256, None, "NVIDIA's EfficientNet, README"),
)


def application(name: str, shape: tuple[int, int, int], classes: int, optimizer: str) -> Any:
    import keras

    model = getattr(keras.applications, name)(weights=None, input_shape=shape, classes=classes)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def bert(blocks: int, width: int, heads: int, length: int) -> Any:
    """As published: every step of gelu a tensor of its own, gradients clipped together, decay of weights."""
    import keras
    from keras import layers as kl
    from keras import ops

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1.0 + ops.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def normed(x: Any) -> Any:
        return kl.LayerNormalization(epsilon=1e-12)(x)

    tokens, segments, mask = (keras.Input((length,), dtype="int32") for _ in range(3))
    places = kl.Embedding(512, width)(ops.cumsum(ops.ones_like(tokens), axis=1) - 1)
    x = kl.Embedding(30_522, width)(tokens) + kl.Embedding(2, width)(segments) + places
    x = kl.Dropout(0.1)(normed(x))
    seen = kl.Reshape((1, length))(mask)
    for _ in range(blocks):
        attended = kl.MultiHeadAttention(heads, width // heads, dropout=0.1)(x, x, attention_mask=seen)
        x = normed(x + kl.Dropout(0.1)(attended))
        x = normed(x + kl.Dropout(0.1)(kl.Dense(width)(gelu(kl.Dense(4 * width)(x)))))
    pooled = kl.Dropout(0.1)(kl.Dense(width, activation="tanh")(x[:, 0]))
    model = keras.Model([tokens, segments, mask], kl.Dense(2)(pooled))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(2e-5, weight_decay=0.01, global_clipnorm=1.0), loss)
    return model


BUILD: dict[str, Callable[[], Any]] = {
    "BERT-Base, 128 tokens": lambda: bert(12, 768, 12, 128),
    "BERT-Base, 320 tokens": lambda: bert(12, 768, 12, 320),
    "BERT-Large, 128 tokens": lambda: bert(24, 1024, 16, 128),
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
        ratio = found / row.fits
        off = max(ratio, 1 / ratio) if ratio else float("inf")
        what = f"{row.setting}, {row.card}: predicted {found} ÷ real {row.fits}"
        if row.fails is None:
            least = 1 / ratio if ratio else float("inf")
            note = " real ÷ predicted: known to fit; nobody said what does not"
            yield Ratio(what, least, least, least, goal=1 + _WITHIN, note=note)
        else:
            yield Ratio(what, off, off, off, goal=1 + _WITHIN, note=f" off by this factor; {row.source}")
