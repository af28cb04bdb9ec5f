package sealedstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
)

// The conformance suites over Redis and PostgreSQL are in package tieredstore's tests.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return sealedstore.New(memstore.New(), newGCM(1)) },
		Wrap: synctest.Test,
	})
}

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	storetest.RunLimiter(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return sealedstore.New(memstore.New(), newGCM(1)) },
		Wrap: synctest.Test,
	})
	if storage.Limits(sealedstore.New(bare{memstore.New()}, newGCM(1))) {
		t.Error("a seal over a store that does not count says that it counts")
	}
}

// One seal over another is a store too.
func TestConformanceUnderTwoSeals(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New: func(testing.TB) storage.Store {
			return sealedstore.New(sealedstore.New(memstore.New(), newGCM(1)), newGCM(2), sealedstore.ReadPlain())
		},
		Wrap: synctest.Test,
	})
}

func TestNextStoreSeesNoPlaintext(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	store := sealedstore.New(next, newGCM(1))
	for _, state := range []storage.State{storage.Completed, storage.Failed, storage.Unreplayable} {
		finish(t, store, state.String(), result(state))
		r, err := next.Lookup(t.Context(), state.String())
		must(t, err)
		if everything := fmt.Sprintf("%s %v %s", r.Body, r.Header, r.Sketch); bytes.Contains([]byte(everything), []byte("lain")) {
			t.Errorf("the next store has the %s record %s", state, everything)
		}
		if r.State != state || r.Status != 201 || r.Fingerprint != "sha256:f" || r.Digest != (storage.Digest{1}) {
			t.Errorf("the next store has %+v, want state, status, fingerprint and digest as they were given", r)
		}
		if state == storage.Unreplayable {
			continue
		}
		if len(r.Header) != 1 || r.Header[0].Op != storage.Sealed || r.Sketch != nil {
			t.Errorf("the next store has the header %v and the sketch %q, want the seal alone", r.Header, r.Sketch)
		}
		replays(t, store, state.String())
	}
}

// The longest sketch of the engine fits into the sketch that stores must keep.
func TestSealedSketchFits(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	res := result(storage.Unreplayable)
	res.Sketch = make([]byte, 256)
	finish(t, sealedstore.New(next, newGCM(1)), "key", res)
	if r := find(t, next, claim("key")); len(r.Sketch) <= 256 || len(r.Sketch) > 320 {
		t.Errorf("the sealed sketch has %d bytes, want a few more than 256", len(r.Sketch))
	}
}

// A record with any part changed at the store is a corrupt record.
func TestChangedRecordIsCorrupt(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(r, other *storage.Record){
		"another key's body":   func(r, other *storage.Record) { r.Body = other.Body },
		"another key's record": func(r, other *storage.Record) { *r = *other },
		"a changed body":       func(r, _ *storage.Record) { r.Body = append([]byte{^r.Body[0]}, r.Body[1:]...) },
		"half a body":          func(r, _ *storage.Record) { r.Body = r.Body[:len(r.Body)/2] },
		"no body":              func(r, _ *storage.Record) { r.Body = nil },
		"another status":       func(r, _ *storage.Record) { r.Status = 200 },
		"another state":        func(r, _ *storage.Record) { r.State = storage.Failed },
		"another fingerprint":  func(r, _ *storage.Record) { r.Fingerprint = "sha256:g" },
		"another digest":       func(r, _ *storage.Record) { r.Digest[0]++ },
		"no digest":            func(r, _ *storage.Record) { r.Digest = storage.Digest{} },
		"another format": func(r, _ *storage.Record) {
			r.Header = storage.Header{{Op: storage.Sealed, Name: "format", Value: "2"}}
		},
		"a seal of another name":     func(r, _ *storage.Record) { r.Header = storage.Header{{Op: storage.Sealed, Name: "f", Value: "1"}} },
		"no seal":                    func(r, _ *storage.Record) { r.Header = nil },
		"a plain header":             func(r, _ *storage.Record) { r.Header = storage.Header{{Name: "format", Value: "1"}} },
		"a header beside the seal":   func(r, _ *storage.Record) { r.Header = append(r.Header, storage.Field{Name: "A", Value: "b"}) },
		"a sketch beside the seal":   func(r, _ *storage.Record) { r.Sketch = []byte("sketch") },
		"a plain response":           func(r, _ *storage.Record) { r.Header, r.Body, r.Sketch = nil, []byte("forged"), nil },
		"an empty response":          func(r, _ *storage.Record) { r.Header, r.Body, r.Sketch = nil, nil, nil },
		"a sealed running record":    func(r, _ *storage.Record) { r.State = storage.InProgress },
		"a running record with text": func(r, _ *storage.Record) { r.State, r.Header = storage.InProgress, nil },
	}, func(t *testing.T, edit func(r, other *storage.Record)) {
		next := &edited{Inspectable: memstore.New()}
		store := sealedstore.New(next, newGCM(1))
		finish(t, store, "key", result(storage.Completed))
		finish(t, store, "other", result(storage.Completed))
		replays(t, store, "key")
		other, err := next.Lookup(t.Context(), "other")
		must(t, err)
		sealed := false
		next.edit = func(r *storage.Record) {
			edit(r, other)
			sealed = slices.ContainsFunc(r.Header, func(f storage.Field) bool { return f.Op == storage.Sealed })
		}
		refuses(t, store, "key", storage.ErrCorruptRecord, storage.ErrUnreadable)
		if sealed { // a broken seal is not plain
			refuses(t, sealedstore.New(next, newGCM(1), sealedstore.ReadPlain()), "key", storage.ErrCorruptRecord, storage.ErrUnreadable)
		}
	})
}

// An unreplayable record is bound like the others, by its sketch.
func TestChangedUnreplayableRecordIsCorrupt(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(r, other *storage.Record){
		"another key's sketch": func(r, other *storage.Record) { r.Sketch = other.Sketch },
		"a plain sketch":       func(r, _ *storage.Record) { r.Sketch = []byte("sketch") },
		"half a sketch":        func(r, _ *storage.Record) { r.Sketch = r.Sketch[:9] },
		"another status":       func(r, _ *storage.Record) { r.Status = 200 },
		"another fingerprint":  func(r, _ *storage.Record) { r.Fingerprint = "sha256:g" },
		"a response": func(r, _ *storage.Record) {
			r.State, r.Header = storage.Completed, storage.Header{{Op: storage.Sealed, Name: "format", Value: "1"}}
			r.Body, r.Sketch = r.Sketch[len("sealed 1\n"):], nil
		},
	}, func(t *testing.T, edit func(r, other *storage.Record)) {
		next := &edited{Inspectable: memstore.New()}
		store := sealedstore.New(next, newGCM(1))
		finish(t, store, "key", result(storage.Unreplayable))
		finish(t, store, "other", result(storage.Unreplayable))
		if r := find(t, store, claim("key")); string(r.Sketch) != "plain sketch" || r.Body != nil || r.Header != nil {
			t.Errorf("the record is %+v, want the sketch alone", r)
		}
		other, err := next.Lookup(t.Context(), "other")
		must(t, err)
		next.edit = func(r *storage.Record) { edit(r, other) }
		refuses(t, store, "key", storage.ErrCorruptRecord, storage.ErrUnreadable)
	})
}

// A store that has lost the response of a record still knows that its request has finished. Redis
// keeps a response apart where a policy has Remember, and may evict it.
func TestLostResponseIsNotReplayable(t *testing.T) {
	t.Parallel()
	next := &edited{Inspectable: memstore.New(), edit: func(r *storage.Record) { r.State, r.Header, r.Body = storage.Unreplayable, nil, nil }}
	store := sealedstore.New(next, newGCM(1))
	finish(t, store, "key", result(storage.Completed))
	if r := find(t, store, claim("key")); r.State != storage.Unreplayable || r.Status != 201 {
		t.Errorf("the record is %+v, want it without its response", r)
	}
}

// sharing hands out one record to all callers, as a store may.
type sharing struct {
	storage.Store
	found *storage.Record
}

func (s *sharing) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if s.found != nil {
		return storage.Lease{}, s.found, nil
	}
	lease, found, err := s.Store.Acquire(ctx, c)
	s.found = found
	return lease, found, err
}

func TestSharedRecordIsNotChanged(t *testing.T) {
	t.Parallel()
	store := sealedstore.New(&sharing{Store: memstore.New()}, newGCM(1))
	finish(t, store, "key", result(storage.Completed))
	for range 3 {
		replays(t, store, "key")
	}
}

func TestLostKeyIsACorruptRecord(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	finish(t, sealedstore.New(next, newGCM(1)), "key", result(storage.Completed))
	refuses(t, sealedstore.New(next, newGCM(2)), "key", storage.ErrCorruptRecord, storage.ErrUnreadable)
	replays(t, sealedstore.New(next, newGCM(1)), "key")
}

// Records from before the seal are read with ReadPlain alone.
func TestPlainRecords(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	strict, lenient := sealedstore.New(next, newGCM(1)), sealedstore.New(next, newGCM(1), sealedstore.ReadPlain())
	finish(t, next, "key", result(storage.Completed))
	finish(t, next, "streamed", result(storage.Unreplayable))
	win(t, next, claim("running"))
	for _, key := range []string{"key", "streamed"} {
		refuses(t, strict, key, storage.ErrCorruptRecord, storage.ErrUnreadable)
	}
	replays(t, lenient, "key")
	if r := find(t, lenient, claim("streamed")); string(r.Sketch) != "plain sketch" {
		t.Errorf("the record is %+v, want it as it is in the next store", r)
	}
	for _, store := range []storage.Store{strict, lenient} {
		testkit.Equal(t, find(t, store, claim("running")).State, storage.InProgress, "the record's state")
	}
	finish(t, lenient, "new", result(storage.Completed))
	replays(t, strict, "new")
}

// What was sealed may be a text of a later version: it is refused and never panics.
func TestSealedTextIsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	next, aead := memstore.New(), &fixed{AEAD: newGCM(1)}
	store := sealedstore.New(next, aead)
	finish(t, store, "key", result(storage.Completed))
	whole := bytes.Clone(aead.sealed)
	endless := append(bytes.Repeat([]byte{0xff}, 9), 1) // the greatest length there is
	texts := [][]byte{
		nil,
		{0},
		{0xff},
		bytes.Repeat([]byte{0xff}, 20), endless, append([]byte{0}, endless...), append([]byte{1, 0}, endless...),
		{1, 0, 0xff},
		{0xff, 0x7f, 0, 0},
		{1, 0, 1},
		{0, 9, 'x'},
	}
	for n := range len(whole) - len("plain body") {
		texts = append(texts, whole[:n])
	}
	for _, text := range texts {
		aead.opened = append([]byte{}, text...)
		_, _, err := store.Acquire(t.Context(), claim("key"))
		if !errors.Is(err, storage.ErrCorruptRecord) {
			t.Errorf("the text %q gave %v, want ErrCorruptRecord", text, err)
		}
	}
	aead.opened = whole[:len(whole)-len("plain body")]
	if r := find(t, store, claim("key")); r.Body != nil {
		t.Errorf("the record is %+v, want no body", r)
	}
}

// fixed opens everything to the same text, once it has one.
type fixed struct {
	sealedstore.AEAD
	sealed, opened []byte
}

func (f *fixed) Encrypt(plaintext, data []byte) ([]byte, error) {
	f.sealed = plaintext
	return f.AEAD.Encrypt(plaintext, data)
}

func (f *fixed) Decrypt(ciphertext, data []byte) ([]byte, error) {
	if f.opened != nil {
		return f.opened, nil
	}
	return f.AEAD.Decrypt(ciphertext, data)
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	testkit.PanicsWith(t, func() { sealedstore.New(nil, newGCM(1)) }, "sealedstore: New: want a store and an AEAD, one of them is nil")
	testkit.PanicsWith(t, func() { sealedstore.New(memstore.New(), nil) }, "sealedstore: New: want a store and an AEAD, one of them is nil")
	testkit.PanicsWith(t, func() { sealedstore.MaxCalls(0) }, "sealedstore: MaxCalls(0): want at least 1")
	testkit.PanicsWith(t, func() { sealedstore.New(memstore.New(), newGCM(1), nil) }, "sealedstore: option 1 is nil: leave it out")
}
