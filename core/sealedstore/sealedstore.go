package sealedstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
)

// DefaultMaxCalls is how many calls of the AEAD run at a time unless [MaxCalls] says
// otherwise.
const DefaultMaxCalls = 256

// ErrUnavailable says "not now": the AEAD could not do its work, and may later. An AEAD
// wraps it to tell an outage of its key service from a ciphertext that is not its own.
var ErrUnavailable = errors.New("sealedstore: the AEAD is unavailable")

// AEAD encrypts with associated data. It is safe for concurrent use and changes no
// argument. Its methods are those of tink.AEAD in
// github.com/tink-crypto/tink-go, so that its key sets fit, with rotation and KMS.
type AEAD interface {
	// Encrypt returns a ciphertext that only Decrypt with the same associated data
	// reads. Two calls with equal arguments return different ciphertexts.
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	// Decrypt returns the plaintext, or an error unless Encrypt returned this ciphertext
	// for this associatedData. See [ErrUnavailable].
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Store is a [storage.Store] over another one. It is also a [storage.Transactor], a
// [storage.Inspector], a [storage.Checker], a [storage.Limiter] and a [storage.Examiner],
// as far as the other one is. It is safe for concurrent use and needs no Close. Make one with [New].
type Store struct {
	next      storage.Store
	aead      AEAD
	readPlain bool
	maxCalls  int
	calls     chan struct{} // one for each call of the AEAD that runs
	seals     atomic.Bool   // the AEAD has once sealed and opened
	passing
}

// passing has the methods of [storage.Limiter]: the next store counts.
type passing = scopecount.Passing

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transactor = (*Store)(nil)
	_ storage.Limiter    = (*Store)(nil)
	_ storage.Inspector  = (*Store)(nil)
	_ storage.Checker    = (*Store)(nil)
	_ storage.Examiner   = (*Store)(nil)
)

// Option is a setting of [New].
type Option func(*Store)

// ReadPlain lets records through that are not sealed. It is for the first TTL after the
// seal was put on: the records from before are plain. Remove it afterwards, because a
// writer of the store can forge responses as long as it is given.
func ReadPlain() Option { return func(s *Store) { s.readPlain = true } }

// MaxCalls sets how many calls of the AEAD run at a time. More callers wait for one to
// end, no longer than their contexts. A call that never returns keeps its place: give the
// client of a key service a timeout. The default is [DefaultMaxCalls]. It panics when n
// is below 1.
func MaxCalls(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("sealedstore: MaxCalls(%d): want at least 1", n))
	}
	return func(s *Store) { s.maxCalls = n }
}

// New returns a store that keeps its records in next, with the responses encrypted by
// aead. It panics when one of them is nil. Both stay the caller's.
//
// All processes that share next need a seal with the same keys. Limits of next in bytes,
// such as memstore.MaxBytes, count encrypted records: a record grows by the AEAD's own
// bytes (28 for AES-GCM, 33 for a key set of Tink) and by about 20, and steps by a third
// and 900 bytes. The policy's MaxResponseBytes counts the plain response and steps. An
// AEAD that adds more than 600 bytes seals no steps.
func New(next storage.Store, aead AEAD, options ...Option) *Store {
	if next == nil || aead == nil {
		panic("sealedstore: New: want a store and an AEAD, one of them is nil")
	}
	s := &Store{next: next, aead: aead, maxCalls: DefaultMaxCalls, passing: scopecount.NewPassing("sealedstore", "next store", next)}
	records.Configure("sealedstore", s, options)
	s.calls = make(chan struct{}, s.maxCalls)
	return s
}

// Acquire implements [storage.Store]. A finished record is opened, and so are the steps of
// a lease or of a record without a response. Where that fails the error is a wrapped
// storage.ErrCorruptRecord, or a wrapped storage.ErrUnreadable when the AEAD is
// unavailable. A key that would have been taken over is left abandoned, and a Released one
// is released again.
//
// The first Acquire of a Store seals and opens a trial text, because a process that
// cannot settle must not claim. An AEAD that refuses is a wrapped
// storage.ErrStoreForbidden, and one that is unavailable a storage.ErrUnreadable.
func (s *Store) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if !s.seals.Load() {
		if err := s.try(ctx); err != nil {
			if isUnavailable(err) { // and the next store may hold the response of this key
				err = fmt.Errorf("%w: %w", storage.ErrUnreadable, err)
			}
			return storage.Lease{}, nil, fmt.Errorf("sealedstore: acquire: %w", err)
		}
	}
	lease, found, err := s.next.Acquire(ctx, c)
	switch {
	case err != nil:
		return lease, nil, err
	case found != nil:
		found, err = s.open(ctx, c.Key, found)
	case lease.Steps != "":
		lease, err = s.openLeaseSteps(ctx, lease)
	}
	if err != nil {
		return storage.Lease{}, nil, fmt.Errorf("sealedstore: acquire %q: %w", c.Key, err)
	}
	return lease, found, nil
}

// Complete implements [storage.Store]. When the result cannot be sealed, nothing is
// stored.
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	sealed, err := s.seal(ctx, &l, res)
	if err != nil {
		return fmt.Errorf("sealedstore: complete %q: %w", l.Key, err)
	}
	l.Steps = "" // which end with the run
	return s.next.Complete(ctx, l, sealed)
}

// Release implements [storage.Store]. When the steps cannot be sealed, the key is not
// released.
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	sealed, err := s.sealSteps(ctx, l)
	if err != nil {
		return fmt.Errorf("sealedstore: release %q: %w", l.Key, err)
	}
	return s.next.Release(ctx, sealed)
}

// Extend implements [storage.Store]. When the steps cannot be sealed, nothing is stored
// and the lease is not renewed.
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	sealed, err := s.sealSteps(ctx, l)
	if err != nil {
		return fmt.Errorf("sealedstore: extend %q: %w", l.Key, err)
	}
	return s.next.Extend(ctx, sealed, ttl)
}
