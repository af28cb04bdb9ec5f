package endtoend

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 1
func TestConcurrentRequestsAreChargedOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string][2]string{
		"chi":            {"chi", "chi"},
		"gin":            {"gin", "gin"},
		"chi beside gin": {"chi", "gin"},
	}, func(t *testing.T, routers [2]string) {
		onEachStore(t, 30*time.Second, func(t *testing.T, f *fixture) {
			first, second := f.start(routers[0]), f.start(routers[1])
			sendAtOnce(t, payment("tok_slow:200ms"), first, second)
			if charges := f.effects(); len(charges) != 1 {
				t.Errorf("%d charges, want one: %+v", len(charges), charges)
			}
		})
	})
}

// sendAtOnce sends the same request 50 times, each until it is done. One request runs, and
// the others get its response.
func sendAtOnce(t *testing.T, r request, processes ...*instance) {
	t.Helper()
	answers := make([]answer, 50)
	var group sync.WaitGroup
	for i := range answers {
		// On a busy machine the store can take longer than StoreTimeout, for all of them. A claim that was late is then
		// given back.
		group.Go(func() { answers[i] = processes[i%len(processes)].retryThrough(r) })
	}
	group.Wait()

	var original answer
	winners := 0
	for _, answer := range answers {
		if answer.expectDone(t).is(created) {
			winners, original = winners+1, answer
		}
	}
	if winners != 1 {
		t.Fatalf("%d requests got a 201 that is no replay, want one", winners)
	}
	runs := 0
	for _, process := range processes {
		runs += process.attempts()
		for range 3 {
			process.retryThrough(r).expectCopyOf(t, original)
		}
	}
	testkit.Equal(t, runs, 1, "runs of the handler")
}

// Case 8
func TestClientThatHangsUpFindsItsAnswer(t *testing.T) {
	t.Parallel()
	onEachStore(t, 30*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		pay := payment("tok_slow:2s")

		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan answer, 1)
		go func() { gone <- first.sendUntil(ctx, pay) }()
		testkit.Await(t, "for the handler to run", func() bool { return first.attempts() > 0 })
		hangUp()
		if answer := <-gone; answer.err == nil {
			t.Fatalf("got %v, want no response: the client hung up", answer)
		}

		first.send(pay).expect(t, inProgress)
		// Each process may see the stored response first: the one that runs learns of it from the store's reply.
		for _, process := range []*instance{second, first} {
			process.retryWhile(pay, inProgress).expect(t, replayed)
		}
		f.expectEffects(chargeBy(first, pay, 1))
	})
}

// The lease is renewed while the handler runs, and no other process gets it.
func TestHandlerMayTakeLongerThanItsLease(t *testing.T) {
	t.Parallel()
	onEachStore(t, 3*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		pay := payment("tok_slow:7s")

		answers := first.begin(pay)
		retried := second.retryWhile(pay, inProgress)
		original := (<-answers).expect(t, created)
		retried.expectCopyOf(t, original)
		testkit.Equal(t, second.attempts(), 0, "runs of the handler")
		f.expectEffects(chargeBy(first, pay, 1))
	})
}

// Cases 22 and 24
func TestKeysBelongToTheirUsers(t *testing.T) {
	t.Parallel()
	onEachStore(t, 30*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		alices, bobs := payment("tok_ok"), payment("tok_ok").as("bob")

		hers := first.send(alices).expect(t, created)
		his := second.send(bobs).expect(t, created)
		if hers.body == his.body {
			t.Errorf("both got %s, want a payment each", hers.body)
		}
		second.send(alices).expectCopyOf(t, hers)
		first.send(bobs).expectCopyOf(t, his)
		f.expectEffects(chargeBy(first, alices, 1), chargeBy(second, bobs, 1))

		for _, process := range []*instance{first, second} {
			stranger := process.send(alices.as("")).expect(t, want{status: http.StatusUnauthorized})
			if stranger.header.Get("WWW-Authenticate") == "" || stranger.header.Get("Location") != "" {
				t.Errorf("a stranger got the header %v", stranger.header)
			}
		}
	})
}
