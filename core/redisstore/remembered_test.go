package redisstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// usualFingerprint is of the form that package fingerprint writes.
var usualFingerprint = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// Short values outlive a deployment: these bytes change only together with the mark.
func TestFormatOfShortValues(t *testing.T) {
	t.Parallel()
	l := someLease()
	l.Fingerprint = usualFingerprint
	const rest = "02" + "00c9" + "d100000000000000000000000000009e" + "0000000000000e10"
	res := storage.Result{State: storage.Completed, Status: 201, Retain: time.Hour, Remember: 3600 * time.Millisecond}
	const beginning = "6f6e63656b657902" + "abcd0000000000000000000000000000" + "0000000000000002" + rest
	if got, want := hex.EncodeToString(encodeRemembered(l, res)), beginning+"01"+usualFingerprint[7:]; got != want {
		t.Errorf("the value is %s\nwant %s", got, want)
	}
	l.Fingerprint = "short"
	if got, want := hex.EncodeToString(encodeRemembered(l, res)), beginning+"00"+hex.EncodeToString([]byte("short")); got != want {
		t.Errorf("the value is %s\nwant %s", got, want)
	}
	if got := len(string(appendClaimPrefix(nil, l.Token))[:43]); attemptAt+8 != 32 || got <= attemptAt+8 {
		t.Errorf("the scripts compare 32 bytes of a short value, not %d", attemptAt+8)
	}
}

func TestShortValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, fingerprint := range []string{
		usualFingerprint, "", "sha256:", "sha256:f", strings.ToUpper(usualFingerprint), "sha256:" + strings.Repeat("AB", 32),
		"sha256:" + strings.Repeat("z", 64), usualFingerprint + "0", strings.Repeat("x", 32), "價", strings.Repeat("long", 5000),
	} {
		for state := storage.Completed; state <= storage.Unreplayable; state++ {
			l := someLease()
			l.Fingerprint, l.Attempt = fingerprint, 1<<63
			held, err := decode(encodeRemembered(l, storage.Result{State: state, Status: 999, Remember: 720 * time.Hour}))
			want := stored{
				token: l.Token, remember: 720 * time.Hour, apart: true,
				record: storage.Record{State: state, Fingerprint: fingerprint, Digest: l.Digest, Attempt: l.Attempt, Status: 999},
			}
			if err != nil || !reflect.DeepEqual(held, want) {
				t.Errorf("decode returned %+v and %v, want %+v", held, err, want)
			}
		}
	}
}

// Case 20: a short value that is damaged is no record.
func TestDecodeRefusesShortValues(t *testing.T) {
	t.Parallel()
	l := someLease()
	res := storage.Result{State: storage.Completed, Status: 201, Remember: time.Hour}
	l.Fingerprint = usualFingerprint
	usual := encodeRemembered(l, res)
	l.Fingerprint = "text"
	text := encodeRemembered(l, res)
	change := func(value []byte, at int, changed string) []byte {
		return append(append(bytes.Clone(value[:at]), changed...), value[at+len(changed):]...)
	}
	for name, value := range map[string][]byte{
		"the mark alone":           usual[:tokenAt],
		"cut in the token":         usual[:attemptAt-1],
		"cut before the hash":      usual[:fingerprintAt-1],
		"cut at the hash":          usual[:fingerprintAt],
		"cut in the hash":          usual[:len(usual)-1],
		"more than was written":    append(bytes.Clone(usual), 'x'),
		"another version":          change(usual, tokenAt-1, "\x03"),
		"no attempt":               change(usual, attemptAt, strings.Repeat("\x00", 8)),
		"state zero":               change(usual, stateAt, "\x00"),
		"in progress":              change(usual, stateAt, "\x01"),
		"a state of none":          change(usual, stateAt, "\x05"),
		"status too low":           change(usual, statusAt, "\x00\x63"),
		"status too high":          change(usual, statusAt, "\x03\xe8"),
		"remembered for no time":   change(usual, rememberAt, strings.Repeat("\x00", 8)),
		"remembered for too long":  change(usual, rememberAt, "\x7f"+strings.Repeat("\xff", 7)),
		"remembered for negative":  change(usual, rememberAt, strings.Repeat("\xff", 8)),
		"unknown fingerprint form": change(usual, formAt, "\x02"),
		"text that is no UTF-8":    change(text, fingerprintAt, "\xff"),
	} {
		if held, err := decode(value); !errors.Is(err, storage.ErrCorruptRecord) {
			t.Errorf("%s: decode returned %+v and %v, want ErrCorruptRecord", name, held, err)
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

func FuzzRemembered(f *testing.F) {
	l := someLease()
	for _, fingerprint := range []string{usualFingerprint, "text"} {
		l.Fingerprint = fingerprint
		f.Add(encodeRemembered(l, storage.Result{State: storage.Unreplayable, Status: 100, Remember: time.Hour}))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		held, err := decode(append([]byte(rememberedMark), value...))
		if err != nil {
			if !errors.Is(err, storage.ErrCorruptRecord) {
				t.Errorf("decode returned %v, want ErrCorruptRecord", err)
			}
			return
		}
		r := held.record
		again := encodeRemembered(
			storage.Lease{Claim: storage.Claim{Token: held.token, Fingerprint: r.Fingerprint, Digest: r.Digest}, Attempt: r.Attempt},
			storage.Result{State: r.State, Status: r.Status, Remember: held.remember})
		read, err := decode(again)
		if err != nil || !reflect.DeepEqual(read, held) {
			t.Errorf("%+v is read again as %+v, %v", held, read, err)
		}
	})
}
