// Package service has what the tests of this module share: an engine in place of a process,
// and the verdict whether it serves. Package soak has the time of the long tests.
package service

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Patience bounds every wait. It is generous: only a failure takes that long.
const Patience = 2 * time.Minute

// Engine returns an engine that logs nothing, and has no work left when the test ends.
func Engine(t testing.TB, store storage.Store, scope core.Scope, options ...core.Option) *core.Engine {
	t.Helper()
	quiet := core.WithObserver(event.Log(slog.New(slog.DiscardHandler)))
	engine, err := core.New(store, scope, append([]core.Option{quiet}, options...)...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.End(t, engine) })
	return engine
}

// Flows reports whether samples end with enough new keys in a row that were served. isFirst
// reports whether a sample is the first request of its key.
func Flows[S any](samples []S, isServed, isFirst func(S) bool) bool {
	const streak = 20
	row := 0
	for _, one := range samples {
		switch {
		case !isServed(one):
			row = 0
		case isFirst(one):
			row++
		}
	}
	return row >= streak
}

// Main runs the tests of a package that cuts the connections of drivers.
func Main(m goleak.TestingM) {
	Quiet()
	// After many failed dials, a pool of go-redis checks only once a second whether it was
	// closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// Quiet keeps drivers from logging each connection that a fault has cut.
func Quiet() {
	redis.SetLogger(silent{})
	_ = mysql.SetLogger(&mysql.NopLogger{}) // the logger is not nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
