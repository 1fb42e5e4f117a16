# Tidelog: `make help` lists every target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start hundreds of processes. Without bytecode on disk each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: schemas help install lint types imports unit test test-all test-pythons sim demo bench bench-kafka soak hostile failover copying crash-tier soak-tier test-docker test-kafka-tools test-spark-kafka bench-spark-kafka clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

install: $(STAMP) ## make .venv with the pinned dependencies

lint: $(STAMP) ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy: strict over the packages, not strict over tests and benchmarks
	$(BIN)/mypy

imports: $(STAMP) ## the import rule between the packages
	$(BIN)/lint-imports

# Half of the time of a test is spent waiting for sockets, disks and processes: three workers keep two cores busy.
WORKERS ?= 3
PYTEST_PARALLEL := -n $(WORKERS) --dist worksteal

unit: $(STAMP) ## the tests alone
	$(BIN)/pytest $(PYTEST_PARALLEL)

test: lint types imports unit ## everything CI checks

test-all: lint types imports ## `make test` with the long tests and more seeds of the simulators
	TIDELOG_SIM_SEEDS=3000 $(BIN)/pytest $(PYTEST_PARALLEL) -m ''

PYTHONS ?= 3.11 3.12 3.13 3.14

# Each Python gets an environment of its own. One that is not installed is named and passed over.
test-pythons: ## unit and interop tests with each Python from 3.11 to 3.14 that is installed
	@set -e; for version in $(PYTHONS); do \
	  if ! python$$version -c '' 2>/dev/null; then echo "python$$version is not installed: not tested"; continue; fi; \
	  echo "python$$version"; \
	  python$$version -m venv .cache/python-$$version; \
	  .cache/python-$$version/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'; \
	  .cache/python-$$version/bin/pytest $(PYTEST_PARALLEL) -m 'not long and not spark' \
	    tests/unit tests/model tests/scenarios tests/interop; \
	done

sim: $(STAMP) ## the metadata quorum under faults, 100,000 seeds on virtual time
	$(BIN)/python -m tests.sim.quorum.run --seeds 100000

DIRECTORY ?= $(shell $(BIN)/python -c 'import kafka.protocol.schemas as s; print(s.__path__[0])' 2>/dev/null)/resources

schemas: $(STAMP) ## compare our messages with Kafka's JSON definitions in DIRECTORY
	$(BIN)/python -m tests.harness.schemas $(DIRECTORY)

demo: $(STAMP) ## the main job on real text, with restarts, compared byte for byte; a streaming query of Spark
	$(BIN)/python -m tidelog.demo

bench: $(STAMP) ## benchmarks beside their references; tables and JSON in benchmarks/results
	$(BIN)/python -m benchmarks

# `make bench-kafka KAFKA_BENCH='--quick produce'` passes options and suites on.
bench-kafka: $(STAMP) ## Apache Kafka compared with Tidelog, alternating, in about 20 minutes; needs Java 17 and Maven
	mvn -q -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.cache/kafka-tools
	TIDELOG_KAFKA_JARS=$(CURDIR)/.cache/kafka-tools $(BIN)/python -m benchmarks.kafka $(KAFKA_BENCH)

hostile: $(STAMP) ## every known attack on a running broker; blocked time, memory, descriptors, p99 of others
	$(BIN)/python -m tests.harness.hostile

failover: $(STAMP) ## three nodes under load, killed, paused, cut off, restarted; the verdict of the checker
	$(BIN)/python -m tests.harness.failover

copying: $(STAMP) ## 100,000 records copied exactly once while nodes are killed, stopped and paused
	$(BIN)/python -m tests.harness.failover.copying

crash-tier: $(STAMP) ## nodes that end by kill -9 at every step of tiering; each time all is judged
	TIDELOG_CRASHES=all $(BIN)/pytest -v tests/integration/failover/test_deaths_while_tiering.py

test-docker: $(STAMP) ## the compose cluster for real, where there is a Docker engine
	docker/smoke.sh

# With Aiven's RemoteStorageManager in TIDELOG_AIVEN_CLASSPATH (its classes and caffeine, commons-io, bucket4j,
# bcprov; Kafka's own come from Maven) tiered storage is shared with brokers of Apache Kafka, too.
test-kafka-tools: $(STAMP) ## Apache Kafka's tools and brokers with ours; needs Java 17 and Maven (see docs/testing.md)
	mvn -q -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.cache/kafka-tools
	TIDELOG_KAFKA_JARS=$(CURDIR)/.cache/kafka-tools $(BIN)/pytest tests/kafka

# Spark's own Kafka source beside ours. Its jars stay in the cache; the versions are in the pom.
SPARK_KAFKA := TIDELOG_SPARK_KAFKA_JARS=$(CURDIR)/.cache/spark-kafka

.cache/spark-kafka: benchmarks/spark_kafka/pom.xml
	rm -rf $@
	mvn -q -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$@
	@touch $@

test-spark-kafka: $(STAMP) .cache/spark-kafka ## the same rows and offsets as from Spark's Kafka source; needs Maven
	$(SPARK_KAFKA) $(BIN)/pytest tests/spark/kafka_source

bench-spark-kafka: $(STAMP) .cache/spark-kafka ## the Spark benchmarks with Spark's own Kafka source beside; needs Maven
	$(SPARK_KAFKA) $(BIN)/python -m benchmarks spark

soak: $(STAMP) ## ten minutes of load with kill -9 every 20 s
	$(BIN)/python -m tests.harness.soak

soak-tier: $(STAMP) ## 5 GB into an S3 server that fails, is slow and is gone, with kill -9; each byte is read again
	$(BIN)/python -m tests.harness.tier_soak

clean: ## remove what the other targets made
	rm -rf $(VENV) build *.egg-info tidelog-data benchmarks/results .mypy_cache .ruff_cache .pytest_cache
