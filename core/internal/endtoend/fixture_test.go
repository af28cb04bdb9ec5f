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

	"github.com/oncekey/oncekey/core/internal/redistest"
	"github.com/oncekey/oncekey/core/internal/serverproc"
)

const (
	// patience bounds every wait. It is generous: only a failure takes that long.
	patience = 20 * time.Second
	// pollInterval is how often a wait looks.
	pollInterval = 20 * time.Millisecond
)

// fixture is a Redis and a ledger file that the processes of a test share.
type fixture struct {
	t       *testing.T
	redis   *redistest.Server
	ledger  string
	lockTTL time.Duration
}

// newFixture starts a Redis of the test's own.
func newFixture(t *testing.T, lockTTL time.Duration, redisArguments ...string) *fixture {
	t.Helper()
	return &fixture{
		t: t, redis: redistest.Start(t, redisArguments...), lockTTL: lockTTL,
		ledger: filepath.Join(t.TempDir(), "ledger"),
	}
}

// instance is one process of the payments example.
type instance struct {
	*serverproc.Process
	t   *testing.T
	url string
}

var listening = regexp.MustCompile(`^listening on (http://127\.0\.0\.1:\d+)$`)

// start runs the program and returns when it serves.
func (f *fixture) start(router string) *instance {
	f.t.Helper()
	binary, err := buildProgram()
	if err != nil {
		f.t.Fatal(err)
	}
	command := exec.CommandContext(context.Background(), binary,
		"-addr", "127.0.0.1:0", "-router", router, "-store", "redis", "-redis", f.redis.URL(),
		"-lock-ttl", f.lockTTL.String(), "-ledger", f.ledger)
	i := &instance{Process: serverproc.Start(f.t, "payments on "+router, command), t: f.t}
	f.t.Cleanup(func() {
		i.Kill() // the test is over: it need not wait for handlers
		if i.printed("DATA RACE") {
			f.t.Errorf("data race in payments on %s", router)
		}
	})
	i.url = i.AwaitLine(listening)[1]
	return i
}

// startTwo runs one process on each router: to each other they are equals.
func (f *fixture) startTwo() (first, second *instance) {
	f.t.Helper()
	return f.start("chi"), f.start("gin")
}

// expectEvent fails the test when the process does not log an event with this
// result. What it logs takes a moment to get here.
func (i *instance) expectEvent(result string) {
	i.t.Helper()
	eventually(i.t, "for the event "+result, func() bool { return i.printed(" result=" + result + " ") })
}

func (i *instance) printed(text string) bool {
	return slices.ContainsFunc(i.Output(), func(line string) bool { return strings.Contains(line, text) })
}

// effect is a line of the ledger file: something that happened.
type effect struct {
	Kind    string `json:"kind"`
	PID     int    `json:"pid"`
	OrderID string `json:"order_id"`
	Text    string `json:"text"`
	User    string `json:"user"`
	Key     string `json:"key"`
	Attempt uint64 `json:"attempt"`
}

// effects returns all that happened so far, in all processes.
func (f *fixture) effects() []effect {
	f.t.Helper()
	text, err := os.ReadFile(f.ledger)
	if err != nil {
		f.t.Fatal(err)
	}
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

// expectEffects compares what happened, in order.
func (f *fixture) expectEffects(want ...effect) {
	f.t.Helper()
	if got := f.effects(); !slices.Equal(got, want) {
		f.t.Errorf("the ledger has\n%+v, want\n%+v", got, want)
	}
}

// chargeBy is a charge for the order of this request, in this process, at this attempt.
func chargeBy(i *instance, r request, attempt uint64) effect {
	return effect{Kind: "charge", PID: i.Pid(), OrderID: orderID, User: r.user, Key: r.key, Attempt: attempt}
}

// eventually fails the test when the condition does not come to hold.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !poll(condition) {
		t.Fatalf("still waiting after %v %s", patience, what)
	}
}

// poll waits until the condition holds, and reports whether it does. It is the
// only place that lets time pass.
func poll(condition func() bool) bool {
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		<-ticker.C
	}
	return true
}
