package shop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core"
)

// Book names the kind of a side effect.
type Book string

// The kinds of side effects.
const (
	Charges     Book = "charge"
	Refunds     Book = "refund"
	memberships Book = "member"
	notes       Book = "note"
)

// Entry is one side effect.
type Entry struct {
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
func (e Entry) stamp(ctx context.Context) Entry {
	e.User, e.Key, e.Time = UserFrom(ctx), core.KeyFrom(ctx), time.Now().UTC().Truncate(time.Millisecond)
	if lease, guarded := core.LeaseFrom(ctx); guarded {
		e.Attempt = lease.Attempt
	}
	return e
}

// Ledger records the side effects that happened, independent of the responses.
type Ledger interface {
	// Add makes the side effect. It is the last defence against a second one: the book
	// accepts each operation once and each order of a user once, even under other keys and
	// after the record store has lost a record. It returns the entry in the book, and
	// whether that entry is new. Without an error the side effect has happened, now or
	// before.
	Add(ctx context.Context, b Book, e Entry) (in Entry, added bool, err error)
	// All returns every entry, oldest first.
	All(ctx context.Context) (map[Book][]Entry, error)
}

func emptyBooks() map[Book][]Entry {
	return map[Book][]Entry{Charges: {}, Refunds: {}, memberships: {}, notes: {}}
}

type memoryLedger struct {
	journal *Journal
	mu      sync.Mutex
	entries map[Book][]Entry
	index   map[string]Entry // by each of the entry's identities
}

// NewMemoryLedger returns a ledger that belongs to this process and ends with it.
func NewMemoryLedger(j *Journal) Ledger {
	return &memoryLedger{journal: j, entries: emptyBooks(), index: make(map[string]Entry)}
}

func (l *memoryLedger) Add(ctx context.Context, b Book, e Entry) (in Entry, added bool, err error) {
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
		return Entry{}, false, err
	}
	l.entries[b] = append(l.entries[b], e)
	for _, identity := range identities {
		l.index[identity] = e
	}
	return e, true, nil
}

// identities are unique to one entry of a ledger: the operation, see core.DeriveKey, and the
// order of a charge. An order may be refunded in parts.
func (e Entry) identities(ctx context.Context, b Book) []string {
	var all []string
	if operation := core.DeriveKey(ctx, string(b)); operation != "" {
		all = append(all, operation)
	}
	if b == Charges {
		all = append(all, fmt.Sprintf("%q %q", e.User, e.OrderID))
	}
	return all
}

func (l *memoryLedger) All(context.Context) (map[Book][]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	copied := emptyBooks()
	for b, entries := range l.entries {
		copied[b] = append(copied[b], entries...)
	}
	return copied, nil
}

// ShowLedger responds to GET /ledger with this process's side effects, or with tables
// with those of all processes ever. It requires no user, which suits only an example.
func (s *Shop) ShowLedger(w http.ResponseWriter, r *http.Request) {
	entries, err := s.Ledger.All(r.Context())
	if err != nil {
		WriteError(w, err)
		return
	}
	shown := struct {
		Charges   []Entry    `json:"charges"`
		Refunds   []Entry    `json:"refunds"`
		Members   []Entry    `json:"members"`
		Notes     []Entry    `json:"notes"`
		Transfers []Transfer `json:"transfers,omitempty"`
		Attempts  int64      `json:"attempts"` // of this process
	}{entries[Charges], entries[Refunds], entries[memberships], entries[notes], nil, s.attempts.Load()}
	if s.Bank != nil {
		if shown.Transfers, err = s.Bank.Transfers(r.Context()); err != nil {
			WriteError(w, err)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	indented := json.NewEncoder(w)
	indented.SetIndent("", "  ")
	indented.Encode(shown)
}

// ShowAttempts responds to GET /attempts with the number of handler runs in this
// process. The engine's own responses do not raise the number.
func (s *Shop) ShowAttempts(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, map[string]int64{"attempts": s.attempts.Load()})
}
