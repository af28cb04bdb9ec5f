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

// imports returns all that the packages link.
func imports(t *testing.T, packages ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go tool: ", err)
	}
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, packages...)...)
	list.Dir = ".."
	var said bytes.Buffer
	list.Stderr = &said
	all, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.Bytes())
	}
	return strings.Fields(string(all))
}

// Who uses one router, or one database, does not link the others.
func TestImports(t *testing.T) {
	t.Parallel()
	const gin, chi, redis, pgx, otel = "github.com/gin-gonic/", "github.com/go-chi/", "github.com/redis/", "github.com/jackc/", "go.opentelemetry.io/"
	const yaml, openapi = "github.com/goccy/", "github.com/getkin/"
	ownParts := []string{module + "/core/internal/lazycontext", module + "/core/internal/machine"} // of core
	for _, row := range []struct {
		pkg       string
		forbidden []string
	}{
		{"./policy", []string{yaml, gin, chi, redis, pgx, otel, module + "/core", module + "/adapters", module + "/fingerprint"}},
		{"./failure", []string{gin, chi, redis, pgx, otel, module + "/core", module + "/adapters", module + "/fingerprint", module + "/policy"}},
		{"./fingerprint", []string{gin, chi, redis, pgx, otel, module + "/core", module + "/adapters", module + "/failure", module + "/policy"}},
		{"./core", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/adapters", module + "/core/", "testing"}},
		{"./core/internal/lazycontext", []string{"github.com/", "golang.org/"}},
		{"./core/internal/machine", []string{"github.com/", "golang.org/"}},
		{"./adapters/chi", []string{yaml, openapi, gin, redis, pgx, otel, module + "/core/", module + "/adapters/gin", "testing"}},
		{"./adapters/gin", []string{openapi, chi, redis, pgx, otel, module + "/core/", module + "/adapters/chi", "testing"}},
		{"./adapters/otel", []string{yaml, openapi, gin, chi, redis, pgx, module + "/core/", "testing"}},
		{"./adapters/httpclient", []string{yaml, openapi, gin, chi, redis, pgx, otel, module + "/core/", "testing"}},
	} {
		t.Run(row.pkg, func(t *testing.T) {
			t.Parallel()
			for _, linked := range imports(t, row.pkg) {
				if slices.Contains(ownParts, linked) {
					continue
				}
				for _, forbidden := range row.forbidden {
					if linked == strings.TrimSuffix(forbidden, "/") && !strings.HasSuffix(forbidden, "/") ||
						strings.HasSuffix(forbidden, "/") && strings.HasPrefix(linked, forbidden) {
						t.Errorf("%s links %s", row.pkg, linked)
					}
				}
			}
		})
	}
}

// An adapter translates: a guard, a writer, Mount, Table and Audit in the router's
// words, and finds the policy of a route among several (cases 62 and 64). One that
// grows has begun to decide.
func TestAdaptersStaySmall(t *testing.T) {
	t.Parallel()
	const most = 500
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
			t.Errorf("the adapter of %s has %d lines of code, want at most %d: what it decides belongs into the core", adapter, lines, most)
		}
	}
}
