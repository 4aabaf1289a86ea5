"""`fitroom.guard` and `fitroom.unguard`: the hooks on a model, and what they lead to."""

from __future__ import annotations

import functools
import itertools
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from fitroom.core import Event, Plan
from fitroom.data import casting_seams
from fitroom.data.passing import TAKES_ANY
from fitroom.devices import host, meter
from fitroom.remedies import allocator, eval_batch, float32_data, read_plan, turns
from fitroom.steps.model_step import model_step
from fitroom.steps.prediction import Prediction, joined
from fitroom.steps.sites import Unsupported
from fitroom.steps.step import Step
from fitroom.steps.turning import Turn, turn, turn_back
from fitroom.training import keras_seams, looking_ahead
from fitroom.training.eager_calls import EagerCalls
from fitroom.training.guarded_step import GuardedStep, as_tensors
from fitroom.training.log import Log
from fitroom.training.options import Options
from fitroom.training.remembered import remembered_for

_OF_HOST = 0.5  # of the host's free memory: larger copies of the data are not made
_SPEAKING = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
_HOOKS = ("make_train_function", "make_test_function", "make_predict_function", "call", *_SPEAKING)


def guard(
    model: Any,
    budget: int | str | None = None,
    allow: str | tuple[str, ...] | list[str] = (),
    plan: Plan | str | None = None,
) -> Any:
    """Make a Keras model's training, evaluation and prediction survive running out of memory.

    Where memory suffices, nothing changes: same weights, History, callbacks and output as plain Keras. Where it does
    not, the batch runs in slices, and makes the same one update; where samples mix, activations are computed again
    instead of kept, which makes the same update, too.

    Args:
        model: a Keras 3 model on TensorFlow, compiled or not.
        budget: how many bytes may be used, such as "8GiB"; None for what there is.
        allow: remedies that may change the math, by name, such as "micro_batch" for models with BatchNormalization.
        plan: what to do from the start, such as "micro_batch=4, recompute"; None to have it planned before the first
            step, where that may not fit.

    Returns:
        The same model.

    Raises:
        UsageError: if the budget, a remedy or the plan makes no sense.

    Example:
        >>> model = fitroom.guard(model)
        >>> model.fit(x, y, batch_size=512)
    """
    return guard_with(model, Options.read(budget, allow, plan))


def guard_with(model: Any, options: Options) -> Any:
    """The same, with options that have been read."""
    problem = keras_seams.check(model)
    if problem is not None:
        warnings.warn(f"fitroom does not guard this model: {problem}. It trains as without fitroom.", stacklevel=2)
        return model
    if keras_seams.hooked(model) is not None:
        unguard(model)
    for one in options.plan.remedies:
        if one.needs_restart and not allocator.is_set(str(one.setting)):
            warnings.warn(f"{one} takes a new process: fitroom run --plan {one} train.py", stacklevel=3)
    _Guard(model, options).install()
    return model


def unguard(model: Any) -> Any:
    """Take the guard off a model; it trains as plain Keras does. Returns the same model."""
    found = keras_seams.hooked(model)
    if found is not None:
        keras_seams.unhook(model, _HOOKS)
        turn_back(found.turned)
    return model


def events(model: Any) -> tuple[Event, ...]:
    """What has happened to a guarded model so far."""
    found = keras_seams.hooked(model)
    return tuple(found.log.events) if found is not None else ()


class _Guard:
    """The guard on one model: makes its functions, keeps its events, says the closing line."""

    def __init__(self, model: Any, options: Options) -> None:
        self.model = model
        self.options = options
        self.log = Log()
        self.turned: list[Turn] = []
        self._depth = 0
        self._train_step: Step | None = None
        self._looked_at: set[int] = set()  # the sizes of batches whose training was looked at before it began

    def install(self) -> None:
        spoken = {name: self.speaking(getattr(self.model, name)) for name in _SPEAKING}
        keras_seams.let_outputs_be_arrays()
        calls = EagerCalls(self.model, lambda: meter.find(self.options.budget), self.options.allow, self._tell_of_call)
        keras_seams.hook(
            self.model,
            self,
            make_train_function=self._maker("train_function", self._train_function),
            make_test_function=self._maker("test_function", self._test_function),
            make_predict_function=self._maker("predict_function", self._predict_function),
            call=calls.hook(),
            **spoken,
        )

    def speaking(self, plain: Any) -> Any:
        """A method that says the closing line at its end, unless another of them called it."""

        @functools.wraps(plain)
        def method(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                with self._casting(getattr(getattr(plain, "func", plain), "__name__", ""), args, kwargs):
                    result = plain(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth:
                self.log.say()  # where it raised, the error tells what there is to tell
            return result

        return method

    def _casting(self, name: str, *data: Any) -> AbstractContextManager[None]:
        """How arrays of 64 bits are cast: by the batch where that was planned, or copies of them would not fit."""
        if self._depth > 1 or name.endswith("_on_batch"):  # one batch is all there is
            return nullcontext()
        copies = casting_seams.bytes_of_copies(data)
        planned = any(one.name == float32_data.NAME for one in self.options.plan.remedies)
        if not copies or not (planned or copies > _OF_HOST * host.memory().available):
            return nullcontext()
        if not any(event.data.get("remedy") == float32_data.NAME for event in self.log.events):
            self.log.tell("rung", remedy=float32_data.NAME, saves_bytes=copies, exact=True)
        return casting_seams.cast_by_batch()

    def written(self) -> list[Any]:
        """The variables that the training step writes, as far as it has been traced."""
        return self._train_step.written_variables() if self._train_step is not None else []

    def _tell_of_call(self, kind: str, **data: Any) -> None:
        self.log.says_at_exit = True
        self.log.tell(kind, of="call", **data)

    # --- the functions that Keras asks for -------------------------------------------------------------------------

    def _maker(self, name: str, make: Callable[[], Any]) -> Callable[..., Any]:
        """Stands in for the method of Keras that makes the function of this name."""

        def make_function(force: bool = False) -> Any:
            if getattr(self.model, name) is None or force:
                reason = self._reason_not_to(name)
                if reason is None and self.model.jit_compile and keras_seams.replicas(self.model) > 1:
                    # XLA compiles for one device. Plain Keras gives it all of them, and fails.
                    self._turn(read_plan("xla=off"))
                setattr(self.model, name, make() if reason is None else self._given_up(name, reason))
            return getattr(self.model, name)

        return make_function

    def _reason_not_to(self, name: str) -> str | None:
        if not keras_seams.is_synchronous(self.model):
            name = type(self.model.distribute_strategy).__name__
            return f"it runs under {name}; MirroredStrategy and OneDeviceStrategy are the ones that are known"
        if name == "train_function" and getattr(self.model, "optimizer", None) is None:
            return "the model has no optimizer"
        return None

    def _train_function(self) -> Any:
        self._looked_at.clear()  # another compilation may be another training
        self._turn(self.options.plan)
        return self._over_iterator("train_function", self._begun_training)

    def _test_function(self) -> Any:
        step = model_step(self.model, "test_step")
        return self._over_iterator(
            "test_function", lambda data, like, known: known or self._begun_evaluation(step, "evaluate", data, like)
        )

    def _begun_evaluation(self, step: Step, what: str, data: Any, like: Any) -> GuardedStep:
        """The guarded step for an evaluation, or a prediction, that begins with this batch: in slices, if need be."""
        found = self._meter()
        guarded = self._guarded(step, what, found)
        if found is not None and step.samples(data) > 1 and guarded.is_open(step.samples(data)):
            most = looking_ahead.bound(step, data, like, compiled=bool(self.model.jit_compile), model=self.model)
            if most is not None and not looking_ahead.fits_surely(most, found) and not step.obstacles(data):
                guarded.learn()
        return guarded

    def _begun_training(self, data: Any, like: Any, known: GuardedStep | None) -> GuardedStep:
        """The guarded step for an epoch that begins with this batch; planned ahead, where it may not fit.

        Args:
            data: the batch.
            like: what plain Keras would trace for.
            known: the step that ran before, if any has.
        """
        step = self._train_step
        if known is None or step is None:
            step = self._train_step = model_step(self.model, "train_step")
        samples = step.samples(data)
        if known is not None and samples in self._looked_at:
            return known
        found = self._meter()
        guarded = known or self._guarded(step, "train", found)
        self._looked_at.add(samples)
        plan = None
        if found is not None and not guarded.is_sized and guarded.is_open(samples):
            plan = self._foreseen(step, data, like, found)
        if plan is not None and self._turn(plan):
            step = self._train_step = model_step(self.model, "train_step")
            guarded = self._guarded(step, "train", found)
        if plan is not None:
            guarded.follow(plan, samples)
        return guarded

    def _foreseen(self, step: Step, data: Any, like: Any, found: meter.Meter) -> Plan | None:
        """The plan for a training; None where it fits easily, or nothing can be foreseen."""
        most = looking_ahead.bound(step, data, like, compiled=bool(self.model.jit_compile), model=self.model)
        if looking_ahead.fits_easily(most, found):
            return None
        allow = self.options.allow
        plan = looking_ahead.foreseen(self.model, step, data, found, allow, turns=bool(allow))
        if plan is not None and plan.remedies:
            self.log.tell("planned", of="train", plan=str(plan), fits=bool(plan.fits), reason=plan.reason)
        return plan

    def _turn(self, plan: Plan) -> bool:
        """Turn the model itself over as a plan says, where it is not so already; whether anything was changed."""
        self.turned = [one for one in self.turned if one.holds()]  # a new compilation undoes some of it
        done = {one.what for one in self.turned}
        new = turn(self.model, **{what: to for what, to in turns(plan).items() if what not in done})
        self.turned += new
        for one in new:
            self.log.tell("turned", of="train", what=one.what, words=one.words, exact=one.exact)
        return bool(new)

    def _meter(self) -> meter.Meter | None:
        return meter.find(self.options.budget, keras_seams.devices(self.model))

    def _predict_function(self) -> Any:
        step = Prediction(self.model, brings_home=self._meter() is not None)
        guarded: GuardedStep | None = None

        def predict_function(data: list[Any]) -> Any:
            nonlocal guarded
            batches = [keras_seams.without_optionals(one) for one in data]
            guarded = guarded or self._begun_evaluation(step, "predict", as_tensors(batches[0]), None)
            outputs = [guarded(one) for one in batches]
            return outputs[0] if len(outputs) == 1 else joined(outputs)

        return predict_function

    def _over_iterator(self, name: str, begun: Callable[[Any, Any, GuardedStep | None], GuardedStep]) -> Any:
        """The function of this name; `begun` is given an epoch's first batch, and gives the step to run."""
        model = self.model
        guarded: GuardedStep | None = None
        self.log.begins(self._meter())
        batches: keras_seams.Batches | None = None
        is_traced = False

        def function(iterator: Any) -> Any:
            nonlocal batches, guarded, is_traced
            begins = batches is None or not batches.are_of(iterator)
            if batches is None or begins:
                batches = keras_seams.Batches(iterator)
                if self.options.plan.setting(allocator.NAME) == allocator.TRIM:
                    host.trim()  # an epoch begins
            logs = None
            for done in range(model.steps_per_execution):
                asked = time.perf_counter()
                try:
                    data = next(batches)
                except StopIteration:
                    if logs is None:
                        raise
                    break
                there = time.perf_counter()
                try:
                    if guarded is None or begins:
                        guarded, begins = begun(as_tensors(data), batches.like, guarded), False
                    logs = guarded(data, batches.like)
                    times = (there - asked, time.perf_counter() - there) if is_traced else (0.0, 0.0)
                    is_traced = True  # the first step takes longer than all others
                    self.log.made_step(*times, iterator)
                except Unsupported as error:
                    rest = itertools.islice(batches, model.steps_per_execution - done - 1)
                    plain = self._given_up(name, str(error))
                    setattr(model, name, plain)
                    return plain(batches.again([data, *rest]))
            return logs

        setattr(function, TAKES_ANY, True)
        return function

    def _guarded(self, step: Step, what: str, found: meter.Meter | None) -> GuardedStep:
        options = self.options if what == "train" else replace(self.options, plan=self._of_evaluation())
        remembered = remembered_for(what, found, self.model, getattr(self.model, "optimizer", None))
        return GuardedStep(step, options, found, functools.partial(self.log.tell, of=what), remembered)

    def _of_evaluation(self) -> Plan:
        """What the plan says of evaluation and prediction."""
        return Plan(tuple(one for one in self.options.plan.remedies if one.name == eval_batch.NAME))

    def _given_up(self, name: str, reason: str) -> Any:
        """Plain Keras' function."""
        self.log.left_alone(f"the model {self.model.name}", reason)
        return keras_seams.plain_function(self.model, name)
