package redisstore

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core/storage"
)

var someTime = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func someLease() storage.Lease {
	return storage.Lease{
		Claim: storage.Claim{
			Key: "key", Token: storage.Token{0xab, 0xcd}, Fingerprint: "sha256:f", Digest: storage.Digest{0xd1, 15: 0x9e}, TTL: 30 * time.Second, Retain: 24 * time.Hour,
		},
		Attempt: 2, TookOver: true,
	}
}

// Stored lines outlive a deployment: these lines change only together with the
// version.
func TestFormat(t *testing.T) {
	t.Parallel()
	l := someLease()
	res := storage.Result{State: storage.Completed, Status: 201, Body: []byte("{}\n"), Header: storage.Header{
		{Op: storage.Set, Name: "Content-Type", Value: "application/json"},
		{Op: storage.Add, Name: "Vary", Value: "a<b>&"},
		{Op: storage.Delete, Name: "Server"},
		{Op: storage.Set, Name: "X-Raw", Value: "\xff"},
	}}
	sketched := storage.Result{State: storage.Unreplayable, Status: 200, Sketch: []byte("\x00\xff")}
	undigested := l
	undigested.Digest = storage.Digest{}
	stepped := l
	stepped.Steps = "charge\nship\n"
	aged := stepped
	aged.Age = 1500 * time.Millisecond
	from := l
	from.Origin = storage.Origin{Route: "POST /payments", Holder: "pod-\"1\"", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0"}
	from.Age = 1500 * time.Millisecond
	remembered := l
	remembered.Remember = 720 * time.Hour
	apart := sketched
	apart.Remember = remembered.Remember
	kept := sketched
	kept.Retain = time.Hour
	const origin = `"age_ms":1500,"route":"POST /payments","holder":"pod-\"1\"","key_hash":"9c56cc51b374c3ba","trace":"4bf9-00f0",`
	const member = `"digest":"d100000000000000000000000000009e",`
	const token = `{"token":"abcd0000000000000000000000000000","state":`
	tests := []struct {
		name  string
		value []byte
		want  string
	}{
		{"in progress", encodeClaim(&l, someTime), token + `"in_progress","v":1,"attempt":2,"took_over":true,"fingerprint":"sha256:f",` +
			member + `"lease_ms":30000,"retain_ms":86400000,"at":"2026-01-02T15:04:05Z","size":0}` + "\n"},
		{"released", encodeReleased(l, someTime), token + `"released","v":1,"attempt":2,"fingerprint":"sha256:f","at":"2026-01-02T15:04:05Z","size":0}` + "\n"},
		{"released with steps", encodeReleased(aged, someTime), token + `"released","v":2,"attempt":2,"fingerprint":"sha256:f",` +
			member + `"retain_ms":86400000,"age_ms":1500,"at":"2026-01-02T15:04:05Z","size":12}` + "\ncharge\nship\n"},
		{"completed", encodeResult(l, res, someTime), token + `"completed","v":1,"attempt":2,"fingerprint":"sha256:f",` +
			member + `"at":"2026-01-02T15:04:05Z","status":201,"headers":[["set","Content-Type","application/json"],["add","Vary","a<b>&"],` +
			`["delete","Server",""],["set","WC1SYXc=","/w==","base64"]],"size":3}` + "\n{}\n"},
		{"of no digest", encodeClaim(&undigested, someTime), token + `"in_progress","v":1,"attempt":2,"took_over":true,"fingerprint":"sha256:f",` +
			`"lease_ms":30000,"retain_ms":86400000,"at":"2026-01-02T15:04:05Z","size":0}` + "\n"},
		{"with steps", encodeClaim(&stepped, someTime), token + `"in_progress","v":2,"attempt":2,"took_over":true,"fingerprint":"sha256:f",` +
			member + `"lease_ms":30000,"retain_ms":86400000,"at":"2026-01-02T15:04:05Z","size":12}` + "\ncharge\nship\n"},
		{"renewed, with an origin", encodeClaim(&from, someTime), token + `"in_progress","v":1,"attempt":2,"took_over":true,"fingerprint":"sha256:f",` +
			member + `"lease_ms":30000,"retain_ms":86400000,` + origin + `"at":"2026-01-02T15:04:05Z","size":0}` + "\n"},
		{"finished, with an origin", encodeResult(from, kept, someTime), token + `"unreplayable","v":1,"attempt":2,"fingerprint":"sha256:f",` +
			member + `"retain_ms":3600000,` + origin + `"at":"2026-01-02T15:04:05Z","status":200,"sketch":"AP8=","size":0}` + "\n"},
		{"remembered", encodeClaim(&remembered, someTime), token + `"in_progress","v":2,"attempt":2,"remember_ms":2592000000,"took_over":true,` +
			`"fingerprint":"sha256:f",` + member + `"lease_ms":30000,"retain_ms":86400000,"at":"2026-01-02T15:04:05Z","size":0}` + "\n"},
		{"a response with a key of its own", encodeResult(remembered, apart, someTime), token + `"unreplayable","v":2,"attempt":2,"fingerprint":"sha256:f",` +
			member + `"at":"2026-01-02T15:04:05Z","status":200,"sketch":"AP8=","size":0}` + "\n"},
		{"unreplayable", encodeResult(l, sketched, someTime), token + `"unreplayable","v":1,"attempt":2,"fingerprint":"sha256:f",` +
			member + `"at":"2026-01-02T15:04:05Z","status":200,"sketch":"AP8=","size":0}` + "\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if string(test.value) != test.want {
				t.Errorf("the value is %s\nwant %s", test.value, test.want)
			}
		})
	}
}

// The scripts compare bytes at fixed places.
func TestScriptsKnowThePlaces(t *testing.T) {
	t.Parallel()
	l := someLease()
	if got := strings.Index(string(appendClaimPrefix(nil, l.Token)), stateInProgress); got != 43 {
		t.Errorf("a claim's state begins at byte %d, want 43", got)
	}
	if got := string(appendClaimPrefix(nil, l.Token)); !strings.HasPrefix(string(encodeClaim(&l, someTime)), got) || len(got) != 65 {
		t.Errorf("a claim begins with %s", got)
	}
	if got := string(attemptPrefix(l)); !strings.HasPrefix(string(encodeClaim(&l, someTime)), got) {
		t.Errorf("a claim begins with %s", got)
	}
	if got := encodeClaim(&l, someTime)[43:65]; string(got) != `,"state":"in_progress"` {
		t.Errorf("bytes 43 to 64 of a claim are %s", got)
	}
	if got := encodeReleased(l, someTime)[43:62]; string(got) != `,"state":"released"` {
		t.Errorf("bytes 43 to 61 of a released claim are %s", got)
	}
}

// Case 20.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	whole := string(encodeResult(someLease(), storage.Result{State: storage.Completed, Status: 201, Body: []byte("body"), Sketch: []byte("s"), Header: storage.Header{{Name: "A", Value: "b"}}}, someTime))
	withSteps := someLease()
	running := string(encodeClaim(&withSteps, someTime))
	withSteps.Steps = "steps"
	stepped := string(encodeClaim(&withSteps, someTime))
	withSteps.Remember = time.Second
	remembered := string(encodeClaim(&withSteps, someTime))
	change := func(value, old, changed string) string {
		if !strings.Contains(value, old) {
			t.Fatalf("%s does not contain %s", value, old)
		}
		return strings.Replace(value, old, changed, 1)
	}
	tests := []struct{ name, value, mentions string }{
		{"empty", "", "first line does not end"},
		{"no JSON", "hello\n", "not a record's"},
		{"other JSON", "[]\n", "not a record's"},
		{"JSON without our members", "{}\n", "version 0"},
		{"cut in the line", whole[:50], "first line does not end"},
		{"cut in the body", whole[:len(whole)-1], "3 bytes, not 4"},
		{"cut after the line", whole[:len(whole)-4], "0 bytes, not 4"},
		{"more than was written", whole + "x", "5 bytes, not 4"},
		{"future version", change(whole, `"v":1`, `"v":3`), "version 3"},
		{"remembered for a negative time", change(remembered, `"remember_ms":1000`, `"remember_ms":-1`), "remembered for -1 ms"},
		{"remembered for too long", change(remembered, `"remember_ms":1000`, `"remember_ms":9223372036854`), "remembered for 9223372036854 ms"},
		{"remembered for far too long", change(remembered, `"remember_ms":1000`, `"remember_ms":9223372036854775807`), "remembered for 9223372036854775807 ms"},
		{"remembered by version 1", change(remembered, `"v":2`, `"v":1`), "remembered for 1000 ms"},
		{"a tombstone as a line", change(whole, `"completed"`, `"expired"`), `"expired"`},
		{"cut in the steps", stepped[:len(stepped)-1], "4 bytes, not 5"},
		{"negative size", change(whole, `"size":4`, `"size":-4`), "not -4"},
		{"short token", change(whole, "abcd", "abc"), "token"},
		{"token of other digits", change(whole, "abcd", "zzzz"), "token"},
		{"no attempt", change(whole, `"attempt":2`, `"attempt":0`), "attempt"},
		{"unknown state", change(whole, `"completed"`, `"done"`), `"done"`},
		{"invalid state", change(whole, `"completed"`, `"invalid"`), `"invalid"`},
		{"status too low", change(whole, `"status":201`, `"status":99`), "99"},
		{"status too high", change(whole, `"status":201`, `"status":1000`), "1000"},
		{"no status", change(whole, `"status":201,`, ``), "status is 0"},
		{"status of another type", change(whole, `"status":201`, `"status":"201"`), "not a record's"},
		{"unknown operation", change(whole, `"set"`, `"put"`), "header field 0"},
		{"field of two words", change(whole, `["set","A","b"]`, `["set","A"]`), "header field 0"},
		{"field of no words", change(whole, `["set","A","b"]`, `[]`), "header field 0"},
		{"unknown encoding", change(whole, `["set","A","b"]`, `["set","A","b","hex"]`), "header field 0"},
		{"no base64", change(whole, `["set","A","b"]`, `["set","A","b","base64"]`), "header field 0"},
		{"sketch that is no base64", change(whole, `"sketch":"cw=="`, `"sketch":"c"`), "not a record's"},
		{"sketch of another type", change(whole, `"sketch":"cw=="`, `"sketch":{}`), "not a record's"},
		{"short digest", change(whole, `"digest":"d1`, `"digest":"d`), "not a record's"},
		{"digest of other digits", change(whole, `"digest":"d1`, `"digest":"zz`), "not a record's"},
		{"digest of another type", change(whole, `"digest":"d100000000000000000000000000009e"`, `"digest":{}`), "not a record's"},
		{"no lease", change(running, `"lease_ms":30000`, `"lease_ms":0`), "lease is 0 ms"},
		{"lease longer than the record", change(running, `"retain_ms":86400000`, `"retain_ms":29999`), "kept for 29999 ms"},
		{"kept for too long", change(running, `"retain_ms":86400000`, `"retain_ms":9223372036854775807`), "kept for 9223372036854775807 ms"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := decode([]byte(test.value))
			if !errors.Is(err, storage.ErrCorruptRecord) || !strings.Contains(err.Error(), test.mentions) {
				t.Errorf("decode returned %v, want ErrCorruptRecord and a text about %s", err, test.mentions)
			}
		})
	}
}

func FuzzResult(f *testing.F) {
	f.Add("token of 16 byte", uint64(1), "sha256:f", 200, uint8(0), "Name", "value", []byte("body"))
	f.Add("", uint64(0), "", 100, uint8(2), "\xff", "\x00\n\r\u2028\ufffd", []byte("\n\x00\xff"))
	f.Fuzz(func(t *testing.T, token string, attempt uint64, fingerprint string, status int, operation uint8, name, value string, body []byte) {
		l := storage.Lease{Claim: storage.Claim{Fingerprint: strings.ToValidUTF8(fingerprint, "")}, Attempt: max(attempt, 1)}
		copy(l.Token[:], token)
		copy(l.Digest[:], name)
		res := storage.Result{
			State: storage.Failed, Status: minStatus + int(uint(status)%900), Body: body, Sketch: []byte("\x00" + value),
			Header: storage.Header{{Op: storage.FieldOp(operation % 3), Name: name, Value: value}, {Name: value, Value: name}},
		}
		got, err := decode(encodeResult(l, res, someTime))
		if err != nil {
			t.Fatal(err)
		}
		want := storage.Record{
			State: res.State, Fingerprint: l.Fingerprint, Digest: l.Digest, Attempt: l.Attempt, Status: res.Status, Header: res.Header, Body: got.record.Body,
			Sketch: res.Sketch,
		}
		if got.token != l.Token || !bytes.Equal(got.record.Body, body) || !reflect.DeepEqual(got.record, want) {
			t.Errorf("it is %+v\nwant %+v", got.record, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	l := someLease()
	f.Add(encodeClaim(&l, someTime))
	f.Add(encodeReleased(l, someTime))
	stepped := l
	stepped.Steps = "steps"
	f.Add(encodeClaim(&stepped, someTime))
	f.Add(encodeReleased(stepped, someTime))
	f.Add(encodeResult(l, storage.Result{State: storage.Completed, Status: 201, Body: []byte("x"), Header: storage.Header{{Name: "A", Value: "\xff"}}}, someTime))
	f.Add(encodeRemembered(l, storage.Result{State: storage.Completed, Status: 201, Remember: time.Hour}))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, value []byte) {
		held, err := decode(value)
		if err != nil {
			if !errors.Is(err, storage.ErrCorruptRecord) {
				t.Errorf("decode returned %v, want ErrCorruptRecord", err)
			}
			return
		}
		r := held.record
		finished := r.State >= storage.Completed && r.State <= storage.Unreplayable
		if r.State == storage.Expired || finished && (r.Status < minStatus || r.Status > maxStatus) || r.Attempt < 1 || !utf8.ValidString(r.Fingerprint) {
			t.Errorf("a record that cannot be was read: %+v", r)
		}
	})
}
