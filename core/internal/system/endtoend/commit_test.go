package endtoend

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// Cases 13 and 19: no client learns of a transfer that may not be committed.
func TestTransferThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	type test struct {
		stops        []string
		fail         func(f *fixture, backend int)
		storeTimeout time.Duration
		mayBeDone    bool
	}
	testkit.Each(t, map[string]test{
		"backend ended in its commit": {
			stops:        []string{inItsCommit},
			fail:         func(f *fixture, backend int) { f.database.terminate(backend) },
			storeTimeout: longStoreTimeout,
		},
		"commit takes too long": {
			stops:        []string{inItsCommit},
			fail:         func(*fixture, int) {},
			storeTimeout: 3 * shortStoreTimeout, // the test must see the commit wait
			mayBeDone:    true,                  // the client gives up, and the server may not notice
		},
	}, func(t *testing.T, test test) {
		f := newPostgresFixture(t, 30*time.Second)
		f.storeTimeout = test.storeTimeout
		first, second := f.startTwo()
		f.database.letCommitsWait()
		move := transfer("key-1")

		answers, stop, backend := f.beginUntil(first, move, test.stops...)
		test.fail(f, backend)
		(<-answers).expect(t, unconfirmed)
		first.expectEvent("not_confirmed")
		stop.lift()

		original := second.retryThrough(move).expectDone(t)
		if !test.mayBeDone {
			original.expect(t, created)
		}
		first.retryThrough(move).expectCopyOf(t, original)
		f.expectTransfers(move.key)
	})
}

// Case 50: before the commit is sent, no row can be committed. The client learns this, and
// the key is released at once.
func TestTransferThatIsRolledBack(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	first, second := f.startTwo()
	f.database.letCommitsWait()
	move := transfer("key-1")

	answers, stop, backend := f.beginUntil(first, move, atItsLastWrite, atItsRecord)
	f.database.terminate(backend)
	(<-answers).expect(t, rolledBack)
	stop.lift()

	original := second.retryThrough(move).expectDone(t)
	original.expect(t, created)
	first.retryThrough(move).expectCopyOf(t, original)
	f.expectTransfers(move.key)
}

// The same as not confirmed, but the transfer is committed.
func TestTransferWhoseConfirmationIsLost(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	address, err := url.Parse(f.database.dsn)
	testkit.Must(t, err)
	proxy := faultproxy.Start(t, address.Host)
	address.Host = proxy.Addr()
	first, second := f.start("chi", "-postgres", address.String()), f.start("gin")
	f.database.letCommitsWait()
	move := transfer("key-1")

	answers, stop, _ := f.beginUntil(first, move, inItsCommit)
	proxy.Set(faultproxy.LoseReplies())
	stop.lift()
	(<-answers).expect(t, unconfirmed)
	proxy.Set(faultproxy.None())

	original := second.retryThrough(move).expectDone(t)
	first.retryThrough(move).expectCopyOf(t, original)
	f.expectTransfers(move.key)
}

// Case 19
func TestServerKilledInTheCommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Durable()...)
	f := newFixtureAt(t, 30*time.Second, server.DSN())
	first, second := f.startTwo()
	f.database.letCommitsWait()
	move := transfer("key-1")

	answers, stop, _ := f.beginUntil(first, move, inItsCommit)
	server.Kill()
	stop.lift()
	(<-answers).expect(t, unconfirmed)
	second.send(move).expect(t, unavailable)

	server.Restart()
	f.database.pool.Reset()
	original := second.retryThrough(move).expect(t, created)
	first.retryThrough(move).expectCopyOf(t, original)
	f.expectTransfers(move.key)
}

// Case 19: the handler itself responds to a failure within the handler.
func TestBackendEndedInTheTransfer(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	first, second := f.startTwo()
	move := transfer("key-1")

	answers, stop, backend := f.beginUntil(first, move, betweenItsWrites)
	f.database.terminate(backend)
	stop.lift()
	(<-answers).expect(t, want{status: http.StatusInternalServerError})
	original := second.retryThrough(move).expect(t, created)
	first.send(move).expectCopyOf(t, original)
	f.expectTransfers(move.key)
}
