"""Keras' own `train_step`, up to the point where it would apply its gradients, or its `test_step`, which has none.

Whole: one call gives the logs and the gradients. Sliced: each call adds a slice's gradients to the accumulators;
`finish` feeds the loss trackers and gives the logs. Nothing here changes a weight or a slot of the optimizer; what it
does change (statistics, seeds, metrics) is in `state`, to be put back where an attempt fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from fitroom.steps import graph_seams, keras_seams, random_seams, replicas
from fitroom.steps.accumulators import Accumulators, kind_of
from fitroom.steps.compiled import Compiled, any_batch
from fitroom.steps.losses import ExtraKind, Tally, weighed
from fitroom.steps.recomputation import Recomputation
from fitroom.steps.replacing import instead
from fitroom.steps.sites import Unsupported
from fitroom.steps.state import State, native

MOST_LOSSES = 32  # the totals of a batch's losses have one shape, whatever the model


class KerasPass:
    """A compiled model's training or evaluation step over one batch.

    Args:
        model: compiled.
        trains: whether this is the training step.
        recomputation: what to compute again on the way back.
    """

    def __init__(self, model: Any, *, trains: bool = True, recomputation: Recomputation | None = None) -> None:
        self.model = model
        self.trains = trains
        self.step = model.train_step if trains else model.test_step
        self.optimizer = model.optimizer
        self.strategy = model.distribute_strategy
        self.variables: list[Any] = []  # those that `apply` was given, in its order
        self.kinds: list[str] = []  # dense, sparse or none: each one's gradient
        self.extras: Sequence[ExtraKind] = ()
        options = {"jit_compile": bool(model.jit_compile), "eager": bool(model.run_eagerly)}
        self._whole = Compiled(self._whole_step, **options, change=recomputation)
        self._slice = Compiled(self._slice_step, **options, change=recomputation)
        self._count = Compiled(self._count_step)
        self._finish = Compiled(self._finish_step, eager=bool(model.run_eagerly))
        self._accumulators: Accumulators | None = None
        self._state: State | None = None
        self._state_of = -1  # how often the functions that it was made of had changed
        self._weighted_trackers: list[bool] = []
        self._counted = False
        self._captured: dict[int, list[Any]] = {}  # what each replica's `apply` was given
        self.hidden_random: set[str] = set()  # operations in it whose state cannot be put back

    # --- whole -----------------------------------------------------------------------------------------------------

    def trace(self, data: Any, like: Any = None) -> None:
        """Trace the whole step for what the data is `like`, if that has not been done."""
        if not self._whole.eager:
            self._whole.concrete((data,), like=None if like is None else (like,))

    def forget_whole(self) -> None:
        """From now on in slices: the traced step for whole batches can go, with the constants that it holds."""
        self._whole.forget()

    def look(self, data: Any, like: Any = None) -> None:
        """Trace the whole step also where it runs eagerly: a gradient's kind shows when it is there."""
        if self._whole.eager:
            tf.function(self._whole_step).get_concrete_function(data)
        else:
            self.trace(data, like)

    def whole(self, data: Any) -> tuple[Any, list[Any]]:
        """The logs and the gradients of the whole batch."""
        logs, gradients = self._whole(data)
        return logs, list(gradients)

    def _whole_step(self, data: Any) -> tuple[Any, list[Any]]:
        def on_replica(part: Any) -> tuple[Any, list[Any]]:
            logs = self.step(part)
            return logs, self._take()

        with self._captured_apply():
            logs, gradients = self._run(on_replica, data)
        return keras_seams.reduce_logs(self.model, logs), gradients

    def _run(self, on_replica: Callable[..., Any], *arguments: Any) -> Any:
        """What every replica makes of its share."""
        self._captured.clear()  # of a trace that failed
        return self.strategy.run(on_replica, args=arguments)

    # --- sliced ----------------------------------------------------------------------------------------------------

    def begin(self, data: Any) -> None:
        """Make the accumulators ready for a new batch."""
        if self.trains and not self.kinds:
            self.look(data)
        if self._accumulators is None:
            self._accumulators = Accumulators(self.variables, self.kinds)
        self._accumulators.clear()

    def release(self) -> None:
        """Give back what the accumulators take: after a failure there may be no room for anything."""
        if self._accumulators is not None:
            self._accumulators.release()

    def trace_slice(self, part: Any, total_samples: Any) -> None:
        """Trace what a slice like `part` runs, so that `state` knows what it writes."""
        if self._slice.eager:
            self._count.concrete((part,))  # tells whether to count
            return
        totals = replicas.each(lambda _: tf.zeros([MOST_LOSSES]), total_samples)
        self._slice.concrete((part, total_samples, totals), like=(any_batch(part), total_samples, totals))
        nothing = replicas.each(lambda _: [tf.constant(0.0)] * len(self._weighted_trackers), total_samples)
        self._finish.concrete((nothing, total_samples))

    def totals(self, data: Any) -> Any:
        """The whole batch's amount per loss, counted only where masks or weights make shares differ from samples."""
        if not self._counted:
            return replicas.each(lambda _: tf.zeros([MOST_LOSSES]), data)
        return replicas.each(lambda found: tf.pad(found, [[0, MOST_LOSSES - found.shape[0]]]), self._count(data))

    def slice(self, data: Any, total_samples: Any, totals: Any) -> tuple[list[Any], list[Any]]:
        """Add a slice's gradients to the accumulators; returns what its loss trackers would have been fed, and its
        sparse gradients, weighed."""
        arguments = (data, total_samples, totals)
        if not self._slice.eager:
            self._slice.concrete(arguments, like=(any_batch(data), *arguments[1:]))
        tracked, sparse = self._slice(*arguments)
        return list(tracked), list(sparse)

    def most_per_sample(self) -> int | None:
        """What one more sample in a slice takes at most."""
        return self._slice.most_per_sample()

    def most_alive(self, data: Any, samples: int) -> int | None:
        """What a whole batch takes at most, where it has been traced."""
        return self._whole.most_alive(data, samples)

    def finish(self, tracked: list[Any], total_samples: Any) -> Any:
        """Feed the loss trackers as the whole batch would have, and return the logs."""
        return self._finish(tracked, total_samples)

    def gradients(self, sparse: list[list[Any]]) -> list[Any]:
        """The whole batch's gradients, from the accumulators and every slice's sparse ones."""
        assert self._accumulators is not None
        return self._accumulators.total(sparse)

    def _slice_step(self, data: Any, total_samples: Any, totals: Any) -> tuple[list[Any], list[Any]]:
        def on_replica(part: Any, total: Any, amounts: Any) -> tuple[list[Any], list[Any]]:
            tally = weighing.begin(Tally(tf.shape(_first(part))[0], total, amounts))
            self.step(part)
            assert self._accumulators is not None
            sparse = self._accumulators.add(self._take(), replica=replicas.here())
            self._counted = tally.counted
            return self._tracked(tally), sparse

        with self._captured_apply(), weighed(self.model, self.extras) as weighing:
            result: tuple[list[Any], list[Any]] = self._run(on_replica, data, total_samples, totals)
        return result

    def _count_step(self, data: Any) -> Any:
        """Only the amounts leave this function: TensorFlow prunes the rest, and changes nothing."""
        import keras

        def on_replica(part: Any) -> Any:
            tally = weighing.begin(Tally())
            # A regulariser asks the scope itself for the weights' values.
            values = [(variable, variable.value) for variable in self.model.trainable_variables]
            with keras.StatelessScope(state_mapping=values):
                x, y, weights = keras.utils.unpack_x_y_sample_weight(part)
                # Seeds and statistics stay as they are: their updates end with the scope.
                prediction = keras_seams.call(self.model, x, self.trains)
                self.model.compute_loss(x, y, prediction, weights)
            self._counted = tally.counted
            return tf.stack(tally.amounts) if tally.amounts else tf.zeros([0])

        with weighed(self.model, self.extras) as weighing:
            return self.strategy.run(on_replica, args=(data,))

    def _finish_step(self, tracked: list[Any], total_samples: Any) -> Any:
        def on_replica(values: list[Any], samples: Any) -> Any:
            trackers = keras_seams.loss_trackers(self.model)
            for tracker, value, is_weighted in zip(trackers, values, self._weighted_trackers, strict=True):
                tracker.update_state(value, sample_weight=samples if is_weighted else None)
            return self.model.get_metrics_result()

        logs = self.strategy.run(on_replica, args=(tracked, total_samples))
        return keras_seams.reduce_logs(self.model, logs)

    def _tracked(self, tally: Tally) -> list[Any]:
        in_order = [tally.tracked[index] for index in sorted(tally.tracked)]
        self._weighted_trackers = [is_weighted for _, is_weighted in in_order]
        return [value for value, _ in in_order]

    # --- what an attempt touches -----------------------------------------------------------------------------------

    def state(self) -> State:
        """What the functions traced so far write, the accumulators left out."""
        compiled = (self._whole, self._slice, self._finish)
        changes = sum(one.changes for one in compiled)
        if self._state is None or self._state_of != changes:
            functions = [function for one in compiled for function in one.functions.values()]
            self._state, self._state_of = State(self._written(functions)), changes
        return self._state

    def _written(self, functions: list[Any]) -> list[Any]:
        if self._whole.eager:
            model = self.model
            return native([*model.non_trainable_variables, *model.metrics_variables])
        own = {id(one) for one in (self._accumulators.variables if self._accumulators else [])}
        found = {}
        for function in functions:
            self.hidden_random |= random_seams.hidden_random_operations(function)
            for variable in graph_seams.written_variables(function):
                if id(variable) not in own:
                    found[id(variable.handle)] = variable
        return list(found.values())

    # --- the capture -----------------------------------------------------------------------------------------------

    def _captured_apply(self) -> AbstractContextManager[None]:
        return instead(self.optimizer, "apply", self._capture) if self.trains else nullcontext()

    def _capture(self, gradients: Any, trainable_variables: Any = None) -> None:
        """Stands in for the optimizer's `apply` while a step is traced."""
        if replicas.here() in self._captured:
            raise Unsupported("The training step applies gradients more than once")
        variables = list(self.model.trainable_variables if trainable_variables is None else trainable_variables)
        if not self.optimizer.built:
            with tf.init_scope():
                self.optimizer.build(variables)
        self._captured[replicas.here()] = taken = list(gradients)
        self.variables = variables
        self.kinds = [kind_of(gradient) for gradient in taken]

    def _take(self) -> list[Any]:
        taken = self._captured.pop(replicas.here(), None)
        if not self.trains:
            return []
        if taken is None:
            raise Unsupported("The training step does not apply gradients through the model's optimizer")
        return taken


def _first(data: Any) -> Any:
    return next(leaf for leaf in tf.nest.flatten(data) if leaf is not None)
