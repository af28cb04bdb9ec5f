package redisstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

var someTime = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func someLease() storage.Lease {
	return storage.Lease{
		Claim: storage.Claim{
			Key: "key", Token: storage.Token{0xab, 0xcd}, Fingerprint: "sha256:f", Digest: storage.Digest{0xd1, 15: 0x9e}, LockTTL: 30 * time.Second, Retain: 24 * time.Hour,
		},
		Attempt: 2, TookOver: true,
	}
}

// headOf is a value of someLease as far as its state. uvarint is a number as values have it.
func headOf(state string) string {
	return "oncekey\x01" + "\xab\xcd" + strings.Repeat("\x00", 14) + "\x00\x00\x00\x00\x00\x00\x00\x02" + state
}

func uvarint(n int64) string { return string(binary.AppendUvarint(nil, uint64(n))) }

// Stored values outlive a deployment: these bytes change only together with the version.
func TestFormat(t *testing.T) {
	t.Parallel()
	l := someLease()
	res := storage.Result{State: storage.Completed, Status: 201, Body: []byte("{}\n"), Header: storage.Header{
		{Op: storage.Set, Name: "Content-Type", Value: "application/json"}, {Op: storage.Add, Name: "Vary", Value: "\xff"}, {Op: storage.Delete, Name: "Server"},
	}}
	sketched := storage.Result{State: storage.Unreplayable, Status: 200, Sketch: []byte("\x00\xff"), Retain: time.Hour, Body: []byte("left out")}
	stepped := l
	stepped.Steps = "charge\nship\n"
	from := l
	from.Origin = storage.Origin{Route: "POST /payments", Holder: "pod-1", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0", Program: "1f00ba42"}
	from.Age = 1500 * time.Millisecond
	bare := storage.Lease{Claim: storage.Claim{Token: l.Token, Fingerprint: usualFingerprint, Remember: 720 * time.Hour, Retain: time.Second}, Attempt: 2}
	const origin = "\x0ePOST /payments" + "\x05pod-1" + "\x109c56cc51b374c3ba" + "\x094bf9-00f0" + "\x081f00ba42"
	digest := "\xd1" + strings.Repeat("\x00", 14) + "\x9e"
	fingerprint, hash := "\x08sha256:f", strings.Repeat("\x01\x23\x45\x67\x89\xab\xcd\xef", 4)
	lease, day := uvarint(30_000), uvarint(86_400_000)
	month, at := uvarint(2_592_000_000), uvarint(someTime.UnixNano())
	for name, test := range map[string]struct {
		value []byte
		want  string
	}{
		"a claim":                      {encodeClaim(&l, someTime), headOf("\x01") + "\x00\x00" + "\x01\x3e" + fingerprint + digest + lease + day + at},
		"a claim with steps":           {encodeClaim(&stepped, someTime), headOf("\x01") + "\x00\x0c" + "\x01\x3e" + fingerprint + digest + lease + day + at + "charge\nship\n"},
		"a renewed claim of an origin": {encodeClaim(&from, someTime), headOf("\x01") + "\x00\x00" + "\x01\xfe" + fingerprint + digest + lease + day + uvarint(1500) + origin + at},
		"a claim with a Remember":      {encodeClaim(&bare, someTime), headOf("\x01") + month + "\x00" + "\x01\x21" + hash + uvarint(1000) + at},
		"released":                     {encodeReleased(l, someTime), headOf("\x06") + "\x00\x00" + "\x01\x02" + fingerprint + at},
		"released with steps":          {encodeReleased(stepped, someTime), headOf("\x06") + "\x00\x0c" + "\x01\x26" + fingerprint + digest + day + at + "charge\nship\n"},
		"a response": {encodeResult(l, res, someTime), headOf("\x02") + "\x00\x03" + "\x07\x06" + fingerprint + digest + at + uvarint(201) +
			"\x03" + "\x00\x0cContent-Type\x10application/json" + "\x01\x04Vary\x01\xff" + "\x02\x06Server\x00" + "{}\n"},
		"no response": {encodeResult(from, sketched, someTime), headOf("\x04") + "\x00\x00" + "\x0b\xe6" + fingerprint + digest + uvarint(3_600_000) + uvarint(1500) + origin +
			at + uvarint(200) + "\x02\x00\xff"},
		"a short value": {
			encodeRemembered(from, storage.Result{State: storage.Failed, Status: 400, Remember: 720 * time.Hour, Header: res.Header, Body: res.Body}),
			headOf("\x03") + month + "\x00" + "\x02\x06" + fingerprint + digest + uvarint(400),
		},
	} {
		if string(test.value) != test.want {
			t.Errorf("%s is %q\nwant %q", name, test.value, test.want)
		}
	}
}

// The scripts compare bytes at fixed places.
func TestScriptsKnowThePlaces(t *testing.T) {
	t.Parallel()
	l := someLease()
	prefix := string(attemptPrefix(&l))
	for name, value := range usualValues() {
		if len(prefix) != prefixSize || !strings.HasPrefix(string(value), prefix) || !isRecord(string(value)) {
			t.Errorf("%s begins with %q, not with %q", name, value, prefix)
		}
	}
	testkit.Equal(t, string(encodeClaim(&l, someTime)[prefixSize:plainSize]), "\x01\x00\x00", "the head of a plain claim ends with")
	if got := string(encodeReleased(l, someTime)); !isForgotten(got) || got[stateAt] != 6 {
		t.Errorf("a released key is %q", got)
	}
	l.Steps = "steps"
	if got := string(encodeReleased(l, someTime)); isForgotten(got) || got[stateAt] != 6 {
		t.Errorf("a released key with steps is %q", got)
	}
	if isForgotten("") || isForgotten(prefix) || isForgotten(strings.Repeat("\x00", plainSize)) {
		t.Error("no value at all is found to be a released key")
	}
}

// Case 20: a value that is cut, or longer than it was written, is no record.
func TestDecodeRefusesOtherSizes(t *testing.T) {
	t.Parallel()
	for name, value := range usualValues() {
		for size := range value {
			if held, err := decode(value[:size:size]); !errors.Is(err, storage.ErrCorruptRecord) {
				t.Errorf("%s, cut after %d bytes: decode returned %+v and %v, want ErrCorruptRecord", name, size, held, err)
			}
		}
		if held, err := decode(append(bytes.Clone(value), 'x')); !errors.Is(err, storage.ErrCorruptRecord) {
			t.Errorf("%s and a byte: decode returned %+v and %v, want ErrCorruptRecord", name, held, err)
		}
	}
}

// Case 20.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	of := func(change func(s *stored)) string {
		s := stored{record: storage.Record{State: storage.Completed, Attempt: 1, Status: 201, Header: storage.Header{{Name: "A", Value: "b"}}}, retain: time.Hour}
		change(&s)
		return string(encode(&s, "body"))
	}
	running := func(s *stored) { s.record.State, s.lease = storage.InProgress, time.Minute }
	whole := of(func(*stored) {})
	huge := uvarint(math.MaxInt64)
	tests := []struct{ name, value, mentions string }{
		{"empty", "", "does not begin as a record"},
		{"text", "hello\n", "does not begin as a record"},
		{"no version", "oncekey", "does not begin as a record"},
		{"JSON", `{"token":""}` + "\n", "does not begin as a record"},
		{"version 0", strings.Replace(whole, "\x01", "\x00", 1), "format is version 0, this is version 1"},
		{"a later version", strings.Replace(whole, "\x01", "\x02", 1), "format is version 2, this is version 1"},
		{"no attempt", of(func(s *stored) { s.record.Attempt = 0 }), "attempt"},
		{"no state", of(func(s *stored) { s.record.State = 0 }), "state is 0"},
		{"a tombstone", of(func(s *stored) { s.record.State = storage.Expired }), "state is 5"},
		{"unknown state", of(func(s *stored) { s.record.State = 7 }), "state is 7"},
		{"no status", of(func(s *stored) { s.record.Status = 0 }), "status is 0"},
		{"status too low", of(func(s *stored) { s.record.Status = 99 }), "status is 99"},
		{"status too high", of(func(s *stored) { s.record.Status = 1000 }), "status is 1000"},
		{"status of too many bytes", of(func(s *stored) { s.record.Status = -1 }), "too large"},
		{"unknown operation", of(func(s *stored) { s.record.Header[0].Op = storage.Sealed + 1 }), "too large"},
		{"kept for no time", of(func(s *stored) { running(s); s.retain, s.lease = 0, 0 }), "kept for 0s"},
		{"lease longer than the record", of(func(s *stored) { running(s); s.retain = time.Second }), "kept for 1s"},
		{"remembered for too long", of(func(s *stored) { running(s); s.remember = math.MaxInt64 - time.Minute }), "remembered for 2"},
		{"remembered for far too long", whole[:prefixSize+1] + huge + whole[prefixSize+2:], "too large"},
		{"size of no int", whole[:prefixSize+2] + strings.Repeat("\xff", 9) + "\x01" + whole[prefixSize+3:], "too large"},
		{"size larger than the value", whole[:prefixSize+2] + uvarint(math.MaxInt) + whole[prefixSize+3:], "bytes are not as many"},
		{"number without an end", whole[:prefixSize+1] + strings.Repeat("\xff", 20), "too large"},
		{"more header fields than bytes", strings.Replace(whole, "\x01\x00\x01A", huge+"\x00\x01A", 1), "bytes are not as many"},
		{"name longer than the value", strings.Replace(whole, "\x01A", huge+"A", 1), "bytes are not as many"},
	}
	for _, test := range tests {
		_, err := decode([]byte(test.value))
		if !errors.Is(err, storage.ErrCorruptRecord) || !strings.Contains(err.Error(), test.mentions) {
			t.Errorf("%s: decode returned %v, want ErrCorruptRecord and a text about %s", test.name, err, test.mentions)
		}
	}
}

func TestFingerprintsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, fingerprint := range []string{
		usualFingerprint, "", "sha256:", "sha256:f", strings.ToUpper(usualFingerprint), "sha256:" + strings.Repeat("AB", 32),
		"sha256:" + strings.Repeat("z", 64), "sha256:" + strings.Repeat("/", 64), usualFingerprint + "0", strings.Repeat("x", 32), "價", "\xff", strings.Repeat("long", 5000),
	} {
		l := someLease()
		l.Fingerprint, l.Attempt = fingerprint, 1<<63
		held, err := decode(encodeClaim(&l, someTime))
		if err != nil || held.record.Fingerprint != fingerprint || held.record.Attempt != l.Attempt || held.token != l.Token {
			t.Errorf("decode returned %+v and %v, want %+v", held, err, l)
		}
	}
}

// A small part of a value must not keep a large body in memory.
func TestTextsBesideALargeBody(t *testing.T) {
	t.Parallel()
	l := someLease()
	l.Origin.Route = "POST /payments"
	for size, shared := range map[int]bool{300: true, 1 << 20: false} {
		value := encodeResult(l, storage.Result{State: storage.Completed, Status: 201, Body: make([]byte, size)}, someTime)
		held, err := decode(value)
		must := bytes.Index(value, []byte(l.Origin.Route))
		value[must] = 'X' // no program does that
		if got := held.record.Origin.Route; err != nil || (got[0] == 'X') != shared {
			t.Errorf("beside a body of %d bytes the route is %q, %v; shared with the value: want %t", size, got, err, shared)
		}
	}
}

func usualValues() map[string][]byte {
	l := someLease()
	remembered := l
	remembered.Remember, remembered.Steps = time.Hour, "charge\n"
	from := l
	from.Origin, from.Age = storage.Origin{Route: "POST /payments", Holder: "pod-é", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0", Program: "1f00ba42"}, time.Second
	header := storage.Header{{Name: "Content-Type", Value: "application/json"}, {Op: storage.Delete, Name: "Server"}, {Name: "X", Value: "\xff"}}
	return map[string][]byte{
		"a claim":                 encodeClaim(&l, someTime),
		"a remembered claim":      encodeClaim(&remembered, someTime),
		"a claim of an origin":    encodeClaim(&from, someTime),
		"a response of an origin": encodeResult(from, storage.Result{State: storage.Failed, Status: 400, Header: header, Body: []byte("{}"), Retain: time.Hour}, someTime),
		"a released key":          encodeReleased(l, someTime),
		"released with steps":     encodeReleased(remembered, someTime),
		"a response":              encodeResult(l, storage.Result{State: storage.Completed, Status: 201, Header: header[:1], Body: []byte("{}")}, someTime),
		"a bare response":         encodeResult(l, storage.Result{State: storage.Failed, Status: 400}, someTime),
		"a sketched response":     encodeResult(l, storage.Result{State: storage.Unreplayable, Status: 200, Sketch: []byte("sketch")}, someTime),
		"a short value":           encodeRemembered(l, storage.Result{State: storage.Completed, Status: 201, Remember: time.Hour}),
	}
}

func FuzzResult(f *testing.F) {
	f.Add("token of 16 byte", uint64(1), "sha256:f", 200, uint8(0), "Name", "value", []byte("body"))
	f.Add("", uint64(0), "", 100, uint8(2), "\xff", "\x00\n\r\u2028\ufffd", []byte("\n\x00\xff"))
	f.Fuzz(func(t *testing.T, token string, attempt uint64, fingerprint string, status int, operation uint8, name, value string, body []byte) {
		l := storage.Lease{Claim: storage.Claim{Fingerprint: fingerprint}, Attempt: max(attempt, 1)}
		copy(l.Token[:], token)
		copy(l.Digest[:], name)
		res := storage.Result{
			State: storage.Failed, Status: minStatus + int(uint(status)%900), Body: body, Sketch: []byte("\x00" + value),
			Header: storage.Header{{Op: storage.FieldOp(operation % 3), Name: name, Value: value}, {Name: value, Value: name}},
		}
		got, err := decode(encodeResult(l, res, someTime))
		testkit.Must(t, err)
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
	f.Add([]byte(mark))
	f.Fuzz(func(t *testing.T, value []byte) {
		held, err := decode(value)
		if err != nil {
			if !errors.Is(err, storage.ErrCorruptRecord) {
				t.Errorf("decode returned %v, want ErrCorruptRecord", err)
			}
			return
		}
		r := held.record
		if r.State == storage.Expired || isFinished(r.State) && (r.Status < minStatus || r.Status > maxStatus) || r.Attempt < 1 {
			t.Errorf("a record that cannot be was read: %+v", r)
		}
	})
}

// While a result waits for Redis, duplicates of the process read it. The race detector sees a write.
func TestEncodingWritesNothingOfAResult(t *testing.T) {
	t.Parallel()
	l := someLease()
	res := storage.Result{
		State: storage.Completed, Status: 201, Header: storage.Header{{Op: storage.Add, Name: "Vary", Value: "Origin"}}, Body: []byte("{}"), Sketch: []byte("s"),
		Retain: time.Hour, Remember: time.Hour,
	}
	testkit.Concurrently(2, func(int) { encodeResult(l, res, someTime); encodeRemembered(l, res) })
}
