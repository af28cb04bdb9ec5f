package consumers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

const (
	module = "github.com/oncekey/oncekey"
	root   = "../../../.."
)

// foreign are modules whose versions must not depend on this library, unless a program requires the part that uses them.
var foreign = []string{
	"go.opentelemetry.io/otel", "github.com/prometheus/client_golang", "github.com/getkin/kin-openapi", "github.com/jackc/pgx/v5",
	"github.com/chromedp/chromedp", "github.com/stripe/stripe-go/v84", "github.com/gofiber/fiber/v3", "github.com/anishathalye/porcupine",
	"github.com/standard-webhooks/standard-webhooks/libraries", "github.com/alecthomas/kong",
	"google.golang.org/grpc", "connectrpc.com/connect", "github.com/modelcontextprotocol/go-sdk", "modernc.org/sqlite", "github.com/go-sql-driver/mysql",
	"github.com/lib/pq", "github.com/mattn/go-sqlite3",
}

// everywhere are the modules whose code each program links.
const everywhere = "github.com/felixge/httpsnoop github.com/tidwall/gjson github.com/tidwall/match github.com/tidwall/pretty github.com/tidwall/sjson golang.org/x/net golang.org/x/text"

// A program links the modules that it uses. Its graph, in which each module raises the versions of others, has those of the
// root module and of the part that it requires. The numbers change with the versions in go.mod: larger ones say that users
// get more.
func TestConsumers(t *testing.T) {
	t.Parallel()
	parts := published(t)
	type row struct {
		program string
		part    string // the module that is required beside the root, and
		lifts   string // those of foreign that it is for
		linked  string // beside the modules that are linked everywhere
		sums    int    // lines of go.sum
		graph   int    // modules of the graph
	}
	testkit.Each(t, map[string]row{
		"net-http": {program: plain, sums: 16, graph: 46},
		"chi":      {program: chi, sums: 18, graph: 46, linked: "github.com/go-chi/chi/v5"},
		"gin": {program: gin, sums: 103, graph: 67, linked: `github.com/gabriel-vasile/mimetype github.com/gin-contrib/sse github.com/gin-gonic/gin
			github.com/go-playground/locales github.com/go-playground/universal-translator github.com/go-playground/validator/v10
			github.com/goccy/go-yaml github.com/leodido/go-urn github.com/mattn/go-isatty github.com/pelletier/go-toml/v2
			github.com/quic-go/qpack github.com/quic-go/quic-go github.com/ugorji/go/codec go.mongodb.org/mongo-driver/v2
			golang.org/x/crypto golang.org/x/sys google.golang.org/protobuf`},
		"Redis": {program: redis, sums: 36, graph: 51, linked: `github.com/cespare/xxhash/v2 github.com/redis/go-redis/v9 go.uber.org/atomic
			golang.org/x/sys`},
		"PostgreSQL": {
			program: postgres, part: "/core/pgstore", lifts: "github.com/jackc/pgx/v5", sums: 40, graph: 58,
			linked: `github.com/jackc/pgpassfile github.com/jackc/pgservicefile github.com/jackc/pgx/v5 github.com/jackc/puddle/v2
				golang.org/x/sync`,
		},
		// The module's tests use the drivers. A program links the driver that it imports.
		"database/sql": {
			program: databaseSQL, part: "/core/sqlstore", sums: 54, graph: 62,
			lifts: "github.com/jackc/pgx/v5 github.com/lib/pq github.com/go-sql-driver/mysql modernc.org/sqlite github.com/mattn/go-sqlite3",
		},
		"metrics": {
			program: metrics, part: "/adapters/otel", lifts: "go.opentelemetry.io/otel", sums: 47, graph: 65,
			linked: `github.com/cespare/xxhash/v2 github.com/go-logr/logr github.com/go-logr/stdr go.opentelemetry.io/auto/sdk
				go.opentelemetry.io/otel go.opentelemetry.io/otel/log go.opentelemetry.io/otel/metric go.opentelemetry.io/otel/trace`,
		},
		"gRPC": {
			program: grpc, part: "/adapters/grpc", lifts: "google.golang.org/grpc go.opentelemetry.io/otel", sums: 32, graph: 76, // gRPC requires OpenTelemetry
			linked: `github.com/google/uuid golang.org/x/sys google.golang.org/genproto/googleapis/rpc google.golang.org/grpc google.golang.org/protobuf`,
		},
		"Connect": {
			program: connect, part: "/adapters/connect", lifts: "connectrpc.com/connect", sums: 26, graph: 52,
			linked: `connectrpc.com/connect github.com/google/uuid google.golang.org/genproto/googleapis/rpc google.golang.org/protobuf`,
		},
		"MCP": {
			program: mcpServer, part: "/adapters/mcp", lifts: "github.com/modelcontextprotocol/go-sdk", sums: 42, graph: 57,
			linked: `github.com/google/jsonschema-go github.com/google/uuid github.com/modelcontextprotocol/go-sdk github.com/segmentio/asm github.com/segmentio/encoding
				github.com/yosida95/uritemplate/v3 golang.org/x/oauth2 golang.org/x/sync golang.org/x/sys golang.org/x/time`,
		},
	}, func(t *testing.T, row row) {
		user := newUser(t, parts, row.program, row.part)
		user.run("mod", "tidy")
		linked := user.compile("{{with .Module}}{{.Path}}{{end}}")
		linked = slices.DeleteFunc(linked, func(path string) bool { return path == "example.org/shop" || slices.Contains(parts, path) })
		if got, want := strings.Join(linked, " "), sorted(everywhere+" "+row.linked); got != want {
			t.Errorf("the program links\n%s\nwant\n%s", got, want)
		}
		sums, graph := user.sums(), user.graph() // in this order: the graph adds to go.sum
		for _, path := range foreign {
			testkit.Equal(t, slices.Contains(graph, path), slices.Contains(strings.Fields(row.lifts), path), "whether %s is in the module graph", path)
		}
		if sums != row.sums || len(graph) != row.graph {
			t.Errorf("go.sum has %d lines and the graph %d modules, want %d and %d", sums, len(graph), row.sums, row.graph)
		}
	})
}

func sorted(words string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Fields(words))), " ")
}

// published returns the paths of the modules that users get, sorted.
func published(t *testing.T) []string {
	t.Helper()
	var paths []string
	public, _ := modules(t)
	for _, folder := range public {
		paths = append(paths, path.Join(module, folder))
	}
	return paths
}

// folderOf returns the folder of a module in the checkout.
func folderOf(part string) string { return filepath.Join(root, strings.TrimPrefix(part, module)) }

// user is a module that requires this library.
type user struct {
	t           *testing.T
	folder      string
	environment []string
}

// newUser writes the module, and replaces the modules of this repository by the checkout. Its go tool downloads the
// modules that the cache lacks: make check has them all, from go mod tidy of this repository's modules, whose sums are checked there.
func newUser(t *testing.T, parts []string, program, part string) user {
	t.Helper()
	var mod strings.Builder
	mod.WriteString("module example.org/shop\n\ngo 1.26.0\n")
	for _, path := range slices.Compact([]string{module, module + part}) {
		fmt.Fprintf(&mod, "\nrequire %s v0.0.0\n", path)
	}
	for _, part := range parts {
		folder, err := filepath.Abs(folderOf(part))
		testkit.Must(t, err)
		fmt.Fprintf(&mod, "replace %s => %q\n", part, folder) // it may have a space
	}
	u := user{t: t, folder: t.TempDir(), environment: []string{"GOFLAGS=-mod=mod", "GOSUMDB=off"}}
	u.write("go.mod", mod.String())
	u.write("main.go", program)
	return u
}

func (u user) write(name, text string) {
	u.t.Helper()
	testkit.Must(u.t, os.WriteFile(filepath.Join(u.folder, name), []byte(text), 0o600))
}

// run runs the go tool without a workspace.
func (u user) run(arguments ...string) string {
	u.t.Helper()
	command := exec.CommandContext(u.t.Context(), "go", arguments...)
	command.Dir = u.folder
	command.Env = append(append(os.Environ(), "GOWORK=off"), u.environment...)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		u.t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, said.Bytes())
	}
	return string(output)
}

// compile compiles the program, and returns the different lines that go list prints about its packages, sorted. It does
// not link: the tests of the modules do, and linking takes most of go build's time.
func (u user) compile(format string) []string {
	u.t.Helper()
	return different(strings.Fields(u.run("list", "-export", "-deps", "-f", format, ".")))
}

// graph returns the modules of the graph, sorted. go list -m all would need more than the cache has.
func (u user) graph() []string {
	u.t.Helper()
	var paths []string
	for word := range strings.FieldsSeq(u.run("mod", "graph")) {
		if path, _, _ := strings.Cut(word, "@"); path != "example.org/shop" && path != "go" && path != "toolchain" {
			paths = append(paths, path)
		}
	}
	return different(paths)
}

func different(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// sums counts the lines of go.sum, as go mod tidy and go build leave it.
func (u user) sums() int {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.folder, "go.sum"))
	testkit.Must(u.t, err)
	return bytes.Count(text, []byte("\n"))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(mysqltest.Main(postgrestest.Main(m))) }
