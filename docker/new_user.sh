#!/usr/bin/env bash
# A new user in a clean container that has only Python: installs this checkout, and runs every command of README and
# tutorial with its expected output. It needs a Docker engine. Without one it prints the reason and exits with 0.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
    echo "SKIPPED: no Docker engine is available (docker info fails)"
    exit 0
fi

git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- |
    docker run --rm --interactive "${IMAGE:-python:3.11-slim-bookworm}" bash -e -c '
        useradd --create-home --shell /bin/bash newcomer
        mkdir /home/newcomer/checkout
        tar --extract --no-same-owner --directory /home/newcomer/checkout
        chown -R newcomer /home/newcomer/checkout
        cd /home/newcomer/checkout
        exec su newcomer -c "python -m tests.harness.new_user"'
