package tieredstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A hot tier that never responds leaves half of the time to the durable tier, and
// soon all of it.
func TestHangingHotTierCostsLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers(tieredstore.HotTimeout(100 * time.Millisecond))
		s.hot.set(hang)
		try := func(timeout, want time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			start := time.Now()
			if _, _, err := s.Acquire(ctx, claim("key")); err != nil {
				t.Errorf("Acquire returned %v", err)
			}
			testkit.Equal(t, time.Since(start), want, "the time of Acquire")
		}
		try(time.Second, 100*time.Millisecond)
		try(50*time.Millisecond, 25*time.Millisecond)
		for range 3 {
			try(time.Second, 100*time.Millisecond)
		}
		for range 100 {
			try(time.Second, 0) // it is left alone
		}
		s.wants(t, 5, 105)
		pass(t.Context(), time.Second)
		try(time.Second, 100*time.Millisecond) // one call tries it
		try(time.Second, 0)
		pass(t.Context(), time.Second)
		s.hot.set(nil)
		try(time.Second, 0)
		s.hot.taken()
		try(time.Second, 0)
		if calls := s.hot.taken(); len(calls) == 0 {
			t.Error("the hot tier had no call after it had responded")
		}
		s.hot.set(hang)
		for range 5 {
			try(time.Second, 100*time.Millisecond) // its response has ended the series
		}
		try(time.Second, 0)
	})
}

// When it has rested, one of many concurrent calls tries it.
func TestOneCallTriesARestedHotTier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		s.hot.set(hang)
		for range 5 {
			_, _, err := s.Acquire(t.Context(), claim("key"))
			must(t, err)
		}
		s.hot.taken()
		pass(t.Context(), time.Second)
		start := time.Now()
		for range 20 {
			go func() {
				if _, _, err := s.Acquire(t.Context(), claim("key")); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if calls := s.hot.taken(); len(calls) != 1 || time.Since(start) > 0 {
			t.Errorf("%d of 20 concurrent calls tried the hot tier, want 1", len(calls))
		}
		pass(t.Context(), time.Second)
	})
}

// A caller that gives up is no failure of the hot tier.
func TestImpatientCallersDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		s.hot.set(hang)
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, _, err := s.Acquire(ctx, claim("key")); !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire returned %v, want context.Canceled", err)
			}
		}
		s.hot.set(nil)
		s.wants(t, 20, 20)
		finish(t, s, "key", "answer")
		s.wants(t, 2, 2)
	})
}

func TestFailuresAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newTiers(tieredstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		lines := func(want ...string) {
			t.Helper()
			got := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
			log.Reset()
			if len(got) != len(want) {
				t.Errorf("it logged %q, want %d lines", got, len(want))
				return
			}
			for i, line := range got {
				if !strings.Contains(line, want[i]) {
					t.Errorf("it logged %q, want something with %q", line, want[i])
				}
			}
		}
		s.hot.set(refuse)
		for range 10 {
			win(t, s, claim(storage.NewToken().String()))
		}
		lines("level=WARN msg=\"tieredstore: the hot tier failed, the durable tier serves requests alone\" error=\"the server is down\" failures=1")
		pass(t.Context(), 10*time.Second)
		win(t, s, claim("a"))
		lines("failures=5") // four of the first ten, and this one: the others were not made
		s.hot.set(nil)
		pass(t.Context(), time.Second)
		win(t, s, claim("b"))
		win(t, s, claim("c"))
		lines("level=INFO msg=\"tieredstore: the hot tier responds again\"")
		s.hot.set(unreadable)
		pass(t.Context(), 10*time.Second)
		for range 10 {
			win(t, s, claim(storage.NewToken().String()))
		}
		lines("not a record")
		s.hot.set(nil)
		s.hot.taken()
		s.durable.taken()
		win(t, s, claim("d"))
		s.wants(t, 1, 1) // a tier with such records gets no pause
	})
}
