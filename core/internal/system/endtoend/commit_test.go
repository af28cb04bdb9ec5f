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

// Cases 13, 19 and 50: no client learns of a transfer that may not be committed. Before the commit is sent, no row can be
// committed: the client learns this, and the key is released at once. The handler itself responds to a failure within it.
func TestTransferThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	type test struct {
		stops        []stop
		waits        bool // the backend is not ended, and the commit takes too long
		storeTimeout time.Duration
		answer       want
	}
	testkit.Each(t, map[string]test{
		"backend ended in the transfer": {[]stop{betweenItsWrites}, false, longStoreTimeout, want{status: http.StatusInternalServerError}},
		"backend ended at its record":   {[]stop{atItsLastWrite, atItsRecord}, false, longStoreTimeout, rolledBack},
		"backend ended in its commit":   {[]stop{inItsCommit}, false, longStoreTimeout, unconfirmed},
		"commit takes too long":         {[]stop{inItsCommit}, true, 3 * shortStoreTimeout, unconfirmed}, // the test must see the commit wait
	}, func(t *testing.T, test test) {
		f := newPostgresFixture(t, 30*time.Second)
		f.storeTimeout = test.storeTimeout
		first, second := f.startTwo()
		f.database.letCommitsWait()
		move := transfer("key-1")

		answers, stop, backend := f.beginUntil(first, move, test.stops...)
		if !test.waits {
			f.database.terminate(backend)
		}
		(<-answers).expect(t, test.answer)
		if test.answer == unconfirmed {
			first.expectEvent("not_confirmed")
		}
		stop.lift()

		original := second.retryThrough(move).expectDone(t)
		if !test.waits { // else the client gives up, and the server may not notice
			original.expect(t, created)
		}
		first.retryThrough(move).expectCopyOf(t, original)
		f.expectTransfers(move.key)
	})
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
	original := second.retryThrough(move).expect(t, created)
	first.retryThrough(move).expectCopyOf(t, original)
	f.expectTransfers(move.key)
}
