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

// entry is one side effect that happened.
type entry struct {
	ID       string    `json:"id,omitempty"`
	OrderID  string    `json:"order_id,omitempty"`
	Amount   int64     `json:"amount,omitempty"`
	Currency string    `json:"currency,omitempty"`
	Email    string    `json:"email,omitempty"`
	Text     string    `json:"text,omitempty"`
	User     string    `json:"user"`
	Key      string    `json:"key"`               // empty when the handler ran unguarded
	Attempt  uint64    `json:"attempt,omitempty"` // above 1 when an earlier one was abandoned
	Time     time.Time `json:"time"`
}

// stamp says whose entry it is, and under which key it is made.
func (e entry) stamp(ctx context.Context) entry {
	e.User, e.Key, e.Time = userFrom(ctx), core.KeyFrom(ctx), time.Now().UTC().Truncate(time.Millisecond)
	if lease, guarded := core.LeaseFrom(ctx); guarded {
		e.Attempt = lease.Attempt
	}
	return e
}

// ledger is the truth: what really happened, whatever clients were told.
type ledger interface {
	// add is the side effect, and the last line of defence: an operation is entered
	// once, and an order of a user is charged once, whatever the keys were and whatever
	// the record store has forgotten. It returns the entry that is in the book, and
	// whether that is the new one. Without an error it has happened, now or before.
	add(ctx context.Context, b book, e entry) (in entry, added bool, err error)
	// all returns every entry, oldest first.
	all(ctx context.Context) (map[book][]entry, error)
}

func emptyBooks() map[book][]entry {
	return map[book][]entry{charges: {}, refunds: {}, memberships: {}, notes: {}}
}

// memoryLedger belongs to this process, and ends with it.
type memoryLedger struct {
	journal *journal
	mu      sync.Mutex
	entries map[book][]entry
	index   map[string]entry // by each of its identities
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

// identities are what no two entries of a ledger share: tables.sql has them as
// constraints.
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

// showLedger answers GET /ledger: what this process did, or with tables what all
// processes ever did. It asks for no user, which is for an example alone.
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

// showAttempts answers GET /attempts: how often a handler has begun to run in
// this process. What does not raise it was answered by the engine.
func (s *shop) showAttempts(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int64{"attempts": s.attempts.Load()})
}
