"""Goes along with one `fit`: knows where it is, saves that, and brings it back there."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fitroom.data import keras_seams as data_seams
from fitroom.data.epochs import DataEnded, Epochs
from fitroom.data.keras_seams import Steps
from fitroom.data.passing import Passing
from fitroom.steps.keras_seams import uses_keras_own_step
from fitroom.training import keras_seams, model_state, random_states
from fitroom.training.callback_states import CallbackStates
from fitroom.training.checkpoint_files import Checkpoint
from fitroom.training.plain_data import decode, encode
from fitroom.training.saving import Saver

_MANY = 1000  # batches to go through, which may take a while


class Refused(Exception):
    """What is there now does not match what was saved."""


class Over(Exception):
    """The training had come to its end before, and its results are put back."""


class Surroundings(NamedTuple):
    """What a training shares with the others of its script.

    Attributes:
        saver: writes checkpoints.
        tell: takes events.
        leaving: asked between steps: None, or what ends the process, once the training is saved.
        files: gives the script's files, with a checksum each.
    """

    saver: Saver
    tell: Callable[..., object]
    leaving: Callable[[], Callable[[], object] | None]
    files: Callable[[], dict[str, str]]


class Following:
    """One `fit` of a model, followed step by step.

    A place in it is "in this epoch, before this step": callbacks have been told of everything before, and of nothing
    after. To come back there, Keras begins with that epoch; the data are gone through to that step; one step is made,
    which builds whatever a step builds; and then every variable, callback and random state is put back.

    Args:
        number: which training of the script it is.
        model: compiled.
        callbacks: those given to `fit`.
        arguments: all that `fit` was given, by name.
        around: what it shares with others.
    """

    def __init__(
        self, number: int, model: Any, callbacks: list[Any], arguments: dict[str, Any], around: Surroundings
    ) -> None:
        self.number = number
        self.model = model
        self.callbacks = CallbackStates(callbacks)
        self.around = around
        self.first_epoch = self.epoch = int(arguments["initial_epoch"])
        self._arguments = dict(arguments)
        self.has_begun = False
        self._is_looking = keras_seams.has_strategy(model)  # Keras builds the model by a first batch, and begins anew
        self._given = 0  # batches of the epoch
        self._is_whole = False  # all of them
        self._done = 0  # steps of the training
        self._epochs: Epochs | None = None
        self._randoms: list[Any] = []  # before each epoch, where Python code makes the batches
        self._found: Checkpoint | None = None  # where it comes from

    # --- Keras goes through the data -------------------------------------------------------------------------------

    def begin(self, iterator: Any) -> Any:
        """Who follows an iterator that Keras makes during this `fit`: the first is over the training's data."""
        if self._epochs is not None:
            return None
        self._epochs = Epochs(iterator, self.model.steps_per_execution)
        return self

    def ends(self) -> None:
        """The `fit` is over, or has failed."""
        if self._epochs is not None:
            self._epochs.leave()

    @property
    def epochs(self) -> Epochs:
        """The training's data."""
        assert self._epochs is not None, "asked before Keras had made its iterator"
        return self._epochs

    def steps(self, plain: Callable[[], Steps]) -> Steps:
        """The steps of an epoch."""
        if self._is_looking:
            self._is_looking = False
            return plain()
        if self._found is not None:
            found, self._found = self._found, None
            if found.is_finished:
                self._to_the_end(found, plain)
            return self._from(found, plain)
        if not self.has_begun:  # a callback may have had the training begin with another epoch
            self.first_epoch = self.epoch = keras_seams.first_epoch(self.model) or self.first_epoch
        self.epoch += self.has_begun
        self.has_begun = True
        if self.epochs.calls_python:
            self._randoms.append(random_states.packed())
        return self._watched(plain())

    def _watched(self, steps: Steps) -> Steps:
        """The steps, with a look between each two at whether to save."""
        noted: Passing | None = None
        self._is_whole = False
        for first, last, batches in steps:
            if self._done == 1:  # everything is built
                self.around.saver.begin(model_state.size(self.model))
            leave = self.around.leaving()
            is_only = self.epochs.per_epoch is not None and self.epochs.per_epoch <= self.model.steps_per_execution
            if first == 0 and self.epoch == self.first_epoch:
                is_saved = leave is not None  # there is nothing to save
            elif leave is not None or self.around.saver.is_due():
                batches, is_there = self._looked_ahead(batches)
                is_saved = is_there and (noted is not None or is_only)
                if is_saved:
                    self.save(first, noted.print if noted is not None else None)
                elif is_there:
                    noted = self._passing(batches)  # saved after this step, with what tells its batch from others
                    batches = noted.iterator_for(self.model.train_function)
            else:
                is_saved = False
            if is_saved:
                noted = None
                if leave is not None:
                    self.around.saver.wait()
                    leave()
            self._given = last + 1
            yield first, last, batches
            self._done += 1
        self._is_whole = True

    def _looked_ahead(self, batches: Any) -> tuple[Any, bool]:
        """The batches, and whether there are any: after the last one, Keras needs the step before to end an epoch."""
        if not self.epochs.may_end_early:
            return batches, True
        batch = next(batches, None)
        if batch is None:
            return batches, False
        return self._passing(batches, batch).iterator_for(self.model.train_function), True

    def _passing(self, batches: Any, *first: Any) -> Passing:
        """The batches of one step."""
        return Passing(batches, *first, count=self.model.steps_per_execution)

    # --- saving ----------------------------------------------------------------------------------------------------

    def save(self, step: int, checksum: int | None) -> None:
        """Save the place before a step of this epoch; with what tells the batches of the step before from others."""
        content = functools.partial(self._content, step, checksum)
        self.around.saver.save(self.number, self._done, content, model_state.size(self.model))

    def save_end(self) -> None:
        """Save how the training ended."""
        size = model_state.size(self.model)
        if self.has_begun and self.around.saver.may_save_end(size):
            self.around.saver.save(self.number, None, functools.partial(self._content, self._given, None), size)

    def _content(self, step: int, checksum: int | None, copy: bool) -> tuple[dict[str, Any], list[Any]]:
        arrays: list[Any] = []
        history = self.model.history
        about = {
            "training": self.number,
            "first_epoch": self.first_epoch,
            "epoch": self.epoch,
            "step": step,
            "done": self._done,
            "per_epoch": self.epochs.per_epoch,
            "replicas": keras_seams.replicas(self.model),
            "checksum": checksum,
            "stopped": bool(self.model.stop_training),
            "whole": self._is_whole or not self.model.stop_training,  # the epoch came to its end
            "files": self.around.files(),
            "variables": model_state.read(self.model, arrays, copy=copy),
            "callbacks": self.callbacks.read(arrays),
            "history": encode([history.history, history.epoch, history.params], arrays),
            "random": encode(random_states.read(), arrays),
            "randoms": encode(np.array(self._randoms), arrays),
        }
        return about, arrays

    # --- coming back -----------------------------------------------------------------------------------------------

    def comes_from(self, found: Checkpoint) -> None:
        """Have this `fit` go on where a checkpoint was made.

        Raises:
            Refused: if it was made on another number of replicas.
        """
        before, now = found.about.get("replicas", 1), keras_seams.replicas(self.model)
        if before != now:
            raise Refused(
                f"it ran on {before} replica{'s' * (before > 1)}, and there {'are' if now > 1 else 'is'} {now} now: "
                "each would have another share of the batch, which changes batch normalisation, random numbers and "
                "rounding"
            )
        self._found = found
        self.first_epoch = found.about["first_epoch"]
        if not found.is_finished:
            self.callbacks.continue_files(found.about["callbacks"])

    def _from(self, found: Checkpoint, plain: Callable[[], Steps]) -> Steps:
        """The rest of the epoch in which a checkpoint was made."""
        about, begun = found.about, time.monotonic()
        self._go_to(found, plain)
        steps = plain()
        try:
            following = self.epochs.skip_to(steps, about["step"])
        except DataEnded:
            following = None
        first, last, batches = following or (0, 0, iter(()))
        batch = next(batches, None)
        if batch is None:
            raise Refused(f"the data now end before batch {about['step'] + 1} of epoch {about['epoch'] + 1}")
        step = self.model.train_function
        step(Passing(batches, batch, count=1).iterator_for(step))
        self._put_back(found)
        del found  # as large as the model and its optimizer
        seconds = round(time.monotonic() - begun, 2)
        told = {"epoch": about["epoch"], "step": about["step"], "taken": self.epochs.taken, "seconds": seconds}
        self.around.tell("resumed", training=self.number, **told)
        if None not in (about["checksum"], self.epochs.print) and about["checksum"] != self.epochs.print:
            self.around.tell("order_changed", training=self.number)
        again = self._passing(batches, batch).iterator_for(step)
        yield from self._watched(itertools.chain([(first, last, again)], steps))

    def _to_the_end(self, found: Checkpoint, plain: Callable[[], Steps]) -> None:
        """Have everything be as it was when the training had come to its end.

        Raises:
            Over: always: there is nothing left to train.
        """
        about = found.about
        self._go_to(found, plain)
        is_built = self._is_built(about["variables"])
        self.epochs.skip(plain, None if about["whole"] else about["step"], keep=not is_built)
        if not is_built:
            if self.epochs.kept is None:
                raise Refused("there are no data")
            step = self.model.train_function
            step(self.epochs.kept.iterator_for(step))
        self._skip_validation(about["epoch"])
        self._put_back(found)
        self.around.tell("put_back", training=self.number)
        raise Over

    def _is_built(self, described: dict[str, Any]) -> bool:
        """Whether the model has all its variables without a step; where a step would only build the optimizer, do."""
        if not model_state.is_complete(self.model, described) and uses_keras_own_step(self.model, "train_step"):
            keras_seams.build_optimizer(self.model)
        return model_state.is_complete(self.model, described)

    def _go_to(self, found: Checkpoint, plain: Callable[[], Steps]) -> None:
        """Go through the epochs before the one in which a checkpoint was made."""
        about = found.about
        if about["per_epoch"] != self.epochs.per_epoch:
            raise Refused(f"an epoch now has {self.epochs.per_epoch} batches, and had {about['per_epoch']}")
        self._randoms = list(decode(about["randoms"], found.arrays))
        self.epoch, self.has_begun, self._done = about["epoch"], True, about["done"]
        batches = about["step"] if self.epochs.can_jump else about["done"] * self.model.steps_per_execution
        if batches >= _MANY:
            self.around.tell("going_through", training=self.number, batches=batches)
        for epoch in range(about["first_epoch"], about["epoch"]):
            self._put_random(epoch)
            self.epochs.skip(plain)
            self._skip_validation(epoch)
        self._put_random(about["epoch"])

    def _skip_validation(self, epoch: int) -> None:
        """Go through the data of a validation that is over: what it left behind decides orders that follow."""
        iterator = data_seams.validation(self.model, self._arguments, epoch)
        if iterator is not None:
            iterator.reset()
            Epochs(iterator, self.model.steps_per_execution).skip(iterator.plain)

    def _put_random(self, epoch: int) -> None:
        if self._randoms:
            random_states.unpack(self._randoms[epoch - self.first_epoch])

    def _put_back(self, found: Checkpoint) -> None:
        about, arrays = found.about, found.arrays
        try:
            model_state.write(self.model, about["variables"], arrays)
        except model_state.Differs as error:
            raise Refused(f"the model is another one: {error}") from None
        lost = self.callbacks.write(about["callbacks"], arrays)
        self.put_history(found)
        # Where the code that makes the batches draws random numbers, they stand where it has left them.
        draws = bool(self._randoms) and not np.array_equal(random_states.packed(), self._randoms[-1])
        random_states.write(decode(about["random"], arrays), also_python=not draws or found.is_finished)
        if lost:
            self.around.tell("callbacks_forgot", callbacks="; ".join(lost))

    def put_history(self, found: Checkpoint) -> None:
        """Have the model's History be what it was."""
        history = self.model.history
        history.history, history.epoch, params = decode(found.about["history"], found.arrays)
        history.set_params(params)
