package tieredstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return tieredstore.New(memstore.New(), memstore.New()) },
		Wrap: synctest.Test,
	})
}

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	storetest.RunLimiter(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return tieredstore.New(memstore.New(), memstore.New()) },
		Wrap: synctest.Test,
	})
}

// The durable tier counts, so two processes with hot tiers of their own share the counts.
func TestTheDurableTierCounts(t *testing.T) {
	t.Parallel()
	durable, limit := memstore.New(), storage.ScopeLimit{InFlight: 1}
	for _, want := range []storage.Bound{0, storage.ReachedInFlight} {
		got, err := tieredstore.New(memstore.New(), durable).Admit(t.Context(), storage.Place{Token: storage.NewToken()}, time.Minute, limit)
		if err != nil || got.Reached != want {
			t.Errorf("Admit returned %+v, %v, want bound %d", got, err, want)
		}
	}
	uncounted := tieredstore.New(memstore.New(), bare{durable})
	_, err := uncounted.Admit(t.Context(), storage.Place{}, time.Minute, limit)
	if storage.Limits(uncounted) || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(uncounted.Keep(t.Context(), storage.Place{}, 0), errors.ErrUnsupported) {
		t.Errorf("over a durable tier that does not count: %v", err)
	}
}

// With a hot tier that fails in every possible way, the contract still holds.
func TestConformanceOverBrokenHotTier(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(hot *server) fault{
		"down":       func(*server) fault { return refuse },
		"hanging":    func(*server) fault { return hang },
		"late":       func(*server) fault { return late(time.Millisecond) },
		"mute":       func(*server) fault { return loseReply },
		"full":       func(*server) fault { return full },
		"unreadable": func(*server) fault { return unreadable },
		"read-only":  func(*server) fault { return refuse.in("Complete", "Release", "Extend") },
		"forgetful":  forgetful,
		"moody":      moody,
	}, func(t *testing.T, broken func(hot *server) fault) {
		if testkit.RaceDetector && !strings.HasSuffix(t.Name(), "/moody") {
			t.Skip("the race detector makes these ten times slower, and the moody tier has most of their faults")
		}
		storetest.Run(t, storetest.Config{
			New: func(testing.TB) storage.Store {
				hot := newServer()
				link := hot.link()
				link.set(broken(hot))
				// Bare, because Forget is an error when the hot tier is
				// unreachable.
				return bare{tieredstore.New(link, memstore.New(), tieredstore.Logger(silent), tieredstore.HotTimeout(time.Millisecond))}
			},
			Wrap: synctest.Test,
		})
	})
}

// forgetful loses everything again and again.
func forgetful(hot *server) fault {
	var calls atomic.Int32
	return func(_ context.Context, _ string, apply func() error) error {
		if calls.Add(1)%7 == 0 {
			hot.flush()
		}
		return apply()
	}
}

// moody fails in turns.
func moody(*server) fault {
	var calls atomic.Int32
	moods := []fault{nil, refuse, nil, late(time.Millisecond), loseReply, nil, hang}
	return func(ctx context.Context, method string, apply func() error) error {
		if mood := moods[int(calls.Add(1))%len(moods)]; mood != nil {
			return mood(ctx, method, apply)
		}
		return apply()
	}
}
