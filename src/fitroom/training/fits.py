"""Every `fit` of a script, in order: gone on with, put back, or followed from its beginning."""

from __future__ import annotations

import atexit
import ctypes
import functools
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import keras

from fitroom.data import keras_seams as data_seams
from fitroom.data.seeds import ArrayOrder, nth
from fitroom.training import keras_seams
from fitroom.training.checkpoint_files import Checkpoint, Folder
from fitroom.training.following import Following, Over, Refused, Surroundings
from fitroom.training.saving import Saver
from fitroom.training.script_files import ScriptFiles

_GRACE = 20.0  # seconds in which a training that is to end comes to its next step, or ends without a checkpoint
_LOOK = 0.2  # seconds between two looks at whether the supervisor wants us to leave


def install(told: dict[str, Any], tell: Callable[..., object]) -> None:
    """Follow every `fit` of this process.

    Args:
        told: what the supervisor decided: where checkpoints are, and how often they are to be made.
        tell: takes events.
    """
    fits = Fits(told, tell)
    atexit.register(fits.script_over)
    plain = keras.Model.fit
    data_seams.follow(fits.follower, fits.order)
    data_seams.seed_datasets(fits.next_seed)

    @functools.wraps(plain)
    def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
        return fits.fit(plain, model, args, kwargs)

    keras.Model.fit = fit


class Fits:
    """The trainings of a process, counted."""

    def __init__(self, told: dict[str, Any], tell: Callable[..., object]) -> None:
        self._pid = os.getpid()  # a process that the script forks has this object, too
        self._seed = told["seed"]
        self._orders = 0
        self._seeds = 0
        self._tell = tell
        self._folder = Folder(told["checkpoints"])
        self._folder.clean()
        saver = Saver(self._folder, tell, every=told["every"], after_death=told["attempt"] > 0)
        self._leaving = Leaving(Path(told["leave"]), tell)
        self._around = Surroundings(saver, tell, self._leaving.asked, ScriptFiles(Path(told["home"])))
        self._count = 0
        self._current: Following | None = None

    def script_over(self) -> None:
        """The script has come to its end: what goes wrong from here on is no training's business."""
        if self._is_ours and self._count:
            self._around.saver.wait()
            self._tell("script_over")

    # --- what is decided by chance ---------------------------------------------------------------------------------

    @property
    def _is_ours(self) -> bool:
        """Whether this is the process whose trainings are followed."""
        return os.getpid() == self._pid

    def order(self) -> ArrayOrder | None:
        """The order of the next arrays that Keras shuffles; None in another process, which draws its own."""
        if not self._is_ours:
            return None
        self._orders += 1
        return ArrayOrder(self._seed, self._orders)

    def next_seed(self) -> int | None:
        """The seed of the next operation on a dataset that has none; None in another process."""
        if not self._is_ours:
            return None
        self._seeds += 1
        return nth(self._seed, self._seeds)

    def follower(self, iterator: Any) -> Any:
        """Who follows an iterator that Keras makes; None outside of a training."""
        return self._current.begin(iterator) if self._current is not None and self._is_ours else None

    # --- one training ----------------------------------------------------------------------------------------------

    def fit(self, plain: Any, model: Any, args: Any, kwargs: Any) -> Any:
        """A training: followed, if it is the script's own, and all of it is in this process."""
        is_own = self._is_ours and threading.current_thread() is threading.main_thread() and self._current is None
        try:
            bound = inspect.signature(plain).bind(model, *args, **kwargs)
        except TypeError:  # Keras says it better
            return plain(model, *args, **kwargs)
        if not is_own or not keras_seams.is_synchronous(model):
            return plain(model, *args, **kwargs)
        bound.apply_defaults()
        number, self._count = self._count, self._count + 1
        following = Following(number, model, _callbacks(bound.arguments["callbacks"]), bound.arguments, self._around)
        found = self._folder.read(number, functools.partial(self._tell, "checkpoint_damaged"))
        if found is None:
            return self._followed(following, plain, bound)
        begin = keras_seams.begin_with(model, found.about["epoch"])
        try:
            following.comes_from(found)
            if found.is_finished:
                return self._put_back(following, plain, bound, begin, found)
            del found  # as large as the model and its optimizer
            with _also(bound, begin):
                return self._followed(following, plain, bound)
        except Refused as error:
            self._tell("refused", reason=str(error), training=number)
            raise SystemExit(2) from None
        finally:
            keras_seams.forget_fit(model)

    def _followed(self, following: Following, plain: Any, bound: inspect.BoundArguments) -> Any:
        with self._follow(following), self._leaving.heard():
            result = plain(*bound.args, **bound.kwargs)
            following.save_end()
            self._leaving.leave_if_asked(self._around.saver)
        return result

    def _put_back(
        self, following: Following, plain: Any, bound: inspect.BoundArguments, begin: Any, found: Checkpoint
    ) -> Any:
        """Have everything be as it was at the end of a training, without training again or telling callbacks."""
        model, callbacks = following.model, following.callbacks.callbacks
        own = next((one for one in callbacks if isinstance(one, keras.callbacks.History)), None)
        bound.arguments |= {"callbacks": [begin], "verbose": 0}
        with self._follow(following), suppress(Over):
            plain(*bound.args, **bound.kwargs)
        model.stop_training = found.about["stopped"]
        following.put_history(found)
        for callback in callbacks:
            callback.set_model(model)
            callback.set_params(model.history.params)
        if own is not None:
            model.history = own
        return model.history

    @contextmanager
    def _follow(self, following: Following) -> Iterator[None]:
        self._current = following
        try:
            yield
        finally:
            self._current = None
            following.ends()


class Leaving:
    """Whether this process is to save its training and leave: because of a SIGTERM, or because memory is running out.

    Args:
        request: a file that the supervisor makes where it wants that.
        tell: takes events.
    """

    def __init__(self, request: Path, tell: Callable[..., object]) -> None:
        self._request = request
        self._tell = tell
        self._looked = 0.0
        self._before: Any = None  # what a SIGTERM does without us
        self._is_asked = False
        self._is_late = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hear a SIGTERM, and have it wait for the next step."""
        self._before = signal.getsignal(signal.SIGTERM)
        if self._before is None or self._before is signal.SIG_IGN:  # not Python's business, or nobody's
            yield
            return
        signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGTERM) == self._on_signal:
                signal.signal(signal.SIGTERM, self._before)
            if self._is_asked:  # an error has come in between
                self._go()

    def asked(self) -> Callable[[], object] | None:
        """None; or what ends the process, once the training is saved."""
        if self._is_asked:
            return self._go
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            if self._request.exists():
                return self._vanish
        return None

    def leave_if_asked(self, saver: Saver) -> None:
        """At the end of a training."""
        leave = self.asked()
        if leave is not None:
            saver.wait()
            leave()

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._is_late:
            self._go()
        elif not self._is_asked:
            self._is_asked = True
            timer = threading.Timer(_GRACE, self._overdue)
            timer.daemon = True
            timer.start()

    def _overdue(self) -> None:
        if self._is_asked:
            self._is_late = True
            if self._before is signal.SIG_DFL:  # a handler of Python's would wait for what takes so long
                ctypes.CDLL(None).signal(signal.SIGTERM, 0)
            os.kill(os.getpid(), signal.SIGTERM)

    def _go(self) -> None:
        """What a SIGTERM does without us."""
        self._is_asked = self._is_late = False
        signal.signal(signal.SIGTERM, self._before)
        os.kill(os.getpid(), signal.SIGTERM)

    def _vanish(self) -> None:
        """End at once: the supervisor starts the script again."""
        self._tell("left")
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def _callbacks(given: Any) -> list[Any]:
    if isinstance(given, keras.callbacks.CallbackList):
        return list(given.callbacks)
    return keras.tree.flatten(given) if given else []


@contextmanager
def _also(bound: inspect.BoundArguments, one: Any) -> Iterator[None]:
    """Give `fit` one more callback, at the end of the others."""
    given = bound.arguments["callbacks"]
    if not isinstance(given, keras.callbacks.CallbackList):
        bound.arguments["callbacks"] = [*_callbacks(given), one]
        yield
        return
    given.callbacks.append(one)
    try:
        yield
    finally:
        given.callbacks.remove(one)
