# Tidelog: `make help` lists every target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start hundreds of processes. Without bytecode on disk each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: schemas help install lint types imports bytecode unit test java-clients test-java-clients test-all test-pythons sim sim-cluster demo bench bench-kafka soak quotas hostile failover failover-streams copying crash-tier soak-tier test-docker test-manifests test-monitoring new-user test-kafka-tools test-spark-kafka test-frameworks test-collector test-schema-registry bench-spark-kafka docs release clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

install: $(STAMP) ## create .venv with the pinned dependencies

lint: $(STAMP) ## check style and formatting with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## check types with mypy: strict for the packages, not strict for tests and benchmarks
	$(BIN)/mypy

imports: $(STAMP) ## check which packages import which (import-linter)
	$(BIN)/lint-imports

KAFKA_JARS := $(CURDIR)/.cache/kafka-tools

# More than half of the time of a test is spent waiting for sockets, disks and processes: four workers keep two cores busy.
WORKERS ?= 4
PYTEST_PARALLEL := -n $(WORKERS) --dist worksteal

# $(call run_tests,TESTS,OPTIONS): OPTIONS are those of the first run only.
# A test that fails on a busy machine and passes alone is a defect of the test. It is printed as failed, but does not stop a commit.
define run_tests
@$(BIN)/pytest $(1) $(2) || { test $$? -eq 1 || exit 1; \
  echo "The tests listed above failed. They are run once more, alone."; \
  $(BIN)/pytest $(1) --last-failed --last-failed-no-failures=none --maxfail=1; }
endef

unit: $(STAMP) ## run the tests only; those that fail are run once more, alone
	$(call run_tests,,$(PYTEST_PARALLEL))

# Every worker imports all tests: compiled once here, they are not compiled four times. `unit` reports what cannot be imported.
bytecode: $(STAMP)
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true

test: $(STAMP) ## run everything that CI checks, except the clients that need Java
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types imports bytecode
	@$(MAKE) --no-print-directory unit

# Tests of tests/interop cannot run together with tests/kafka, which hides the package of kafka-python.
JAVA_CLIENT_TESTS := $(patsubst %,tests/kafka/test_%.py,consumer_groups consumer_group_tools share_consumers streams_protocols share_group_tools streams_group_tools)

java-clients: export TIDELOG_KAFKA_JARS := $(KAFKA_JARS)
java-clients: $(STAMP)
	$(call run_tests,$(JAVA_CLIENT_TESTS),-n 2 --dist loadfile)
	$(call run_tests,tests/interop/test_mixed_group_migration.py)

# CI runs this on bare machines, too.
test-java-clients: $(STAMP) ## test Java consumers, share consumers and Kafka Streams in about four minutes; without Java 17 and Maven, print that and pass
	@if reason=$$($(BIN)/python -m tests.reference_software.kafka_jars $(KAFKA_JARS)); \
	then $(MAKE) --no-print-directory java-clients; \
	else echo "The Java clients are not tested: $$reason"; fi

test-all: lint types imports ## run `make test` with the long tests, more seeds of the simulators and new random examples
	TIDELOG_SIM_SEEDS=3000 $(BIN)/pytest $(PYTEST_PARALLEL) --hypothesis-profile=random -m ''

PYTHONS ?= 3.11 3.12 3.13 3.14

# Each Python has its own environment. One that is not installed is reported and skipped.
test-pythons: ## run unit and interop tests with each Python from 3.11 to 3.14 that is installed
	@set -e; for version in $(PYTHONS); do \
	  if ! python$$version -c '' 2>/dev/null; then echo "python$$version is not installed: not tested"; continue; fi; \
	  echo "python$$version"; \
	  python$$version -m venv .cache/python-$$version; \
	  .cache/python-$$version/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'; \
	  .cache/python-$$version/bin/pytest $(PYTEST_PARALLEL) -m 'not long and not spark' \
	    tests/unit tests/model tests/scenarios tests/interop; \
	done

sim: $(STAMP) ## simulate the metadata quorum under faults: 100,000 seeds on virtual time
	$(BIN)/python -m tests.sim.quorum.run --seeds 100000

sim-cluster: $(STAMP) ## simulate whole clusters with clients under faults: 20,000 seeds on virtual time, with a report
	$(BIN)/python -m tests.sim.cluster --seeds 20000 --explore

DIRECTORY ?= $(shell $(BIN)/python -c 'import kafka.protocol.schemas as s; print(s.__path__[0])' 2>/dev/null)/resources

schemas: $(STAMP) ## compare the messages of Tidelog with Kafka's JSON definitions in DIRECTORY
	$(BIN)/python -m tests.harness.schemas $(DIRECTORY)

demo: $(STAMP) ## run the main job on real text with restarts, compare each byte, and run a streaming query of Spark
	$(BIN)/python -m tidelog.demo

bench: $(STAMP) ## run the benchmarks, compared with references; tables and JSON in benchmarks/results
	$(BIN)/python -m benchmarks

# `make bench-kafka KAFKA_BENCH='--quick produce'` passes options and suites.
bench-kafka: $(STAMP) ## compare Apache Kafka with Tidelog, alternating, in about 20 minutes; needs Java 17 and Maven
	$(BIN)/python -m tests.reference_software.kafka_jars $(KAFKA_JARS)
	TIDELOG_KAFKA_JARS=$(KAFKA_JARS) $(BIN)/python -m benchmarks.kafka $(KAFKA_BENCH)

hostile: $(STAMP) ## run every known attack on a broker; report blocked time, memory, descriptors, p99 of other clients
	$(BIN)/python -m tests.harness.hostile

# `make failover SECURE=1` and `make copying SECURE=1` use SASL_SSL on every listener, and an authorizer.
SECURITY := $(if $(SECURE),--secure)

failover: $(STAMP) ## check the history of three nodes under load that are killed, paused, partitioned and restarted
	$(BIN)/python -m tests.harness.failover $(SECURITY)

failover-streams: $(STAMP) ## the same with a Kafka Streams application, which must count exactly once; needs Java 17 and Maven
	$(BIN)/python -m tests.reference_software.kafka_jars $(KAFKA_JARS)
	$(BIN)/python -m tests.harness.failover $(SECURITY) --kafka-jars $(KAFKA_JARS)

copying: $(STAMP) ## copy 100,000 records exactly once while nodes are killed, stopped and paused
	$(BIN)/python -m tests.harness.failover.copying $(SECURITY)

crash-tier: $(STAMP) ## kill -9 a node at every step of tiering, and check everything after each
	TIDELOG_CRASHES=all $(BIN)/pytest -v tests/integration/failover/test_tiering_crashes.py

test-docker: $(STAMP) ## test the compose clusters, also the secured one, in containers; needs a Docker engine
	docker/smoke.sh
	$(BIN)/python -m tests.harness.secured_compose

new-user: ## install as a new user in a clean container, and run the commands of README and tutorial; needs Docker
	docker/new_user.sh

# The schemas of Kubernetes are part of this package: nothing else is downloaded.
.cache/manifests/bin/kubernetes-validate:
	$(PYTHON) -m venv .cache/manifests
	.cache/manifests/bin/python -m pip install --quiet kubernetes-validate==1.37.0

test-manifests: .cache/manifests/bin/kubernetes-validate ## check the manifests of Kubernetes, and the unit of systemd if it is installed
	$< --strict docker/kubernetes.yaml
	@if ! command -v systemd-analyze >/dev/null; then echo "systemd-analyze is not installed: the unit is not checked"; else \
	  sed 's:/opt/tidelog/bin:$(CURDIR)/.cache/manifests/bin:' docker/tidelog.service > .cache/manifests/tidelog.service; \
	  systemd-analyze verify --man=no .cache/manifests/tidelog.service; fi

# Debian's package of Prometheus is unpacked, not installed.
PROMETHEUS ?= $(or $(patsubst %/,%,$(dir $(shell command -v promtool))),$(CURDIR)/.cache/prometheus/usr/bin)

$(CURDIR)/.cache/prometheus/usr/bin/promtool:
	mkdir -p .cache/prometheus
	cd .cache/prometheus && apt-get download prometheus && dpkg-deb --extract prometheus_*.deb .

test-monitoring: $(STAMP) $(PROMETHEUS)/promtool ## load rules and dashboard into a real Prometheus, and check all names with promtool
	TIDELOG_PROMETHEUS=$(PROMETHEUS) $(BIN)/pytest tests/integration/monitoring

# With Aiven's RemoteStorageManager in TIDELOG_AIVEN_CLASSPATH (its classes and caffeine, commons-io, bucket4j,
# bcprov; Kafka's own come from Maven), the tests also share tiered storage with brokers of Apache Kafka.
test-kafka-tools: $(STAMP) ## test Apache Kafka's tools and brokers with Tidelog; needs Java 17 and Maven (see docs/testing.md)
	$(BIN)/python -m tests.reference_software.kafka_jars $(KAFKA_JARS)
	TIDELOG_KAFKA_JARS=$(KAFKA_JARS) $(BIN)/pytest tests/kafka
	TIDELOG_KAFKA_JARS=$(KAFKA_JARS) $(BIN)/pytest tests/interop/test_mixed_group_migration.py

# Compares Spark's own Kafka source with Tidelog's. Its jars stay in the cache; the versions are in the pom.
SPARK_KAFKA := TIDELOG_SPARK_KAFKA_JARS=$(CURDIR)/.cache/spark-kafka

.cache/spark-kafka: tests/reference_software/spark_kafka/pom.xml
	rm -rf $@
	mvn -q -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$@
	@touch $@

test-spark-kafka: $(STAMP) .cache/spark-kafka ## compare rows and offsets with those of Spark's own Kafka source; needs Maven
	$(SPARK_KAFKA) $(BIN)/pytest tests/spark/kafka_source

bench-spark-kafka: $(STAMP) .cache/spark-kafka ## run the Spark benchmarks, compared with Spark's own Kafka source; needs Maven
	$(SPARK_KAFKA) $(BIN)/python -m benchmarks spark

test-frameworks: $(STAMP) ## run examples/frameworks, each with its own packages, against a broker
	$(BIN)/python -m tests.harness.frameworks

.cache/otel-collector: $(wildcard tests/reference_software/otel_collector/*)
	cd tests/reference_software/otel_collector && go build -o $(CURDIR)/$@ .

test-collector: $(STAMP) .cache/otel-collector ## send metrics to a collector of OpenTelemetry, which is built; needs Go
	TIDELOG_OTEL_COLLECTOR=$(CURDIR)/.cache/otel-collector $(BIN)/pytest tests/interop/test_opentelemetry_collector.py

# The last version that is pure Python. Its own fork of avro has the API of the package on PyPI.
KARAPACE ?= https://github.com/Aiven-Open/karapace

.cache/karapace/bin/karapace:
	rm -rf .cache/karapace .cache/karapace-source
	git -c advice.detachedHead=false clone --quiet --depth 1 --branch 3.16.0 $(KARAPACE) .cache/karapace-source
	sed -i 's/^avro @.*/avro==1.12.2/' .cache/karapace-source/requirements/requirements.txt
	$(PYTHON) -m venv .cache/karapace
	.cache/karapace/bin/pip install --quiet --requirement .cache/karapace-source/requirements/requirements.txt
	KARAPACE_VERSION=3.16.0 .cache/karapace/bin/pip install --quiet --no-deps ./.cache/karapace-source

test-schema-registry: $(STAMP) .cache/karapace/bin/karapace ## run the schema registry Karapace, which is installed from its source, on a broker
	TIDELOG_KARAPACE=$(CURDIR)/.cache/karapace/bin/karapace $(BIN)/pytest tests/interop/test_karapace.py

docs: $(STAMP) ## write the reference from the code, and build the documents as a site in `site`
	$(BIN)/python -m tests.harness.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# `make release DOCUMENTS=https://host/path` lets the links of README lead to files at this address.
release: $(STAMP) ## build wheel, source distribution and release notes in dist, with checked metadata
	$(BIN)/python -m tests.packaging.release dist $(if $(DOCUMENTS),--documents $(DOCUMENTS))

quotas: $(STAMP) ## measure the rates of librdkafka under quotas for a minute each; they must be within 10 %
	$(BIN)/python -m tests.harness.quotas

soak: $(STAMP) ## load one broker for ten minutes with kill -9 every 20 s
	$(BIN)/python -m tests.harness.soak

soak-tier: $(STAMP) ## tier 5 GB to an S3 server that fails, is slow or is unavailable, with kill -9; read each byte again
	$(BIN)/python -m tests.harness.tier_soak

clean: ## remove the files of the other targets
	rm -rf $(VENV) build dist site *.egg-info tidelog-data benchmarks/results .mypy_cache .ruff_cache .pytest_cache
