# make help lists the targets; make check is everything that CI runs.

FUZZTIME ?= 30s
SOAK     ?= 10m

# What the check needs beside Go, as tools/install-servers.sh names it. The race detector needs the C compiler.
PROGRAMS := redis postgresql chromium gcc

# The packages whose statements the coverage gate counts, and those among them that it does not: test support, which is
# run by being used.
COVERED     := ./core/...,./policy/...,./fingerprint/...,./failure/...,./adapters/...
NOT_COVERED := /core/(internal|storetest)(/|$$)
MINIMUM     := 90

# The linters are built once for each Go version: one built by an older Go cannot read newer code.
BIN           := bin/$(shell go env GOVERSION)
GOLANGCI_LINT := $(BIN)/golangci-lint
GOFUMPT       := $(BIN)/gofumpt
LINTERS       := $(BIN)/.built

CHECKS := servers tidy-check fmt-check vet lint race cover

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help check $(CHECKS) test fmt tidy fuzz soak bench microbench profile clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: ## Run everything that CI runs, cheapest first
	@begin=$$(date +%s); summary=; \
	for step in $(CHECKS); do \
		printf '\n==> make %s\n' "$$step"; start=$$(date +%s); \
		$(MAKE) --no-print-directory "$$step" || { printf '\ncheck FAILED at: make %s\n' "$$step"; exit 1; }; \
		summary="$$summary  $$step $$(($$(date +%s) - start))s"; \
	done; \
	printf '\ncheck passed in %ss:%s\n' "$$(($$(date +%s) - begin))" "$$summary"

servers: ## Install the servers and programs that tests need, where they are missing
	@sh tools/install-servers.sh $(PROGRAMS)

test: ## Run the tests, quickly: no race detector, tests without their server are skipped
	go test ./...
	go -C tools test ./...
	go -C examples/bench test ./...

race: ## Run all tests with the race detector; a test without its server fails
	ONCEKEY_REQUIRE_SERVERS=1 go test -race -timeout 5m ./...
	go -C tools test -race ./...
	go -C examples/bench test -race ./...

cover: ## Measure coverage and fail where a package has less than 90%
	@mkdir -p build
	@echo 'go test -coverpkg $(COVERED) ./...'
	@ONCEKEY_REQUIRE_SERVERS=1 go test -timeout 5m -covermode atomic -coverpkg '$(COVERED)' \
		-coverprofile build/coverage.out ./... >build/coverage.log 2>&1 || { cat build/coverage.log; exit 1; }
	@go -C tools run ./coverage -minimum $(MINIMUM) -exclude '$(NOT_COVERED)' '$(CURDIR)/build/coverage.out'

vet: ## Run go vet
	go vet ./...
	go -C tools vet ./...
	go -C examples/bench vet ./...

lint: $(LINTERS) ## Run the linters of .golangci.yml
	$(GOLANGCI_LINT) run ./...
	cd tools && ../$(GOLANGCI_LINT) run --config ../.golangci.yml ./...
	cd examples/bench && ../../$(GOLANGCI_LINT) run --config ../../.golangci.yml ./...

fmt: $(LINTERS) ## Format the code
	$(GOFUMPT) -l -w .

fmt-check: $(LINTERS) ## Fail when code is not formatted
	@echo '$(GOFUMPT) -d .'
	@difference=$$($(GOFUMPT) -d .) && test -z "$$difference" || \
		{ printf '%s\n\nNot formatted: make fmt puts it right.\n' "$$difference"; exit 1; }

tidy: ## Tidy all modules
	go mod tidy
	go -C tools mod tidy
	go -C examples/bench mod tidy

tidy-check: ## Fail when a module is not tidy
	go mod tidy -diff
	go -C tools mod tidy -diff
	go -C examples/bench mod tidy -diff

fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|/[^/]*:[0-9]+:func | |' | \
	while read -r folder target; do \
		echo "==> $$folder $$target for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -timeout 1h "$$folder" </dev/null || exit 1; \
	done

soak: ## Run the soak tests for SOAK (10m) each
	ONCEKEY_REQUIRE_SERVERS=1 ONCEKEY_SOAK=$(SOAK) go test -count 1 -p 1 -v -run '^TestSoak' -timeout 12h ./...

bench: ## Measure against peers and floors, and rewrite BENCHMARKS.md; it judges nothing
	go -C examples/bench run . -o '$(CURDIR)/BENCHMARKS.md'

microbench: ## Run the benchmarks beside the code
	go test -run '^$$' -bench . -benchmem -count 1 ./...

profile: ## Write CPU profiles of a first-time request and a replay to build/
	go -C examples/bench run . -profile '$(CURDIR)/build'

clean: ## Remove what the other targets made
	rm -rf bin build

# Without cgo they build on a machine that has no C compiler too.
$(LINTERS): tools/go.mod tools/go.sum
	CGO_ENABLED=0 go -C tools build -buildvcs=false -o '$(CURDIR)/$(BIN)/' tool
	@touch $@
