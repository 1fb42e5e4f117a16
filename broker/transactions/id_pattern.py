"""Regular expressions over transactional ids, matched in time linear in the id, as RE2 does.

Python's own matcher goes back and forth, and a pattern of twenty characters could hold the event loop for
hours. This one follows all ways through the pattern at once (Thompson's construction). It knows what lists
of transactions are filtered by: literals, `.`, classes, escapes of characters and classes, groups,
alternatives, `* + ? {m,n}` and `^ $`. Anything else is refused.

Bounds: a pattern has at most `CHARACTERS_MAX` characters, `INSTRUCTIONS_MAX` instructions and groups
`DEPTH_MAX` deep; one id takes at most `STEPS_MAX` steps, about a second.
Source: KIP-1152, which takes RE2's syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from protocol.errors import ErrorCode, KafkaError

CHARACTERS_MAX: Final = 1_000
INSTRUCTIONS_MAX: Final = 5_000
DEPTH_MAX: Final = 50
STEPS_MAX: Final = 1_000_000

_COUNT: Final = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\\\]])*\]")
_ESCAPE: Final = re.compile(r"\\(?:[dDsSwW]|[^a-zA-Z0-9])")
_REPEATED: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Character(NamedTuple):
    """Takes one character that `accepts` does."""

    accepts: re.Pattern[str]


class _Edge(NamedTuple):
    """Takes nothing, at the start or at the end of the id only."""

    is_end: bool


class _Split(NamedTuple):
    """Goes on in two places, relative to this one."""

    first: int
    second: int


_Instruction = _Character | _Edge | _Split
_Program = list[_Instruction]


class IdPattern:
    """A pattern that must match an id whole.

    Errors: KafkaError INVALID_REGULAR_EXPRESSION, also when an id is too long for it.
    """

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise _refused(text, f"more than {CHARACTERS_MAX} characters")
        self._text = text
        parser = _Parser(text)
        self._program = parser.alternatives()
        if parser.position < len(text):
            raise _refused(text, f"{text[parser.position]!r} at {parser.position} has no beginning")

    def matches(self, transactional_id: str) -> bool:
        """Whether the whole id matches."""
        length = len(transactional_id)
        if length * len(self._program) > STEPS_MAX:
            raise _refused(self._text, f"more than {STEPS_MAX} steps for an id of {length} characters")
        places = self._reached([0], 0, length)
        for position, character in enumerate(transactional_id, 1):
            following = []
            for place in places:
                if place < len(self._program):
                    instruction = self._program[place]
                    if isinstance(instruction, _Character) and instruction.accepts.fullmatch(character):
                        following.append(place + 1)
            places = self._reached(following, position, length)
            if not places:
                return False
        return len(self._program) in places

    def _reached(self, places: Iterable[int], position: int, length: int) -> set[int]:
        """Where the pattern may be without taking another character."""
        reached: set[int] = set()
        open_places = list(places)
        while open_places:
            place = open_places.pop()
            if place in reached:
                continue
            reached.add(place)
            instruction = self._program[place] if place < len(self._program) else None
            if isinstance(instruction, _Split):
                open_places += (place + instruction.first, place + instruction.second)
            elif isinstance(instruction, _Edge) and position == (length if instruction.is_end else 0):
                open_places.append(place + 1)
        return reached


class _Parser:
    """Reads a pattern from left to right into instructions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._depth = 0

    def alternatives(self) -> _Program:
        program = self._sequence()
        while self._takes("|"):
            other = self._sequence()
            program = [_Split(1, len(program) + 2), *program, _Split(len(other) + 1, len(other) + 1), *other]
            self._check_size(program)
        return program

    def _sequence(self) -> _Program:
        program: _Program = []
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            program += self._repeated(self._atom())
            self._check_size(program)
        return program

    def _atom(self) -> _Program:
        character = self.text[self.position]
        if self._takes("("):
            if self._takes("?") and not self._takes(":"):
                raise _refused(self.text, "groups have no options")
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise _refused(self.text, f"groups more than {DEPTH_MAX} deep")
            program = self.alternatives()
            self._depth -= 1
            if not self._takes(")"):
                raise _refused(self.text, "a group has no end")
            return program
        if character in "*+?{":
            raise _refused(self.text, f"{character!r} at {self.position} repeats nothing")
        if character in "^$":
            self.position += 1
            return [_Edge(character == "$")]
        return [_Character(self._one_character(character))]

    def _one_character(self, character: str) -> re.Pattern[str]:
        form = {"[": _CLASS, "\\": _ESCAPE}.get(character)
        if form is None:
            self.position += 1
            return re.compile("." if character == "." else re.escape(character), re.ASCII)
        found = form.match(self.text, self.position)
        if found is None:
            raise _refused(self.text, f"{character!r} at {self.position} is not understood")
        self.position = found.end()
        try:
            return re.compile(found[0], re.ASCII)
        except re.error as error:
            raise _refused(self.text, str(error)) from error

    def _repeated(self, program: _Program) -> _Program:
        while self.position < len(self.text):
            character = self.text[self.position]
            counted = _COUNT.match(self.text, self.position)
            if counted is not None:
                lowest = int(counted[1])
                highest = lowest if counted[2] is None else int(counted[3]) if counted[3] else None
                self.position = counted.end()
            elif character in _REPEATED:
                lowest, highest = _REPEATED[character]
                self.position += 1
            else:
                break
            # Greedy or not makes no difference to whether an id matches.
            self._takes("?")
            program = self._times(program, lowest, highest)
        return program

    def _times(self, program: _Program, lowest: int, highest: int | None) -> _Program:
        size = len(program)
        times = lowest + 1 if highest is None else highest
        if highest is not None and highest < lowest:
            raise _refused(self.text, f"at least {lowest} and at most {highest} times")
        if times * (size + 1) > INSTRUCTIONS_MAX:
            raise _refused(self.text, f"more than {INSTRUCTIONS_MAX} instructions")
        if highest is None:
            return [*program * lowest, _Split(1, size + 2), *program, _Split(-size - 1, 1)]
        return [*program * lowest, *[_Split(1, size + 1), *program] * (highest - lowest)]

    def _takes(self, character: str) -> bool:
        if self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def _check_size(self, program: _Program) -> None:
        if len(program) > INSTRUCTIONS_MAX:
            raise _refused(self.text, f"more than {INSTRUCTIONS_MAX} instructions")


def _refused(text: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"pattern {text[:100]!r}: {why}")
