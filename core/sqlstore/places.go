package sqlstore

import (
	"context"
	"fmt"
	"time"
)

// places bounds the connections that the store takes from a MySQL server. A call whose
// context ends closes its connection, and the pool no longer counts it. But the server may
// keep it until its statement has waited for the table. So the place of such a call stays
// taken for that time. A nil channel has no bound.
type places chan struct{}

// tableWait is the longest wait of a statement for a table, as in mysql.go.
const tableWait = time.Second

// fewestPlaces is for small pools: two slow calls must not keep all others waiting.
const fewestPlaces = 10

// newPlaces has a place for each connection of a pool, or no bound if the pool has none.
func newPlaces(most int) places {
	if most == 0 {
		return nil
	}
	return make(places, max(most, fewestPlaces))
}

func (p places) take(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d statements run, or wait at the server after their calls have ended: %w", cap(p), ctx.Err())
	}
}

// giveBack ends a call. cutOff: its context has ended.
func (p places) giveBack(cutOff bool) {
	switch {
	case p == nil:
	case cutOff:
		time.AfterFunc(tableWait, func() { <-p })
	default:
		<-p
	}
}
