# Targets for the people who build hermesd. `go test ./...` needs none of them.

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CRASHES ?= 60s
SIM ?= 60s
FUZZ ?= 60s
FUZZ_OF ?= 1
FUZZ_PART ?= 0
CHECKS ?= 10000
HOSTILE ?= 5s
REF ?= HEAD
TARGET ?= linux/amd64

SHELL := bash
.SHELLFLAGS := -o pipefail -c

# `go test` passes when -run or -bench matches nothing. A target that selects by
# name ends with one of these filters, which fail then.
MATCHED := 2>&1 | awk '{ print; fflush() } /no tests to run/ { none = 1 } END { exit none }'
MATCHED_BENCH := 2>&1 | awk '{ print; fflush() } /^Benchmark/ { found = 1 } END { exit !found }'

.PHONY: build test race lint bench crashtest sweep simulate dst restarts disks hostile latency engines fuzz interop example picture release reproducible check

build: ## the static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o hermesd ./cmd/hermesd

test: ## what the README says
	$(GO) test ./...

race: ## the same under the race detector, in random order
	$(GO) test -race -shuffle=on ./...

lint: ## vet, staticcheck, formatting
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

bench: ## the figures of docs/benchmarks.md
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./internal/bench $(MATCHED_BENCH)
	$(GO) test -run '^$$' -bench LongSession -benchtime 500x ./gateway $(MATCHED_BENCH)

crashtest: ## kill -9 on the real binary, for CRASHES, judged by the records of the simulators
	HERMESD_CRASHTEST=$(CRASHES) $(GO) test -count=1 -v -timeout 60m -run 'TestSIGKILL' ./internal/crashtest $(MATCHED)

sweep: ## the death of the daemon at every point of three scenarios, and at many pairs of points
	HERMESD_SWEEP=all $(GO) test -count=1 -v -timeout 30m -run 'TestADeath' ./internal/crashtest $(MATCHED)

simulate: ## random people, faults and deaths over virtual hours, for SIM; HERMESD_SEED plays a day again
	HERMESD_SIM=$(SIM) $(GO) test -count=1 -v -timeout 24h -run 'TestDays' ./internal/crashtest $(MATCHED)

dst: ## schedules against every change of every zone's clock in ten years
	HERMESD_DST=all $(GO) test -count=1 -v -timeout 30m -run 'Clock|OncePerDay|Stalled' ./gateway/schedule $(MATCHED)

restarts: ## a thousand lives of the daemon, each taking a message and ended at once
	HERMESD_RESTARTS=1000 $(GO) test -count=1 -timeout 30m -run TestRapidRestarts ./cmd/hermesd $(MATCHED)

disks: ## an ext4 that turns read-only under the daemon; as root
	HERMESD_DISKS=1 $(GO) test -count=1 -v -run 'TurnsReadOnly' ./cmd/hermesd $(MATCHED)

hostile: ## what is hostile in one chat, each for HOSTILE, and how long others wait for being accepted meanwhile: docs/benchmarks.md
	HERMESD_HOSTILE=$(HOSTILE) $(GO) test -count=1 -v -timeout 30m -run 'TestHostileInputDelaysNobody' ./cmd/internal/app $(MATCHED)

latency: ## how long others wait for being accepted next to a session that burns the processor and one that hangs
	HERMESD_LATENCY=1 $(GO) test -count=1 -v -timeout 30m -run 'TestBusySessionsDelayNobody' ./cmd/internal/app $(MATCHED)

engines: ## CHECKS random conversations for each context engine, and recall on long ones
	$(GO) test -count=1 -timeout 60m -run 'TestSuite' ./agent/engine/compressor ./agent/engine/lcm ./agent/engine/plugin -rapid.checks=$(CHECKS) $(MATCHED)
	HERMESD_RECALL=all $(GO) test -count=1 -timeout 30m ./agent/engine/internal/recallbench

# FUZZ_OF and FUZZ_PART run every FUZZ_OF-th target only, from FUZZ_PART on. The
# go command sometimes reports the end of the time itself as a failure
# ("context deadline exceeded"); only an input that fails is one.
fuzz: ## each fuzz target for FUZZ
	@n=0; grep -rE '^func Fuzz' --include='*_test.go' --exclude-dir=interop . | sed -E 's|/[^/]*_test.go:func (Fuzz[A-Za-z0-9_]*).*| \1|' | sort | while read pkg target; do \
	    n=$$((n + 1)); [ $$((n % $(FUZZ_OF))) -eq $(FUZZ_PART) ] || continue; \
	    echo "== $$pkg $$target"; \
	    out=$$($(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) $$pkg 2>&1); code=$$?; \
	    echo "$$out" | tail -n 3; \
	    [ $$code -eq 0 ] && continue; \
	    echo "$$out" | grep -q 'Failing input' && { echo "$$out"; exit 1; }; \
	    echo "$$out" | grep -q 'context deadline exceeded' || { echo "$$out"; exit 1; }; \
	  done

interop: ## the official SDKs as judges of our wire and of our simulators
	cd internal/interop && $(GO) test ./...

example: ## writes config.example.yaml from the code
	$(GO) run ./cmd/hermesd config example > config.example.yaml

picture: ## docs/demo.svg, the picture in README.md, from the output of the demo
	$(GO) run ./cmd/internal/demo/picture

release: ## archives, SBOMs and checksums of the commit REF for all platforms, in dist/VERSION
	$(GO) run ./internal/release/make -ref $(REF) -out dist

reproducible: ## the commit REF for TARGET, made twice in different places, the second time from nothing, and compared
	$(GO) run ./internal/release/make -ref $(REF) -out dist/reproducible -targets $(TARGET) -twice

check: lint race
