package endtoend

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Cases 3, 4 and 7: the money and the response are committed together, so the moment of
// the crash does not matter.
func TestKilledInTheTransfer(t *testing.T) {
	t.Parallel()
	type test struct {
		stops     []stop
		committed bool
	}
	testkit.Each(t, map[string]test{
		"before its writes":  {stops: []stop{beforeItsWrites}},
		"between its writes": {stops: []stop{betweenItsWrites}},
		"at its last write":  {stops: []stop{atItsLastWrite}},
		"at its record":      {stops: []stop{atItsLastWrite, atItsRecord}},
		"in its commit":      {stops: []stop{inItsCommit}, committed: true},
	}, func(t *testing.T, test test) {
		f := newPostgresFixture(t, 3*time.Second)
		routers := []string{"chi", "gin"}
		processes := []*instance{f.start("chi"), f.start("gin")}
		f.database.letCommitsWait()
		var keys []string
		for round, router := range routers {
			victim, other := processes[round], processes[1-round]
			move := transfer(fmt.Sprintf("key-%d", round))
			keys = append(keys, move.key)

			original := killInTheTransfer(t, f, victim, other, move, test.committed, test.stops...)
			processes[round] = f.start(router)
			for _, process := range processes {
				process.send(move).expectCopyOf(t, original)
			}
			f.expectTransfers(keys...)
		}
	})
}

// killInTheTransfer kills a process at the last of the stops, and returns what another process responds to the retry.
func killInTheTransfer(t *testing.T, f *fixture, victim, other *instance, move request, committed bool, stops ...stop) answer {
	t.Helper()
	answers, barrier, _ := f.beginUntil(victim, move, stops...)
	victim.Kill()
	last := <-answers
	barrier.lift()

	original := other.retryWhile(move, inProgress).expectDone(t)
	switch {
	case last.err == nil: // the kill came after the response
		last.expect(t, unconfirmed)
	case committed:
		original.expect(t, replayed)
	default:
		original.expect(t, created)
		other.expectEvent("lease_expired")
	}
	other.send(move).expectCopyOf(t, original)
	return original
}

// Cases 5, 6 and 7: a frozen process keeps its rows locked until the server ends its idle
// transaction.
func TestFrozenInTheTransfer(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 3*time.Second)
	freezeInTheTransfer(t, f, betweenItsWrites)
}

// freezeInTheTransfer freezes a process in its transfer, and expects another process to do the transfer.
func freezeInTheTransfer(t *testing.T, f *fixture, at stop) {
	t.Helper()
	first, second := f.startTwo()
	move := transfer("key-1")

	stale, barrier, _ := f.beginUntil(first, move, at)
	first.Pause()
	first.awaitFrozen()
	barrier.lift()
	original := second.retryWhile(move, inProgress).expect(t, created)
	first.Resume()

	if answer := <-stale; answer.err != nil || answer.status < http.StatusBadRequest {
		t.Errorf("the frozen process's client got %v, want an error", answer)
	}
	first.expectEvent("lease_lost")
	for _, process := range []*instance{first, second} {
		process.send(move).expectCopyOf(t, original)
	}
	f.expectTransfers(move.key)
}

// Case 9: the pool is closed after the last transaction.
func TestTerminatedInTheTransfer(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	first, second := f.startTwo()
	move := transfer("key-1")

	answers, stop, _ := f.beginUntil(first, move, betweenItsWrites)
	var stopping sync.WaitGroup
	stopping.Go(first.Stop)
	testkit.Await(t, "for the process to refuse requests", func() bool { return first.send(withoutKey()).err != nil })
	stop.lift()
	original := (<-answers).expect(t, created)
	stopping.Wait()
	if err := first.Wait(); err != nil {
		t.Errorf("the process ended with %v, want exit code 0", err)
	}
	second.send(move).expectCopyOf(t, original)
	f.expectTransfers(move.key)
}

// Case 1
func TestConcurrentTransfersMoveMoneyOnce(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	first, second := f.startTwo()
	sendAtOnce(t, transfer("key-1"), first, second)
	f.expectTransfers("key-1")
}

// Transfers in both directions need the same two rows, and never deadlock.
func TestTransfersInBothDirections(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	first, second := f.startTwo()
	var group sync.WaitGroup
	for i := range 10 {
		there, back := transfer(fmt.Sprintf("there-%d", i)), transfer(fmt.Sprintf("back-%d", i))
		back.body = `{"from":"bob","to":"alice","amount":100}`
		group.Go(func() {
			if answer := first.retryWhile(there, unavailable, unconfirmed, rolledBack, inProgress); answer.status != http.StatusCreated {
				t.Errorf("from alice to bob: got %v", answer)
			}
		})
		group.Go(func() {
			if answer := second.retryWhile(back, unavailable, unconfirmed, rolledBack, inProgress); answer.status != http.StatusCreated {
				t.Errorf("from bob to alice: got %v", answer)
			}
		})
	}
	group.Wait()
	testkit.Equal(t, ask[int](f.database, `SELECT count(*) FROM payments_transfers`), 20, "transfers")
	f.database.execute(`DELETE FROM payments_transfers`)
	f.expectTransfers() // the balances are unchanged
}

// A refusal is kept, and the writes before the refusal are undone.
func TestRefusedTransferMovesNothing(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, refuseTransfers)
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		refuseTransfers(t, newPostgresFixture(t, 30*time.Second))
	})
}

func refuseTransfers(t *testing.T, f *fixture) {
	t.Helper()
	first, second := f.startTwo()
	type test struct {
		body, message string
		status        int
	}
	tests := []test{
		{`{"from":"alice","to":"bob","amount":10001}`, "insufficient funds", http.StatusPaymentRequired},
		{`{"from":"carol","to":"bob","amount":10001}`, "insufficient funds", http.StatusPaymentRequired}, // after the credit to bob
		{`{"from":"alice","to":"zoe","amount":1}`, "is unknown", http.StatusNotFound},                    // after the debit from alice
		{`{"from":"zoe","to":"alice","amount":1}`, "is unknown", http.StatusNotFound},
		{`{"from":"alice","to":"alice","amount":1}`, "same account", http.StatusBadRequest},
		{`{"from":"alice","to":"bob","amount":0}`, "amount must be", http.StatusBadRequest},
		{`{"from":"alice","to":"bob","amount":9223372036854775807}`, "amount must be", http.StatusBadRequest},
		{`{"from":"alice","amount":1}`, "must name accounts", http.StatusBadRequest},
		{`{`, "not JSON", http.StatusBadRequest},
	}
	if f.database.driver == "pgx" {
		tests = append(tests, test{`{"from":"\u0000","to":"bob","amount":1}`, "NUL", http.StatusBadRequest})
	}
	for i, test := range tests {
		move := transfer(fmt.Sprintf("key-%d", i))
		move.body = test.body
		original := first.send(move).expect(t, want{status: test.status})
		if !strings.Contains(original.body, test.message) {
			t.Errorf("%s: got %s, want %q", test.body, original.body, test.message)
		}
		second.send(move).expectCopyOf(t, original)
	}
	f.expectTransfers()

	move := transfer("moved")
	first.send(move).expect(t, created)
	f.database.execute(`DELETE FROM oncekey_records`)
	second.send(move).expect(t, want{status: http.StatusConflict}) // the row is the last line of defence
	f.expectTransfers(move.key)
}

// Without a record, the constraints of the tables remain.
func TestConstraintsAreTheLastLineOfDefence(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	first, second := f.startTwo()
	pay, move := payment("tok_ok"), transfer("key-1")
	paid := first.send(pay).expect(t, created)
	first.send(move).expect(t, created)
	f.database.execute(`DELETE FROM oncekey_records`)

	for n, process := range []*instance{second, first} {
		again := process.send(pay.underKey(fmt.Sprint("another-key-", n))).expect(t, done)
		if again.body != paid.body || again.header.Get("Location") != paid.header.Get("Location") {
			t.Errorf("another key got %v, want the payment that exists: %v", again, paid)
		}
	}
	second.send(pay).expect(t, done)
	second.send(move).expect(t, want{status: http.StatusConflict})
	for _, message := range []string{"the side effect has already happened", "the transfer has already been done"} {
		testkit.Await(t, "for the log message: "+message, func() bool { return second.printed(message) })
	}
	f.expectEffects(chargeBy(first, pay, 1))
	f.expectTransfers(move.key)
	testkit.Equal(t, ask[int](f.database, `SELECT count(*) FROM payments_ledger`), 1, "charges")
}
