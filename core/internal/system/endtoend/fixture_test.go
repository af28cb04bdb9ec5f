package endtoend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

const (
	// patience bounds every wait. It is generous: only a failure takes that long.
	patience = time.Minute
	// longStoreTimeout is that of tests whose servers respond or refuse: a busy server is not late. The tests with
	// servers that do not respond wait for shortStoreTimeout.
	longStoreTimeout, shortStoreTimeout = 20 * time.Second, time.Second
)

// outage is an outage of a server, and its end.
type outage struct {
	begin, end   func(server)
	storeTimeout time.Duration
}

var outages = map[string]outage{
	"stopped": {server.Stop, server.Restart, longStoreTimeout},
	"killed":  {server.Kill, server.Restart, longStoreTimeout},
	"frozen":  {server.Pause, server.Resume, shortStoreTimeout},
}

// server is a server of Redis or PostgreSQL.
type server interface {
	Stop()
	Kill()
	Restart()
	Pause()
	Resume()
}

// fixture is the store and the ledger file that the processes of a test share.
type fixture struct {
	t        *testing.T
	redis    *redistest.Server
	database *database
	flags    []string // the flags that name the store
	ledger   string
	lockTTL  time.Duration
	// storeTimeout is for the processes that are started next.
	storeTimeout time.Duration
}

// newFixture starts a new Redis.
func newFixture(t *testing.T, lockTTL time.Duration, redisArguments ...string) *fixture {
	t.Helper()
	f := bareFixture(t, lockTTL)
	f.redis = redistest.Start(t, redisArguments...)
	f.flags = []string{"-store", "redis", "-redis", f.redis.URL()}
	return f
}

// newPostgresFixture creates a new database on the server that all tests share.
func newPostgresFixture(t *testing.T, lockTTL time.Duration) *fixture {
	t.Helper()
	return newFixtureAt(t, lockTTL, postgrestest.Shared(t))
}

// newFixtureAt uses an existing database.
func newFixtureAt(t *testing.T, lockTTL time.Duration, dsn string) *fixture {
	t.Helper()
	f := bareFixture(t, lockTTL)
	f.database = openDatabase(t, "pgx", dsn)
	f.flags = []string{"-store", "postgres", "-postgres", dsn}
	return f
}

// newTieredFixture starts a Redis in front of a database.
func newTieredFixture(t *testing.T, lockTTL time.Duration, dsn string) *fixture {
	t.Helper()
	f := newFixtureAt(t, lockTTL, dsn)
	f.redis = redistest.Start(t)
	f.flags = []string{"-store", "tiered", "-redis", f.redis.URL(), "-postgres", dsn}
	return f
}

// newSQLiteFixture uses a new file.
func newSQLiteFixture(t *testing.T, lockTTL time.Duration) *fixture {
	t.Helper()
	f := bareFixture(t, lockTTL)
	f.flags = []string{"-store", "sqlite", "-file", filepath.Join(serverproc.Folder(t), "payments.db")}
	return f
}

// newMySQLFixture creates a new database on the server that all tests share.
func newMySQLFixture(t *testing.T, lockTTL time.Duration) *fixture {
	t.Helper()
	return newFixtureOver(t, lockTTL, mysqltest.MySQL.Shared(t))
}

// newMariaDBFixture is newMySQLFixture on MariaDB.
func newMariaDBFixture(t *testing.T, lockTTL time.Duration) *fixture {
	t.Helper()
	return newFixtureOver(t, lockTTL, mysqltest.MariaDB.Shared(t))
}

// newFixtureOver uses an existing database of MySQL or MariaDB.
func newFixtureOver(t *testing.T, lockTTL time.Duration, dsn string) *fixture {
	t.Helper()
	f := bareFixture(t, lockTTL)
	f.database = openDatabase(t, "mysql", dsn)
	f.flags = []string{"-store", "mysql", "-dsn", dsn}
	return f
}

func bareFixture(t *testing.T, lockTTL time.Duration) *fixture {
	t.Helper()
	return &fixture{t: t, lockTTL: lockTTL, storeTimeout: longStoreTimeout, ledger: filepath.Join(t.TempDir(), "ledger")}
}

// onEachStore runs a test of the engine on each store, because the place of the records
// must not matter.
func onEachStore(t *testing.T, lockTTL time.Duration, test func(*testing.T, *fixture)) {
	t.Helper()
	testkit.Each(t, map[string]func(*testing.T, time.Duration) *fixture{
		"redis":    func(t *testing.T, lockTTL time.Duration) *fixture { return newFixture(t, lockTTL) },
		"postgres": newPostgresFixture,
		"sqlite":   newSQLiteFixture,
		"mariadb":  newMariaDBFixture,
	}, func(t *testing.T, newFixture func(*testing.T, time.Duration) *fixture) {
		test(t, newFixture(t, lockTTL))
	})
}

// instance is one process of the payments example.
type instance struct {
	*serverproc.Process
	t   *testing.T
	url string
}

var listening = regexp.MustCompile(`^listening on (http://127\.0\.0\.1:\d+)$`)

// start runs the program and returns when it serves. Further flags override the
// fixture's.
func (f *fixture) start(router string, flags ...string) *instance {
	f.t.Helper()
	i := f.launch(router, flags...)
	i.awaitListening()
	return i
}

// launch is start without waiting.
func (f *fixture) launch(router string, flags ...string) *instance {
	f.t.Helper()
	arguments := slices.Concat([]string{
		"-addr", "127.0.0.1:0", "-router", router, "-lock-ttl", f.lockTTL.String(), "-store-timeout", f.storeTimeout.String(),
		"-ledger", f.ledger,
	}, f.flags, flags)
	command := exec.CommandContext(context.Background(), built.Get(f.t, buildProgram), arguments...)
	i := &instance{Process: serverproc.Start(f.t, "payments on "+router, command), t: f.t}
	f.t.Cleanup(func() {
		i.Kill() // the test is over, and need not wait for handlers
		if i.printed("DATA RACE") {
			f.t.Errorf("data race in payments on %s", router)
		}
	})
	return i
}

func (i *instance) awaitListening() {
	i.t.Helper()
	i.url = i.AwaitLine(listening)[1]
}

// startTwo runs one process on each router. The processes are equal.
func (f *fixture) startTwo() (first, second *instance) {
	f.t.Helper()
	return f.start("chi"), f.start("gin")
}

// awaitFrozen returns when a frozen process has stopped. After the signal it may run for a
// moment.
func (i *instance) awaitFrozen() {
	i.t.Helper()
	testkit.Await(i.t, "for the process to freeze", func() bool {
		ctx, cancel := context.WithTimeout(i.t.Context(), 200*time.Millisecond)
		defer cancel()
		return i.sendUntil(ctx, withoutKey()).err != nil
	})
}

// expectEvent fails the test if the process does not log an event with this result. The
// log takes a moment to arrive.
func (i *instance) expectEvent(result string) {
	i.t.Helper()
	testkit.Await(i.t, "for the event "+result, func() bool { return i.printed(" result=" + result + " ") })
}

func (i *instance) printed(text string) bool {
	return slices.ContainsFunc(i.Output(), func(line string) bool { return strings.Contains(line, text) })
}

// effect is a line of the ledger file.
type effect struct {
	Kind    string `json:"kind"`
	PID     int    `json:"pid"`
	OrderID string `json:"order_id"`
	Text    string `json:"text"`
	User    string `json:"user"`
	Key     string `json:"key"`
	Attempt uint64 `json:"attempt"`
}

// effects returns all effects so far, of all processes.
func (f *fixture) effects() []effect {
	f.t.Helper()
	text, err := os.ReadFile(f.ledger)
	testkit.Must(f.t, err)
	var all []effect
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var e effect
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			f.t.Fatalf("ledger line %q: %v", lines.Bytes(), err)
		}
		all = append(all, e)
	}
	return all
}

// expectKeys compares the keys of the effects, in order.
func (f *fixture) expectKeys(want ...string) {
	f.t.Helper()
	var got []string
	for _, e := range f.effects() {
		got = append(got, e.Key)
	}
	testkit.EqualSlices(f.t, got, want, "the ledger has the keys")
}

// expectEffects compares the effects, in order.
func (f *fixture) expectEffects(want ...effect) {
	f.t.Helper()
	if got := f.effects(); !slices.Equal(got, want) {
		f.t.Errorf("the ledger has\n%+v, want\n%+v", got, want)
	}
}

// chargeBy is a charge for the order of this request, in this process, at this attempt.
func chargeBy(i *instance, r request, attempt uint64) effect {
	return effect{Kind: "charge", PID: i.Pid(), OrderID: orderOf(r.key), User: r.user, Key: r.key, Attempt: attempt}
}
