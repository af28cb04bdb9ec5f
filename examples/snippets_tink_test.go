package examples_test

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
)

func must(t testing.TB, err error) {
	t.Helper()
	testkit.Must(t, err)
}

// The docs of sealedstore use key sets of Tink (https://github.com/tink-crypto/tink-go).

// primitiveOf is the AEAD of a key set as it is now.
func primitiveOf(t testing.TB, manager *keyset.Manager) tink.AEAD {
	t.Helper()
	keys, err := manager.Handle()
	must(t, err)
	made, err := aead.New(keys)
	must(t, err)
	return made
}

// addKey adds a key to the key set, which is not its primary one.
func addKey(t testing.TB, manager *keyset.Manager) (id uint32) {
	t.Helper()
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	must(t, err)
	return id
}

func newKeySet(t testing.TB) (manager *keyset.Manager, first uint32) {
	t.Helper()
	manager = keyset.NewManager()
	first = addKey(t, manager)
	must(t, manager.SetPrimary(first))
	return manager, first
}

func claimOf(key string) storage.Claim {
	return storage.Claim{Key: key, Token: storage.NewToken(), Fingerprint: "sha256:f", LockTTL: time.Minute, Retain: time.Hour}
}

// finishKey claims and completes a key, with the key as response.
func finishKey(t testing.TB, store storage.Store, key string) {
	t.Helper()
	lease, found, err := store.Acquire(t.Context(), claimOf(key))
	if err != nil || found != nil {
		t.Fatalf("Acquire returned %+v and %v, want a lease", found, err)
	}
	must(t, store.Complete(t.Context(), lease, storage.Result{
		State: storage.Completed, Status: 201, Body: []byte(key), Sketch: make([]byte, 256), Retain: time.Hour,
	}))
}

// wantReplays expects each key's own response.
func wantReplays(t *testing.T, store storage.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, found, err := store.Acquire(t.Context(), claimOf(key))
		if err != nil || found == nil || string(found.Body) != key || len(found.Sketch) != 256 {
			t.Errorf("key %q has %+v and %v, want its response", key, found, err)
		}
	}
}

func wantRefusal(t *testing.T, store storage.Store, key string, want error) {
	t.Helper()
	if _, found, err := store.Acquire(t.Context(), claimOf(key)); found != nil || !errors.Is(err, want) {
		t.Errorf("key %q has %+v and %v, want an error that is %q", key, found, err, want)
	}
}

func TestSealedRecords(t *testing.T) {
	t.Parallel()
	sealed := func(next storage.Store, keys *keyset.Handle) (*core.Engine, error) {
		primitive, err := aead.New(keys) // a keyset.Handle, from where the service keeps its secrets
		if err != nil {
			return nil, err
		}
		store := sealedstore.New(next, primitive)
		engine, err := core.New(store, core.ScopeBy(userID))
		return engine, err
	}
	keys, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	must(t, err)
	guard, err := sealed(memstore.New(), keys)
	must(t, err)
	payTwice(t, guard.Handler(http.HandlerFunc(pay)), "/payments")
}

func TestConformanceWithTink(t *testing.T) {
	t.Parallel()
	manager, _ := newKeySet(t)
	keys := primitiveOf(t, manager)
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return sealedstore.New(memstore.New(), keys) },
		Wrap: synctest.Test,
	})
}

// A key is rotated while pods with the key set of the step before still serve: each pod
// replays the responses that the others have stored.
func TestRotationOfTinksKeys(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	manager, first := newKeySet(t)
	pod := func() storage.Store { return sealedstore.New(next, primitiveOf(t, manager)) }

	before := pod()
	finishKey(t, before, "before")

	second := addKey(t, manager) // step 1: every pod can read it
	added := pod()
	finishKey(t, added, "added")
	wantReplays(t, before, "before", "added")
	wantReplays(t, added, "before", "added")

	must(t, manager.SetPrimary(second)) // step 2: and now write with it
	rotated := pod()
	finishKey(t, rotated, "rotated")
	wantReplays(t, added, "before", "added", "rotated")
	wantReplays(t, rotated, "before", "added", "rotated")
	wantRefusal(t, before, "rotated", storage.ErrCorruptRecord) // step 1 was left out

	must(t, manager.Delete(first)) // step 3: after the longest TTL, nothing needs the first key
	after := pod()
	wantReplays(t, after, "rotated")
	wantRefusal(t, after, "before", storage.ErrCorruptRecord)
}

// keyService has a key of its own.
type keyService struct {
	tink.AEAD
	err error
}

func (r *keyService) Encrypt(plaintext, data []byte) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	sealed, err := r.AEAD.Encrypt(plaintext, data)
	return append(make([]byte, 200), sealed...), err // as long as those of cloud services
}

func (r *keyService) Decrypt(ciphertext, data []byte) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.AEAD.Decrypt(ciphertext[200:], data)
}

// With envelope encryption each record has a data key of its own, which the key service
// opens. An outage of it is "not now".
func TestTinkWithAKeyService(t *testing.T) {
	t.Parallel()
	manager, _ := newKeySet(t)
	kms := &keyService{AEAD: primitiveOf(t, manager)}
	next := memstore.New()
	store := sealedstore.New(next, aead.NewKMSEnvelopeAEAD2(aead.AES256GCMKeyTemplate(), kms))
	finishKey(t, store, "key")
	wantReplays(t, store, "key")
	for _, outage := range []error{&net.OpError{Op: "dial", Err: errors.New("no route to host")}, sealedstore.ErrUnavailable} {
		kms.err = outage
		wantRefusal(t, store, "key", storage.ErrUnreadable)
	}
	kms.err = errors.New("AccessDenied")
	wantRefusal(t, store, "key", storage.ErrCorruptRecord)
	kms.err = nil
	wantReplays(t, store, "key")

	// The longest sketch of the engine fits into the sketch that a store must keep.
	lease, _, err := store.Acquire(t.Context(), claimOf("streamed"))
	must(t, err)
	must(t, store.Complete(t.Context(), lease, storage.Result{
		State: storage.Unreplayable, Status: 200, Sketch: make([]byte, 256), Retain: time.Hour,
	}))
	if _, found, err := next.Acquire(t.Context(), claimOf("streamed")); err != nil || len(found.Sketch) > 1024 {
		t.Errorf("the sealed sketch has %d bytes, want at most 1024: %v", len(found.Sketch), err)
	}
}
