package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// maxPage is the largest page of a list.
	maxPage = 1000
	// scansPerPage bounds the cost of a page when few keys are in the state, or most
	// keys belong to other programs. Each scan takes two round trips.
	scansPerPage = 10
	// beginning is how many bytes of a value List reads. With one of the engine's
	// fingerprints, the part before headers and body takes a third of them.
	beginning = 1024
)

// errHiddenMasters reports a client that reaches only one master of a cluster.
var errHiddenMasters = errors.New(
	"this client hides the cluster's masters: give New the *redis.ClusterClient itself")

// List implements [storage.Inspector]. The records have no Header, Body, Sketch and
// Steps; use Lookup for the whole record. A page looks at about ten times limit keys
// at most, and reads only the beginning of each value and of its response. It skips
// values that are not records, and logs a warning with their number.
//
// List uses SCAN and has SCAN's guarantees. A record that stays in the state from the
// first page to the last is listed. It may be listed twice while the server resizes
// its table.
//
// On a cluster the pages go from one master to the next. List can miss keys that move
// between masters meanwhile. If the set of masters has changed since the first page,
// List returns an error: start again with an empty cursor. A single server that was
// restarted, or whose replica has taken over, has the same limits, but List does not
// detect the change.
//
// List returns an error for an AutoPipeliner in front of a cluster, because that
// client hides the masters.
func (s *Store) List(ctx context.Context, state storage.State, cursor string, limit int) ([]storage.Entry, string, error) {
	if _, known := storage.ParseState(state.String()); !known {
		return nil, "", fmt.Errorf("redisstore: list records in state %d: want a state of package storage", state)
	}
	if limit < 1 || limit > maxPage {
		return nil, "", fmt.Errorf("redisstore: list %d records: want from 1 to %d", limit, maxPage)
	}
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	listing := &listing{store: s, state: state, at: at}
	page, err := bounded(ctx, s, func(ctx context.Context) ([]storage.Entry, error) { return listing.page(ctx, limit) })
	if err != nil {
		return nil, "", fmt.Errorf("redisstore: list: %w", err)
	}
	return page, listing.at.String(), nil
}

// listing is one call of List.
type listing struct {
	store   *Store
	state   storage.State
	at      position
	servers []redis.Cmdable
	// unreadable counts the skipped values; firstUnreadable is the error of the
	// first.
	unreadable      int
	firstUnreadable error
}

func (l *listing) page(ctx context.Context, limit int) (page []storage.Entry, err error) {
	if err := l.findServers(ctx); err != nil {
		return nil, err
	}
	for round := 0; round < scansPerPage && len(page) < limit && !l.ended(); round++ {
		if len(l.at.Pending) == 0 {
			if err := l.scan(ctx, limit-len(page)); err != nil {
				return nil, err
			}
		}
		// SCAN may return a few more keys than requested. The others stay pending.
		keys := l.at.Pending[:min(len(l.at.Pending), limit-len(page))]
		l.at.Pending = l.at.Pending[len(keys):]
		if page, err = l.read(ctx, page, keys); err != nil {
			return nil, err
		}
	}
	if l.ended() {
		l.at = position{}
	}
	if l.unreadable > 0 {
		l.store.log().WarnContext(ctx, "redisstore: a list has skipped values that are not records",
			"count", l.unreadable, "first", l.firstUnreadable)
	}
	return page, nil
}

func (l *listing) ended() bool { return len(l.at.Pending) == 0 && l.at.Server >= len(l.servers) }

// findServers finds the masters, in the order of their addresses.
func (l *listing) findServers(ctx context.Context) error {
	cluster, is := l.store.client.(interface {
		ForEachMaster(ctx context.Context, visit func(context.Context, *redis.Client) error) error
	})
	if !is {
		l.servers = []redis.Cmdable{l.store.client}
		return l.at.on(1, "")
	}
	var mutex sync.Mutex
	var masters []*redis.Client
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mutex.Lock()
		defer mutex.Unlock()
		masters = append(masters, master)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(masters, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	var addresses strings.Builder
	for _, master := range masters {
		l.servers = append(l.servers, master)
		fmt.Fprintln(&addresses, master.Options().Addr)
	}
	return l.at.on(len(masters), addresses.String())
}

// scan adds the next keys of SCAN, perhaps none, and advances the cursor.
func (l *listing) scan(ctx context.Context, count int) error {
	server := l.servers[l.at.Server]
	pipeline := server.Pipeline()
	var information *redis.StringCmd
	switch server.(type) {
	case *redis.Client:
	default: // the server may be a proxy for a cluster, and SCAN would reach one master
		information = pipeline.ClusterInfo(ctx)
	}
	scanned := pipeline.Scan(ctx, l.at.Cursor, escapeGlob(l.store.prefix)+"*", int64(count))
	_, _ = pipeline.Exec(ctx) // each command holds its error
	if information != nil && information.Err() == nil {
		return errHiddenMasters
	}
	names, cursor, err := scanned.Result()
	if err != nil {
		return err
	}
	for _, name := range names {
		if l.store.isResponse(name) {
			continue
		}
		l.at.Pending = append(l.at.Pending, []byte(strings.TrimPrefix(name, l.store.prefix)))
	}
	l.at.Cursor = cursor
	if cursor == 0 {
		l.at.Server++
	}
	return nil
}

// read appends the records of the keys that are in the state.
func (l *listing) read(ctx context.Context, page []storage.Entry, keys [][]byte) ([]storage.Entry, error) {
	if len(keys) == 0 {
		return page, nil
	}
	pipeline := l.store.client.Pipeline()
	replies := make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		response, _ := l.store.responseKey(string(key))
		replies[i] = pipeline.Eval(ctx, beginningScript, []string{l.store.prefix + string(key), response}, beginning, l.state.String())
	}
	_, _ = pipeline.Exec(ctx) // each command holds its error
	for i, reply := range replies {
		key := string(keys[i])
		record, err := l.recordOf(ctx, key, reply)
		switch failed := l.store.failure("list", key, err); {
		case errors.Is(failed, storage.ErrCorruptRecord):
			if l.unreadable++; l.unreadable == 1 {
				l.firstUnreadable = failed
			}
		case err != nil:
			return nil, err
		case record != nil && record.State == l.state:
			page = append(page, listed(key, record))
		}
	}
	return page, nil
}

// recordOf decodes the reply of beginningScript. It returns nil for a key without a
// record in the state.
func (l *listing) recordOf(ctx context.Context, key string, reply *redis.Cmd) (*storage.Record, error) {
	values, err := reply.Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // the key is gone, or in another state
	}
	if err != nil {
		return nil, err
	}
	head, _ := values[0].(string)
	left, _ := values[1].(int64)
	held, enough, err := decodeBeginning([]byte(head))
	if enough && err == nil && held.apart {
		response, _ := values[len(values)-1].(string)
		enough, err = held.joinBeginning([]byte(response))
	}
	if !enough && (strings.HasPrefix(head, `{"token":"`) || isRemembered([]byte(head))) { // the fingerprint is long
		return l.store.lookUp(ctx, key)
	}
	if !enough {
		return nil, corrupt("it begins with %s", excerpt(head))
	}
	if err != nil || held.released {
		return nil, err
	}
	seen := &snapshot{stored: held}
	err = seen.clock(lifeLeft(left))
	return &seen.record, err
}

// escapeGlob returns a pattern that matches only the text.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}
