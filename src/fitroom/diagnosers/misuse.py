"""Errors of a training on several devices that memory has no part in: the words by which they are known.

A strategy that was used wrongly raises them where others run out, and people bring them as logs of that. Nothing ran
out then, and `fitroom.oom` does not know them; why it failed is told all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from fitroom.diagnosers.failures import PROGRESS
from fitroom.patterns import Pattern

OUTSIDE_SCOPE = "outside-scope"
XLA_OVER_REPLICAS = "xla-over-replicas"

# distribute_lib.py and mirrored_strategy.py of TensorFlow 2; the last two are Keras 2's, in compile.
_OUTSIDE_SCOPE = Pattern(
    r"Error:\s+(?:"
    r"Need\s+to\s+be\s+inside\s+\"with\s+strategy\.scope\(\)\""
    r"|Mixing\s+different\s+tf\.distribute\.Strategy\s+objects"
    r"|`colocate_vars_with`\s+must\s+only\s+be\s+passed\s+a\s+variable\s+created\s+in\s+this\s+tf\.distribute\.Strategy"
    r"|Trying\s+to\s+create\s+optimizer\s+slot\s+variable\s+under\s+the\s+scope)"
    r"|was\s+not\s+created\s+in\s+the\s+distribution\s+strategy\s+scope\s+of\s+\("
    r"|was\s+created\s+inside\s+of\s+a\s+different\s+distribution\s+strategy\s+scope\s+than\s+the\s+model"
    # Keras 3, where the optimizer has no slots that would have to be made.
    r"|\bin _distributed_tf_update_step\b[^\n]{0,200}\n[^\n]{0,200}extended\.update\([^\n]{0,200}\n"
    r"(?:[ ^~]{1,200}\n)?\s*AssertionError\b"
)
# XLA's bridge, of a variable that lies on another replica; a variable on the host is another matter.
_XLA_OVER_REPLICAS = Pattern(
    r"Trying\s+to\s+access\s+resource\s+\S*replica_\d[^\n]{0,600}?located\s+in\s+device\s+\S+\s+from\s+device\s+\S+"
    r"|Trying\s+to\s+access\s+resource\s[^\n]{0,600}?located\s+in\s+device\s+\S*?([CG]PU):\d+\s+from\s+device\s+\S*?\1:\d+"
)


class Misuse(NamedTuple):
    """What was done wrong, and where in the text the words of it begin and end."""

    code: str
    start: int
    end: int


def found(text: str) -> Misuse | None:
    """The last such error in a text, where no training went on after it."""
    errors = [
        Misuse(code, match.start(), match.end())
        for code, pattern in ((OUTSIDE_SCOPE, _OUTSIDE_SCOPE), (XLA_OVER_REPLICAS, _XLA_OVER_REPLICAS))
        for match in pattern.finditer(text)
    ]
    last = max(errors, key=lambda one: one.start, default=None)
    return last if last and not PROGRESS.search(text[last.end :]) else None
