"""The distinguished name of a certificate as text, exactly as Java's X500Principal.getName() returns it.

The form is that of RFC 2253. Attributes without a keyword in RFC 2253, such as the mail address, have their
object identifier and their DER encoding in hexadecimal digits: 1.2.840.113549.1.9.1=#1603612e62.

The name is read from its DER encoding, because the text depends on the encoding of each value:

    name         SEQUENCE of relative names; the text has them in reverse order, joined by ","
    relative     SET of attributes, joined by "+"
    attribute    SEQUENCE of the type, an OBJECT IDENTIFIER, and the value

Source: RFC 2253; sun.security.x509.AVA.toRFC2253String.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString
_STRING_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})


class _Value(NamedTuple):
    """One encoded value: its tag, its contents, and all of its bytes."""

    tag: int
    contents: bytes
    encoded: bytes


def distinguished_name(name_der: bytes) -> str:
    """Return the text of an encoded name. Errors: ValueError for an invalid encoding."""
    (name,) = _values(name_der)
    relatives = [
        "+".join(_attribute_text(attribute.contents) for attribute in _values(relative.contents))
        for relative in _values(name.contents)
    ]
    return ",".join(reversed(relatives))


def _values(data: bytes) -> Iterator[_Value]:
    """Yield the values that are encoded one after another in `data`."""
    position = 0
    while position < len(data):
        start = position
        if position + 2 > len(data):
            raise ValueError("a distinguished name is truncated")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[position : position + size], "big")
            position += size
        end = position + length
        if end > len(data):
            raise ValueError("a distinguished name is truncated")
        yield _Value(tag, data[position:end], data[start:end])
        position = end


def _attribute_text(data: bytes) -> str:
    kind, value = _values(data)
    identifier = _object_identifier(kind.contents)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={_escape(value.contents.decode('utf-8', 'replace'))}"


def _object_identifier(contents: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in contents:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    escaped = "".join(
        "\\00" if letter == "\0" else f"\\{letter}" if letter in _ESCAPED else letter for letter in text
    )
    start = len(escaped) - len(escaped.lstrip(_BLANKS))
    end = len(escaped.rstrip(_BLANKS))
    return "".join(
        f"\\{letter}" if position < start or position >= end else letter
        for position, letter in enumerate(escaped)
    )
