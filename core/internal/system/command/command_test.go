package command

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
	"github.com/oncekey/oncekey/policy"
)

var must = testkit.Must

// built is the command.
var built serverproc.Shared[string]

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(built.Main(postgrestest.Main(m)))
}

func build(t testing.TB) string {
	t.Helper()
	return serverproc.Build(t, "../../../../adapters/inspector/oncekey", ".")
}

// operator runs the command over one store.
type operator struct {
	*testing.T
	flags  []string
	doctor int // the exit code of doctor: the servers of tests keep nothing on disk
}

// run returns both outputs of the command, and its exit code.
func (o operator) run(stdin string, args ...string) (stdout, stderr string, code int) {
	o.Helper()
	command := exec.CommandContext(o.Context(), built.Get(o, build), append(o.flags, args...)...)
	command.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		o.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// wants runs the command, and checks its exit code and texts of its output.
func (o operator) wants(code int, says, stdin string, args ...string) (stdout, stderr string) {
	o.Helper()
	stdout, stderr, got := o.run(stdin, args...)
	if got != code || !strings.Contains(stdout+stderr, says) {
		o.Errorf("oncekey %s: exit code %d\n%s%s\nwant %d and %q", strings.Join(args, " "), got, stdout, stderr, code, says)
	}
	return stdout, stderr
}

// shop is a service on a store.
type shop struct {
	*testing.T
	guarded http.Handler
	engine  *core.Engine
	running sync.WaitGroup
	proceed chan struct{}
	begun   chan struct{}
}

func openShop(t *testing.T, store storage.Store) *shop {
	t.Helper()
	scope := core.ScopeBy(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil })
	engine := service.Engine(t, store, scope, core.WithInstance("pod-7f9c"))
	s := &shop{T: t, engine: engine, proceed: make(chan struct{}), begun: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", engine.Handler(http.HandlerFunc(s.pay), policy.OnAbandoned(policy.Refuse), policy.StoreTimeout(10*time.Second)))
	s.guarded = mux
	return s
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get(core.KeyHeader) {
	case "order-42":
		failure.MarkUncertain(r.Context(), "the bank timed out")
	case "order-43":
		close(s.begun)
		<-s.proceed
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *shop) post(key, body string) *httptest.ResponseRecorder {
	r := testkit.Post(s.Context(), "/payments", key, body)
	r.Header.Set("Authorization", "alice")
	return testkit.Serve(s.guarded, r)
}

func named(command, key string, more ...string) []string {
	return append([]string{command, "--scope", "alice", "POST /payments", key}, more...)
}

// A night on call: three keys are looked at, one is settled, one forgotten, and one is in
// flight and stays as it is. The service then responds by the operator's decision.
func (o operator) nightOnCall(s *shop) {
	s.post("order-41", `{"amount":4200,"currency":"EUR"}`)
	s.post("order-42", `{"amount":100}`)
	s.running.Go(func() { s.post("order-43", `{"amount":100}`) })
	<-s.begun

	o.wants(0, "COMPLETED", "", named("show", "order-41")...)
	o.wants(1, "no record", "", named("show", "order-99")...)
	o.saysAsAPage(s)
	listed, _ := o.wants(0, `"route":"POST /payments"`, "", "list", "--state", "abandoned", "-o", "ndjson")
	id := regexp.MustCompile(`"record":"([0-9a-f]{64})"`).FindStringSubmatch(listed)
	if len(id) != 2 || strings.Count(listed, "\n") != 1 {
		o.Fatalf("the abandoned records are\n%s\nwant order-42 alone", listed)
	}
	o.wants(0, "ABANDONED", "", "show", id[1][:10])
	o.wants(0, "2 shown", "", "list")
	o.wants(0, "currency", `{"amount":9900,"currency":"EUR"}`, named("explain", "order-41", "--body", "-")...)

	o.wants(1, "its handler may be running", "", named("settle", "order-43", "--happened", "--why", "INC-2291")...)
	o.wants(1, "its handler may be running", "", named("forget", "order-43", "--why", "INC-2291")...)
	_, log := o.wants(0, "never run", "", "settle", id[1], "--happened", "--why", "INC-2291", "--as", "m.ortiz")
	if !strings.Contains(log, "result=settled_by_hand") || !strings.Contains(log, "operator=m.ortiz reason=INC-2291") {
		o.Errorf("the log of settle is\n%s\nwant the event with operator and reason", log)
	}
	o.wants(0, "An operator has settled it: it happened.", "", "show", id[1])
	o.wants(1, "not confirmed", "y\n", named("forget", "order-41", "--why", "INC-2292")...)
	first, _ := o.wants(0, "COMPLETED", "", named("show", "order-41")...)
	o.wants(0, "the next retry runs", first[:8]+"\n", named("forget", "order-41", "--why", "INC-2292")...)
	o.wants(o.doctor, `canary","grade":"good"`, "", "doctor", "-o", "ndjson")

	close(s.proceed)
	s.running.Wait()
	for key, status := range map[string]int{"order-41": http.StatusCreated, "order-42": http.StatusConflict, "order-43": http.StatusCreated} {
		if got := s.post(key, `{"amount":100}`); got.Code != status {
			s.Errorf("%s: %d %s, want %d", key, got.Code, got.Body, status)
		}
	}
}

// saysAsAPage checks that show over a store says the same as over a page (Case 100): what a retry gets, by the program's file
// of policies, and the downstream keys of the given names. Without them it says what is missing.
func (o operator) saysAsAPage(s *shop) {
	file := filepath.Join(o.TempDir(), "idempotency.yaml")
	must(o, os.WriteFile(file, []byte("routes:\n  POST /payments: {OnAbandoned: Refuse, RememberHours: 24}\n"), 0o600))
	id := s.engine.StorageKey("alice", "POST", "/payments", "order-42")
	full, _ := o.wants(0, "A retry gets 409 outcome_unknown, until ", "", named("show", "order-42", "--policies", file, "--derive", "charge")...)
	for _, text := range []string{
		"The route's policy refuses to run it again.", "and then 409 outcome_unknown for another 24 h. Then a retry would run.",
		"downstream  charge  " + core.DerivedKey(id, "charge"), "policy      RememberHours=24", "OnAbandoned=Refuse", "(" + file + ")",
	} {
		if !strings.Contains(full, text) || strings.Contains(full, "\nnote") {
			o.Errorf("show with --policies and --derive says\n%s\nwant %q and no note", full, text)
		}
	}
	bare, _ := o.wants(0, "A retry gets 409 outcome_unknown or a run of the handler, as the route's policy decides.", "", named("show", "order-42")...)
	if !strings.Contains(bare, "give --policies") || !strings.Contains(bare, "give --derive") {
		o.Errorf("show says\n%s\nwant the flags that are missing", bare)
	}
	o.wants(0, file, `{}`, named("explain", "order-41", "--body", "-", "--policies", file)...)
	o.wants(0, "Then a retry would run, unless the route's policy has Remember.", "", named("show", "order-41")...)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := service.Redis(t, redis.Options{Addr: server.Addr()})
	o := operator{t, []string{"--redis", "redis://" + server.Addr() + "/0", "--prefix", "shop:"}, 1}
	o.nightOnCall(openShop(t, redisstore.New(rdb, redisstore.Prefix("shop:"))))
}

// The tables come from the command, and its sweep removes a record that has expired.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	pool := service.Pool(t, dsn)
	_, err := pool.Exec(t.Context(), "CREATE SCHEMA shop")
	must(t, err)
	o := operator{t, []string{"--postgres", dsn, "--table", "shop.records"}, 1}
	newest := fmt.Sprint(len(pgstore.Migrations()))
	o.wants(1, "missing: version 1, ", "", "migrate", "status")
	o.wants(0, "missing: version "+newest, "", "migrate", "--dry-run")
	script, _ := o.wants(0, "-- version 1: ", "", "migrate", "--print-sql")
	if !strings.Contains(script, "COMMIT;") {
		o.Errorf("the SQL is\n%s\nwant transactions", script)
	}
	o.wants(0, "are now of version "+newest, "", "migrate")
	o.wants(0, "tables of version "+newest, "", "migrate", "status")
	o.nightOnCall(openShop(t, pgstore.New(pool, pgstore.Table("shop.records"))))

	_, err = pool.Exec(t.Context(), "UPDATE shop.records SET expires_at = 1, sweep_after = 1")
	must(t, err)
	o.wants(0, `"removed":3`, "", "sweep", "-o", "ndjson")
}

func TestTieredStore(t *testing.T) {
	t.Parallel()
	server, dsn := redistest.Start(t), postgrestest.Shared(t)
	rdb := service.Redis(t, redis.Options{Addr: server.Addr()})
	o := operator{t, []string{"--redis", "redis://" + server.Addr(), "--postgres", dsn}, 1}
	o.wants(0, "are now of version", "", "migrate")
	o.nightOnCall(openShop(t, tieredstore.New(redisstore.New(rdb), pgstore.New(service.Pool(t, dsn)))))
}

// The secrets of an address are not in an error.
func TestErrorsNameNoPassword(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{
		{"--redis", "redis://shop:hunter2@127.0.0.1:1/0"},
		{"--postgres", "postgres://shop:hunter2@127.0.0.1:1/shop"},
		{"--url", "http://shop:hunter2@127.0.0.1:1/ops"},
		{"--postgres", "postgres://shop:hunter2@127.0.0.1:x/shop"},
		{"--redis", "redis://shop:hunter2@127.0.0.1:x/0"},
		{"--url", "://shop:hunter2@127.0.0.1:x/0"},
	} {
		stdout, stderr, code := operator{t, flags, 0}.run("", "list")
		if code == 0 || strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%s: exit code %d and\n%s%s\nwant a failure without the password", flags, code, stdout, stderr)
		}
	}
}
