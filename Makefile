# Targets for the people who build hermesd. `go test ./...` needs none of them.

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CRASHES ?= 60s
SIM ?= 60s
FUZZ ?= 60s

.PHONY: build test race lint bench crashtest sweep simulate fuzz interop example check

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
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./internal/bench
	$(GO) test -run '^$$' -bench LongSession -benchtime 500x ./gateway

crashtest: ## kill -9 on the real binary, for CRASHES, with the simulators' ledgers as judge
	HERMESD_CRASHTEST=$(CRASHES) $(GO) test -count=1 -v -timeout 60m -run 'TestSIGKILL' ./internal/crashtest

sweep: ## the death of the daemon at every point of two scenarios, and at many pairs of points
	HERMESD_SWEEP=all $(GO) test -count=1 -v -timeout 30m -run 'TestADeath' ./internal/crashtest

simulate: ## random people, faults and deaths over virtual hours, for SIM; HERMESD_SEED plays a day again
	HERMESD_SIM=$(SIM) $(GO) test -count=1 -v -timeout 24h -run 'TestDays' ./internal/crashtest

# The go command sometimes reports the end of the time itself as a failure
# ("context deadline exceeded"); only an input that fails is one.
fuzz: ## each fuzz target for FUZZ
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; \
	    out=$$($(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) $$pkg 2>&1); code=$$?; \
	    echo "$$out" | tail -n 3; \
	    [ $$code -eq 0 ] && continue; \
	    echo "$$out" | grep -q 'Failing input' && { echo "$$out"; exit 1; }; \
	    echo "$$out" | grep -q 'context deadline exceeded' || { echo "$$out"; exit 1; }; \
	  done; \
	done

interop: ## the official SDKs as judges of our wire and of our simulators
	cd internal/interop && $(GO) test ./...

example: ## writes config.example.yaml from the code
	$(GO) run ./cmd/hermesd config example > config.example.yaml

check: lint race
