package adapters_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

const module = "github.com/oncekey/oncekey/"

type wall struct{ linked, by string }

// walls are what only some packages link, through others too: a program that uses one router, or one database, links no other,
// and imports go one way. Adapters import the core, the core its contract (storage), events, problems and marks, and a store the
// contract alone. A name with "/" at its end stands for a folder. A package links its own name and what is in its folder. What a nested
// module links is in its go.mod, and TestConsumers counts it.
var walls = []wall{
	{"github.com/go-chi/", "adapters/chi/"},
	{"github.com/gin-gonic/", "adapters/gin/"},
	{"github.com/redis/", "core/redisstore internal/testkit/redis"},
	{"github.com/goccy/", "policy/tablefile adapters/gin/"},
	{"go.uber.org/goleak", ""},
	{"testing", "core/storetest core/handlertest core/internal/explore internal/testkit/ adapters/internal/rpc/rpctest"},

	{module + "adapters/", ""},
	{module + "core", users},
	{module + "core/internal/ledger", users + " core"},
	{module + "core/event", users + " core core/internal/ledger core/internal/rules"},
	{module + "core/problem", users + " core core/internal/ledger core/internal/rules core/internal/wire"},
	{module + "policy", users + " core core/internal/ledger core/internal/wire core/pgstore core/sqlstore policy/tablefile"},
	{module + "failure", users + " core core/internal/ledger core/internal/rules core/internal/wire core/pgstore core/sqlstore policy/"},
	{module + "fingerprint", users + " core core/event core/internal/ledger core/internal/rules core/internal/wire internal/testkit/"},
	{module + "core/storage", "core/ adapters/ internal/testkit/"},
	{module + "core/memstore", "core/handlertest adapters/internal/rpc/rpctest"},
	{module + "core/internal/sqlrows", "core/pgstore core/sqlstore"},
	{module + "core/storetest", ""},
	{module + "core/handlertest", ""},
}

// users are the packages above the engine.
const users = "adapters/ core/handlertest core/storetest core/internal/explore"

// programs link what they please.
var programs = []string{"adapters/inspector/oncekey", "core/internal/system/", "core/internal/foreign/", "examples/"}

func TestImports(t *testing.T) {
	t.Parallel()
	links := linksOf(t)
	every := walls
	for pkg := range links { // no adapter and no other store links these
		folder, name := path.Split(pkg)
		if folder == "adapters/" || folder == "core/" && strings.HasSuffix(name, "store") && name != "memstore" {
			every = append(every, wall{module + pkg + "/", ""})
		}
	}
	for _, wall := range every {
		seen := false
		for pkg, all := range links {
			if among(pkg, programs) || among(module+pkg, []string{wall.linked, wall.linked + "/"}) {
				continue
			}
			may := among(pkg, strings.Fields(wall.by))
			for _, linked := range all {
				if !among(linked, []string{wall.linked}) {
					continue
				}
				if seen = true; !may {
					t.Errorf("%s links %s: only %q may", pkg, linked, wall.by)
				}
			}
		}
		if wall.by != "" && !seen {
			t.Errorf("nothing links %s", wall.linked)
		}
	}
}

// linksOf returns what each package of the workspace links, tests apart.
func linksOf(t *testing.T) map[string][]string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go tool: ", err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`, "work")
	var said bytes.Buffer
	list.Stderr = &said
	text, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.Bytes())
	}
	links := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		pkg, all, _ := strings.Cut(strings.TrimSpace(line), " ")
		links[strings.TrimPrefix(pkg, module)] = strings.Fields(all)
	}
	return links
}

// among reports whether a name is one of several, or in one of their folders.
func among(name string, several []string) bool {
	return slices.ContainsFunc(several, func(one string) bool {
		folder := strings.HasSuffix(one, "/")
		return name == strings.TrimSuffix(one, "/") || folder && strings.HasPrefix(name, one)
	})
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
			testkit.Must(t, err)
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
