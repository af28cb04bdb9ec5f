package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core"
)

// book names the kind of a side effect.
type book string

const (
	charges     book = "charge"
	refunds     book = "refund"
	memberships book = "member"
	notes       book = "note"
)

// entry is one side effect.
type entry struct {
	ID       string    `json:"id,omitempty"`
	OrderID  string    `json:"order_id,omitempty"`
	Amount   int64     `json:"amount,omitempty"`
	Currency string    `json:"currency,omitempty"`
	Email    string    `json:"email,omitempty"`
	Text     string    `json:"text,omitempty"`
	User     string    `json:"user"`
	Key      string    `json:"key"`               // empty for an unguarded run
	Attempt  uint64    `json:"attempt,omitempty"` // above 1 after an abandoned attempt
	Time     time.Time `json:"time"`
}

// stamp adds the user and the key of the request.
func (e entry) stamp(ctx context.Context) entry {
	e.User, e.Key, e.Time = userFrom(ctx), core.KeyFrom(ctx), time.Now().UTC().Truncate(time.Millisecond)
	if lease, guarded := core.LeaseFrom(ctx); guarded {
		e.Attempt = lease.Attempt
	}
	return e
}

// ledger records the side effects that happened, independent of the responses.
type ledger interface {
	// add makes the side effect. It is the last defence against a second one: the book
	// accepts each operation once and each order of a user once, even under other keys and
	// after the record store has lost a record. It returns the entry in the book, and
	// whether that entry is new. Without an error the side effect has happened, now or
	// before.
	add(ctx context.Context, b book, e entry) (in entry, added bool, err error)
	// all returns every entry, oldest first.
	all(ctx context.Context) (map[book][]entry, error)
}

func emptyBooks() map[book][]entry {
	return map[book][]entry{charges: {}, refunds: {}, memberships: {}, notes: {}}
}

// memoryLedger belongs to this process and ends with it.
type memoryLedger struct {
	journal *journal
	mu      sync.Mutex
	entries map[book][]entry
	index   map[string]entry // by each of the entry's identities
}

func newMemoryLedger(j *journal) *memoryLedger {
	return &memoryLedger{journal: j, entries: emptyBooks(), index: make(map[string]entry)}
}

func (l *memoryLedger) add(ctx context.Context, b book, e entry) (in entry, added bool, err error) {
	e = e.stamp(ctx)
	identities := e.identities(ctx, b)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, identity := range identities {
		if before, known := l.index[identity]; known {
			return before, false, nil
		}
	}
	if err := l.journal.append(b, e); err != nil {
		return entry{}, false, err
	}
	l.entries[b] = append(l.entries[b], e)
	for _, identity := range identities {
		l.index[identity] = e
	}
	return e, true, nil
}

// identities are unique to one entry of a ledger. The constraints in tables.sql are the
// same.
func (e entry) identities(ctx context.Context, b book) []string {
	var all []string
	if operation := core.DeriveKey(ctx, string(b)); operation != "" {
		all = append(all, operation)
	}
	if b == charges {
		all = append(all, fmt.Sprintf("%q %q", e.User, e.OrderID))
	}
	return all
}

func (l *memoryLedger) all(context.Context) (map[book][]entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	copied := emptyBooks()
	for b, entries := range l.entries {
		copied[b] = append(copied[b], entries...)
	}
	return copied, nil
}

// showLedger responds to GET /ledger with this process's side effects, or with tables
// with those of all processes ever. It requires no user, which suits only an example.
func (s *shop) showLedger(w http.ResponseWriter, r *http.Request) {
	entries, err := s.ledger.all(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	shown := struct {
		Charges   []entry    `json:"charges"`
		Refunds   []entry    `json:"refunds"`
		Members   []entry    `json:"members"`
		Notes     []entry    `json:"notes"`
		Transfers []transfer `json:"transfers,omitempty"`
		Attempts  int64      `json:"attempts"` // of this process
	}{entries[charges], entries[refunds], entries[memberships], entries[notes], nil, s.attempts.Load()}
	if s.bank != nil {
		if shown.Transfers, err = s.bank.transfers(r.Context()); err != nil {
			writeError(w, err)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	indented := json.NewEncoder(w)
	indented.SetIndent("", "  ")
	indented.Encode(shown)
}

// showAttempts responds to GET /attempts with the number of handler runs in this
// process. The engine's own responses do not raise the number.
func (s *shop) showAttempts(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int64{"attempts": s.attempts.Load()})
}
