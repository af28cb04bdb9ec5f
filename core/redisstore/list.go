package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// maxBatch is the largest number of keys of one SCAN, so that no SCAN keeps the
	// server from other commands for longer than about a millisecond.
	maxBatch = 1000
	// maxPending is how many keys a cursor has, unless SCAN alone returns more than
	// requested. A cursor is part of a URL.
	maxPending = 16
)

// errHiddenMasters reports a client that reaches only one master of a cluster.
var errHiddenMasters = errors.New(
	"this client reaches one master of a cluster: give New the *redis.ClusterClient itself, or the command a URL with ?addr=host:port")

// List implements [storage.Inspector]. The records have no Header, Body, Sketch and
// Steps; use Lookup for the whole record. List reads only the beginning of each value
// and of its response, and less of the values whose state does not match. It skips
// values that are not records, and logs a warning with their number. Keys of other
// programs do not count as looked at, so that a page ends by Within where they are
// many.
//
// List uses SCAN and has SCAN's guarantees. A record that matches from the first page
// to the last is listed. It may be listed twice while the server resizes its table.
//
// On a cluster the pages go from one master to the next. List can miss keys that move
// between masters meanwhile. If the set of masters has changed since the first page,
// List returns an error: start again with an empty cursor. A single server that was
// restarted, or whose replica has taken over, has the same limits, but List does not
// detect the change.
//
// List returns an error for a *redis.Client and for an AutoPipeliner in front of a cluster,
// because these clients reach one master.
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	l, err := s.newListing(filter, page)
	if err != nil {
		return storage.Listing{}, err
	}
	result, err := bounded(ctx, s, l.page)
	if err != nil {
		return storage.Listing{}, s.failure("list", "*", err)
	}
	if l.unreadable > 0 {
		s.log().WarnContext(ctx, "redisstore: a list has skipped values that are not records",
			"count", l.unreadable, "first", l.firstUnreadable)
	}
	return result, nil
}

func (s *Store) newListing(filter storage.Filter, page storage.Page) (*listing, error) {
	budget, err := records.NewBudget(&filter, &page)
	if err != nil {
		return nil, fmt.Errorf("redisstore: list: %w", err)
	}
	at, err := parseCursor(page.Cursor)
	return &listing{store: s, filter: filter, limit: page.Limit, budget: budget, at: at}, err
}

// listing is one call of List.
type listing struct {
	store   *Store
	filter  storage.Filter
	limit   int
	budget  records.Budget
	at      position
	servers []redis.Cmdable
	// alone: the client knows no masters of a cluster.
	alone   bool
	entries []storage.Entry
	// requested is the number of keys that SCAN was asked for.
	requested int
	// unreadable counts the skipped values; firstUnreadable is the error of the
	// first.
	unreadable      int
	firstUnreadable error
}

func (l *listing) page(ctx context.Context) (storage.Listing, error) {
	if err := l.findServers(ctx); err != nil {
		return storage.Listing{}, err
	}
	if err := l.readPending(ctx); err != nil {
		return storage.Listing{}, err
	}
	for first := true; len(l.entries) < l.limit && !l.ended() && (first || l.budget.Left() > 0); first = false {
		if full, err := l.round(ctx); err != nil || full {
			if err != nil {
				return storage.Listing{}, err
			}
			break
		}
	}
	if l.ended() {
		l.at = position{}
	}
	return storage.Listing{Entries: l.entries, Next: l.at.String(), LookedAt: l.budget.Looked}, nil
}

func (l *listing) ended() bool { return len(l.at.Pending) == 0 && l.at.Server >= len(l.servers) }

// readPending adds the keys that the previous page had no space for.
func (l *listing) readPending(ctx context.Context) (err error) {
	keys := make([]string, min(len(l.at.Pending), l.limit))
	for i := range keys {
		keys[i] = string(l.at.Pending[i])
	}
	l.at.Pending = l.at.Pending[len(keys):]
	l.entries, err = l.read(ctx, keys)
	return err
}

// round scans a batch of keys, and adds those that match. The matching keys beyond the
// page's limit stay pending. If they were many, the page is full without the batch.
func (l *listing) round(ctx context.Context) (full bool, err error) {
	before := l.at
	keys, err := l.scan(ctx, l.batch())
	if err != nil {
		return false, err
	}
	found, err := l.read(ctx, l.candidates(ctx, keys))
	if err != nil {
		return false, err
	}
	free := l.limit - len(l.entries)
	if len(found) > free+maxPending && len(l.entries) > 0 {
		l.at = before
		return true, nil
	}
	for _, entry := range found[min(free, len(found)):] {
		l.at.Pending = append(l.at.Pending, []byte(entry.Key))
	}
	l.entries = append(l.entries, found[:min(free, len(found))]...)
	l.budget.Looked += len(keys)
	return false, nil
}

// batch returns the number of keys to scan: as many as are likely to fill the page, by
// the share of the keys that have matched so far.
func (l *listing) batch() int {
	free := l.limit - len(l.entries)
	count := max(free, free*l.requested/(len(l.entries)+1))
	return max(1, min(count, maxBatch, l.budget.Left()))
}

// findServers finds the masters, in the order of their addresses.
func (l *listing) findServers(ctx context.Context) error {
	cluster, is := l.store.client.(interface {
		ForEachMaster(ctx context.Context, visit func(context.Context, *redis.Client) error) error
	})
	if !is {
		l.servers, l.alone = []redis.Cmdable{l.store.client}, true
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

// scan returns the next keys of SCAN, perhaps none, and advances the cursor.
func (l *listing) scan(ctx context.Context, count int) (keys []string, err error) {
	server := l.servers[l.at.Server]
	pipeline := server.Pipeline()
	var information *redis.StringCmd
	if l.alone && l.at.Cursor == 0 { // the server may be one of a cluster, or a proxy for one
		information = pipeline.ClusterInfo(ctx)
	}
	scanned := pipeline.Scan(ctx, l.at.Cursor, escapeGlob(l.store.prefix)+"*", int64(count))
	exec(ctx, pipeline)
	if information != nil && information.Err() == nil && membersOf(information.Val())["cluster_size"] != "1" {
		return nil, errHiddenMasters
	}
	names, cursor, err := scanned.Result()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !l.store.isResponse(name) {
			keys = append(keys, strings.TrimPrefix(name, l.store.prefix))
		}
	}
	l.requested += count
	if l.at.Cursor = cursor; cursor == 0 {
		l.at.Server++
	}
	return keys, nil
}

// escapeGlob returns a pattern that matches only the text.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

// matches reports whether the filter selects a record that was read just now.
func (l *listing) matches(r *storage.Record) bool { return l.filter.Matches(r, time.Now()) }

var errOtherServers = errors.New("the cluster's masters are not those of the first page: start again with an empty cursor")

// position is the progress of a list. A cursor is its text form.
type position struct {
	// Servers is the checksum of the masters' addresses, set by the first page.
	Servers *uint32 `json:"servers"`
	// Server is the index of the scanned master, and Cursor the master's SCAN cursor.
	Server int    `json:"server"`
	Cursor uint64 `json:"cursor"`
	// Pending are keys that SCAN found beyond the requested count. The next page
	// reads them.
	Pending [][]byte `json:"pending,omitempty"`
}

// on checks that the servers are those of the first page.
func (p *position) on(servers int, addresses string) error {
	sum := crc32.ChecksumIEEE([]byte(addresses))
	if p.Server > servers || p.Servers != nil && *p.Servers != sum {
		return errOtherServers
	}
	p.Servers = &sum
	return nil
}

// String returns the cursor, which is empty for the zero position.
func (p *position) String() string {
	if p.Servers == nil {
		return ""
	}
	text, _ := json.Marshal(p) // numbers and bytes always encode
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(cursor string) (position, error) {
	var p position
	if cursor == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.Server < 0 || p.String() != cursor {
		return position{}, fmt.Errorf("redisstore: list: the cursor %s is not from List: start with an empty cursor", records.Excerpt(cursor))
	}
	return p, nil
}
