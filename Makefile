# make test: everything, on both engines. make lint: format, clippy, documentation, all with warnings denied.
# make fuzz: each fuzz target for SECONDS; 'cargo install cargo-fuzz' first.
.PHONY: test lint fuzz postgresql redis faketime moto sqlite3 valgrind bench bench-rows bench-check bench-record bench-queue
SHELL := /bin/bash

# The tests start throwaway servers of their own: Redis, and PostgreSQL from these binaries, or use TEST_DATABASE_URL for all but
# the tests that crash a server.
POSTGRES = $(firstword $(wildcard /usr/lib/postgresql/*/bin/initdb) $(shell command -v initdb) $(wildcard $(shell pg_config --bindir 2>/dev/null)/initdb))

test: postgresql redis faketime moto
	cargo test --locked --features failpoints,remote
	cargo test --locked --features failpoints -- refusals::

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps --all-features

# SECONDS is bash's own variable as well, so it is handed on by make and not by the environment.
fuzz: SECONDS ?= 900
fuzz:
	fuzz/run.sh $(SECONDS)

# Installs the PostgreSQL server where apt-get exists and none is found. Debian would also create and start a
# cluster of its own; nobody needs it, so that is turned off before.
postgresql:
	@if [ -n "$(POSTGRES)" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
	  echo "the tests need a PostgreSQL server (initdb, pg_ctl, postgres): install it and put its bin folder on PATH" >&2; \
	  exit 1; \
	fi; \
	as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$as_root apt-get update -q && \
	$$as_root apt-get install -y -q --no-install-recommends postgresql-common && \
	$$as_root sed -i -E 's/^#?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf && \
	$$as_root apt-get install -y -q --no-install-recommends postgresql

# A clock that is wrong for one process, for the tests of leases.
faketime:
	@for place in /usr/lib/*/faketime /usr/lib/faketime /usr/lib64/faketime; do \
	  if [ -e $$place/libfaketime.so.1 ]; then exit 0; fi; \
	done; \
	if ! command -v apt-get >/dev/null; then \
	  echo "the tests need libfaketime: install it" >&2; exit 1; \
	fi; \
	as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$as_root apt-get update -q && $$as_root apt-get install -y -q --no-install-recommends faketime

# The import beside what a user would write by hand, on a PostgreSQL of its own and on SQLite: a table, and target/bench.json.
bench: postgresql sqlite3
	cargo bench --locked --bench import

# Decoding and judging rows, without a database.
bench-rows:
	cargo bench --locked --bench rows

# How many instructions decoding and judging take, within 5 % of what is recorded; bench-record records them anew.
bench-check: valgrind
	cargo bench --locked --bench instructions

bench-record: valgrind
	cargo bench --locked --bench instructions -- record

# Installs the command of the same name where apt-get exists and none is found.
sqlite3 valgrind:
	@if command -v $@ >/dev/null; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "the benchmarks need $@: install it" >&2; exit 1; fi; \
	as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$as_root apt-get update -q && $$as_root apt-get install -y -q --no-install-recommends $@

# Jobs per second with 1, 4 and 8 workers, and claims beside a million finished jobs, on both engines.
bench-queue: postgresql
	cargo bench --locked --bench queue

# Installs moto, the S3 server of the tests, below target/.
moto: target/moto/bin/moto_server

target/moto/bin/moto_server:
	python3 -m venv target/moto
	target/moto/bin/pip install --quiet --disable-pip-version-check 'moto[server,s3]==5.1.22'

# Installs the Redis server likewise. Debian would also start one; nobody needs it, so a policy forbids that meanwhile.
redis:
	@if command -v redis-server >/dev/null || [ -x /usr/bin/redis-server ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
	  echo "the tests need a Redis server (redis-server): install it and put it on PATH" >&2; \
	  exit 1; \
	fi; \
	as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	policy=/usr/sbin/policy-rc.d; made=; \
	if [ ! -e $$policy ]; then made=1; printf '#!/bin/sh\nexit 101\n' | $$as_root tee $$policy >/dev/null; $$as_root chmod 755 $$policy; fi; \
	$$as_root apt-get update -q && \
	$$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends redis-server; \
	status=$$?; [ -z "$$made" ] || $$as_root rm -f $$policy; exit $$status
