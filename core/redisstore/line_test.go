package redisstore

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// What is read by hand is what encoding/json makes of it.
func FuzzLineIsReadLikeJSON(f *testing.F) {
	for _, value := range usualValues() {
		f.Add(strings.SplitAfter(string(value), "\n")[0])
	}
	f.Add(`{"token":"","state":"","v":00,"attempt":0,"at":"","size":0}`)
	f.Add(`{"token":"","state":"","v":1,"attempt":1,"at":"\u0041","size":0}`)
	f.Add(`{"token":"","state":"","v":1,"attempt":1,"digest":"D100000000000000000000000000009E","at":"","size":0}`)
	f.Add(`{"token":"","state":"","v":1,"attempt":1,"lease_ms":9223372036854775808,"at":"","size":0}`)
	f.Add(`{"token":"","state":"","v":1,"attempt":1,"at":"","headers":[["a"],["b","c"]],"sketch":"","size":0}{}`)
	f.Fuzz(func(t *testing.T, first string) {
		first = strings.TrimSuffix(first, "\n")
		var got, want line
		if !got.read(first) {
			return
		}
		if err := json.Unmarshal([]byte(first), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v\nwant %+v, %v", first, got, want, err)
		}
	})
}

// What is written by hand is what encoding/json writes.
func FuzzLineIsWrittenLikeJSON(f *testing.F) {
	f.Add("abcd", uint64(1), true, "sha256:f", int64(30000), 201, "Content-Type", "application/json", []byte("sketch"), 3)
	f.Add("\"\\\n", uint64(0), false, "", int64(-1), 0, "\xff", "\u2028<&>é", []byte(nil), -1)
	f.Fuzz(func(t *testing.T, token string, attempt uint64, tookOver bool, fingerprint string, lease int64, status int, name, value string, sketch []byte, size int) {
		l := line{
			Token: token, State: "completed", Version: version, Attempt: attempt, TookOver: tookOver, Fingerprint: fingerprint,
			Digest: digest{0: byte(lease), 15: byte(status)}, LeaseMS: lease, RetainMS: lease / 2, At: value, Status: status, Sketch: sketch, Size: size,
			Headers: [][]string{{"set", name, value}, {"add", value, name, "base64"}, {}}[:uint(status)%4],
		}
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(l); err != nil {
			t.Fatal(err)
		}
		if got := l.appendTo(nil); string(got) != want.String() {
			t.Errorf("it is written as %s\nwant %s", got, want.String())
		}
	})
}

// Lines without escapes, as all usual ones are, do without encoding/json.
func TestUsualLinesAreReadByHand(t *testing.T) {
	t.Parallel()
	for name, value := range usualValues() {
		first, _, _ := bytes.Cut(value, []byte{'\n'})
		var got, want line
		if !got.read(string(first)) {
			t.Errorf("%s is left to encoding/json: %s", name, first)
		}
		if err := json.Unmarshal(first, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v\nwant %+v, %v", name, got, want, err)
		}
	}
}

// A line with escapes is as good, and so is one that somebody has edited.
func TestUnusualLinesAreReadToo(t *testing.T) {
	t.Parallel()
	l := someLease()
	l.Fingerprint = "é\"\\"
	for name, value := range map[string]string{
		"escapes": string(encodeClaim(l, someTime)),
		"spaces":  strings.Replace(string(encodeClaim(l, someTime)), `,"v":1`, `, "v": 1`, 1),
		"order":   strings.Replace(string(encodeClaim(l, someTime)), `,"v":1,"attempt":2`, `,"attempt":2,"v":1`, 1),
	} {
		held, err := decode([]byte(value))
		if err != nil || held.record.Fingerprint != l.Fingerprint || held.record.Attempt != 2 || held.lease != l.TTL {
			t.Errorf("%s: decode returned %+v and %v", name, held, err)
		}
	}
}

func usualValues() map[string][]byte {
	l := someLease()
	header := storage.Header{{Name: "Content-Type", Value: "application/json"}, {Op: storage.Delete, Name: "Server"}, {Name: "X", Value: "\xff"}}
	return map[string][]byte{
		"a claim":           encodeClaim(l, someTime),
		"a released key":    encodeReleased(l, someTime),
		"an answer":         encodeResult(l, storage.Result{State: storage.Completed, Status: 201, Header: header, Body: []byte("{}")}, someTime),
		"a bare answer":     encodeResult(l, storage.Result{State: storage.Failed, Status: 400}, someTime),
		"a sketched answer": encodeResult(l, storage.Result{State: storage.Unreplayable, Status: 200, Sketch: []byte("sketch")}, someTime),
	}
}

func BenchmarkLine(b *testing.B) {
	value := usualValues()["an answer"]
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = decode(value)
		}
	})
	b.Run("encode a claim", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encodeClaim(someLease(), someTime)
		}
	})
}
