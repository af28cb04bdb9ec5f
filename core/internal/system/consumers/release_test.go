package consumers

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// released is the version of the rehearsal, which no other version influences: it has a module cache of its own.
const released = "v0.1.0"

// A release of this checkout, as make release would tag it, can be installed by a stranger: each module alone, the README's
// program on each router and over each store, and the command.
func TestRelease(t *testing.T) {
	t.Parallel()
	parts := published(t)
	stranger := newStranger(t, parts)
	t.Run("modules", func(t *testing.T) {
		for _, part := range parts {
			u := stranger.module(t)
			u.run("get", part+"@"+released)
			u.run("list", "-deps", part+"/...")
			testkit.Equal(t, u.run("list", "-m", part), part+" "+released+"\n", "go get %s@%s chose", part, released)
		}
	})
	program := readme(t)
	for name, edit := range map[string]func(p *readmeProgram, t *testing.T){
		"chi": nil, "gin": (*readmeProgram).onGin, "net-http": (*readmeProgram).onNetHTTP,
		"Redis": (*readmeProgram).overRedis, "PostgreSQL": (*readmeProgram).overPostgreSQL, "database-sql": (*readmeProgram).overMariaDB,
		"Redis over PostgreSQL": (*readmeProgram).overBoth,
	} {
		t.Run(name, func(t *testing.T) {
			edited := program
			if edit != nil {
				edit(&edited, t)
			}
			u := stranger.module(t)
			for _, part := range edited.modules {
				u.run("get", part+"@"+released)
			}
			u.write("main.go", edited.text)
			u.run("mod", "tidy")
			u.run("build", "-o", "shop", ".")
			paysOnce(t, filepath.Join(u.folder, "shop"), edited.arguments)
		})
	}
	t.Run("command", func(t *testing.T) {
		u := stranger.module(t)
		u.environment = append(u.environment, "GOBIN="+u.folder)
		u.run("install", module+"/adapters/inspector/oncekey@"+released)
		said, err := exec.CommandContext(t.Context(), filepath.Join(u.folder, "oncekey"), "version").CombinedOutput()
		if want := "oncekey " + released + " " + runtime.Version() + "\n"; err != nil || string(said) != want {
			t.Errorf("the command says %q and ends with %v, want %q", said, err, want)
		}
	})
}

// newStranger rehearses the release, and returns a user who has nothing of it yet.
func newStranger(t *testing.T, parts []string) user {
	t.Helper()
	folder := serverproc.Folder(t) // a module cache is many small files
	checkout, err := filepath.Abs(root)
	testkit.Must(t, err)
	arguments := []string{"run", "./release", "-version", released, "-rehearse", folder, checkout}
	for _, part := range parts {
		arguments = append(arguments, "."+strings.TrimPrefix(part, module))
	}
	rehearsal := exec.CommandContext(t.Context(), "go", arguments...)
	rehearsal.Dir = filepath.Join(checkout, "tools")
	var said strings.Builder
	rehearsal.Stderr = &said
	proxies, err := rehearsal.Output()
	if err != nil {
		t.Fatalf("the release cannot be rehearsed: %v\n%s", err, &said)
	}
	return user{environment: []string{
		"GOPROXY=" + strings.TrimSpace(string(proxies)), "GOSUMDB=off", "GOMODCACHE=" + filepath.Join(folder, "modules"),
		// Compiled packages are the same in each rehearsal, whose folder has another name. Debug information takes a third of a build.
		"GOFLAGS=-mod=mod -modcacherw -trimpath -ldflags=-s",
	}}
}

// module returns a new module of the same user.
func (u user) module(t *testing.T) user {
	t.Helper()
	u.t, u.folder = t, t.TempDir()
	u.run("mod", "init", "example.org/shop")
	return u
}

// readmeProgram is the README's whole program, or one that is edited by the README's other snippets.
type readmeProgram struct {
	text      string
	others    string // the snippet with the other routers
	modules   []string
	arguments []string // beside the address to listen on
}

func readme(t *testing.T) readmeProgram {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	testkit.Must(t, err)
	p := readmeProgram{modules: []string{module}}
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		switch {
		case strings.HasPrefix(block[1], "package main"):
			p.text = block[1]
		case strings.Contains(block[1], "gin.New("):
			p.others = block[1]
		}
	}
	p.replace(t, `"127.0.0.1:8080"`, `os.Args[1]`)
	p.replace(t, `"net/http"`, "\"net/http\"\n\t\"os\"")
	return p
}

// replace replaces a part of the program, which must be there once.
func (p *readmeProgram) replace(t *testing.T, part, by string) {
	t.Helper()
	before, after, found := strings.Cut(p.text, part)
	if !found || strings.Contains(after, part) {
		t.Fatalf("README's program does not have %q once:\n%s", part, p.text)
	}
	p.text = before + by + after
}

// onRouter replaces the lines from the first to the last prefix by others.
func (p *readmeProgram) onRouter(t *testing.T, first, last, by string) {
	t.Helper()
	begin, end := strings.Index(p.text, "\t"+first), strings.Index(p.text, "\t"+last)
	if begin < 0 || end < begin {
		t.Fatalf("README's program has no lines from %q to %q:\n%s", first, last, p.text)
	}
	p.text = p.text[:begin] + by + p.text[end:]
	p.replace(t, "\t\"github.com/go-chi/chi/v5\"\n", "")
	p.replace(t, "\tidemchi \"github.com/oncekey/oncekey/adapters/chi\"\n", "")
}

func (p *readmeProgram) onGin(t *testing.T) {
	t.Helper()
	lines, _, _ := strings.Cut(p.others, "guarded :=")
	p.onRouter(t, "login :=", "server :=", lines)
	p.replace(t, "\t\"github.com/go-chi/chi/v5/middleware\"\n", "\t\"github.com/gin-gonic/gin\"\n\tidemgin \"github.com/oncekey/oncekey/adapters/gin\"\n")
	p.text += "\nfunc payGin(c *gin.Context) { pay(c.Writer, c.Request) }\n"
}

func (p *readmeProgram) onNetHTTP(t *testing.T) {
	t.Helper()
	_, lines, _ := strings.Cut(p.others, "guarded :=")
	p.onRouter(t, "r := ", "server :=", "\tmux := http.NewServeMux()\n\tguarded :="+lines)
	p.replace(t, "Handler: r,", "Handler: mux,")
}

// over replaces the store in memory by the result of a function.
func (p *readmeProgram) over(t *testing.T, function string, imports ...string) {
	t.Helper()
	p.replace(t, "memstore.New()", "openStore()")
	p.replace(t, "\t\"github.com/oncekey/oncekey/core/memstore\"\n", "\t"+strings.Join(imports, "\n\t")+"\n\t\"github.com/oncekey/oncekey/core/storage\"\n")
	p.text += "\nfunc openStore() storage.Store {" + function + "}\n"
}

const (
	openRedis = `
	client := redis.NewClient(&redis.Options{Addr: os.Args[2]})
`
	openPool = `
	pool, err := pgxpool.New(context.Background(), os.Args[len(os.Args)-1])
	if err != nil {
		panic(err)
	}
	if err := pgstore.Migrate(context.Background(), pool); err != nil {
		panic(err)
	}
`
)

func (p *readmeProgram) overRedis(t *testing.T) {
	t.Helper()
	p.over(t, openRedis+"return redisstore.New(client)", `"github.com/redis/go-redis/v9"`, `"github.com/oncekey/oncekey/core/redisstore"`)
	p.arguments = []string{redistest.Start(t).Addr()}
}

func (p *readmeProgram) overPostgreSQL(t *testing.T) {
	t.Helper()
	p.over(t, openPool+"return pgstore.New(pool)", `"context"`, `"github.com/jackc/pgx/v5/pgxpool"`, `"github.com/oncekey/oncekey/core/pgstore"`)
	p.modules = append(p.modules, module+"/core/pgstore")
	p.arguments = []string{postgrestest.Shared(t)}
}

func (p *readmeProgram) overBoth(t *testing.T) {
	t.Helper()
	p.over(t, openRedis+openPool+"return tieredstore.New(redisstore.New(client), pgstore.New(pool))",
		`"context"`, `"github.com/jackc/pgx/v5/pgxpool"`, `"github.com/redis/go-redis/v9"`, `"github.com/oncekey/oncekey/core/pgstore"`,
		`"github.com/oncekey/oncekey/core/redisstore"`, `"github.com/oncekey/oncekey/core/tieredstore"`)
	p.modules = append(p.modules, module+"/core/pgstore")
	p.arguments = []string{redistest.Start(t).Addr(), postgrestest.Shared(t)}
}

func (p *readmeProgram) overMariaDB(t *testing.T) {
	t.Helper()
	p.over(t, `
	db, err := sql.Open("mysql", os.Args[2])
	if err != nil {
		panic(err)
	}
	if err := sqlstore.Migrate(context.Background(), db, sqlstore.MySQL()); err != nil {
		panic(err)
	}
	return sqlstore.New(db, sqlstore.MySQL())
`, `"context"`, `"database/sql"`, `_ "github.com/go-sql-driver/mysql"`, `"github.com/oncekey/oncekey/core/sqlstore"`)
	p.modules = append(p.modules, module+"/core/sqlstore")
	p.arguments = []string{mysqltest.MariaDB.Shared(t)}
}

// paysOnce runs a program. A retry gets the stored response, and a request without a login none.
func paysOnce(t *testing.T, program string, arguments []string) {
	t.Helper()
	var address string
	var running *serverproc.Process
	serverproc.StartOnFreePort(t, func(port int) error {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		running = serverproc.Start(t, "shop", exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{address}, arguments...)...))
		return running.Await(func(ctx context.Context) error {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				err = connection.Close()
			}
			return err
		})
	}, func() bool { return running.PortTaken() })
	first, _ := pays(t, address, "alice")
	if !strings.HasPrefix(first, "200 pay_") {
		t.Errorf("the first request got %q, want a payment", first)
	}
	if again, replayed := pays(t, address, "alice"); again != first || !replayed {
		t.Errorf("the retry got %q, replayed: %t, want a replay of %q", again, replayed, first)
	}
	if refused, _ := pays(t, address, "nobody"); !strings.HasPrefix(refused, "401 ") {
		t.Errorf("a request without a login got %q, want 401", refused)
	}
}

// pays sends a payment until the store has been quick enough, and returns the status and the body of the response.
func pays(t *testing.T, address, user string) (response string, replayed bool) {
	t.Helper()
	testkit.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/payments", strings.NewReader("amount=42"))
		testkit.Must(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Idempotency-Key", "k1")
		request.SetBasicAuth(user, "pw")
		request.Close = true
		got, err := http.DefaultClient.Do(request)
		testkit.Must(t, err)
		defer got.Body.Close()
		body, err := io.ReadAll(got.Body)
		testkit.Must(t, err)
		response, replayed = strconv.Itoa(got.StatusCode)+" "+string(body), got.Header.Get("X-Idempotent-Replay") == "true"
		return got.StatusCode != http.StatusServiceUnavailable
	})
	return response, replayed
}
