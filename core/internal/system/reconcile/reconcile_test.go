//go:build unix

package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// fates are the points of the matrix.
var fates = []fate{
	{Key: "k0", Point: afterClaim},
	{Key: "k1", Point: beforeCharge},
	{Key: "k2", Point: inCharge},
	{Key: "k3", Point: afterCharge},
	{Key: "k4", Point: afterCharge, Receipt: true},
	{Key: "k5", Point: beforeRecord},
	{Key: "k6", Point: beforeRecord, Receipt: true},
	{Key: "k7", Point: afterRecord, Receipt: true},
}

func (f fate) record() string { return storage.Key(scope, http.MethodPost, orders, f.Key) }

func (f fate) derived(step string) string { return core.DerivedKey(f.record(), step) }

func (f fate) isCharged() bool {
	return slices.Contains([]string{afterCharge, beforeRecord, afterRecord}, f.Point)
}

// Case 4 with a client that never comes back: a process is killed at each point, and two
// other processes settle its keys as the provider says. There is no second effect, and a
// late retry gets the outcome that was settled.
func TestKilledAndReconciled(t *testing.T) {
	t.Parallel()
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := start(t)
			at.Store = name
			m := &matrix{t: t, part: part{place: at, Folder: serverproc.Folder(t)}}
			store, closes, err := at.open(context.WithoutCancel(t.Context()), true)
			testkit.Must(t, err)
			t.Cleanup(closes)
			m.store = store

			m.killAll()
			before, effects := m.records(), m.read("effects")
			m.wantCharged(effects)
			m.reconcileAll()
			testkit.EqualSlices(t, m.read("effects"), effects, "the effects")
			m.wantAskedInTurn()
			m.wantSettled(before)
			m.retryAll()
		})
	}
}

// matrix is the test of one store.
type matrix struct {
	part

	t     *testing.T
	store testkit.Inspectable
}

// start starts a child.
func (m *matrix) start(name string, p part) *serverproc.Process {
	m.t.Helper()
	text, err := json.Marshal(p)
	testkit.Must(m.t, err)
	command := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), environment+"="+string(text))
	return serverproc.Start(m.t, name, command)
}

// killAll lets a process die at each point.
func (m *matrix) killAll() {
	m.t.Helper()
	var all sync.WaitGroup
	for _, f := range fates {
		p := m.part
		p.fate = f
		child := m.start("the order that dies "+f.Point, p)
		all.Go(func() {
			err := child.Wait()
			exit, _ := errors.AsType[*exec.ExitError](err)
			if exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				m.t.Errorf("the process that dies %s ended with %v: %s", f.Point, err, strings.Join(child.Output(), "\n"))
			}
		})
	}
	if all.Wait(); m.t.Failed() {
		m.t.FailNow()
	}
}

// records returns the record of each key, by its name.
func (m *matrix) records() map[string]*storage.Record {
	m.t.Helper()
	all := map[string]*storage.Record{}
	for _, f := range fates {
		record, err := m.store.Lookup(m.t.Context(), f.record())
		testkit.Must(m.t, err)
		all[f.Key] = record
	}
	return all
}

// wantCharged expects that the provider has charged before the points that come after it.
func (m *matrix) wantCharged(effects []string) {
	m.t.Helper()
	for _, f := range fates {
		testkit.Equal(m.t, contains(effects, f.derived("charge")), f.isCharged(), "the order that died %s is charged", f.Point)
	}
}

// reconcileAll runs two processes that reconcile, until no key is in progress.
func (m *matrix) reconcileAll() {
	m.t.Helper()
	p := m.part
	p.Reconciles = true
	var children []*serverproc.Process
	for _, name := range []string{"the first reconciler", "the second reconciler"} {
		children = append(children, m.start(name, p))
	}
	for _, child := range children {
		child.AwaitLine(regexp.MustCompile("^reconciles$"))
	}
	open := 0
	if !testkit.Poll(patience, func() bool { open = m.inProgress(); return open == 0 }) {
		m.t.Errorf("%d keys are in progress after %v", open, patience)
	}
	settled := 0
	for _, child := range children {
		child.Stop()
		if err := child.Wait(); err != nil {
			m.t.Errorf("a process that reconciles ended with %v", err)
		}
		for _, line := range child.Output() {
			if strings.Contains(line, "result=reconciled") {
				settled++
			}
		}
	}
	testkit.Equal(m.t, settled, len(fates)-1, "keys that were reconciled")
}

// inProgress counts the keys in progress: abandoned, or asked about.
func (m *matrix) inProgress() int {
	m.t.Helper()
	listing, err := m.store.List(m.t.Context(), storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Limit: 100})
	testkit.Must(m.t, err)
	return len(listing.Entries)
}

// wantAskedInTurn expects that each lost key was asked about twice or more, by one process
// at a time, and that the finished key was not.
func (m *matrix) wantAskedInTurn() {
	m.t.Helper()
	questions := m.read("questions")
	for _, f := range fates {
		begun, asking := 0, ""
		for _, line := range questions {
			about, rest, _ := strings.Cut(line, " ")
			if about != f.record() {
				continue
			}
			what, by, _ := strings.Cut(rest, " ")
			switch {
			case what == "begins" && asking != "":
				m.t.Errorf("two questions at a time about the order that died %s: %q", f.Point, questions)
			case what == "begins":
				begun, asking = begun+1, by
			default:
				asking = ""
			}
		}
		if asked := f.Point != afterRecord; asked != (begun >= 2) || !asked && begun > 0 {
			m.t.Errorf("%d questions about the order that died %s", begun, f.Point)
		}
	}
}

// wantSettled expects that each record agrees with the provider.
func (m *matrix) wantSettled(before map[string]*storage.Record) {
	m.t.Helper()
	after := m.records()
	for _, f := range fates {
		r, attempt := after[f.Key], before[f.Key].Attempt
		testkit.Equal(m.t, before[f.Key].Origin.Route, pattern, "the route of the record")
		var isRight bool
		switch {
		case f.Point == afterRecord:
			isRight = r != nil && r.State == storage.Completed && r.Attempt == attempt
		case f.isCharged() && f.Receipt:
			isRight = r != nil && r.State == storage.Completed && r.Status == http.StatusCreated && r.Attempt >= attempt+2
		case f.isCharged():
			isRight = r != nil && r.State == storage.Unreplayable && r.Status == storage.StatusByHand && r.Attempt >= attempt+2
		case f.Point == afterClaim:
			isRight = r == nil // no step is recorded
		default:
			isRight = r != nil && r.State == storage.Released && r.Attempt >= attempt+2
		}
		if !isRight {
			m.t.Errorf("the record of the order that died %s was %+v, and is %+v", f.Point, before[f.Key], r)
		}
	}
}

// retryAll sends each order again, from a process that does not die.
func (m *matrix) retryAll() {
	m.t.Helper()
	p := m.part
	s, err := newShop(&p, m.store)
	testkit.Must(m.t, err)
	for _, f := range fates {
		had := m.read("effects")
		w := s.send(m.t.Context(), f.Key)
		var more []string
		status, body := http.StatusCreated, ""
		switch {
		case f.isCharged() && f.Receipt:
			body = "receipt of " + f.derived("charge")[:8]
		case f.isCharged():
			status, body = http.StatusConflict, `"code":"`+problem.NotReplayable+`"`
		case f.Point == afterClaim:
			more = []string{f.derived("reserve"), f.derived("charge")}
		default: // the reservation is recorded
			more = []string{f.derived("charge")}
		}
		if w.Code != status || !strings.Contains(w.Body.String(), body) {
			m.t.Errorf("the retry of the order that died %s got %d %s, want %d and %s", f.Point, w.Code, w.Body, status, body)
		}
		if replays := w.Header().Get("X-Idempotent-Replay") == "true"; replays != (f.isCharged() && f.Receipt) {
			m.t.Errorf("the retry of the order that died %s is replayed: %v", f.Point, replays)
		}
		testkit.EqualSlices(m.t, m.read("effects")[len(had):], more, "the retry of the order that died %s had the effects", f.Point)
	}
	testkit.End(m.t, s.engine)
}
