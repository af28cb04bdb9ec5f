package soak

import (
	"context"
	"log/slog"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})               // go-redis logs each connection that a fault has cut
	_ = mysql.SetLogger(&mysql.NopLogger{}) // the driver logs them too
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// After many failed dials, a pool of go-redis checks only once a second whether it was
	// closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
