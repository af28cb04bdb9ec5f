# make help lists the targets; make check is everything that CI runs.

FUZZTIME ?= 30s
SOAK     ?= 10m

# The days of make days: ends of a month, of a leap day and of a year, and one later than most certificates.
DAYS ?= 2027-02-28T23:58:00Z 2028-02-29T12:00:00Z 2036-12-31T23:58:00Z

SCHEDULES ?= 10000000
FROM      ?= 0

# What the check needs beside Go, as tools/install-servers.sh names it. The race detector needs the C compiler.
PROGRAMS := redis postgresql pgbouncer mariadb chromium npm gcc spin nginx haproxy prometheus

# The packages whose statements the coverage gate counts, and those among them that it does not: test support, which is
# run by being used.
LIBRARY     := github.com/oncekey/oncekey
COVERED     := $(LIBRARY)/core/...,$(LIBRARY)/policy/...,$(LIBRARY)/fingerprint/...,$(LIBRARY)/failure/...,$(LIBRARY)/adapters/...
NOT_COVERED := /core/(internal|storetest)(/|$$)|/adapters/internal/rpc/(rpctest|shop)$$
MINIMUM     := 90

# The modules: each beside the root has dependencies that users of the root must not get. All but tools, which has its own
# workspace, are in go.work: go test work tests their packages together.
MODULES := $(shell sed -n -E 's|^[[:space:]]+(\./)?||p' go.work) tools

# Those among them that users get, and that a release tags.
PUBLISHED := $(filter-out core/internal/% examples examples/% tools,$(MODULES))

# make race runs packages twice: with the race detector, and without it for the tests that it disturbs and for the coverage.
# The table in tools/testrun/plan.go has the exceptions. Those that run with it alone are counted there, and two stores run
# without it for these tests.
RACED_COVERED := $(LIBRARY)/core/pgstore,$(LIBRARY)/core/sqlstore,$(LIBRARY)/core/redisstore,$(LIBRARY)/core/sealedstore,$(LIBRARY)/core/handlertest,$(LIBRARY)/failure,$(LIBRARY)/adapters/...
NOT_RACED     := ^(TestAllocations|TestConformanceOfSQLite|TestBusyFile)$$

# Most tests over servers wait more than they compute: so many run at a time in each package, and so many packages at a time
# with the race detector. Beside them one package runs without it.
PARALLEL := 12
PACKAGES := 2

# PostgreSQL creates thousands of small files in tests, and servers wait for the disk: their files are in memory where
# it has room for 4 GiB of them.
IN_MEMORY := $(shell test "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -gt 4194304 2>/dev/null && \
	echo ONCEKEY_TEST_DATA=/dev/shm)

# Reasons for which a test of the check may be skipped: it is one of the above, belongs to make soak, or does not apply.
MAY_SKIP := race detector|ONCEKEY_SOAK|a call takes too long|is no storage.Inspector|TestGinSwallowsInformationalResponses

# With the race detector a program sleeps for a second at its end, for threads that still run. Tests end theirs, and
# goleak sees those that are left.
NO_SLEEP := GORACE=atexit_sleep_ms=0

# FAILED gets the names of the tests that failed, so that they are on the last lines.
FAILED  := build/failed.txt
TESTRUN := $(IN_MEMORY) $(NO_SLEEP) ONCEKEY_REQUIRE_SERVERS=1 go -C tools run ./testrun -may-skip '$(MAY_SKIP)' -failed '$(CURDIR)/$(FAILED)' -dir

# The linters are built once for each Go version: one built by an older Go cannot read newer code.
BIN           := bin/$(shell go env GOVERSION)
GOLANGCI_LINT := $(BIN)/golangci-lint
GOFUMPT       := $(BIN)/gofumpt
LINTERS       := $(BIN)/.built

# make race leaves the profile that make cover judges.
CHECKS := servers tidy-check fmt-check vet api lint race cover

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help check $(CHECKS) raced unraced test days model walls fmt tidy fuzz explore mutants soak availability bench microbench profile release sbom vulnerabilities clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The linters are built beside the first step, which waits for the network. If that fails, the step that needs them says why.
check: ## Run everything that CI runs, cheapest first
	@begin=$$(date +%s); summary=; \
	$(MAKE) --no-print-directory $(LINTERS) >/dev/null 2>&1 & \
	for step in $(CHECKS); do \
		printf '\n==> make %s\n' "$$step"; start=$$(date +%s); \
		$(MAKE) --no-print-directory "$$step" || { wait; printf '\ncheck FAILED at: make %s\n' "$$step"; exit 1; }; wait; \
		summary="$$summary  $$step $$(($$(date +%s) - start))s"; \
	done; \
	printf '\ncheck passed in %ss:%s\n' "$$(($$(date +%s) - begin))" "$$summary"

servers: ## Install the servers and programs that tests need, where they are missing
	@sh tools/install-servers.sh $(PROGRAMS)
	@sh tools/install-mysql.sh
	@sh tools/install-axe.sh
	@sh tools/install-redocly.sh
	@sh tools/install-agents.sh

# The cache of go test does not notice changes of files outside of the test's own module. Tests of the other modules read the
# documentation, and build the library and the examples: so they run with -count 1.
test: ## Run the tests, quickly: no race detector, tests without their server are skipped
	go test -parallel $(PARALLEL) ./...
	for module in $(filter-out .,$(MODULES)); do go -C "$$module" test -count 1 -parallel $(PARALLEL) ./... || exit 1; done

days: ## Run the check on each of DAYS
	for day in $(DAYS); do \
		go -C tools run ./otherday -dir '$(CURDIR)/build/otherday' "$$day" $(MAKE) -C '$(CURDIR)' check || exit 1; \
	done

model: ## Search all states of the lease protocol's model with Spin
	ONCEKEY_REQUIRE_SERVERS=1 go test -count 1 ./core/internal/explore/model

race: ## Run the tests with the race detector, and those that need it least without; a test without its server fails
	@mkdir -p build && rm -f $(FAILED)
	@$(MAKE) --no-print-directory unraced >build/unraced.log 2>&1 & unraced=$$!; \
	$(MAKE) --no-print-directory raced; raced=$$?; \
	wait $$unraced; unraced=$$?; \
	cat build/unraced.log; test ! -s $(FAILED) || cat $(FAILED); exit $$((raced | unraced))
	@{ cat build/raced.new; tail -n +2 build/coverage.new; } > build/coverage.out && rm build/raced.new build/coverage.new build/unraced.log

raced:
	$(TESTRUN) '$(CURDIR)' -plan raced -count 1 -race -vet off -timeout 20m -p $(PACKAGES) -parallel $(PARALLEL) -covermode atomic -coverpkg '$(RACED_COVERED)' -coverprofile build/raced.new

# The garbage collector took a fifth of these tests' time, of heaps of a few megabytes. With the race detector it gains nothing.
unraced: export GOGC = 400

# go test keeps the result of the model, which reads nothing but itself. make model searches it again.
unraced:
	$(TESTRUN) '$(CURDIR)' -plan unraced -count 1 -vet off -timeout 20m -p 1 -parallel $(PARALLEL) -coverpkg '$(COVERED)' -coverprofile build/coverage.new
	$(TESTRUN) '$(CURDIR)' -count 1 -vet off -timeout 20m -run '$(NOT_RACED)' ./core/redisstore ./core/sqlstore
	$(TESTRUN) '$(CURDIR)' -vet off -timeout 20m ./core/internal/explore/model
	$(TESTRUN) '$(CURDIR)/tools' -race -timeout 20m ./...

cover: ## Fail where make race has covered less than 90% of a package
	@test -f build/coverage.out || $(MAKE) --no-print-directory race
	@go -C tools run ./coverage -minimum $(MINIMUM) -exclude '$(NOT_COVERED)' '$(CURDIR)/build/coverage.out'

vet: ## Run go vet on each module alone, with the versions that its own go.mod requires
	for module in $(MODULES); do GOWORK=off go -C "$$module" vet ./... || exit 1; done

api: ## Fail when the API of a published module has changed incompatibly since its last tag, and the change is not accepted
	go -C tools run ./api '$(CURDIR)' $(PUBLISHED)

lint: $(LINTERS) ## Run the linters of .golangci.yml, find values that leave a synctest bubble, and hold the walls between files
	go -C tools run ./bubbles '$(CURDIR)'
	go -C tools run ./walls '$(CURDIR)' $(PUBLISHED)
	$(BIN)/actionlint -no-color -shellcheck= -pyflakes= .github/workflows/*.yml
	@! grep -n 'uses:' .github/workflows/*.yml | grep -vE '@[0-9a-f]{40} # v[0-9.]+$$' || { echo 'pin an action by its commit'; exit 1; }
	$(GOLANGCI_LINT) run $(patsubst %,./%/...,$(filter-out tools,$(MODULES)))
	cd tools && '$(CURDIR)/$(GOLANGCI_LINT)' run --config '$(CURDIR)/.golangci.yml' ./...

walls: ## Lower the numbers of tools/walls/walls.txt to those of today, and print them; it raises none
	go -C tools run ./walls -write '$(CURDIR)' $(PUBLISHED)

fmt: $(LINTERS) ## Format the code
	$(GOFUMPT) -l -w .

fmt-check: $(LINTERS) ## Fail when code is not formatted
	@echo '$(GOFUMPT) -d .'
	@difference=$$($(GOFUMPT) -d .) && test -z "$$difference" || \
		{ printf '%s\n\nNot formatted: make fmt puts it right.\n' "$$difference"; exit 1; }

# go mod tidy leaves the sums of a workspace alone, and most commands add only those that they need. go list -m all needs each
# module of the graph: sums that it has written stay as they are under all other commands.
tidy: ## Tidy all modules, and the sums of the workspaces
	for module in $(MODULES); do go -C "$$module" mod tidy || exit 1; done
	for workspace in . tools; do go -C "$$workspace" list -m all >/dev/null || exit 1; done

tidy-check: ## Fail when a module, or the sums of a workspace, are not tidy
	for module in $(MODULES); do go -C "$$module" mod tidy -diff || exit 1; done
	@mkdir -p build
	for workspace in . tools; do sh tools/sums-check.sh "$$workspace" build/go.work.sum || exit 1; done

fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|/[^/]*:[0-9]+:func | |' | \
	while read -r folder target; do \
		echo "==> $$folder $$target for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -timeout 1h "$$folder" </dev/null || exit 1; \
	done

explore: ## Run SCHEDULES (10000000) simulated schedules of the engine from the seed FROM on; SEED=n repeats one
	ONCEKEY_SCHEDULES=$(SCHEDULES) ONCEKEY_FROM=$(FROM) ONCEKEY_SEED=$(SEED) go test -count 1 -v -timeout 24h -run '^TestExplore$$' ./core/internal/explore

mutants: ## Break the engine in each way of core/internal/explore/mutants; one that no rule of the explorer sees is an error
	go run ./core/internal/explore/mutants

# The package manager of some systems has no Patroni: its row is then left out, and so is the full disk's without root.
availability: ## Measure which requests the guard refuses in failovers, deploys and full disks, and print the table of docs/guarantees.md
	-sh tools/install-servers.sh redis postgresql mariadb galera rsync patroni etcd
	$(IN_MEMORY) ONCEKEY_SOAK=$(SOAK) go test -count 1 -v -run '^TestSoakAvailability$$' -timeout 1h ./core/internal/system/availability

soak: ## Run simulated schedules over real stores, and the other soak tests, for SOAK (10m) each; SEED=n begins there
	@sh tools/install-servers.sh galera rsync patroni etcd
	ONCEKEY_REQUIRE_SERVERS=1 ONCEKEY_SOAK=$(SOAK) ONCEKEY_SEED=$(SEED) go test -count 1 -p 1 -v -run '^TestSoak' -timeout 12h work

bench: ## Measure against peers and floors, and rewrite BENCHMARKS.md; it judges nothing
	go -C examples/bench run . -o '$(CURDIR)/BENCHMARKS.md'

microbench: ## Run the benchmarks beside the code
	go test -run '^$$' -bench . -benchmem -count 1 work

profile: ## Write CPU profiles of a first-time request and a replay to build/
	@mkdir -p build
	go test ./core -run '^$$' -bench '^BenchmarkGuard$$/^first-time$$' -cpuprofile build/first.pprof -o build/core.test
	go test ./core -run '^$$' -bench '^BenchmarkGuard$$/^replay$$' -cpuprofile build/replay.pprof -o build/core.test

release: ## Print the commands that tag VERSION (v0.1.0), in order of dependency
	@go -C tools run ./release -version '$(VERSION)' '$(CURDIR)' $(PUBLISHED)

sbom: ## Write the bill of materials of each module that users get, as CycloneDX, to build/sbom; it needs the network
	@mkdir -p build/sbom
	for module in $(PUBLISHED); do \
		GOWORK=off go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 mod -json -type library \
			-output "build/sbom/$$(GOWORK=off go -C "$$module" list -m | tr / -).json" "$$module" || exit 1; \
	done

vulnerabilities: ## Look for known vulnerabilities in what users get; it needs the network
	for module in $(PUBLISHED); do GOWORK=off go run golang.org/x/vuln/cmd/govulncheck@latest -C "$$module" ./... || exit 1; done

clean: ## Remove what the other targets made
	rm -rf bin build

# Without cgo they build on a machine that has no C compiler too.
$(LINTERS): tools/go.mod tools/go.sum
	CGO_ENABLED=0 go -C tools build -buildvcs=false -o '$(CURDIR)/$(BIN)/' tool
	@touch $@
