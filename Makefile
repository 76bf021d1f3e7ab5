# Each target sets up what it needs (scripts/setup, scripts/tools/*), on a machine with nothing but Python >= 3.11.

BIN = $(or $(PILOTHOUSE_VENV),.venv)/bin
PYTEST = $(BIN)/pytest
TESTS = scripts/tests
# More than there are processors: tests with real servers wait more than they work.
WORKERS = $(shell echo $$(( $$(nproc) * 2 )))
WITH_GO = PATH="$$(scripts/tools/go):$$PATH"

.DEFAULT_GOAL = help
.PHONY: help setup setup-tests up demo payload test test-tools test-static test-long kubernetes third-party conformance conformance-kubernetes simulate soak bench check clean

help:
	@echo "make up           start a whole control plane with this machine as its node, data in ./.data"
	@echo "make demo         a guided tour in a temporary folder, which ends by itself"
	@echo "make payload      pack Pilothouse into dist/, for machines that update it by a plan"
	@echo "make test         format, lint, types, imports, and the quick tests"
	@echo "make test-long    the tests that take minutes, and the conformance suite"
	@echo "make kubernetes   build etcd, kube-apiserver and its kin, and kubectl, where they are missing"
	@echo "make third-party  build the programs of others that are tried against up: Helm, kube-state-metrics, ECK, and clients in Rust, Java, JavaScript"
	@echo "make conformance  the protocol cases against a real kube-apiserver, and those of controllers against its own, built here"
	@echo "make conformance-kubernetes  Kubernetes' own conformance suite against \`up\`: those of FOCUS=, a regular expression, or all of API, nodes and storage"
	@echo "make simulate     fleets in a bottle: SEEDS=1000 of them, from FIRST=0 on, of one SCENARIO= or all in turn"
	@echo "make soak         the long tests with their full counts"
	@echo "make bench        measurements beside a real kube-apiserver and etcd"
	@echo "make check        what has to hold before a change goes in"
	@echo "make clean        remove what the other targets made, except data"

setup:
	@scripts/setup

setup-tests:
	@scripts/setup tests

up: setup
	@scripts/up

demo: setup
	@command -v kubectl >/dev/null || $(WITH_GO) scripts/tools/kubectl
	@scripts/demo

payload: setup-tests
	@$(BIN)/python scripts/payload

check: setup-tests
	@scripts/check

# Go builds on the processors that the type checker leaves idle.
test: setup-tests
	@$(MAKE) --no-print-directory -j2 test-static test-tools
	go=$$(scripts/tools/go) && PATH="$$go:$$PATH"; $(TESTS) -n $(WORKERS) --dist worksteal -m "not long"

test-static:
	@scripts/check static

test-tools:
	@command -v kubectl >/dev/null || $(WITH_GO) scripts/tools/kubectl
	@scripts/tools/debian xfsprogs btrfs-progs redis-server memcached minisign || echo "without these the tests of filesystems, Redis, memcached and minisign are skipped"
	@scripts/tools/elasticsearch 7.17.29 8.17.0 >/dev/null || echo "without Elasticsearch its tests are skipped"

test-long: setup-tests kubernetes third-party
	@scripts/tools/prometheus || echo "without Prometheus its tests are skipped"
	@scripts/tools/debian || echo "without these the tests of filesystems and databases are skipped"
	@scripts/tools/elasticsearch 6.8.23 7.17.9 7.17.29 8.17.0 >/dev/null || echo "without Elasticsearch its tests are skipped"
	$(TESTS) -n $(WORKERS) --dist worksteal -m long --timeout=1200 --durations=20
	@$(MAKE) --no-print-directory conformance

kubernetes: setup-tests
	@$(WITH_GO) scripts/tools/etcd
	@$(WITH_GO) scripts/tools/kube
	@$(WITH_GO) scripts/tools/kubectl
	@$(WITH_GO) scripts/tools/pod-security-fixtures >/dev/null

third-party: setup-tests
	@$(WITH_GO) scripts/tools/helm >/dev/null || echo "without Helm its test is skipped"
	@$(WITH_GO) scripts/tools/kube-state-metrics >/dev/null || echo "without kube-state-metrics its test is skipped"
	@$(WITH_GO) scripts/tools/eck >/dev/null || echo "without ECK's manager its test is skipped"
	@scripts/tools/kube-rs >/dev/null || echo "without the kube-rs controller its test is skipped"
	@scripts/tools/fabric8 >/dev/null || echo "without the fabric8 program its test is skipped"
	@scripts/tools/client-node >/dev/null || echo "without JavaScript's client its test is skipped"

conformance: setup-tests kubernetes
	PILOTHOUSE_TARGET=kube $(TESTS) -n auto tests/conformance tests/controllers/test_kubectl_sees_the_same_as_with_kubernetes.py

# The table at the end says what failed, and what was left out and why; reports and logs are kept in OUTPUT=, if it is given.
conformance-kubernetes: setup
	@command -v busybox >/dev/null || scripts/tools/debian busybox-static
	@$(WITH_GO) scripts/tools/kubectl
	@$(WITH_GO) scripts/tools/e2e
	@$(BIN)/python scripts/conformance-kubernetes $(if $(FOCUS),--focus '$(FOCUS)') $(if $(OUTPUT),--output '$(OUTPUT)')

simulate: setup
	@$(BIN)/python -m pilothouse.sim --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0) $(if $(SCENARIO),--scenario $(SCENARIO))

soak: setup-tests kubernetes
	PILOTHOUSE_SOAK=1 $(PYTEST) -m long --timeout=14400

bench: setup-tests kubernetes
	@scripts/tools/wrk
	$(BIN)/python -m bench.api
	$(BIN)/python -m bench.up

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
