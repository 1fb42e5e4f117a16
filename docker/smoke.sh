#!/usr/bin/env bash
# Smoke test of the compose cluster: three nodes start, and no record is lost when any one of them is killed.
# It needs a Docker engine and .venv (make install). Without an engine it prints the reason and exits with 0.
# STOP_SECONDS_MAX is how long three nodes may take to stop: 3, or more on a machine with other work.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
    echo "SKIPPED: no Docker engine is available (docker info fails)"
    exit 0
fi
if ! docker compose version >/dev/null 2>&1; then
    echo "SKIPPED: the docker client has no compose plugin (docker compose version fails)"
    exit 0
fi

COMPOSE=(docker compose -f docker/compose.yaml)
TIDELOG=(.venv/bin/tidelog)
ALL=localhost:19092,localhost:19093,localhost:19094
RECORDS=20000
STOP_SECONDS_MAX=${STOP_SECONDS_MAX:-3}
WORK=$(mktemp -d)

finish() {
    code=$?
    if [ "$code" -ne 0 ]; then
        echo "FAILED; the last log lines of the nodes:"
        "${COMPOSE[@]}" logs --tail 30 || true
    fi
    # A consumer in the background, which waits up to 30 s for a node if it is only asked to stop.
    jobs -p | xargs -r kill -9 2>/dev/null || true
    docker rm -f tidelog-smoke kafka-1 kafka-2 kafka-3 >/dev/null 2>&1 || true
    docker network rm tidelog-smoke >/dev/null 2>&1 || true
    "${COMPOSE[@]}" down -v --timeout 20 >/dev/null 2>&1 || true
    rm -rf "$WORK"
    exit "$code"
}
trap finish EXIT

step() { printf '\n== %s\n' "$*"; }

# Wait until a command succeeds. Arguments: timeout in seconds, description, command.
wait_for() {
    local deadline=$((SECONDS + $1)) description=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "timeout while waiting for $description"
            return 1
        fi
        sleep 0.5
    done
}

is_fully_replicated() {
    [ "$("${TIDELOG[@]}" cluster info -b "$ALL" --json | python3 -c '
import json, sys
state = json.load(sys.stdin)
print(len(state["brokers"]), state["without_leader"], state["under_replicated"])')" = "3 0 0" ]
}

is_stable() { "${TIDELOG[@]}" group describe "$1" -b "$ALL" | grep -q '^state  *Stable$'; }

produce() { seq "$1" "$2" | "${TIDELOG[@]}" produce smoke -b "$ALL"; }

# Check that the cluster returns the numbers from 1 to $2, each once. $1 is the bootstrap server.
consume_all() {
    "${TIDELOG[@]}" consume smoke -b "$1" -o beginning -e >"$WORK/read"
    sort -n "$WORK/read" | uniq >"$WORK/sorted"
    cmp "$WORK/sorted" <(seq 1 "$2") && [ "$(wc -l <"$WORK/read")" -eq "$2" ]
}

# Run a command in a container; it must exit with the code $1 and print one line, not a traceback.
fails_in_one_line() {
    local expected=$1 code=0
    shift
    "${COMPOSE[@]}" exec -T node1 "$@" >"$WORK/failure" 2>&1 || code=$?
    if [ "$code" -ne "$expected" ] || [ "$(wc -l <"$WORK/failure")" -ne 1 ]; then
        echo "'$*' exited with $code (expected $expected) and printed:"
        cat "$WORK/failure"
        return 1
    fi
    echo "ok: $(cat "$WORK/failure")"
}

step "start"
"${COMPOSE[@]}" up -d --build --wait
wait_for 60 "three brokers" is_fully_replicated

step "failing commands in the image print one line, and no traceback"
# The advertised addresses of the listener CLIENT are those of the host: requests to a certain node use INTERNAL.
fails_in_one_line 1 tidelog topic describe nowhere -b localhost:9092
fails_in_one_line 1 tidelog topic create 'not a name' -b node1.cluster:9091
grep -q INVALID_TOPIC_EXCEPTION "$WORK/failure"
fails_in_one_line 1 tidelog cluster info -b localhost:1
fails_in_one_line 1 tidelog config set broker 1 num.partitions=7 -b node1.cluster:9091
fails_in_one_line 2 tidelog config set topic nowhere -b localhost:9092
fails_in_one_line 2 tidelog topic nonsense
fails_in_one_line 2 tidelog log dump /nowhere
fails_in_one_line 1 tidelog storage info --config /nowhere
fails_in_one_line 1 tidelog spark stats nowhere -b localhost:9092
fails_in_one_line 2 python -m tidelog.broker --config /nowhere

step "one container with the image's defaults: the host reaches it; Kafka's tools by their names; a stop in time"
docker run --rm -d --name tidelog-smoke -p 127.0.0.1:9092:9092 tidelog:dev >/dev/null
one_node() { "${TIDELOG[@]}" "$@" -b localhost:9092; }
wait_for 30 "the broker of the container" one_node topic list
echo hello | one_node produce greetings
[ "$(one_node consume greetings -g smoke -n 1)" = hello ]
[ "$(docker exec tidelog-smoke /opt/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list \
    --exclude-internal)" = greetings ]
stopped=$SECONDS
docker stop tidelog-smoke >/dev/null
[ $((SECONDS - stopped)) -le "$STOP_SECONDS_MAX" ]

step "a volume that belongs to root is explained"
mkdir "$WORK/volume"
chmod 755 "$WORK/volume"
docker run --rm -v "$WORK/volume:/var/lib/tidelog" tidelog:dev 2>"$WORK/failure" && exit 1
grep "belongs to user .*, and the broker runs as user 10001" "$WORK/failure"

step "the environment for three nodes that the apache/kafka image documents, and a health check by kafka-topics.sh"
docker network create tidelog-smoke >/dev/null
# These ports are below the range from which the kernel selects ports for outgoing connections.
for node in 1 2 3; do
    docker run -d --name "kafka-$node" --network tidelog-smoke -p "127.0.0.1:$((29091 + node)):9092" \
        -e KAFKA_NODE_ID="$node" \
        -e KAFKA_PROCESS_ROLES=broker,controller \
        -e KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT \
        -e KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093 \
        -e KAFKA_LISTENERS=PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092 \
        -e KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT \
        -e KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka-$node:19092,PLAINTEXT_HOST://localhost:$((29091 + node))" \
        -e KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER \
        -e CLUSTER_ID=4L6g3nShT-eMCtK--X86sw \
        -e KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1 \
        -e KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0 \
        -e KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1 \
        -e KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1 \
        -e KAFKA_LOG_DIRS=/tmp/kraft-combined-logs \
        tidelog:dev >/dev/null
done
kafka_topics() { docker exec kafka-1 /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka-1:19092 "$@"; }
wait_for 60 "three nodes with the environment of apache/kafka" \
    kafka_topics --create --topic greetings --partitions 3 --replication-factor 3
echo hello | "${TIDELOG[@]}" produce greetings -b localhost:29092,localhost:29093,localhost:29094
[ "$("${TIDELOG[@]}" consume greetings -o beginning -e -b localhost:29093)" = hello ]
docker rm -f kafka-1 kafka-2 kafka-3 >/dev/null
docker network rm tidelog-smoke >/dev/null

step "a topic of 6 partitions and 3 replicas, $RECORDS records"
"${TIDELOG[@]}" topic create smoke -p 6 -r 3 -b "$ALL"
produce 1 "$RECORDS"
consume_all "$ALL" "$RECORDS"

written=$RECORDS
for node in node1 node2 node3; do
    step "kill $node; the other two nodes continue"
    "${COMPOSE[@]}" kill "$node"
    produce $((written + 1)) $((written + RECORDS))
    written=$((written + RECORDS))
    consume_all "$ALL" "$written"
    step "$node restarts and catches up"
    "${COMPOSE[@]}" start "$node"
    wait_for 60 "all replicas in sync" is_fully_replicated
done

step "stop all nodes in time while a member of a group waits for records; no error is logged; start them"
"${TIDELOG[@]}" consume smoke -b "$ALL" -g waiting >/dev/null 2>&1 &
waiting=$!
wait_for 30 "a stable group" is_stable waiting
stopped_at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
stopped=$SECONDS
"${COMPOSE[@]}" stop
echo "stopped in $((SECONDS - stopped)) s"
[ $((SECONDS - stopped)) -le "$STOP_SECONDS_MAX" ]
kill "$waiting" 2>/dev/null || true
if "${COMPOSE[@]}" logs --no-color --since "$stopped_at" | grep -E 'level=ERROR|Traceback|never retrieved'; then
    exit 1
fi
"${COMPOSE[@]}" up -d --wait
wait_for 60 "all replicas in sync" is_fully_replicated
consume_all "$ALL" "$written"

step "passed: $written records, each consumed once; each node was killed once"
