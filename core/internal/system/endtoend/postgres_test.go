package endtoend

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// Cases 12, 13 and 19: one server fails around the claim and around the settlement.
func TestPostgresUnreachable(t *testing.T) {
	t.Parallel()
	testkit.Each(t, outages, func(t *testing.T, outage outage) {
		server := postgrestest.Start(t, postgrestest.Durable()...)
		// A pending claim may take effect when a frozen server wakes up. It then blocks its
		// key, for less time than a test waits.
		f := newFixtureAt(t, 10*time.Second, server.DSN())
		f.storeTimeout = outage.storeTimeout
		first, second := f.startTwo()
		earlier := payment("tok_ok").withKey("earlier")
		kept := first.send(earlier).expect(t, created)

		// Before the handler
		before := payment("tok_ok").withKey("before")
		outage.begin(server)
		for _, process := range []*instance{first, second} {
			process.send(before).expect(t, unavailable)
			process.send(earlier).expect(t, unavailable)
		}
		outage.end(server)
		early := first.retryThrough(before).expect(t, created)
		second.retryThrough(before).expectCopyOf(t, early)

		// After the charge, before the response is stored
		during := payment("tok_ok").withKey("during")
		answers, stop, _ := f.beginUntil(first, during, atItsCharge, atItsRecord)
		outage.begin(server)
		late := (<-answers).expect(t, created) // the real response: the money is gone
		if again := first.send(during); !again.is(unavailable) {
			again.expectCopyOf(t, late) // the process remembers the response, unless the stopping server stored it
		}
		second.send(during).expect(t, unavailable) // another process does not know
		outage.end(server)
		stop.lift()
		second.retryThrough(during).expectCopyOf(t, late)

		for _, process := range []*instance{first, second} {
			process.retryThrough(earlier).expectCopyOf(t, kept)
			process.send(before).expectCopyOf(t, early)
			process.send(during).expectCopyOf(t, late)
		}
		f.expectKeys("earlier", "before", "during")
	})
}

// Any process may be the first to start.
func TestProcessesStartTogether(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t, 30*time.Second)
	commands := make([]*instance, 4)
	for i := range commands {
		commands[i] = f.launch("chi")
	}
	for _, i := range commands {
		i.awaitListening()
	}
	commands[0].send(transfer("key-1")).expect(t, created)
	f.start("gin").send(transfer("key-1")).expect(t, replayed) // the balances did not change
	f.expectTransfers("key-1")
}
