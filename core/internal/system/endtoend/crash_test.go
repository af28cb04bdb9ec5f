package endtoend

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Cases 3 and 4: the key is blocked for the rest of the lease, not of the TTL.
func TestKilledInTheHandler(t *testing.T) {
	t.Parallel()
	onEachStore(t, 4*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		pay := payment("tok_slow:4s")

		sent := time.Now() // the lease cannot have begun earlier
		answers := first.begin(pay)
		first.Kill()
		if answer := <-answers; answer.err == nil {
			t.Fatalf("got %v from a killed process", answer)
		}
		second.send(pay).expect(t, inProgress)

		tookOver := second.beginAfter(pay)
		if blocked := time.Since(sent); blocked < f.lockTTL {
			t.Errorf("the key was taken over after %v, want the lease of %v respected", blocked, f.lockTTL)
		}
		original := (<-tookOver).expect(t, created)
		f.expectEffects(chargeBy(second, pay, 2))
		second.send(pay).expectCopyOf(t, original)
		second.expectEvent("lease_expired")
	})
}

// Case 4: the outcome of the dead attempt is unknown. By default the next attempt runs,
// and its number is visible.
func TestKilledBetweenChargeAndRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 6*time.Second, redistest.Persistent()...)
	first, second := f.startTwo()
	pay := payment("tok_slow:3s")

	answers := first.begin(pay)
	f.redis.Kill() // so that the record cannot be written: a frozen server would read it later
	testkit.Await(t, "for the charge", func() bool { return len(f.effects()) == 1 })
	first.Kill()
	<-answers // none, or the real one: it is shown when it cannot be stored in time
	f.redis.Restart()

	second.retryThrough(pay).expect(t, created)
	f.expectEffects(chargeBy(first, pay, 1), chargeBy(second, pay, 2))
	second.expectEvent("lease_expired")
}

// Case 4 with the charge as a row: in the next attempt the constraint decides.
func TestKilledBetweenChargeAndRecordInPostgres(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 3*time.Second)
	first, second := f.startTwo()
	pay := payment("tok_ok")

	answers, stop, _ := f.beginUntil(first, pay, atItsCharge, atItsRecord)
	first.Kill()
	<-answers // none, or the real one: a response that cannot be stored in time is still sent
	stop.turnAway()
	stop.lift()

	paid := second.retryWhile(pay, inProgress).expect(t, done)
	second.send(pay).expectCopyOf(t, paid)
	second.expectEvent("lease_expired")
	f.expectEffects(chargeBy(first, pay, 1))
	testkit.Equal(t, ask[int](f.database, `SELECT count(*) FROM payments_ledger`), 1, "charges")
}

// Cases 5, 6 and 7
func TestFrozenPastItsLease(t *testing.T) {
	t.Parallel()
	onEachStore(t, 3*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		pay := payment("tok_slow:8s")

		stale := first.begin(pay)
		first.Pause()
		taken := second.beginAfter(pay)
		first.Resume() // the process learns of the lost lease before the handler charges

		(<-stale).expect(t, inProgress) // the first process's client
		first.expectEvent("lease_lost")
		first.send(pay).expect(t, inProgress) // the first process's settlement changed nothing
		second.send(pay).expect(t, inProgress)

		original := (<-taken).expect(t, created)
		first.send(pay).expectCopyOf(t, original)
		second.send(pay).expectCopyOf(t, original)
		f.expectEffects(chargeBy(second, pay, 2))
	})
}

// Case 9
func TestTerminatedInTheHandler(t *testing.T) {
	t.Parallel()
	onEachStore(t, 30*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		pay := payment("tok_slow:500ms")

		answers := first.begin(pay)
		first.Stop()
		original := (<-answers).expect(t, created)
		if err := first.Wait(); err != nil {
			t.Errorf("the process ended with %v, want exit code 0", err)
		}
		second.send(pay).expectCopyOf(t, original)
		f.expectEffects(chargeBy(first, pay, 1))
	})
}
