package tieredstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// checked is a store whose Check returns err.
type checked struct {
	storage.Store
	err error
}

func (c checked) Check(context.Context) error { return c.err }

// Case 38: the durable tier decides whether a process is ready; the hot tier's
// refusal is logged.
func TestCheckIsTheDurableTiers(t *testing.T) {
	t.Parallel()
	forbidden := storage.ErrStoreForbidden
	for _, test := range []struct {
		hot, durable storage.Store
		want         error
		logged       bool
	}{
		{memstore.New(), memstore.New(), nil, false},
		{checked{memstore.New(), forbidden}, memstore.New(), nil, true},
		{memstore.New(), checked{memstore.New(), forbidden}, forbidden, false},
		{newServer().link(), memstore.New(), nil, false},
		{memstore.New(), newServer().link(), nil, false}, // as core.Engine.Ready says of a store without a Check
	} {
		var log bytes.Buffer
		store := tieredstore.New(test.hot, test.durable, tieredstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := store.Check(t.Context()); !errors.Is(err, test.want) {
			t.Errorf("Check of %T before %T returned %v, want %v", test.hot, test.durable, err, test.want)
		}
		if logged := strings.Contains(log.String(), forbidden.Error()); logged != test.logged {
			t.Errorf("the log is %q, want the hot tier's error in it: %t", log.String(), test.logged)
		}
	}
}

// Case 38: a hot tier without rights costs only its speed.
func TestHotTierThatIsForbidden(t *testing.T) {
	t.Parallel()
	s := newTiers()
	s.hot.set(func(context.Context, string, func() error) error { return storage.ErrStoreForbidden })
	finish(t, s, "key", "answer")
	replays(t, s, "key", "answer")
}
