package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

const (
	// warmWithin bounds the time to open a connection.
	warmWithin = 5 * time.Second
	// warmAtOnce is how many connections of a kind are opened at a time.
	warmAtOnce = 8
)

// warmer opens connections in the background after calls ran out of time. A new
// connection costs several round trips before its first command. To a distant server
// they take longer than a call may take, and a call that is given up closes its
// connection. Without the warmer no call to such a server would ever succeed (case
// 46).
type warmer struct {
	failed atomic.Int32 // calls since the last round
	busy   atomic.Bool
}

// warm opens as many connections as calls have failed, in one goroutine at a time.
func (s *Store) warm() {
	s.warmer.failed.Add(1)
	if s.warmer.busy.CompareAndSwap(false, true) {
		go s.warmUp()
	}
}

func (s *Store) warmUp() {
	defer s.warmer.busy.Store(false)
	for wanted := s.warmer.failed.Swap(0); wanted > 0; wanted = s.warmer.failed.Swap(0) {
		ctx, cancel := context.WithTimeout(context.Background(), warmWithin)
		var round sync.WaitGroup
		for range min(wanted, warmAtOnce) {
			// The client has two kinds of connections: for pipelines and for
			// commands.
			round.Go(func() { _ = panicked.Call(redisClient, func() error { return s.check(ctx) }) })
			round.Go(func() { _ = panicked.Call(redisClient, func() error { return s.client.Ping(ctx).Err() }) })
		}
		round.Wait()
		cancel()
	}
}
