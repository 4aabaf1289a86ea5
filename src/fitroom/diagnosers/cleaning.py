"""A raw line of a log → what a person would read in it.

Terminal escapes, control characters, HTML, JSON escapes and comment or quote marks are taken away. What comes out holds
no control character, so that it can be printed on any terminal.
"""

from __future__ import annotations

import re

from fitroom.patterns import Pattern

# CSI, OSC and the other escape sequences of ECMA-48, in full or cut off by the end of the line.
_ESCAPES = Pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,256}(?:\x07|\x1b\\|\x9c)?|\x1b.?"
)
_ESCAPED_ESCAPES = Pattern(r"(?:\\u001[bB]|\\x1[bB]|\\033|\^\[)\[[0-?]*[ -/]*[@-~]")
_CONTROLS = Pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_TAGS = Pattern(
    r"</?(?:a|b|i|p|br|hr|em|li|ul|ol|td|tr|th|tt|div|pre|code|span|font|strong|table|tbody|html|body|samp|kbd)"
    r"(?:\s[^<>]{0,300})?/?>",
    re.IGNORECASE,
)
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&#x27;": "'", "&nbsp;": " ", "&#10;": "\n"}
_MARKS = Pattern(r"[ \t]*(?:(?:#+|>+|\|+|│|//+|;+)[ \t]?)+")
# A line break or tab that was escaped; C:\new and C:\tmp are paths.
_ESCAPED_BREAK = Pattern(r"(?:\\r)?\\n(?![a-z_])")
_ESCAPED_BRACKET = Pattern(r"\\([\[\]])")  # as Markdown has it
_ESCAPED_TAB = Pattern(r"\\t(?![a-z_])")
_BREAKS = Pattern(r"[\r\n\x0b\x0c\x85\u2028\u2029]|\x08+")


def cleaned(raw: bytes) -> list[str]:
    """The lines that one raw line holds: progress bars write several over each other, JSON escapes their breaks."""
    text = raw.decode("utf-8", "replace")
    if "\\" in text or "^[" in text:
        text = _ESCAPED_ESCAPES.sub("", text)
        text = _ESCAPED_TAB.sub("\t", _ESCAPED_BREAK.sub("\n", text)).replace('\\"', '"')
        text = _ESCAPED_BRACKET.sub(lambda mark: mark[1], text)
    if "<" in text:
        text = _TAGS.sub("", text)
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
        text = text.replace("&amp;", "&")
    text = _ESCAPES.sub("", text)
    return [unmarked(_CONTROLS.sub("", part)) for part in _BREAKS.split(text)]


def unmarked(line: str) -> str:
    """The line without the marks of a comment or quotation that it begins with."""
    mark = _MARKS.match(line)
    return line[mark.end() :] if mark else line


def printable(text: str) -> str:
    """`text` as it can be shown on any terminal, on one line."""
    return " ".join(_CONTROLS.sub("", _ESCAPES.sub("", text)).split())
