package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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
	ID      string    `json:"id,omitempty"`
	OrderID string    `json:"order_id,omitempty"`
	Email   string    `json:"email,omitempty"`
	Text    string    `json:"text,omitempty"`
	User    string    `json:"user"`
	Key     string    `json:"key"`               // empty when the handler ran unguarded
	Attempt uint64    `json:"attempt,omitempty"` // above 1 when an earlier one was abandoned
	Time    time.Time `json:"time"`
}

// ledger is the truth: what really happened, whatever clients were told.
type ledger struct {
	mu       sync.Mutex
	file     *os.File // nil without -ledger
	entries  map[book][]entry
	attempts int
}

func openLedger(path string) (*ledger, error) {
	l := &ledger{entries: map[book][]entry{charges: {}, refunds: {}, memberships: {}, notes: {}}}
	if path == "" {
		return l, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator names the file
	l.file = file
	return l, err
}

func (l *ledger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// countAttempt is called by every guarded handler: what does not raise it was
// answered by the engine.
func (l *ledger) countAttempt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts++
}

// add is the side effect. It has happened when add returns nil.
func (l *ledger) add(ctx context.Context, b book, e entry) error {
	e.User, e.Key, e.Time = userFrom(ctx), core.KeyFrom(ctx), time.Now().UTC().Truncate(time.Millisecond)
	if lease, guarded := core.LeaseFrom(ctx); guarded {
		e.Attempt = lease.Attempt
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(b, e); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.entries[b] = append(l.entries[b], e)
	return nil
}

// append writes one line by one call, so that processes can share the file.
func (l *ledger) append(b book, e entry) error {
	if l.file == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		Kind book `json:"kind"`
		PID  int  `json:"pid"`
		entry
	}{b, os.Getpid(), e})
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// show answers GET /ledger. It asks for no user, which is for an example alone.
func (l *ledger) show(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	indented := json.NewEncoder(w)
	indented.SetIndent("", "  ")
	indented.Encode(struct {
		Charges  []entry `json:"charges"`
		Refunds  []entry `json:"refunds"`
		Members  []entry `json:"members"`
		Notes    []entry `json:"notes"`
		Attempts int     `json:"attempts"`
	}{l.entries[charges], l.entries[refunds], l.entries[memberships], l.entries[notes], l.attempts})
}
