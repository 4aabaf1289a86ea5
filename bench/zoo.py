"""Models of many kinds, to be estimated: each a function of its optimizer, with the sizes at which it is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers as kl

from bench.models import unet_without_head

CLASSES = 10


class Setting(NamedTuple):
    """A model setting.

    Attributes:
        build: gives the compiled model.
        sizes: batch sizes to measure. From 17 up they are odd: the estimate records even ones only.
        runs: how often each is measured.
    """

    build: Callable[[], Any]
    sizes: tuple[int, ...]
    runs: int = 5


def _compiled(model: Any, optimizer: str = "adam", loss: str = "sparse_categorical_crossentropy") -> Any:
    model.compile(optimizer, loss, metrics=[] if loss == "mse" else ["accuracy"])
    return model


def application(name: str, side: int, optimizer: str = "adam") -> Any:
    return _compiled(
        getattr(keras.applications, name)(weights=None, input_shape=(side, side, 3), classes=CLASSES), optimizer
    )


def mlp(width: int = 1024, optimizer: str = "adam") -> Any:
    layers = [keras.Input((784,)), kl.Dense(width, "relu"), kl.Dropout(0.2), kl.Dense(width, "relu")]
    return _compiled(keras.Sequential([*layers, kl.Dense(CLASSES, "softmax")]), optimizer)


def unet(optimizer: str = "adam") -> Any:
    image, x = unet_without_head(64)
    return _compiled(keras.Model(image, kl.Conv2D(CLASSES, 1, activation="softmax")(x)), optimizer)


def _encoder(x: Any, blocks: int, heads: int, width: int) -> Any:
    for _ in range(blocks):
        normed = kl.LayerNormalization()(x)
        x = x + kl.MultiHeadAttention(heads, width // heads, dropout=0.1)(normed, normed)
        x = x + kl.Dense(width)(kl.Dense(4 * width, "gelu")(kl.LayerNormalization()(x)))
    return x


def transformer(optimizer: str = "adam") -> Any:
    tokens = keras.Input((96,), dtype="int32")
    x = _encoder(kl.Embedding(8000, 128)(tokens), 3, 4, 128)
    return _compiled(keras.Model(tokens, kl.Dense(CLASSES, "softmax")(kl.GlobalAveragePooling1D()(x))), optimizer)


def vit(optimizer: str = "adam") -> Any:
    image = keras.Input((64, 64, 3))
    x = kl.Reshape((64, 128))(kl.Conv2D(128, 8, strides=8)(image))
    x = _encoder(x, 4, 4, 128)
    return _compiled(keras.Model(image, kl.Dense(CLASSES, "softmax")(kl.GlobalAveragePooling1D()(x))), optimizer)


def recurrent(kind: str, optimizer: str = "adam") -> Any:
    layer = {"lstm": kl.LSTM, "gru": kl.GRU}[kind]
    layers = [keras.Input((60,), dtype="int32"), kl.Embedding(10_000, 64, mask_zero=kind == "lstm")]
    layers += [layer(128, return_sequences=True), layer(64), kl.Dense(CLASSES, "softmax")]
    return _compiled(keras.Sequential(layers), optimizer)


def conv3d(optimizer: str = "adam") -> Any:
    layers = [keras.Input((16, 32, 32, 2))]
    for filters in (16, 32):
        layers += [kl.Conv3D(filters, 3, padding="same", activation="relu"), kl.MaxPooling3D(2)]
    layers += [kl.GlobalAveragePooling3D(), kl.Dense(CLASSES, "softmax")]
    return _compiled(keras.Sequential(layers), optimizer)


def autoencoder(optimizer: str = "adam") -> Any:
    layers: list[Any] = [keras.Input((64, 64, 3))]
    layers += [kl.Conv2D(filters, 3, strides=2, padding="same", activation="relu") for filters in (32, 64, 128)]
    layers += [kl.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu") for filters in (64, 32)]
    return _compiled(keras.Sequential([*layers, kl.Conv2DTranspose(3, 3, strides=2, padding="same")]), optimizer, "mse")


@keras.saving.register_keras_serializable("bench")
class Distilled(keras.Model):
    """A step of its own: a frozen teacher beside the student."""

    def __init__(self, width: int = 32, **options: Any) -> None:
        super().__init__(**options)

        def small(filters: int) -> Any:
            layers = [kl.Conv2D(filters, 3, padding="same"), kl.LayerNormalization(), kl.ReLU()] * 1
            layers += [kl.Conv2D(filters, 3, padding="same", activation="gelu"), kl.MaxPooling2D()]
            return keras.Sequential([keras.Input((48, 48, 3)), *layers, kl.GlobalAveragePooling2D(), kl.Dense(CLASSES)])

        self.width = width
        self.student, self.teacher = small(width), small(2 * width)
        self.teacher.trainable = False

    def call(self, x: Any, training: bool = False) -> Any:
        return self.student(x, training=training)

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        x, y = data
        soft = tf.nn.softmax(self.teacher(x, training=False))
        with tf.GradientTape() as tape:
            given = self.student(x, training=True)
            hard = keras.losses.sparse_categorical_crossentropy(y, given, from_logits=True)
            loss = tf.reduce_mean(hard) + tf.reduce_mean(
                keras.losses.categorical_crossentropy(soft, given, from_logits=True)
            )
        weights = self.student.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width}


def distilled() -> Any:
    inputs = np.zeros((1, 48, 48, 3), np.float32)
    model = Distilled()
    model(inputs)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def mixed(build: Callable[..., Any], *arguments: Any) -> Any:
    """The same in mixed precision."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    return build(*arguments)


def compiled_by_xla(build: Callable[..., Any]) -> Any:
    """The same with jit_compile."""
    model = build()
    model.compile("adam", model.loss, jit_compile=True)
    return model


def _app(name: str, side: int, sizes: tuple[int, ...], optimizer: str = "adam") -> Setting:
    return Setting(lambda: application(name, side, optimizer), sizes, runs=3)  # they take a while


SETTINGS: dict[str, Setting] = {
    "MLP": Setting(mlp, (256, 1024, 4096)),
    "MLP, wide, SGD": Setting(lambda: mlp(4096, "sgd"), (71, 512, 2048)),
    "MLP, Adafactor": Setting(lambda: mlp(2048, "adafactor"), (71, 512, 2048)),
    "U-Net": Setting(unet, (19, 41, 101)),
    "U-Net, SGD": Setting(lambda: unet("sgd"), (25, 71, 131)),
    "U-Net, mixed": Setting(lambda: mixed(unet), (19, 41, 101)),
    "transformer": Setting(transformer, (25, 47, 131)),
    "transformer, Adafactor": Setting(lambda: transformer("adafactor"), (25, 71, 161)),
    "transformer, mixed": Setting(lambda: mixed(transformer), (25, 47, 131)),
    "ViT": Setting(vit, (25, 71, 161)),
    "LSTM + Embedding": Setting(lambda: recurrent("lstm"), (47, 131, 512)),
    "LSTM + Embedding, SGD": Setting(lambda: recurrent("lstm", "sgd"), (71, 256, 768)),
    "GRU": Setting(lambda: recurrent("gru"), (47, 131, 512)),
    "Conv3D": Setting(conv3d, (17, 25, 71)),
    "autoencoder": Setting(autoencoder, (25, 71, 201)),
    "own train_step": Setting(distilled, (25, 71, 161)),
    "VGG16": _app("VGG16", 64, (17, 25, 71)),
    "VGG16, SGD": _app("VGG16", 96, (7, 17, 25), "sgd"),
    "ResNet50": _app("ResNet50", 96, (17, 25, 47)),
    "MobileNetV2": _app("MobileNetV2", 96, (25, 47, 97)),
    "MobileNetV2, SGD": _app("MobileNetV2", 128, (17, 25, 47), "sgd"),
    "EfficientNetB0": _app("EfficientNetB0", 96, (17, 25, 71)),
    "DenseNet121": _app("DenseNet121", 96, (17, 25, 47)),
    "InceptionV3": _app("InceptionV3", 128, (17, 25, 47)),
    "ConvNeXtTiny": _app("ConvNeXtTiny", 64, (17, 25, 71)),
    "NASNetMobile": _app("NASNetMobile", 96, (17, 25, 47)),
    "MLP, XLA": Setting(lambda: compiled_by_xla(mlp), (256, 1024, 4096)),
    "U-Net, XLA": Setting(lambda: compiled_by_xla(unet), (19, 41, 101)),
    "transformer, XLA": Setting(lambda: compiled_by_xla(transformer), (25, 47, 131)),
}
