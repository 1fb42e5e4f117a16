"""The generator of encoders: one Python function per struct, for one version of one message.

Adjacent fields of fixed width are packed by one call, and so is a following length of fixed width. This is
the beginning of a generated function (MetadataResponseBroker, version 12):

    def encode_MetadataResponseBroker(m, out):
        out += pack_i(m.node_id)
        v = m.host.encode()
        n = len(v)
        ...

In steps. `compile_encoder_in_steps` generates generator functions for structs with arrays or bytes, for
large messages. They yield after every few elements, and copy long bytes in steps (`tidelog.protocol.steps`).
Tagged fields are encoded in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tidelog.protocol.codec_plan import UUID_CODE, FieldPlan, StructPlan
from tidelog.protocol.codec_runtime import NAMES, SMALL_ARRAY, array_packers
from tidelog.protocol.schema import Array, Nested, String
from tidelog.protocol.source_writer import SourceWriter
from tidelog.protocol.steps import BYTES_PER_STEP

Encoder = Callable[[Any, bytearray], None]
EncoderInSteps = Callable[[Any, bytearray], Generator[None, None, None]]

ELEMENTS_PER_STEP: Final = 16
"""The number of elements without inner arrays that are encoded in one step."""

_LARGEST_ONE_BYTE_LENGTH = 126


def compile_encoder(plan: StructPlan) -> Encoder:
    """Return a function that appends a message of `plan` to a bytearray.

    The function raises ValueError, TypeError, AttributeError or struct.error for a value that the version
    cannot express. It may then have appended a part of the message.
    """
    source = SourceWriter(f"encoder of {plan.name} version {plan.version}", dict(NAMES))
    for part in plan.nested():
        _StructEncoder(source, part).write()
    return source.compile(f"encode_{plan.name}")


def compile_encoder_in_steps(plan: StructPlan) -> EncoderInSteps:
    """Return a generator function that encodes like the function of `compile_encoder`, in steps."""
    source = SourceWriter(f"encoder in steps of {plan.name} version {plan.version}", dict(NAMES))
    tagged = {part.cls for outer in plan.nested() for field in outer.tagged for part in _structs(field)}
    for part in plan.nested():
        if part.cls in tagged or not (part.has_steps or part is plan):
            _StructEncoder(source, part).write()
        if part.has_steps or part is plan:
            _StructEncoder(source, part, in_steps=True).write()
    return source.compile(f"steps_of_{plan.name}")


def _structs(field: FieldPlan) -> list[StructPlan]:
    return [] if field.struct is None else field.struct.nested()


class _StructEncoder:
    """Writes the encoder of one struct; `_run` collects the arguments of the next pack call."""

    def __init__(self, source: SourceWriter, plan: StructPlan, *, in_steps: bool = False) -> None:
        self._source = source
        self._plan = plan
        self._in_steps = in_steps
        self._run: list[tuple[str, str]] = []
        self._out = "out"

    def write(self) -> None:
        """Append the function, and a second one for the tagged fields if there are any."""
        name = f"{'steps_of' if self._in_steps else 'encode'}_{self._plan.name}"
        with self._source.block(f"def {name}(m, out):"):
            self._source.line(f'"""{self._plan.name} in version {self._plan.version}."""')
            for field in self._plan.absent:
                self._refuse_absent(field)
            for field in self._plan.ordinary:
                self._field(field)
            self._flush()
            self._tagged_fields()
            if self._in_steps:
                self._source.line("yield")
        if self._plan.tagged:
            self._write_tagged_encoder()

    def _refuse_absent(self, field: FieldPlan) -> None:
        if not field.kind.ignorable:
            with self._source.block(f"if {self._differs(field)}:"):
                self._source.line(f'raise ValueError("{field.name}")')

    def _differs(self, field: FieldPlan) -> str:
        """Return the source of a condition: the value of `field` is not the default."""
        if field.default is None:
            return f"m.{field.name} is not None"
        if isinstance(field.default, bool | int | float | str | bytes) or field.default == ():
            return f"m.{field.name} != {field.default!r}"
        default = self._source.bind(f"{self._plan.name}_{field.name}", field.default)
        return f"(m.{field.name} is not {default} and m.{field.name} != {default})"

    def _tagged_fields(self) -> None:
        if not self._plan.flexible:
            return
        if not self._plan.tagged:
            self._source.line("out.append(0)")
            return
        with self._source.block(f"if {' or '.join(self._differs(field) for field in self._plan.tagged)}:"):
            self._source.line(f"encode_{self._plan.name}_tagged_fields(m, out)")
        with self._source.block("else:"):
            self._source.line("out.append(0)")

    def _write_tagged_encoder(self) -> None:
        self._out, self._in_steps = "body", False
        with self._source.block(f"def encode_{self._plan.name}_tagged_fields(m, out):"):
            self._source.line("count = 0")
            self._source.line("tags = bytearray()")
            for field in self._plan.tagged:
                with self._source.block(f"if {self._differs(field)}:"):
                    self._source.line("count += 1")
                    self._source.line("body = bytearray()")
                    self._field(field)
                    self._flush()
                    self._source.line(f"write_tagged_field(tags, {field.kind.tag}, body)")
            self._source.line("write_unsigned_varint(out, count)")
            self._source.line("out += tags")

    def _field(self, field: FieldPlan) -> None:
        if field.fixed_code is not None:
            bytes_of = ".bytes" if field.fixed_code == UUID_CODE else ""
            self._run.append((field.fixed_code, f"m.{field.name}{bytes_of}"))
        elif isinstance(field.kind, Nested):
            self._nested(field)
        elif isinstance(field.kind, Array):
            self._array(field)
        else:
            self._text_or_bytes(field)

    def _flush(self) -> None:
        """Write the pack call for the collected fields of fixed width."""
        if self._run:
            pack = self._source.bind_pack("".join(code for code, _ in self._run))
            self._source.line(f"{self._out} += {pack}({', '.join(value for _, value in self._run)})")
            self._run.clear()

    def _nested(self, field: FieldPlan) -> None:
        assert field.struct is not None
        self._flush()
        if not field.nullable:
            self._source.line(self._call(field.struct, f"m.{field.name}"))
            return
        # The mark of null is an int8 of -1, but an unsigned varint of 0 in a tagged field.
        null = "\\0" if field in self._plan.tagged else "\\xff"
        with self._source.block(f"if m.{field.name} is None:"):
            self._source.line(f"{self._out} += b'{null}'")
        with self._source.block("else:"):
            self._source.line(f"{self._out} += b'\\x01'")
            self._source.line(self._call(field.struct, f"m.{field.name}"))

    def _call(self, struct: StructPlan, value: str) -> str:
        """Return the source of a statement that appends `value`."""
        if self._in_steps and struct.has_steps:
            return f"yield from steps_of_{struct.name}({value}, {self._out})"
        return f"encode_{struct.name}({value}, {self._out})"

    def _text_or_bytes(self, field: FieldPlan) -> None:
        encoded = ".encode()" if isinstance(field.kind, String) else ""
        if field.nullable:
            self._source.line(f"v = m.{field.name}")
            with self._source.block("if v is None:"):
                self._source.line("v = b''")
                self._source.line("n = -1")
            with self._source.block("else:"):
                if encoded:
                    self._source.line("v = v.encode()")
                self._source.line("n = len(v)")
        else:
            self._source.line(f"v = m.{field.name}{encoded}")
            self._source.line("n = len(v)")
        self._length(field, "n")
        if self._in_steps and field.is_copied:
            with self._source.block(f"if n > {BYTES_PER_STEP}:"):
                self._source.line(f"yield from append_in_steps({self._out}, v)")
            with self._source.block("else:"):
                self._source.line(f"{self._out} += v")
        else:
            self._source.line(f"{self._out} += v")

    def _length(self, field: FieldPlan, length: str) -> None:
        """Write a length, -1 for null; a length of fixed width is packed with the collected fields."""
        if not field.compact:
            self._run.append((field.prefix_code, length))
            self._flush()
            return
        self._flush()
        with self._source.block(f"if {length} <= {_LARGEST_ONE_BYTE_LENGTH}:"):
            self._source.line(f"{self._out}.append({length} + 1)")
        with self._source.block("else:"):
            if isinstance(field.kind, String):
                self._source.line(f"write_string_length({self._out}, {length})")
            else:
                self._source.line(f"write_unsigned_varint({self._out}, {length} + 1)")

    def _array(self, field: FieldPlan) -> None:
        self._source.line(f"v = m.{field.name}")
        if field.nullable:
            with self._source.block("if v is None:"):
                self._source.line("v = ()")
                self._source.line("n = -1")
            with self._source.block("else:"):
                self._source.line("n = len(v)")
        else:
            self._source.line("n = len(v)")
        self._length(field, "n")
        code = field.element_code
        if field.struct is not None:
            with self._elements(has_steps=field.struct.has_steps):
                self._source.line(self._call(field.struct, "item"))
        elif code == UUID_CODE:
            with self._elements():
                self._source.line(f"{self._out} += item.bytes")
        elif code is not None:
            self._numbers(code)
        else:
            self._texts(field.element())

    @contextmanager
    def _elements(self, *, has_steps: bool = False) -> Iterator[None]:
        """Write a loop over the elements of `v`, with steps unless the elements have steps of their own."""
        if not self._in_steps or has_steps:
            with self._source.block("for item in v:"):
                yield
            return
        with self._source.block("for i, item in enumerate(v):"):
            with self._source.block(f"if i % {ELEMENTS_PER_STEP} == {ELEMENTS_PER_STEP - 1}:"):
                self._source.line("yield")
            yield

    def _numbers(self, code: str) -> None:
        packers = self._source.bind("packers_" + code.replace("?", "bool"), array_packers(code))
        with self._source.block(f"if 0 < n < {SMALL_ARRAY}:"):
            self._source.line(f"{self._out} += {packers}[n](*v)")
        with self._source.block("elif n > 0:"):
            self._source.line(f'{self._out} += pack(f">{{n}}{code}", *v)')

    def _texts(self, element: FieldPlan) -> None:
        with self._elements():
            if isinstance(element.kind, String):
                self._source.line("item = item.encode()")
            self._source.line("k = len(item)")
            self._length(element, "k")
            self._source.line(f"{self._out} += item")
