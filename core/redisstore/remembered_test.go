package redisstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// usualFingerprint is of the form that package fingerprint writes.
var usualFingerprint = "sha256:" + strings.Repeat("0123456789abcdef", 4)

func TestShortValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for state := storage.Completed; state <= storage.Unreplayable; state++ {
		l := someLease()
		l.Fingerprint, l.Attempt = usualFingerprint, 1<<63
		value := encodeRemembered(l, storage.Result{State: state, Status: 999, Remember: 720 * time.Hour})
		held, err := decode(value)
		want := stored{
			token: l.Token, remember: 720 * time.Hour, apart: true,
			record: storage.Record{State: state, Fingerprint: l.Fingerprint, Digest: l.Digest, Attempt: l.Attempt, Status: 999},
		}
		if err != nil || !reflect.DeepEqual(held, want) || !mayBeApart(string(value)) {
			t.Errorf("decode returned %+v and %v, want %+v", held, err, want)
		}
		if len(value) > 92 {
			t.Errorf("a short value has %d bytes, want at most 92", len(value))
		}
	}
}

// A short value without its own response is not replayable, and one with a damaged
// response is no record.
func TestJoin(t *testing.T) {
	t.Parallel()
	l := someLease()
	res := storage.Result{State: storage.Failed, Status: 422, Body: []byte("answer"), Remember: time.Hour, Retain: time.Hour}
	of := func(change func(l *storage.Lease, res *storage.Result)) string {
		l, res := l, res
		change(&l, &res)
		return string(encodeResult(l, res, someTime))
	}
	own := of(func(*storage.Lease, *storage.Result) {})
	short := string(encodeRemembered(l, res))
	for name, test := range map[string]struct {
		response string
		want     storage.State
	}{
		"its own":            {own, storage.Failed},
		"none":               {"", storage.Unreplayable},
		"of another token":   {of(func(l *storage.Lease, _ *storage.Result) { l.Token[0]++ }), storage.Unreplayable},
		"of another attempt": {of(func(l *storage.Lease, _ *storage.Result) { l.Attempt++ }), storage.Unreplayable},
		"of another state":   {of(func(_ *storage.Lease, res *storage.Result) { res.State = storage.Completed }), storage.Unreplayable},
		"a claim":            {string(encodeClaim(&l, someTime)), storage.Unreplayable},
		"a short value":      {short, storage.Unreplayable},
		"cut":                {own[:len(own)-1], 0},
		"no record":          {"hello", 0},
	} {
		seen, err := look([]byte(short), 90*time.Minute, []byte(test.response))
		switch {
		case test.want == 0 && !errors.Is(err, storage.ErrCorruptRecord):
			t.Errorf("%s: look returned %v, want ErrCorruptRecord", name, err)
		case test.want == 0:
		case err != nil || seen.record.State != test.want || seen.record.Status != 422 || seen.lost != (test.want == storage.Unreplayable):
			t.Errorf("%s: look returned %+v and %v, want %s", name, seen, err, test.want)
		case (string(seen.record.Body) == "answer") != (test.want == storage.Failed):
			t.Errorf("%s: the body is %q", name, seen.record.Body)
		}
	}
}

// A record that ends with its lease is not abandoned in its last millisecond either.
func TestLastMillisecondOfALease(t *testing.T) {
	t.Parallel()
	for after, abandoned := range map[time.Duration]bool{0: false, time.Millisecond: true} {
		l := someLease()
		l.Retain = l.LockTTL + after
		seen, err := look(encodeClaim(&l, someTime), 0, nil)
		if err != nil || seen.record.Abandoned() != abandoned {
			t.Errorf("retained for %v after its lease: look returned %+v and %v, want abandoned %t", after, seen, err, abandoned)
		}
	}
}

// PTTL is 0 in the last millisecond of a key. A record is a tombstone only with a
// Remember.
func TestLastMillisecond(t *testing.T) {
	t.Parallel()
	for _, remember := range []time.Duration{0, time.Hour} {
		l := someLease()
		l.Remember = remember
		res := storage.Result{State: storage.Completed, Status: 201, Retain: time.Hour, Remember: remember}
		finished := encodeResult(l, res, someTime)
		if remember > 0 {
			finished = encodeRemembered(l, res)
		}
		for want, value := range map[storage.State][]byte{storage.InProgress: encodeClaim(&l, someTime), storage.Completed: finished} {
			for _, left := range []time.Duration{0, remember} {
				seen, err := look(value, left, nil)
				if err != nil || (seen.record.State == want) == (remember > 0) || (seen.record.State == storage.Expired) != (remember > 0) {
					t.Errorf("with a Remember of %s, a key in state %s that lives for %s is %+v, %v", remember, want, left, seen, err)
				}
			}
		}
	}
}

func TestNamesOfResponses(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"oncekey:": "oncekey:{oncekey:key}:response", "": "{key}:response", "{tag}:": "{tag}:key:response", "a{tag}{b": "a{tag}{bkey:response",
		"a{": "", "}": "", "a{}": "", "a{}{b}": "",
	} {
		s := &Store{prefix: prefix}
		name, possible := s.responseKey("key")
		if possible != (want != "") || possible && name != want {
			t.Errorf("under %q the response's name is %q, %t, want %q", prefix, name, possible, want)
		}
		if possible && (!strings.HasPrefix(name, prefix) || !s.isResponse(name)) {
			t.Errorf("under %q the name %q is not found to be a response's", prefix, name)
		}
		if s.isResponse(prefix+"key") || prefix == "oncekey:" && s.isResponse(prefix+"key:response") {
			t.Errorf("under %q the name of a key is found to be a response's", prefix)
		}
	}
}
