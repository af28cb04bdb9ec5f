package sealedstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	win, find, must, newGCM = testkit.Win, testkit.Find, testkit.Must, testkit.NewGCM
	refused, fails          = testkit.Refused, testkit.Fails
)

// moody is an AEAD whose calls a test can make fail.
type moody struct {
	sealedstore.AEAD
	mutex            sync.Mutex
	encrypt, decrypt func() error
	calls            atomic.Int64
}

func newMoody() *moody { return &moody{AEAD: newGCM(1)} }

// set makes calls return what the functions do; nil heals them.
func (m *moody) set(encrypt, decrypt func() error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.encrypt, m.decrypt = encrypt, decrypt
}

func (m *moody) mood(mood *func() error) error {
	m.mutex.Lock()
	m.calls.Add(1)
	fail := *mood
	m.mutex.Unlock()
	if fail == nil {
		return nil
	}
	return fail()
}

func (m *moody) Encrypt(plaintext, data []byte) ([]byte, error) {
	if err := m.mood(&m.encrypt); err != nil {
		return nil, err
	}
	return m.AEAD.Encrypt(plaintext, data)
}

func (m *moody) Decrypt(ciphertext, data []byte) ([]byte, error) {
	if err := m.mood(&m.decrypt); err != nil {
		return nil, err
	}
	return m.AEAD.Decrypt(ciphertext, data)
}

// errOpaque is the error that Tink returns for every ciphertext that it cannot open.
var errOpaque = errors.New("aead_factory: decryption failed")

func opaque() error { return errOpaque }

// edited is a store whose finished records, and whose steps, come out changed.
type edited struct {
	testkit.Inspectable
	edit func(*storage.Record)
}

func (e *edited) changed(r *storage.Record) *storage.Record {
	if r == nil || r.State == storage.InProgress && r.Steps == "" || e.edit == nil {
		return r
	}
	r = new(*r) // which is shared
	e.edit(r)
	return r
}

func (e *edited) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	l, r, err := e.Inspectable.Acquire(ctx, request.Claim())
	if l.Steps != "" {
		l.Steps = e.changed(&storage.Record{Steps: l.Steps}).Steps
	}
	return l, e.changed(r), err
}

func (e *edited) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	r, err := e.Inspectable.Lookup(ctx, key)
	return e.changed(r), err
}

// bare hides the methods of a store beside those of storage.Store.
type bare struct{ storage.Store }

func claim(key string) storage.Claim {
	return storage.Claim{
		Key: key, Token: storage.NewToken(), Fingerprint: "sha256:f", Digest: storage.Digest{1}, LockTTL: time.Minute, Retain: time.Hour,
	}
}

func result(state storage.State) storage.Result {
	return storage.Result{
		State: state, Status: 201, Body: []byte("plain body"), Retain: time.Hour, Sketch: []byte("plain sketch"),
		Header: storage.Header{{Name: "X-Plain", Value: "plain value"}},
	}
}

// finish claims and completes a key.
func finish(t testing.TB, store storage.Store, key string, res storage.Result) {
	t.Helper()
	must(t, store.Complete(t.Context(), win(t, store, claim(key)), res))
}

// replays expects the result to be there as it was given.
func replays(t testing.TB, store storage.Store, key string) {
	t.Helper()
	r := find(t, store, claim(key))
	if r.Status != 201 || string(r.Body) != "plain body" || len(r.Header) != 1 || r.Header[0].Value != "plain value" ||
		string(r.Sketch) != "plain sketch" {
		t.Errorf("key %q has %+v, want the result as it was given", key, r)
	}
}

// refuses expects an error from Acquire and from Lookup.
func refuses(t testing.TB, store *sealedstore.Store, key string, want, not error) {
	t.Helper()
	_, found, err := store.Acquire(t.Context(), claim(key))
	if found != nil || !errors.Is(err, want) || errors.Is(err, not) {
		t.Errorf("Acquire returned %+v and %v, want an error that is %q and not %q", found, err, want, not)
	}
	if found, err = store.Lookup(t.Context(), key); found != nil || !errors.Is(err, want) || errors.Is(err, not) {
		t.Errorf("Lookup returned %+v and %v, want an error that is %q and not %q", found, err, want, not)
	}
}
