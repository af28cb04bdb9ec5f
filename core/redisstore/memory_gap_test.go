package redisstore_test

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Case 2: a time to live that belongs to another value makes no tombstone.
func TestReleaseInTheGapIsNotTakenForATombstone(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	holder := win(t, others, remembered("key"))
	m.between = func() {
		m.between = nil
		must(t, others.Release(t.Context(), holder))
		win(t, others, claim("key")) // lives for less than the Remember
	}
	if r := find(t, store, remembered("key")); r.State != storage.InProgress || r.Abandoned() {
		t.Errorf("the record is %+v, want it in progress", r)
	}
}

func TestKeyThatIsForgottenInTheGapIsClaimed(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	must(t, others.Complete(t.Context(), win(t, others, remembered("key")), rememberedResult("answer")))
	m.between = func() { forget(t, others, "key"); m.between = nil }
	winAttempt(t, store, remembered("key"), 1, false)
}

// The response that is read belongs to another run than the short value.
func TestResponseOfAnotherRunInTheGap(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	must(t, others.Complete(t.Context(), win(t, others, remembered("key")), rememberedResult("first")))
	m.between = func() {
		m.between = nil
		forget(t, others, "key")
		must(t, others.Complete(t.Context(), win(t, others, remembered("key")), rememberedResult("second")))
	}
	if r := find(t, store, remembered("key")); r.State != storage.Completed || string(r.Body) != "second" {
		t.Errorf("the record is %+v, want the second response", r)
	}
}

// A key whose Retain ends between the look and the take-over is not taken over, even
// by its own token.
func TestTombstoneBeforeTheTakeOver(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		m, others, store, rdb := meddled(t)
		holder := win(t, others, remembered("key"))
		must(t, others.Extend(t.Context(), holder, 0))
		m.script = func() { must(t, rdb.PExpire(t.Context(), "oncekey:key", holder.Remember).Err()); m.script = nil }
		c := remembered("key")
		c.TakeOver = true
		if own {
			c.Token = holder.Token
		}
		if r := find(t, store, c); r.State != storage.Expired || r.Status != 0 || r.Attempt != 1 {
			t.Errorf("the record is %+v, want it expired", r)
		}
	}
}

// A holder that completes between the look and the take-over is replayed.
func TestCompletionBeforeTheTakeOver(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	holder := win(t, others, remembered("key"))
	must(t, others.Extend(t.Context(), holder, 0))
	m.script = func() { must(t, others.Complete(t.Context(), holder, rememberedResult("answer"))); m.script = nil }
	c := remembered("key")
	c.TakeOver = true
	if r := find(t, store, c); r.State != storage.Completed || string(r.Body) != "answer" || r.Expires.Before(time.Now().Add(59*time.Minute)) {
		t.Errorf("the record is %+v, want the response", r)
	}
}
