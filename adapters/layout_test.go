package adapters_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/oncekey/oncekey"

// imports returns all that the package in the folder links.
func imports(t *testing.T, folder string) []string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go tool: ", err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	list.Dir = filepath.Join("..", folder)
	var said bytes.Buffer
	list.Stderr = &said
	all, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.Bytes())
	}
	return strings.Fields(string(all))
}

// ownParts are the packages of core that the engine is made of.
var ownParts = []string{
	module + "/core/storage", module + "/core/event", module + "/core/problem", module + "/core/internal/cause",
	module + "/core/internal/agenda", module + "/core/internal/examination", module + "/core/internal/frame",
	module + "/core/internal/lazycontext", module + "/core/internal/ledger", module + "/core/internal/machine",
	module + "/core/internal/panicked", module + "/core/internal/rules", module + "/core/internal/steps", module + "/core/internal/wire",
}

// Imports go down one way: adapters to core, core to its contract (storage), its
// events and its problems, stores to the contract alone. So a program that uses one
// router, or one database, does not link the others.
func TestImports(t *testing.T) {
	t.Parallel()
	const gin, chi, redis, pgx, otel = "github.com/gin-gonic/", "github.com/go-chi/", "github.com/redis/", "github.com/jackc/", "go.opentelemetry.io/"
	const yaml, openapi = "github.com/goccy/", "github.com/getkin/"
	contract := []string{yaml, openapi, gin, chi, otel, module + "/adapters", module + "/core", module + "/core/event", module + "/core/problem", "testing"}
	for _, row := range []struct {
		pkg       string
		forbidden []string
	}{
		{"./policy", []string{yaml, gin, chi, redis, pgx, otel, module + "/core", module + "/adapters", module + "/fingerprint"}},
		{"./failure", []string{gin, chi, redis, pgx, otel, module + "/core", module + "/adapters", module + "/fingerprint", module + "/policy"}},
		{"./fingerprint", []string{gin, chi, redis, pgx, otel, module + "/core", module + "/adapters", module + "/failure", module + "/policy"}},
		{"./core", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/adapters", module + "/core/", "testing"}},
		{"./core/storage", append(contract, redis, pgx, module+"/policy", module+"/failure", module+"/fingerprint")},
		{"./core/event", []string{"github.com/gin-gonic/", redis, pgx, otel, module + "/adapters", module + "/core", module + "/core/problem", module + "/policy", "testing"}},
		{"./core/problem", []string{"golang.org/", redis, pgx, otel, module + "/adapters", module + "/core", module + "/core/event", module + "/policy", "testing"}},
		{"./core/handlertest", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/adapters"}},
		{"./core/memstore", append(contract, redis, pgx)},
		{"./core/redisstore", append(contract, pgx)},
		{"./core/pgstore", append(contract, redis)},
		{"./core/sqlstore", append(contract, redis, pgx, "github.com/go-sql-driver/", "modernc.org/")},
		{"./core/tieredstore", append(contract, redis, pgx)},
		{"./core/internal/lazycontext", []string{"github.com/", "golang.org/"}},
		{"./core/internal/machine", []string{"github.com/", "golang.org/"}},
		{"./core/internal/panicked", []string{"github.com/", "golang.org/"}},
		{"./core/internal/wire", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/core", module + "/core/event", module + "/adapters", "testing"}},
		{"./adapters/chi", []string{yaml, openapi, gin, redis, pgx, otel, module + "/core/", module + "/adapters/gin", "testing"}},
		{"./adapters/gin", []string{openapi, chi, redis, pgx, otel, module + "/core/", module + "/adapters/chi", "testing"}},
		{"./adapters/otel", []string{yaml, openapi, gin, chi, redis, pgx, module + "/core/", "testing"}},
		{"./adapters/grpc", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/core/", "connectrpc.com/", "testing"}},
		{"./adapters/connect", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/core/", "google.golang.org/grpc", "testing"}},
		{"./adapters/openapi", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/core/", "testing"}},
		{"./adapters/httpclient", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/core/", "testing"}},
	} {
		t.Run(row.pkg, func(t *testing.T) {
			t.Parallel()
			for _, linked := range imports(t, row.pkg) {
				for _, forbidden := range row.forbidden {
					inside := strings.HasSuffix(forbidden, "/") && strings.HasPrefix(linked, forbidden) && !slices.Contains(ownParts, linked)
					if linked == forbidden || inside {
						t.Errorf("%s links %s", row.pkg, linked)
					}
				}
			}
		})
	}
}

// An adapter translates: a guard, a writer, Mount, Table and Audit in the router's
// words, finds the policy of a route among several (cases 62 and 64), and knows what
// gin keeps from a run (81 and 83). An adapter that grows has begun to decide.
func TestAdaptersStaySmall(t *testing.T) {
	t.Parallel()
	const most = 600
	for _, adapter := range []string{"chi", "gin"} {
		files, err := filepath.Glob(filepath.Join(adapter, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of %s: %v", adapter, err)
		}
		lines := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
					lines++
				}
			}
		}
		if lines > most {
			t.Errorf("the adapter of %s has %d lines of code, want at most %d: its decisions belong in the core", adapter, lines, most)
		}
	}
}
