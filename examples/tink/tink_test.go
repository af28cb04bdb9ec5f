package tink_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// primitive is the AEAD of a key set as it is now.
func primitive(t testing.TB, manager *keyset.Manager) tink.AEAD {
	t.Helper()
	keys, err := manager.Handle()
	must(t, err)
	made, err := aead.New(keys)
	must(t, err)
	return made
}

// add adds a key to the key set, which is not its primary one.
func add(t testing.TB, manager *keyset.Manager) (id uint32) {
	t.Helper()
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	must(t, err)
	return id
}

func newKeySet(t testing.TB) (manager *keyset.Manager, first uint32) {
	t.Helper()
	manager = keyset.NewManager()
	first = add(t, manager)
	must(t, manager.SetPrimary(first))
	return manager, first
}

func claim(key string) storage.Claim {
	return storage.Claim{Key: key, Token: storage.NewToken(), Fingerprint: "sha256:f", TTL: time.Minute, Retain: time.Hour}
}

// finish claims and completes a key, with the key as response.
func finish(t testing.TB, store storage.Store, key string) {
	t.Helper()
	lease, found, err := store.Acquire(t.Context(), claim(key))
	if err != nil || found != nil {
		t.Fatalf("Acquire returned %+v and %v, want a lease", found, err)
	}
	must(t, store.Complete(t.Context(), lease, storage.Result{
		State: storage.Completed, Status: 201, Body: []byte(key), Sketch: make([]byte, 256), Retain: time.Hour,
	}))
}

// replays expects each key's own response.
func replays(t *testing.T, store storage.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, found, err := store.Acquire(t.Context(), claim(key))
		if err != nil || found == nil || string(found.Body) != key || len(found.Sketch) != 256 {
			t.Errorf("key %q has %+v and %v, want its response", key, found, err)
		}
	}
}

func refuses(t *testing.T, store storage.Store, key string, want error) {
	t.Helper()
	if _, found, err := store.Acquire(t.Context(), claim(key)); found != nil || !errors.Is(err, want) {
		t.Errorf("key %q has %+v and %v, want an error that is %q", key, found, err, want)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	manager, _ := newKeySet(t)
	keys := primitive(t, manager)
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return sealedstore.New(memstore.New(), keys) },
		Wrap: synctest.Test,
	})
}

// A key is rotated while pods with the key set of the step before still serve: each pod
// replays the responses that the others have stored.
func TestRotation(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	manager, first := newKeySet(t)
	pod := func() storage.Store { return sealedstore.New(next, primitive(t, manager)) }

	before := pod()
	finish(t, before, "before")

	second := add(t, manager) // step 1: every pod can read it
	added := pod()
	finish(t, added, "added")
	replays(t, before, "before", "added")
	replays(t, added, "before", "added")

	must(t, manager.SetPrimary(second)) // step 2: and now write with it
	rotated := pod()
	finish(t, rotated, "rotated")
	replays(t, added, "before", "added", "rotated")
	replays(t, rotated, "before", "added", "rotated")
	refuses(t, before, "rotated", storage.ErrCorruptRecord) // step 1 was left out

	must(t, manager.Delete(first)) // step 3: after the longest TTL, nothing needs the first key
	after := pod()
	replays(t, after, "rotated")
	refuses(t, after, "before", storage.ErrCorruptRecord)
}

// remote stands for a key service with a key of its own.
type remote struct {
	tink.AEAD
	err error
}

func (r *remote) Encrypt(plaintext, data []byte) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	sealed, err := r.AEAD.Encrypt(plaintext, data)
	return append(make([]byte, 200), sealed...), err // as long as those of cloud services
}

func (r *remote) Decrypt(ciphertext, data []byte) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.AEAD.Decrypt(ciphertext[200:], data)
}

// With envelope encryption each record has a data key of its own, which the key service
// opens. An outage of it is "not now".
func TestKeyService(t *testing.T) {
	t.Parallel()
	manager, _ := newKeySet(t)
	kms := &remote{AEAD: primitive(t, manager)}
	next := memstore.New()
	store := sealedstore.New(next, aead.NewKMSEnvelopeAEAD2(aead.AES256GCMKeyTemplate(), kms))
	finish(t, store, "key")
	replays(t, store, "key")
	for _, outage := range []error{&net.OpError{Op: "dial", Err: errors.New("no route to host")}, sealedstore.ErrUnavailable} {
		kms.err = outage
		refuses(t, store, "key", storage.ErrUnreadable)
	}
	kms.err = errors.New("AccessDenied")
	refuses(t, store, "key", storage.ErrCorruptRecord)
	kms.err = nil
	replays(t, store, "key")

	// The longest sketch of the engine fits into the sketch that a store must keep.
	lease, _, err := store.Acquire(t.Context(), claim("streamed"))
	must(t, err)
	must(t, store.Complete(t.Context(), lease, storage.Result{
		State: storage.Unreplayable, Status: 200, Sketch: make([]byte, 256), Retain: time.Hour,
	}))
	if _, found, err := next.Acquire(t.Context(), claim("streamed")); err != nil || len(found.Sketch) > 1024 {
		t.Errorf("the sealed sketch has %d bytes, want at most 1024: %v", len(found.Sketch), err)
	}
}
