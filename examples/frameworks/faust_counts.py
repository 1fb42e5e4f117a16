"""Faust: counts of words in a table, which is stored in a changelog topic."""

from __future__ import annotations

import asyncio
import sys
import tempfile

import faust

WORDS = ["high", "low", "high", "slack", "high"]
app = faust.App(
    "faust-counts",
    broker=f"kafka://{sys.argv[1]}",
    datadir=tempfile.mkdtemp(),
    web_enabled=False,
    topic_partitions=1,
)
# Faust creates topics that are internal; others must exist before.
words = app.topic("faust-words", key_type=str, value_type=str, partitions=1, internal=True)
counts = app.Table("faust-table", default=int, partitions=1)
results: dict[str, int] = {}
is_complete = asyncio.Event()


@app.agent(words)
async def count(stream: faust.Stream[str]) -> None:
    """Count each word."""
    async for word in stream:
        counts[word] += 1
        results[word] = counts[word]
        if sum(results.values()) >= len(WORDS):
            is_complete.set()


async def main() -> None:
    """Run the application until all words are counted."""
    app.finalize()
    await app.start()
    for word in WORDS:
        await words.send(key=word, value=word)
    await is_complete.wait()
    await app.stop()
    print("counts", dict(sorted(results.items())))


if __name__ == "__main__":
    asyncio.run(main())
