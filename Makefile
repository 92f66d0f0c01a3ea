SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

FUZZTIME ?= 30s
# What bench-redirect measures.
LINKS ?= 1000000
ROUNDS ?= 5
BURST ?= 3s
# ARGS of the benchmarks: bench-clicks -engines postgres,clickhouse; bench-graphql -rounds 5 -operations page,create; bench-scale -links, -parts; drill-upgrade -links, -from; drill-restore -links, -clicks.
CLICKS ?= 10000000
ARGS ?=
# SQLite, which is translated C, and cryptography share nothing between goroutines, and would be three to ten times
# slower under the race detector. The driver of SQLite is watched: it uses sync.Map, whose copy in a package that is not
# watched may be linked for all, and hides from the detector what other packages synchronize by it.
RACE = $(foreach p,modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory golang.org/x/crypto/...,-gcflags='$(p)=-race=false')
# What "linkforge version" says; the commit when empty.
VERSION ?=

.PHONY: help run demo build test test-short test-exhaustive test-faults test-race test-postgres18 test-clickhouse test-sso test-all test-bench lint generate generate-check fuzz bench bench-redirect bench-graphql bench-clicks bench-scale bench-routing bench-events bench-create bench-cold bench-imports bench-keys bench-login walk drill-upgrade drill-restore console console-check playground test-playground test-pages test-web test-federation test-chart test-acme bench-lone audit check-deploy cluster release release-check test-packages image clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start the server on SQLite and an in-process Redis, data in ./data
	go run ./server

demo: ## run an end-to-end demo on a temporary instance and print each step
	go run ./server demo

build: ## build the static binary bin/linkforge
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X github.com/linkforge/linkforge/internal/cli.release=$(VERSION)' -o bin/linkforge ./server

test: ## before a commit: format and every package, on SQLite, PostgreSQL and Redis (three to five minutes on two cores, six to nine with an empty build cache)
	scripts/with-services scripts/test

test-short: ## while editing: SQLite and an in-process Redis, without tests that start processes; ARGS, such as ./internal/link
	env -u LINKFORGE_TEST_DATABASE_URL -u LINKFORGE_TEST_REDIS_URL go test -short $(or $(ARGS),./...)

test-exhaustive: ## as test, with all seeds, sizes and combinations
	LINKFORGE_TEST_EXHAUSTIVE=on scripts/with-services scripts/test

test-faults: ## the kills, outages and attacks that test leaves out
	LINKFORGE_TEST_FAULTS=on scripts/with-services scripts/test

test-race: ## the packages below package server as test, under the race detector
	LINKFORGE_TEST_PACKAGES="$$(go list ./... | grep -v '/server$$' | xargs)" scripts/with-services scripts/test -race $(RACE) -parallel 2

test-postgres18: ## as test, on PostgreSQL 18, which npm installs (needs Node.js)
	scripts/with-postgres18 scripts/test

test-clickhouse: ## the store of clicks on ClickHouse, which npm installs (needs Node.js; Linux on x86-64)
	LINKFORGE_TEST_CLICKHOUSE=on LINKFORGE_TEST_BACKENDS=postgres scripts/with-services bash -c ' \
	  LINKFORGE_TEST_PACKAGES=./internal/click/clickhouse scripts/test && \
	  LINKFORGE_TEST_PACKAGES="./server -run ^TestClickHouse_" scripts/test'

test-sso: ## single sign-on with a real provider, oidc-provider, which npm installs (needs Node.js)
	cd scripts/oidc-provider && npm ci --prefer-offline --loglevel=error
	LINKFORGE_TEST_OIDC_PROVIDER=on go test -count=1 -run RealProvider ./internal/tenant/sso

test-acme: ## TLS certificates from Pebble, the test server of Let's Encrypt, which go install builds (six minutes)
	scripts/test-acme

test-all: ## everything: lint, exhaustive, faults, race detector, PostgreSQL 18, ClickHouse, single sign-on, TLS certificates, the console, the Helm chart, generated code and the module of the benchmarks (more than an hour)
	$(MAKE) lint
	$(MAKE) test-exhaustive
	$(MAKE) test-faults
	$(MAKE) test-postgres18 test-clickhouse test-sso test-acme test-web test-federation test-chart generate-check test-bench test-race

test-bench: ## vet and test the module of the benchmarks
	cd bench && go vet ./... && go test -short ./...

lint: ## gofmt, the width of lines, the schema beside that of the last release, go vet, actionlint, and shellcheck where there is one
	scripts/gofmt-check
	scripts/columns-check
	scripts/schema-diff
	go vet ./...
	go -C scripts/tools tool actionlint $(CURDIR)/.github/workflows/*.yml
	@if command -v shellcheck >/dev/null; then scripts/shellcheck; else echo 'shellcheck is not installed: skipped'; fi

generate: ## write the generated code
	go generate ./...

generate-check: ## fail when the generated code is out of date
	scripts/generate-check

fuzz: ## run each fuzz target for FUZZTIME, 30s unless set
	scripts/fuzz $(FUZZTIME)

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./internal/...

bench-redirect: ## measure the redirect path beside its limits: LINKS, ROUNDS, BURST
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./redirect -links '$(LINKS)' -rounds '$(ROUNDS)' -burst '$(BURST)'

bench-graphql: ## measure operations beside a bare gqlgen handler and their SQL by itself: ARGS
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./graphql $(ARGS)

bench-clicks: ## measure ingest beside COPY, and stats, with a year of clicks: CLICKS, ARGS
	cd bench && LINKFORGE_TEST_DURABLE=1 LINKFORGE_TEST_CLICKHOUSE=on ../scripts/with-services go run ./clicks -clicks '$(CLICKS)' $(ARGS)

bench-scale: ## measure how what an operation costs grows with links, nodes and workspaces: ARGS
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./scale $(ARGS)

bench-routing: ## measure redirects beside an earlier version, and links with rules beside plain ones: ARGS, such as -from HEAD~1
	cd bench && go run ./routing $(ARGS)

bench-events: ## measure creations, changes and redirects beside an earlier version, and late deliveries of webhooks: ARGS, such as -from HEAD~1 or -only deliveries
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./events $(ARGS)

bench-create: ## measure creations of links beside an earlier version and beside an empty query: ARGS, such as -from HEAD~1
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./create $(ARGS)

bench-cold: ## measure first visits, and visits after a start, beside a constant handler and an earlier version: ARGS, such as -from HEAD~1
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./cold $(ARGS)

bench-lone: ## measure calls that come one at a time, and how long statistics lag, beside an earlier version: ARGS, such as -from HEAD~1 or -on sqlite
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./lone $(ARGS)

bench-imports: ## measure imports and exports, and redirects during an import beside none: ARGS, such as -on sqlite
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./imports $(ARGS)

bench-login: ## measure logins and requests with a token beside an earlier version: ARGS, such as -from HEAD~1
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./login $(ARGS)

bench-keys: ## measure lists that API keys with and without folders request, beside an earlier version: ARGS, such as -from HEAD~1
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./keys $(ARGS)

walk: ## list the packages and functions that a redirect enters
	cd bench && go run ./walk

drill-upgrade: ## upgrade a database of an early version on both backends: ARGS, such as -links 1000
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./upgrade $(ARGS)

drill-restore: ## back up both backends under load, restore them elsewhere, and hold them against what was there: ARGS
	cd bench && LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./restore $(ARGS)

console: ## rebuild the console, the front end at /app (needs Node.js)
	cd internal/console/ui && npm ci --prefer-offline --no-audit --no-fund --loglevel=error && npm run --silent build

console-check: ## fail when the built console is not what its sources give (needs Node.js)
	scripts/console-check

playground: ## rebuild the playground page (needs Node.js)
	cd graph/playground/ui && npm ci && node build.mjs

test-playground: ## try the playground in a headless Chromium (needs Node.js and Chromium)
	scripts/test-playground

test-pages: ## follow links in every state with a headless Chromium (needs Node.js and Chromium)
	scripts/test-pages

test-web: ## use the console and the front end of the guide in a headless Chromium (needs Node.js; installs Chromium as root on Debian)
	scripts/test-web

test-federation: ## compose the schema with that of a second service, and query both through a gateway (needs Node.js)
	scripts/test-federation

test-chart: ## render the Helm chart, lint it, and decode its objects as Kubernetes does; ARGS=-update writes the golden files
	cd scripts/chart && go vet ./... && go test -count=1 ./... $(ARGS)

audit: ## try the server and the schema with the tools that front ends are built with (needs Node.js)
	cd scripts/audit && npm ci --loglevel=error
	scripts/with-server scripts/audit/run

check-deploy: ## hold docs/deploy and the Helm chart against the server, and docs/deploy against its programs that are installed
	go test -count=1 -v -run 'TestDeploy|TestChart' ./server

cluster: ## drill production's layout on this machine: replace its nodes, kill a Redis master and the PostgreSQL primary: ARGS
	cd bench && go run ./cluster $(ARGS)

release: ## build the artefacts of a release in dist: archives, packages, the image, bills of materials, checksums
	scripts/release --skip=publish,sign

release-check: ## build them twice, in two clones, and compare the checksums
	scripts/release-check

test-packages: ## install, upgrade, remove and purge the packages of dist, and run its image (root on Debian)
	scripts/test-packages

image: ## build the image alone, for podman load and docker load: dist/linkforge_VERSION_image.tar
	scripts/release --skip=publish,sign,archive,nfpm

clean: ## remove what was built
	rm -rf bin build dist coverage.out coverage.html
