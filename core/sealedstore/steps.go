package sealedstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// stepsMark begins Steps that are sealed. The engine's own steps never begin so: a process
// without the seal reads them as a corrupt record, and runs nothing.
const stepsMark = "sealed " + format + "\n"

// maxOverhead bounds the bytes that an AEAD adds to steps, with the request's hash before
// them. A key set of Tink adds 33, with a key service about 250.
const maxOverhead = 640

// stepsText is the form of sealed steps in a store.
var stepsText = base64.RawStdEncoding

// sealSteps returns the lease as the next store is to keep it.
//
// A store keeps the longer of two steps. Sealed steps are therefore padded to a length
// that grows with the plain steps', whatever the AEAD adds.
func (s *Store) sealSteps(ctx context.Context, l storage.Lease) (storage.Lease, error) {
	if l.Steps == "" {
		return l, nil
	}
	bound := requestHash(l.Fingerprint, l.Digest)
	sealed, err := s.encrypt(ctx, append(bound[:], l.Steps...), associatedSteps(l.Key))
	if err != nil {
		return l, fmt.Errorf("seal the steps: %w", err)
	}
	if len(sealed) > len(l.Steps)+maxOverhead {
		return l, fmt.Errorf("seal the steps: the AEAD has made %d bytes of %d, want at most %d more", len(sealed), len(l.Steps), maxOverhead)
	}
	text := stepsText.EncodeToString(sealed)
	l.Steps = stepsMark + text + strings.Repeat("=", stepsText.EncodedLen(len(l.Steps)+maxOverhead)-len(text))
	return l, nil
}

// openSteps returns steps as they were before they were sealed. They belong to a record or
// a lease of the key with this fingerprint and digest.
func (s *Store) openSteps(ctx context.Context, key, fingerprint string, digest storage.Digest, steps string) (string, error) {
	text, isSealed := strings.CutPrefix(steps, stepsMark)
	switch {
	case steps == "" || !isSealed && s.readPlain:
		return steps, nil
	case !isSealed:
		return "", records.Corrupt("its steps are not sealed")
	}
	sealed, err := stepsText.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return "", records.Corrupt("its sealed steps cannot be read: %v", err)
	}
	plain, err := s.decrypt(ctx, sealed, associatedSteps(key))
	switch {
	case isUnavailable(err):
		return "", fmt.Errorf("%w: %w", storage.ErrUnreadable, err)
	case err != nil:
		return "", fmt.Errorf("%w: its steps cannot be decrypted: %w", storage.ErrCorruptRecord, err)
	}
	bound := requestHash(fingerprint, digest)
	if len(plain) <= len(bound) || !boundTo(plain, bound) {
		return "", records.Corrupt("its steps are of another request")
	}
	return string(plain[len(bound):]), nil
}

// openRecordSteps returns the record with its steps opened.
func (s *Store) openRecordSteps(ctx context.Context, key string, found *storage.Record) (*storage.Record, error) {
	if found.Steps == "" {
		return found, nil
	}
	opened := *found // which is shared
	var err error
	opened.Steps, err = s.openSteps(ctx, key, found.Fingerprint, found.Digest, found.Steps)
	return &opened, err
}

// openLeaseSteps opens the steps of a lease that the next store has granted. If that
// fails, the claim ends again, so that the key is not blocked for a lease. A quarter of
// the time left is for this.
func (s *Store) openLeaseSteps(ctx context.Context, l storage.Lease) (storage.Lease, error) {
	opening, cancel := ctx, context.CancelFunc(func() {})
	if deadline, limited := ctx.Deadline(); limited {
		opening, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/4))
	}
	defer cancel()
	steps, err := s.openSteps(opening, l.Key, l.Fingerprint, l.Digest, l.Steps)
	switch {
	case err != nil && l.TookOver:
		l.Steps = "" // the record keeps its own
		return storage.Lease{}, errors.Join(err, s.next.Extend(ctx, l, 0))
	case err != nil:
		return storage.Lease{}, errors.Join(err, s.next.Release(ctx, l))
	}
	l.Steps = steps
	return l, nil
}

// boundSize is the length of half a requestHash.
const boundSize = 16

// requestHash stands for the request of some steps: a hash of its fingerprint, and its
// digest. A take-over needs only one of them to be equal, so neither can be in the
// associated data.
func requestHash(fingerprint string, digest storage.Digest) (both [2 * boundSize]byte) {
	sum := frame.Sum("oncekey sealed steps "+format, fingerprint)
	copy(both[:], sum[:boundSize])
	copy(both[boundSize:], digest[:])
	return both
}

// boundTo reports whether plain steps begin with the hash of a request that repeats the
// other request (storage.Claim.Repeats).
func boundTo(plain []byte, other [2 * boundSize]byte) bool {
	digest := other[boundSize:]
	return bytes.Equal(plain[:boundSize], other[:boundSize]) ||
		bytes.Equal(plain[boundSize:2*boundSize], digest) && !bytes.Equal(digest, make([]byte, boundSize))
}

// associatedSteps returns the associated data of steps.
func associatedSteps(key string) []byte {
	sum := frame.Sum("oncekey sealed steps "+format, "steps", key)
	return sum[:]
}
