package sqlrows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// cursorPrefix begins each cursor of a list. A key follows.
	cursorPrefix = "sql/"
	// chunk is how many rows the first SELECT of a list reads. Each further one reads twice as
	// many, up to largestChunk: a few rows among many take fewer round trips.
	chunk, largestChunk = 500, 4000
)

// Lookup implements [storage.Inspector].
func (s *Records) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	r, err := s.Pool.Find(ctx, Read, KeyOf(key))
	if err != nil || r == nil || r.isNoRecord() {
		return nil, s.Failure("look up", key, Ended(ctx, err))
	}
	record, err := r.Decode()
	return record, s.Failure("look up", key, err)
}

// isNoRecord: the row has expired, or has an attempt number or the count of a scope only.
func (r *Row) isNoRecord() bool {
	return r.expired() || r.state == forgotten || r.state == scoped
}

// List implements [storage.Inspector]. Pages are in the order of their keys. List skips
// an unreadable record, and logs a warning with the record's key.
func (s *Records) List(ctx context.Context, filter storage.Filter, page storage.Page) (listing storage.Listing, err error) {
	if err := errors.Join(filter.Validate(), page.Validate()); err != nil {
		return storage.Listing{}, err
	}
	after, own := strings.CutPrefix(page.Cursor, cursorPrefix)
	if !own && page.Cursor != "" {
		return storage.Listing{}, fmt.Errorf("%[1]s: list from cursor %[2]s: want the Next of a listing of %[1]s", s.Package, records.Excerpt(page.Cursor))
	}
	end := time.Now().Add(page.Within)
	for rows := chunk; ; rows = min(2*rows, largestChunk) {
		size := min(rows, page.LookAt-listing.LookedAt)
		wanted := page.Limit - len(listing.Entries)
		read, err := s.listChunk(ctx, after, size, wanted, &filter)
		if err != nil {
			return storage.Listing{}, fmt.Errorf("%s: list: %w", s.Package, s.Explained(Ended(ctx, err)))
		}
		listing.Entries = append(listing.Entries, read.Entries...)
		listing.LookedAt += read.LookedAt
		after = read.Next
		switch {
		case read.LookedAt < size && len(listing.Entries) < page.Limit:
			return listing, nil // the last page
		case len(listing.Entries) == page.Limit, listing.LookedAt >= page.LookAt, time.Now().After(end):
			listing.Next = cursorPrefix + after
			return listing, nil
		}
	}
}

// listChunk reads up to size rows after a key, until limit of them match. Next is the key
// of the last row.
func (s *Records) listChunk(ctx context.Context, after string, size, limit int, filter *storage.Filter) (read storage.Listing, err error) {
	err = s.Pool.Each(ctx, List, &Arguments{pKey: after, pLimit: int64(size), pStates: statesOf(filter)}, func(r *Row, unread error) bool {
		read.LookedAt++
		read.Next = r.key
		if s.Form.AsText && r.text == "" {
			return true // of another state
		}
		if record := s.listed(ctx, r.key, r, unread, filter); record != nil {
			read.Entries = append(read.Entries, storage.Entry{Key: r.key, Record: record})
		}
		return len(read.Entries) < limit
	})
	return read, err
}

// statesOf are the states of the rows that may match, or "" for all. A row of any state may be
// a tombstone.
func statesOf(filter *storage.Filter) string {
	states := filter.States
	if filter.Abandoned {
		states = []storage.State{storage.InProgress}
	}
	text := ""
	for _, state := range states {
		if state == storage.Expired {
			return ""
		}
		text += "," + state.String()
	}
	if text != "" {
		text += ","
	}
	return text
}

// listed returns the record of a row that matches, or nil.
func (s *Records) listed(ctx context.Context, key string, r *Row, unreadable error, filter *storage.Filter) *storage.Record {
	if unreadable == nil && r.isNoRecord() {
		return nil
	}
	record, err := r.Decode()
	if err = cmp.Or(unreadable, err); err != nil {
		s.log().WarnContext(ctx, "oncekey: a list has skipped a record that cannot be read", slog.String("store", s.Package), slog.String("key", key), slog.Any("error", err))
		return nil
	}
	if !filter.Matches(record, time.UnixMicro(r.now)) {
		return nil
	}
	return record
}

// Settle implements [storage.Inspector].
func (s *Records) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	happened, err := records.Happened(confirmation)
	if err != nil {
		return fmt.Errorf("%s: settle: %w", s.Package, err)
	}
	settle := DidNotHappen
	if happened {
		settle = Happened
	}
	a := of(&storage.Lease{Claim: storage.Claim{Key: key, Token: storage.NewToken()}, Attempt: attempt})
	a[pFingerprint] = []byte{}
	err = s.Retry(ctx, func() error {
		settled, err := s.Pool.Exec(ctx, settle, a)
		if err == nil && !settled {
			err = storage.ErrNotAbandoned
		}
		return err
	})
	return s.Failure("settle", key, err)
}

// Forget implements [storage.Inspector]. It also deletes the attempt number.
func (s *Records) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (forgotten bool, err error) {
	if confirmation != storage.RerunIsSafe {
		return false, fmt.Errorf("%s: %w", s.Package, records.ErrRerunNotConfirmed)
	}
	err = s.Retry(ctx, func() (err error) {
		forgotten, err = s.forget(ctx, key)
		return err
	})
	return forgotten, s.Failure("forget", key, err)
}

func (s *Records) forget(ctx context.Context, key string) (bool, error) {
	for range rounds {
		a := KeyOf(key)
		r, err := s.Pool.Find(ctx, Head, a)
		if err != nil || r == nil {
			return false, err
		}
		a[pSeenToken], a[pSeenRevision] = r.token, r.revision
		if deleted, err := s.Pool.Exec(ctx, Forget, a); err != nil || deleted {
			return deleted && !r.isNoRecord(), err
		}
	}
	return false, errNoRound
}
