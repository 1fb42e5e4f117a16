"""Small random changes of valid bytes."""

from __future__ import annotations

from random import Random

HUGE = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xfe\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x00\xff\xff\xff",
    b"\x7f\xff",
)
"""The largest, smallest and overlong forms of compact, int32 and int16 lengths."""


def mutate(data: bytes, random: Random) -> bytes:
    """Return `data` with one to three small changes."""
    frame = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(frame) + 1)
        match random.randrange(5):
            case 0:
                frame[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                frame[at:at] = random.randbytes(random.randint(1, 4))
            case 2:
                del frame[at : at + random.randint(1, 4)]
            case 3:
                frame[at : at + 4] = random.choice(HUGE)
            case 4:
                frame[at : at + 1] = random.choice((b"\0", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff"))
    return bytes(frame)
