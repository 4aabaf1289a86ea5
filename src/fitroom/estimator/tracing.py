"""A step's memory from its graph alone: for models that cannot be built again in another process.

The step is traced, not run. TensorFlow's own optimizer says what is left of its graph; each operation then takes memory
for what it makes until the last one that needs it is through, in the order in which operations become ready. What
kernels take for themselves does not show in a graph, nor does what loops keep from turn to turn.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import keras
import tensorflow as tf

from fitroom.estimator import graph_seams, keras_seams, samples
from fitroom.estimator.tape import Line, Move, Recorded, Request, Tape, resident
from fitroom.steps.activations import ALIASES, bytes_of
from fitroom.steps.keras_seams import every_apply, uses_keras_own_step

_NOTHING = frozenset(["Placeholder", "Const", "ReadVariableOp", "VarHandleOp", "NoOp", "Shape", *ALIASES])
# Kernels that write over an input that nobody else needs.
_IN_PLACE = frozenset(
    [
        *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "Maximum", "Minimum", "AddN", "BiasAdd", "Neg"),
        *("Relu", "Relu6", "ReluGrad", "Relu6Grad", "LeakyRelu", "LeakyReluGrad", "Elu", "EluGrad", "Sigmoid", "Tanh"),
        *(
            "SigmoidGrad",
            "TanhGrad",
            "Exp",
            "Log",
            "Sqrt",
            "Rsqrt",
            "RsqrtGrad",
            "SqrtGrad",
            "Square",
            "Erf",
            "Softmax",
        ),
        *("SquaredDifference", "Softplus", "SoftplusGrad", "Abs", "Sign", "Pow", "Reciprocal", "Select", "SelectV2"),
        *("FusedBatchNormGradV3", "LogSoftmax", "_FusedBatchNormEx", "Cast"),
    ]
)
_LOOPS = frozenset(["While", "StatelessWhile"])


def trace(model: Any, x: Any, y: Any) -> dict[str, Any]:
    """The same as a measurement gives, without one."""
    sample = x if x is not None else samples.of_inputs(model)
    targets = y
    if y is None and model.loss is not None:
        targets = samples.of_targets(model, model.compute_output_spec(samples.symbolic(sample)))
    try:
        forth: list[Recorded] | str = [Recorded(1, [_lifetimes(_forward(model, sample))])]
    except NotImplementedError as error:  # a GAN need not have a call of its own
        forth = f"{type(error).__name__}: {error}"
    slots = _slots(model)
    weights = [(one.path, keras_seams.bytes_of(one)) for one in model.variables]
    training, has_loops = _training(model, sample, targets)
    prelude = resident([*weights, *slots])
    base = int(prelude.in_use(1)[-1]) if prelude.moves else 0
    for tape in (training, *(one.tapes[0] for one in (forth if isinstance(forth, list) else ()))):
        tape.base = base
    return {
        "prelude": prelude,
        "training": [Recorded(1, [training])],
        "evaluation": forth,
        "prediction": forth,
        "weights": weights,
        "slots": slots,
        "accumulators": 0,
        "seconds": [],
        "trained": sum(map(keras_seams.bytes_of, model.trainable_variables)),
        "layers": [one.name for one in keras_seams.all_layers(model)],
        "optimizers": [one.name for one in keras_seams.optimizers(model)],
        "data": samples.SCOPE,
        "compiled": bool(model.jit_compile),
        "notes": ["What loops keep from turn to turn is not in it."] if has_loops else [],
    }


def _training(model: Any, x: Any, y: Any) -> tuple[Tape, bool]:
    # A tuple of one, as Keras has it: two inputs in a tuple would be taken for an input and its target.
    data = ((x,) if isinstance(x, tuple) else x) if y is None else (x, y)
    if uses_keras_own_step(model):
        loss = keras_seams.fresh_loss(model)

        def step(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                given = model(batch[0] if isinstance(data, tuple) else batch, training=True)
                value = sum([*([] if y is None else [loss(batch[1], given)]), *model.losses])
            return tape.gradient(value, model.trainable_weights)

    else:

        def step(batch: Any) -> Any:
            found: list[Any] = []
            with every_apply(lambda optimizer, gradients, variables: found.extend(gradients)):
                logs = model.train_step(batch)
            return found, logs

    function = tf.function(step).get_concrete_function(samples.any_size(data))
    graph = graph_seams.optimized(function)
    return _lifetimes(graph), any(one.type in _LOOPS for one in graph.get_operations())


def _forward(model: Any, x: Any) -> Any:
    function = tf.function(lambda batch: model(batch, training=False))
    return graph_seams.optimized(function.get_concrete_function(samples.any_size(x)))


def _lifetimes(graph: Any) -> Tape:
    """When each tensor comes and goes."""
    order = _order(graph)
    home: dict[str, str] = {}  # a tensor's name, and that of the tensor whose memory it uses
    users: Counter[str] = Counter()
    for operation in order:
        for tensor in operation.outputs:
            alias = operation.type in ALIASES and operation.inputs
            home[tensor.name] = home[operation.inputs[0].name] if alias else tensor.name
        users.update(home[tensor.name] for tensor in operation.inputs)
    # What the function returns goes through an Identity that nobody takes from.
    returned = [one for one in order if one.type == "Identity" and not any(users[out.name] for out in one.outputs)]
    kept = {home[tensor.name] for one in returned for tensor in one.outputs}
    requests: list[Request] = []
    moves: list[Move] = []
    held: dict[str, int] = {}
    for operation in order:
        for tensor in operation.outputs:
            line = _line(tensor)
            is_data = operation.type == "Placeholder" and line[1] > 0
            if operation.type in _NOTHING and not is_data:
                continue
            reused = _overwritten(operation, tensor, line, home, users, held, requests)
            if reused is not None:
                held[tensor.name] = held.pop(reused)
                continue
            name = f"{samples.SCOPE}/{operation.name}" if is_data else operation.name
            held[tensor.name] = len(requests)
            moves.append(Move(len(requests), True))
            requests.append(Request(name, "output", line))
        users.subtract(home[tensor.name] for tensor in operation.inputs)
        over = {home[tensor.name] for tensor in operation.inputs} | {tensor.name for tensor in operation.outputs}
        moves += [Move(held.pop(name), False) for name in sorted(over - kept) if users[name] <= 0 and name in held]
    moves += [Move(place, False) for place in held.values()]
    return Tape(requests, moves, 0)


def _overwritten(
    operation: Any,
    tensor: Any,
    line: Line,
    home: dict[str, str],
    users: Counter[str],
    held: dict[str, int],
    requests: list[Request],
) -> str | None:
    """The input whose memory the output takes over."""
    if operation.type not in _IN_PLACE or tensor is not operation.outputs[0]:
        return None
    for one in operation.inputs:
        name = home[one.name]
        if users[name] == 1 and name in held and requests[held[name]].line == line:
            return name
    return None


def _order(graph: Any) -> list[Any]:
    """As they become ready."""
    operations = graph.get_operations()
    waits = {
        one.name: len({t.op.name for t in one.inputs} | {c.name for c in one.control_inputs}) for one in operations
    }
    after: dict[str, list[Any]] = {one.name: [] for one in operations}
    for one in operations:
        for before in {t.op.name for t in one.inputs} | {c.name for c in one.control_inputs}:
            after[before].append(one)
    ready = deque(one for one in operations if not waits[one.name])
    found = []
    while ready:
        one = ready.popleft()
        found.append(one)
        for other in after[one.name]:
            waits[other.name] -= 1
            if not waits[other.name]:
                ready.append(other)
    return found


def _line(tensor: Any) -> Line:
    one, two = bytes_of(tensor, 1), bytes_of(tensor, 2)
    return float(2 * one - two), float(two - one)


def _slots(model: Any) -> list[tuple[str, int]]:
    """What the optimizers hold, or would hold: none is built for it."""
    held = []
    for optimizer in keras_seams.optimizers(model):
        built = optimizer
        if not optimizer.built:
            config = optimizer.get_config()
            if "learning_rate" in config:
                config["learning_rate"] = 0.0  # a schedule of somebody's own is not needed
            built = type(optimizer).from_config(config)
            with keras.StatelessScope():
                built.build(model.trainable_variables)
        held.append(built)
    return [(one.path, keras_seams.bytes_of(one)) for one in keras_seams.slots(held)]
