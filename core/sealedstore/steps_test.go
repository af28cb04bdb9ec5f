package sealedstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

const plainSteps = "plain step of a payment\n"

// leave claims a key, records steps and leaves the key abandoned.
func leave(t testing.TB, store storage.Store, c storage.Claim, steps string) {
	t.Helper()
	lease := win(t, store, c)
	lease.Steps = steps
	must(t, store.Extend(t.Context(), lease, 0))
}

// takeOver is another claim of the same request.
func takeOver(c storage.Claim) storage.Claim {
	c.Token, c.TakeOver = storage.NewToken(), true
	return c
}

func TestNextStoreSeesNoPlainSteps(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	store := sealedstore.New(next, newGCM(1))
	c := claim("key")
	c.Origin = storage.Origin{Route: "POST /payments"}
	leave(t, store, c, plainSteps)
	r, err := next.Lookup(t.Context(), "key")
	must(t, err)
	if strings.Contains(r.Steps, "plain") || !strings.HasPrefix(r.Steps, "sealed 1\n") {
		t.Errorf("the next store has the steps %q", r.Steps)
	}
	if found := find(t, store, claim("key")); found.Steps != plainSteps || !found.Abandoned() {
		t.Errorf("Acquire found %+v, want the steps as they were recorded", found)
	}
	if found, err := store.Lookup(t.Context(), "key"); err != nil || found.Steps != plainSteps {
		t.Errorf("Lookup found %+v and %v", found, err)
	}
	if lease := win(t, store, takeOver(c)); lease.Steps != plainSteps || lease.Attempt != 2 {
		t.Errorf("the take-over got the lease %+v", lease)
	}
}

// passing is a store that keeps the steps that it is given.
type passing struct {
	storage.Store
	steps []string
}

func (p *passing) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	p.steps = append(p.steps, l.Steps)
	return p.Store.Complete(ctx, l, r)
}

func (p *passing) Release(ctx context.Context, l storage.Lease) error {
	p.steps = append(p.steps, l.Steps)
	return p.Store.Release(ctx, l)
}

func (p *passing) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	p.steps = append(p.steps, l.Steps)
	return p.Store.Extend(ctx, l, ttl)
}

// No method passes plain steps on, and a run without steps is not touched.
func TestStepsOfNoMethodArePlain(t *testing.T) {
	t.Parallel()
	aead := newMoody()
	next := &passing{Store: memstore.New()}
	store := sealedstore.New(next, aead)
	released, completed := win(t, store, claim("released")), win(t, store, claim("completed"))
	released.Steps, completed.Steps = plainSteps, plainSteps
	must(t, store.Release(t.Context(), released))
	must(t, store.Complete(t.Context(), completed, result(storage.Completed)))
	lease, calls := win(t, store, claim("key")), aead.calls.Load()
	must(t, store.Extend(t.Context(), lease, time.Minute))
	must(t, store.Extend(t.Context(), lease, 0))
	if again := win(t, store, takeOver(lease.Claim)); again.Steps != "" || aead.calls.Load() != calls {
		t.Errorf("without steps the take-over got %q, after %d calls of the AEAD", again.Steps, aead.calls.Load()-calls)
	}
	for i, steps := range next.steps {
		if isSealed := strings.HasPrefix(steps, "sealed 1\n"); isSealed != (i == 0) || steps != "" && !isSealed {
			t.Errorf("the next store was given the steps %q", steps)
		}
	}
}

// A transaction passes no plain steps on either.
func TestStepsOfATransactionAreNotPlain(t *testing.T) {
	t.Parallel()
	next := &database{Store: memstore.New()}
	store := sealedstore.New(next, newGCM(1))
	lease := win(t, store, claim("key"))
	lease.Steps = plainSteps
	_, tx, err := store.BeginTransaction(t.Context(), lease)
	must(t, err)
	must(t, tx.Commit(t.Context(), lease, result(storage.Completed)))
	testkit.Equal(t, next.steps, "", "the steps that the database was given")
}

func TestSharedRecordWithStepsIsNotChanged(t *testing.T) {
	t.Parallel()
	next := &sharing{Store: memstore.New()}
	store := sealedstore.New(next, newGCM(1))
	leave(t, store, claim("key"), plainSteps)
	for range 3 {
		testkit.Equal(t, find(t, store, claim("key")).Steps, plainSteps, "the record's steps")
	}
}

// overhead is an AEAD that adds bytes, as one with a key service does.
type overhead struct {
	sealedstore.AEAD
	more int
}

func (o *overhead) Encrypt(plaintext, data []byte) ([]byte, error) {
	sealed, err := o.AEAD.Encrypt(plaintext, data)
	sealed = append(sealed, make([]byte, o.more)...)
	return binary.BigEndian.AppendUint16(sealed, uint16(o.more)), err
}

func (o *overhead) Decrypt(ciphertext, data []byte) ([]byte, error) {
	end := len(ciphertext) - 2
	more := int(binary.BigEndian.Uint16(ciphertext[end:]))
	return o.AEAD.Decrypt(ciphertext[:end-more], data)
}

// The store keeps the longer steps. Sealed steps are longer exactly where the plain steps
// are, whatever the AEAD adds at the time.
func TestLengthsOfSealedSteps(t *testing.T) {
	t.Parallel()
	next, aead := memstore.New(), &overhead{AEAD: newGCM(1)}
	store := sealedstore.New(next, aead)
	length := func(steps, more int) int {
		key := fmt.Sprint(steps, " ", more)
		aead.more = more
		leave(t, store, claim(key), strings.Repeat("a", steps))
		r, err := next.Lookup(t.Context(), key)
		must(t, err)
		return len(r.Steps)
	}
	for n := 1; n < 200; n++ {
		if short, long := length(n, 500), length(n+1, 0); short >= long {
			t.Errorf("%d bytes are sealed as %d, and one more as %d", n, short, long)
		}
		testkit.Equal(t, length(n, 1), length(n, 400), "the sealed length of %d bytes", n)
	}
	aead.more = 700
	lease := win(t, store, claim("too much"))
	lease.Steps = plainSteps
	fails(t, "Extend", store.Extend(t.Context(), lease, time.Minute), nil, "want at most 640 more")
}

// refusesSteps expects an error from Acquire and Lookup, and a key that stays abandoned.
func refusesSteps(t *testing.T, store *sealedstore.Store, next storage.Store, c storage.Claim, want, not error) {
	t.Helper()
	refuses(t, store, c.Key, want, not)
	lease, found, err := store.Acquire(t.Context(), takeOver(c))
	if found != nil || lease != (storage.Lease{}) || !errors.Is(err, want) || errors.Is(err, not) {
		t.Errorf("the take-over got %+v, %+v and %v, want an error that is %q and not %q", lease, found, err, want, not)
	}
	if r := find(t, next, claim(c.Key)); !r.Abandoned() || !strings.HasPrefix(r.Steps, "sealed 1\n") && r.Steps != plainSteps {
		t.Errorf("the take-over has left %+v, want the key abandoned, with its steps", r)
	}
}

func TestChangedStepsAreCorrupt(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	leave(t, sealedstore.New(next, newGCM(1)), claim("other"), plainSteps)
	other := claim("key")
	other.Fingerprint, other.Digest = "sha256:other", storage.Digest{2}
	earlier := memstore.New()
	leave(t, sealedstore.New(earlier, newGCM(1)), other, plainSteps)
	stepsOf := func(store *memstore.Store, key string) string {
		r, err := store.Lookup(t.Context(), key)
		must(t, err)
		return r.Steps
	}
	otherKeys, otherRequests := stepsOf(next, "other"), stepsOf(earlier, "key")
	testkit.Each(t, map[string]func(string) string{
		"plain steps":             func(string) string { return plainSteps },
		"another key's":           func(string) string { return otherKeys },
		"another request's":       func(string) string { return otherRequests },
		"changed":                 func(s string) string { return s[:12] + string(s[12]^1) + s[13:] },
		"cut off":                 func(s string) string { return s[:len(s)/8] },
		"no text":                 func(string) string { return "sealed 1\n" },
		"no base64":               func(string) string { return "sealed 1\n%" },
		"of a later version":      func(s string) string { return "sealed 2\n" + s[9:] },
		"with text after the end": func(s string) string { return s + "\n{}" },
	}, func(t *testing.T, edit func(string) string) {
		next := &edited{Inspectable: memstore.New()}
		store := sealedstore.New(next, newGCM(1))
		c := claim("key")
		leave(t, store, c, plainSteps)
		if r := find(t, store, claim("key")); r.Steps != plainSteps {
			t.Fatalf("unchanged they are %q", r.Steps)
		}
		next.edit = func(r *storage.Record) { r.Steps = edit(r.Steps) }
		refusesSteps(t, store, next.Inspectable, c, storage.ErrCorruptRecord, storage.ErrUnreadable)
	})
}

// A retry with equal bytes takes over where the fingerprint has changed, and one with an
// equal fingerprint where the bytes have: the steps are for both.
func TestStepsOfOtherSpellings(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*storage.Claim){
		"another fingerprint": func(c *storage.Claim) { c.Fingerprint = "sha256:g" },
		"another digest":      func(c *storage.Claim) { c.Digest = storage.Digest{2} },
		"no digest":           func(c *storage.Claim) { c.Digest = storage.Digest{} },
	} {
		store := sealedstore.New(memstore.New(), newGCM(1))
		c := claim("key")
		leave(t, store, c, plainSteps)
		retry := takeOver(c)
		change(&retry)
		testkit.Equal(t, win(t, store, retry).Steps, plainSteps, "%s: the steps of the take-over", name)
	}
}

// Two requests without digests are not equal by them.
func TestStepsOfRequestsWithoutDigests(t *testing.T) {
	t.Parallel()
	c := claim("key")
	c.Digest = storage.Digest{}
	earlier := memstore.New()
	leave(t, sealedstore.New(earlier, newGCM(1)), c, plainSteps)
	swapped, err := earlier.Lookup(t.Context(), "key")
	must(t, err)
	next := &edited{memstore.New(), func(r *storage.Record) { r.Steps = swapped.Steps }}
	c.Token, c.Fingerprint = storage.NewToken(), "sha256:g"
	leave(t, sealedstore.New(next.Inspectable, newGCM(1)), c, plainSteps)
	refusesSteps(t, sealedstore.New(next, newGCM(1)), next.Inspectable, c, storage.ErrCorruptRecord, storage.ErrUnreadable)
}

// Without the key the take-over is refused, and later it works.
func TestStepsWithoutTheAEAD(t *testing.T) {
	t.Parallel()
	next, aead := memstore.New(), newMoody()
	store := sealedstore.New(next, aead)
	c := claim("key")
	leave(t, store, c, plainSteps)
	aead.set(nil, opaque)
	refusesSteps(t, store, next, c, storage.ErrCorruptRecord, storage.ErrUnreadable)
	unreachable := func() error { return sealedstore.ErrUnavailable }
	aead.set(nil, unreachable)
	refusesSteps(t, store, next, c, storage.ErrUnreadable, storage.ErrCorruptRecord)
	aead.set(nil, nil)
	lease := win(t, store, takeOver(c))
	aead.set(unreachable, nil)
	lease.Steps += "more\n"
	fails(t, "Extend", store.Extend(t.Context(), lease, time.Minute), sealedstore.ErrUnavailable)
	aead.set(nil, nil)
	testkit.Equal(t, find(t, store, claim("key")).Steps, plainSteps, "the steps of the record")
}

// Without the key a Released key stays released, and is not released with plain steps.
func TestReleaseWithoutTheAEAD(t *testing.T) {
	t.Parallel()
	next, aead := memstore.New(), newMoody()
	store := sealedstore.New(next, aead)
	unreachable := func() error { return sealedstore.ErrUnavailable }
	lease := win(t, store, claim("key"))
	lease.Steps = plainSteps
	aead.set(unreachable, nil)
	fails(t, "Release", store.Release(t.Context(), lease), sealedstore.ErrUnavailable)
	if r := find(t, store, claim("key")); r.State != storage.InProgress || r.Steps != "" {
		t.Errorf("the record is %+v, want it in progress", r)
	}
	aead.set(nil, nil)
	must(t, store.Release(t.Context(), lease))
	aead.set(nil, unreachable)
	refused(t, store, claim("key"), storage.ErrUnreadable)
	aead.set(nil, nil)
	if r, err := store.Lookup(t.Context(), "key"); err != nil || r.State != storage.Released || r.Steps != plainSteps {
		t.Errorf("the record is %+v, %v, want it released", r, err)
	}
	if lease := win(t, store, claim("key")); lease.Steps != plainSteps || lease.TookOver {
		t.Errorf("the next attempt got the lease %+v", lease)
	}
}

// An AEAD that hangs until the deadline leaves the key abandoned, too.
func TestStepsWithAHangingAEAD(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next, aead := memstore.New(), &hanging{AEAD: newGCM(1), letGo: make(chan struct{})}
		store, c := sealedstore.New(next, aead), claim("key")
		leave(t, store, c, plainSteps)
		aead.hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := store.Acquire(ctx, takeOver(c)); !errors.Is(err, storage.ErrUnreadable) {
			t.Errorf("the take-over returned %v, want ErrUnreadable", err)
		}
		if r := find(t, next, claim("key")); !r.Abandoned() {
			t.Errorf("the take-over has left %+v, want the key abandoned", r)
		}
		close(aead.letGo)
	})
}

// Steps from before the seal are read with ReadPlain alone.
func TestPlainSteps(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	c := claim("key")
	leave(t, next, c, plainSteps)
	refusesSteps(t, sealedstore.New(next, newGCM(1)), next, c, storage.ErrCorruptRecord, storage.ErrUnreadable)
	lenient := sealedstore.New(next, newGCM(1), sealedstore.ReadPlain())
	lease := win(t, lenient, takeOver(c))
	testkit.Equal(t, lease.Steps, plainSteps, "with ReadPlain the steps of the take-over")
	lease.Steps += "m"
	must(t, lenient.Extend(t.Context(), lease, time.Minute)) // sealed steps are longer than plain ones
	if r := find(t, next, claim("key")); !strings.HasPrefix(r.Steps, "sealed 1\n") {
		t.Errorf("the next store has %q, want them sealed", r.Steps)
	}
}
