package sqlstore

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
	// chunk is how many rows one SELECT of a list reads.
	chunk = 500
)

var (
	// errRerunNotConfirmed refuses a Forget without storage.RerunIsSafe.
	errRerunNotConfirmed = errors.New("sqlstore: forget: pass storage.RerunIsSafe if the request may run again")
	// errUnknownWord refuses a Settle without one of its words.
	errUnknownWord = errors.New("sqlstore: settle: pass storage.Happened or storage.DidNotHappen")
)

// Lookup implements [storage.Inspector].
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	var r row
	there, err := s.find(ctx, nil, &s.statements.read, &arguments{pKey: key}, &r, r.whole(s.dialect.asText))
	if err != nil || !there || r.isNoRecord() {
		return nil, s.failure("look up", key, ended(ctx, err))
	}
	record, err := r.decode()
	return record, s.failure("look up", key, err)
}

// isNoRecord: the row has expired, or has an attempt number only.
func (r *row) isNoRecord() bool { return r.expired() || r.state == forgotten }

// List implements [storage.Inspector]. Pages are in the order of their keys. List skips
// an unreadable record, and logs a warning with the record's key.
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (listing storage.Listing, err error) {
	if err := errors.Join(filter.Validate(), page.Validate()); err != nil {
		return storage.Listing{}, err
	}
	after, own := strings.CutPrefix(page.Cursor, cursorPrefix)
	if !own && page.Cursor != "" {
		return storage.Listing{}, fmt.Errorf("sqlstore: list from cursor %s: want the Next of a listing of sqlstore", records.Excerpt(page.Cursor))
	}
	end := time.Now().Add(page.Within)
	for {
		size := min(chunk, page.LookAt-listing.LookedAt)
		wanted := page.Limit - len(listing.Entries)
		read, err := ask(ctx, s, func() (storage.Listing, error) { return s.listChunk(ctx, after, size, wanted, &filter) })
		if err != nil {
			return storage.Listing{}, fmt.Errorf("sqlstore: list: %w", s.explained(ended(ctx, err)))
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
func (s *Store) listChunk(ctx context.Context, after string, size, limit int, filter *storage.Filter) (read storage.Listing, err error) {
	rows, err := s.query(ctx, nil, &s.statements.list, &arguments{pKey: after, pLimit: int64(size)})
	if err != nil {
		return read, err
	}
	defer rows.Close()
	for len(read.Entries) < limit && rows.Next() {
		var r row
		if err := rows.Scan(append([]any{&read.Next}, r.head(s.dialect.asText)...)...); err != nil {
			return read, err
		}
		read.LookedAt++
		if record := s.listed(ctx, read.Next, &r, r.parse(), filter); record != nil {
			read.Entries = append(read.Entries, storage.Entry{Key: read.Next, Record: record})
		}
	}
	return read, rows.Err()
}

// listed returns the record of a row that matches, or nil.
func (s *Store) listed(ctx context.Context, key string, r *row, unreadable error, filter *storage.Filter) *storage.Record {
	if unreadable == nil && r.isNoRecord() {
		return nil
	}
	record, err := r.decode()
	if err = cmp.Or(unreadable, err); err != nil {
		s.log().WarnContext(ctx, "sqlstore: a list has skipped a record that cannot be read", slog.String("key", key), slog.Any("error", err))
		return nil
	}
	if !filter.Matches(record, time.UnixMicro(r.now)) {
		return nil
	}
	return record
}

// Settle implements [storage.Inspector].
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, word storage.Word) error {
	settle := &s.statements.happened
	switch word {
	case storage.Happened:
	case storage.DidNotHappen:
		settle = &s.statements.didNotHappen
	default:
		return errUnknownWord
	}
	token := storage.NewToken()

	a := of(&storage.Lease{Claim: storage.Claim{Key: key, Token: token}, Attempt: attempt})
	a[pFingerprint] = []byte{}
	err := s.retry(ctx, func() error {
		settled, err := s.exec(ctx, nil, settle, a)
		if err == nil && !settled {
			err = storage.ErrNotAbandoned
		}
		return err
	})
	return s.failure("settle", key, err)
}

// Forget implements [storage.Inspector]. It also deletes the attempt number.
func (s *Store) Forget(ctx context.Context, key string, word storage.Word) (forgotten bool, err error) {
	if word != storage.RerunIsSafe {
		return false, errRerunNotConfirmed
	}
	err = s.retry(ctx, func() (err error) {
		forgotten, err = s.forget(ctx, key)
		return err
	})
	return forgotten, s.failure("forget", key, err)
}

func (s *Store) forget(ctx context.Context, key string) (bool, error) {
	for {
		var r row
		a := &arguments{pKey: key}
		there, err := s.find(ctx, nil, &s.statements.head, a, &r, r.head(s.dialect.asText))
		if err != nil || !there {
			return false, err
		}
		a[pSeenToken], a[pSeenRevision] = r.token, r.revision
		if deleted, err := s.exec(ctx, nil, &s.statements.forget, a); err != nil || deleted {
			return deleted && !r.isNoRecord(), err
		}
	}
}
