"""The generator of decoders: one Python function per struct, for one version of one message.

A decoder takes a buffer, a position and the size of the buffer. It returns the struct and the position after
it. Adjacent fields of fixed width are unpacked by one call, together with the first byte or the length of the
field that follows.

Bounds. Positions only increase, and slices end with the buffer. So a length that exceeds the buffer takes no
memory, and the outermost caller detects it: it compares the last position with the size. A count is compared
with the remaining bytes before any element is decoded.

In steps. `compile_decoder_in_steps` generates generator functions, for large requests. They yield the number
of elements after every few elements (`tidelog.protocol.steps`). A long field of bytes is copied in steps that
yield None.

Speed. Setting the fields of a frozen dataclass takes six times as long as those of an ordinary one (measured:
1.0 and 0.16 us for seven fields). Therefore the fields are set on an instance of a mutable class with the
same slots. The complete instance becomes one of the frozen class before it is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tidelog.protocol.codec_plan import FIXED_BYTES, UUID_CODE, FieldPlan, StructPlan
from tidelog.protocol.codec_runtime import NAMES, SMALL_ARRAY, array_unpackers
from tidelog.protocol.primitives import Buffer
from tidelog.protocol.schema import Array, Nested, Records, String, Struct
from tidelog.protocol.source_writer import SourceWriter
from tidelog.protocol.steps import BYTES_PER_STEP

Decoder = Callable[[Buffer, int, int], tuple[Any, int]]
DecoderInSteps = Callable[[Buffer, int, int], Generator[int | None, None, tuple[Any, int]]]

ELEMENTS_PER_STEP: Final = 16
"""The number of elements without inner arrays that are decoded in one step."""
NUMBERS_PER_STEP: Final = 4096
"""The number of array elements of fixed width that are decoded in one step."""


def compile_decoder(plan: StructPlan) -> Decoder:
    """Return a function that decodes one message of `plan`.

    For damaged data the function raises DecodeError, struct.error, IndexError or UnicodeDecodeError, or
    returns a position beyond the end of the buffer.
    """
    source = SourceWriter(f"decoder of {plan.name} version {plan.version}", dict(NAMES))
    for part in plan.nested():
        _StructDecoder(source, part).write()
    return source.compile(f"decode_{plan.name}")


def compile_decoder_in_steps(plan: StructPlan) -> DecoderInSteps:
    """Return a generator function that decodes like the function of `compile_decoder`, in steps.

    It yields numbers of elements before these take much memory, so that the caller can limit their sum.
    """
    source = SourceWriter(f"decoder in steps of {plan.name} version {plan.version}", dict(NAMES))
    for part in plan.nested():
        _StructDecoder(source, part, in_steps=part.has_steps or part is plan).write()
    return source.compile(f"decode_{plan.name}")


def _mutable_twin(cls: type[Struct]) -> type:
    """Return a mutable class with the slots of `cls`, whose instances can become instances of `cls`."""
    ordinary = {name: getattr(object, name) for name in ("__init__", "__setattr__", "__delattr__")}
    return type(f"Mutable{cls.__name__}", cls.__bases__, {"__slots__": cls.__slots__, **ordinary})


class _StructDecoder:
    """Writes the decoder of one struct; `_run` collects the targets of the next unpack call."""

    def __init__(self, source: SourceWriter, plan: StructPlan, *, in_steps: bool = False) -> None:
        self._source = source
        self._plan = plan
        self._in_steps = in_steps
        self._run: list[tuple[str, str]] = []

    def write(self) -> None:
        """Append the function to the source."""
        line = self._source.line
        mutable = self._source.bind(f"Mutable{self._plan.name}", _mutable_twin(self._plan.cls))
        frozen = self._source.bind(self._plan.name, self._plan.cls)
        with self._source.block(f"def decode_{self._plan.name}(b, p, size):"):
            line(f'"""{self._plan.name} in version {self._plan.version}."""')
            line(f"o = {mutable}()")
            for field in (*self._plan.absent, *self._plan.tagged):
                self._set_default(field)
            for field in self._plan.ordinary:
                self._field(field)
            if self._plan.flexible:
                self._tagged_fields()
            self._flush()
            line(f"o.__class__ = {frozen}")
            if self._in_steps:
                line("yield 1")
            line("return o, p")

    def _set_default(self, field: FieldPlan) -> None:
        default = field.default
        if isinstance(default, bool | int | float | str | bytes | None) or default == ():
            self._source.line(f"o.{field.name} = {default!r}")
        else:
            name = self._source.bind(f"{self._plan.name}_{field.name}", default)
            self._source.line(f"o.{field.name} = {name}")

    def _field(self, field: FieldPlan) -> None:
        if field.fixed_code is not None:
            self._run.append((field.fixed_code, f"o.{field.name}"))
        elif isinstance(field.kind, Nested):
            self._nested(field)
        elif isinstance(field.kind, Array):
            self._array(field)
        else:
            self._text_or_bytes(field)

    def _flush(self) -> None:
        """Write the unpack call for the collected fields of fixed width."""
        if not self._run:
            return
        line = self._source.line
        codes = [code for code, _ in self._run]
        targets = [target for _, target in self._run]
        self._run.clear()
        if codes == ["B"]:
            line(f"{targets[0]} = b[p]")
            line("p += 1")
            return
        unpack = self._source.bind_unpack("".join(codes))
        line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(b, p)")
        line(f"p += {sum(FIXED_BYTES[code] for code in codes)}")
        for code, target in zip(codes, targets, strict=True):
            if code == UUID_CODE:
                line(f"{target} = read_uuid({target})")

    @contextmanager
    def _length(self, field: FieldPlan) -> Iterator[None]:
        """Write the code that reads the prefix of `field` to `n`; the block handles a value that is not null.

        A compact `n` is the length plus one, and 0 for null. Otherwise `n` is the length, and -1 for null.
        """
        line, block = self._source.line, self._source.block
        self._run.append((field.prefix_code, "n"))
        self._flush()
        if field.compact:
            with block("if n > 127:"):
                line(f"n, p = {_long_length(field)}(b, p - 1)")
        refusal = f'raise null_error("{self._plan.name}.{field.name}", n, p)'
        if not field.nullable:
            with block("if n == 0:" if field.compact else "if n < 0:"):
                line(refusal)
            yield
            return
        with block("if n == 0:" if field.compact else "if n == -1:"):
            line(f"o.{field.name} = None")
        if not field.compact:
            with block("elif n < 0:"):
                line(refusal)
        with block("else:"):
            yield

    def _call(self, struct: StructPlan) -> str:
        """Return the source of an expression: the `struct` at position `p`, and the position after it."""
        call = f"decode_{struct.name}(b, p, size)"
        return f"yield from {call}" if self._in_steps and struct.has_steps else call

    def _nested(self, field: FieldPlan) -> None:
        assert field.struct is not None
        line = self._source.line
        decode = f"o.{field.name}, p = {self._call(field.struct)}"
        if not field.nullable:
            self._flush()
            line(decode)
            return
        self._run.append((field.prefix_code, "n"))
        self._flush()
        with self._source.block("if n <= 0:" if field in self._plan.tagged else "if n < 0:"):
            line(f"o.{field.name} = None")
        with self._source.block("else:"):
            line(decode)

    def _text_or_bytes(self, field: FieldPlan) -> None:
        with self._length(field):
            self._source.line("e = p + n - 1" if field.compact else "e = p + n")
            if self._in_steps and field.is_copied:
                with self._source.block(f"if e - p > {BYTES_PER_STEP}:"):
                    self._source.line(f"o.{field.name} = yield from copied(b[p:e])")
                with self._source.block("else:"):
                    self._source.line(f"o.{field.name} = {_slice(field)}")
            else:
                self._source.line(f"o.{field.name} = {_slice(field)}")
            self._source.line("p = e")

    def _array(self, field: FieldPlan) -> None:
        with self._length(field):
            if field.compact:
                self._source.line("n -= 1")
            code = field.element_code
            if code is not None and code != UUID_CODE:
                self._numbers(field, code)
                return
            self._check_count(field)
            if code == UUID_CODE:
                self._source.line("e = p + n * 16")
                self._source.line(
                    f"o.{field.name} = tuple([read_uuid(bytes(b[i : i + 16])) for i in range(p, e, 16)])"
                )
                self._source.line("p = e")
                return
            self._source.line("v = []")
            with self._source.block("for _ in range(n):"):
                if field.struct is not None:
                    self._source.line(f"item, p = {self._call(field.struct)}")
                    self._source.line("v.append(item)")
                else:
                    self._text_element(field.element())
                if self._in_steps and (field.struct is None or not field.struct.has_steps):
                    with self._source.block(f"if not len(v) % {ELEMENTS_PER_STEP}:"):
                        self._source.line(f"yield {ELEMENTS_PER_STEP}")
            self._source.line(f"o.{field.name} = tuple(v)")

    def _check_count(self, field: FieldPlan) -> None:
        with self._source.block(f"if n * {field.least_element_bytes} > size - p:"):
            self._source.line(f'raise count_error("{self._plan.name}.{field.name}", n, size - p)')

    def _numbers(self, field: FieldPlan, code: str) -> None:
        # unpack_from checks the number of bytes first, so the count needs no check.
        unpackers = self._source.bind("unpackers_" + code.replace("?", "bool"), array_unpackers(code))
        with self._source.block(f"if n < {SMALL_ARRAY}:"):
            self._source.line(f"o.{field.name} = {unpackers}[n](b, p)")
        if self._in_steps:
            with self._source.block(f"elif n > {NUMBERS_PER_STEP}:"):
                self._check_count(field)
                self._source.line("v = []")
                with self._source.block(f"for i in range(0, n, {NUMBERS_PER_STEP}):"):
                    self._source.line(f"k = min({NUMBERS_PER_STEP}, n - i)")
                    self._source.line("yield k")
                    self._source.line(f'v += unpack_from(f">{{k}}{code}", b, p + i * {FIXED_BYTES[code]})')
                self._source.line(f"o.{field.name} = tuple(v)")
        with self._source.block("else:"):
            self._source.line(f'o.{field.name} = unpack_from(f">{{n}}{code}", b, p)')
        self._source.line(f"p += n * {FIXED_BYTES[code]}")

    def _text_element(self, element: FieldPlan) -> None:
        line, block = self._source.line, self._source.block
        if element.compact:
            line("n = b[p]")
            line("p += 1")
            with block("if n > 127:"):
                line(f"n, p = {_long_length(element)}(b, p - 1)")
        else:
            line(f"n = {self._source.bind_unpack(element.prefix_code)}(b, p)[0]")
            line(f"p += {FIXED_BYTES[element.prefix_code]}")
        with block("if n == 0:" if element.compact else "if n < 0:"):
            line(f'raise null_error("{self._plan.name}.{element.name}", n, p)')
        line("e = p + n - 1" if element.compact else "e = p + n")
        line(f"v.append({_slice(element)})")
        line("p = e")

    def _tagged_fields(self) -> None:
        line, block = self._source.line, self._source.block
        self._run.append(("B", "n"))
        self._flush()
        if not self._plan.tagged:
            with block("if n:"):
                line("p = skip_tagged_fields(b, p - 1)")
            return
        with block("if n:"):
            line("count, p = read_tag_count(b, p - 1)")
            with block("for _ in range(count):"):
                line("tag, p = read_unsigned_varint(b, p)")
                line("length, p = read_unsigned_varint(b, p)")
                line("end = p + length")
                for number, field in enumerate(self._plan.tagged):
                    with block(f"{'elif' if number else 'if'} tag == {field.kind.tag}:"):
                        self._field(field)
                        self._flush()
                        with block("if p != end:"):
                            line(f'raise tag_size_error("{self._plan.name}.{field.name}", tag, p, end)')
                with block("else:"):
                    line("p = end")


def _long_length(field: FieldPlan) -> str:
    """Return the name of the function that reads a compact length of more than one byte."""
    return "read_string_length" if isinstance(field.kind, String) else "read_unsigned_varint"


def _slice(field: FieldPlan) -> str:
    """Return the source of an expression: the value between `p` and `e`."""
    if isinstance(field.kind, String):
        return 'str(b[p:e], "utf-8")'
    return "b[p:e]" if isinstance(field.kind, Records) else "bytes(b[p:e])"
