package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// warmWithin bounds how long a connection may take to become ready.
	warmWithin = 5 * time.Second
	// warmAtOnce is how many connections of a kind are made ready at a time.
	warmAtOnce = 8
)

// warmer makes connections ready in the background for calls that ran out of time.
// A new connection costs several round trips before its first command. To a server
// that is far away they take longer than a call may, and a call that is given up
// gives up its connection, so without this no call would ever succeed (case 46).
type warmer struct {
	failed atomic.Int32 // calls since the last round
	busy   atomic.Bool
}

// warm makes as many connections ready as calls have failed. One goroutine at a time
// does so.
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
			// The client has connections of two kinds, for pipelines and for commands.
			round.Go(func() { _ = s.check(ctx) })
			round.Go(func() { _ = s.client.Ping(ctx).Err() })
		}
		round.Wait()
		cancel()
	}
}
