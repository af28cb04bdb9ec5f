package redisstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// A line is read as encoding/json reads it. Only null differs, and a sketch that is a
// list of numbers: no version writes them.
func FuzzLineIsReadLikeJSON(f *testing.F) {
	for _, value := range usualValues() {
		first, _, _ := strings.Cut(string(value), "\n")
		f.Add(first)
		f.Add(first + "\n")
	}
	for _, seed := range editedLines() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, first string) {
		if strings.Contains(first, "null") || strings.Contains(first, "[") && strings.Contains(strings.ToLower(first), "etch") {
			return
		}
		checkReadLikeJSON(t, first)
	})
}

func TestEditedLinesAreReadLikeJSON(t *testing.T) {
	t.Parallel()
	for _, first := range editedLines() {
		checkReadLikeJSON(t, first)
	}
}

func checkReadLikeJSON(t *testing.T, first string) {
	t.Helper()
	var got, want line
	err := got.read(first)
	wantErr := json.Unmarshal([]byte(first), &want)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read as %+v, %v\nwant %+v, %v", first, got, err, want, wantErr)
	}
}

// editedLines differ from the lines that a store writes.
func editedLines() []string {
	const beginning = `{"token":"","state":"","v":1,"attempt":1,`
	const usual = `{"token":"t","state":"s","v":`
	return []string{
		usual + `1,"attempt":1,"at":"x","size":0}`, usual + `01,"attempt":1,"size":0}`, usual + `+1,"attempt":1,"size":0}`, usual + `-1,"attempt":1,"size":-0}`,
		usual + `1,"attempt":1,"at":"\n","size":0}`, usual + `1,"attempt":1,"at":"` + "\xff" + `","size":0}`, usual + `1,"attempt":1,"size":0}}`,
		usual + `1,"attempt":1,"at":"","size":0}`, usual + `1,"attempt":1,"headers":[["a","b"],["c"]],"size":0}`, usual + `1,"attempt":1,"headers":[["a",]],"size":0}`,
		usual + `1,"attempt":1,"headers":[["a"],],"size":0}`, usual + `1,"attempt":1,"headers":[[]],"size":0}`, usual + `1,"attempt":1,"size":`, usual,
		``, `}`, `,"v":1}`, `[]`, `1`, `{}`, `{}{}`, `{"v":1`, " \t{ \"v\" : 1 } \n",
		beginning + `"at":"\u0041\ud83d\ude00\ud800\u0041","size":0}`,
		beginning + `"at":"` + "\xff\xfeé\xc3" + `","size":0}`,
		beginning + `"at":1}`, beginning + `"at":true}`, beginning + `"at":{"at":"x"}}`, beginning + `"took_over":1}`, beginning + `"took_over":false}`,
		beginning + `"digest":"D100000000000000000000000000009E"}`, beginning + `"digest":"d1"}`, beginning + `"digest":""}`, beginning + `"digest":[]}`,
		beginning + `"remember_ms":1,"REMEMBER_MS":2}`, beginning + `"remember_ms":"1"}`,
		beginning + `"age_ms":-1,"route":"r","holder":"","key_hash":"\n","trace":"t"}`, beginning + `"age_ms":"1"}`, beginning + `"route":1}`, beginning + `"holder":[]}`,
		beginning + `"lease_ms":9223372036854775807,"retain_ms":-9223372036854775808}`, beginning + `"lease_ms":9223372036854775808}`,
		beginning + `"status":1.0}`, beginning + `"status":1e2}`, beginning + `"status":-0}`, beginning + `"status":"1"}`, beginning + `"status":01}`,
		beginning + `"attempt":18446744073709551615}`, beginning + `"attempt":18446744073709551616}`, beginning + `"attempt":-1}`,
		beginning + `"headers":[["a"],["b","c"],[]],"headers":[["d","\n"]]}`, beginning + `"headers":[["a",1]]}`, beginning + `"headers":["a"]}`, beginning + `"headers":{"a":["b"]}}`,
		beginning + `"sketch":"AP8=","sketch":""}`, beginning + `"sketch":"AP8"}`, beginning + `"sketch":"A\nP8="}`, beginning + `"sketch":{}}`,
		beginning + `"v":2,"V":3,"\u0076":4}`, beginning + `"ATTEMPT":5,"ſtate":"s","toKen":"t","dİgest":1}`,
		beginning + `"new":{"v":2,"more":[{"size":1}]},"":0,"size":"}`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), `{"new":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
		`{"new":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	}
}

// MarshalText is for encoding/json, which writes the expected line.
func (d digest) MarshalText() ([]byte, error) { return d.appendTo(nil), nil }

// UnmarshalText is for encoding/json too.
func (d *digest) UnmarshalText(text []byte) error {
	read, ok := parseDigest(string(text))
	if *d = read; !ok {
		return errors.New("it is no digest")
	}
	return nil
}

// appendTo writes the same bytes as encoding/json.
func FuzzLineIsWrittenLikeJSON(f *testing.F) {
	f.Add("abcd", uint64(1), true, "sha256:f", int64(30000), 201, "Content-Type", "application/json", []byte("sketch"), 3)
	f.Add("\"\\\n", uint64(0), false, "", int64(-1), 0, "\xff", "\u2028<&>é", []byte(nil), -1)
	f.Fuzz(func(t *testing.T, token string, attempt uint64, tookOver bool, fingerprint string, lease int64, status int, name, value string, sketch []byte, size int) {
		l := line{
			Token: token, State: "completed", Version: version, Attempt: attempt, TookOver: tookOver, Fingerprint: fingerprint,
			Digest: digest{0: byte(lease), 15: byte(status)}, LeaseMS: lease, RetainMS: lease / 2, At: value, Status: status, Sketch: sketch, Size: size,
			AgeMS: lease / 3, RememberMS: lease / 5, Route: name, Holder: value, KeyHash: token, Trace: fingerprint,
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

func TestUsualLinesAreReadLikeJSON(t *testing.T) {
	t.Parallel()
	for _, value := range usualValues() {
		first, _, _ := bytes.Cut(value, []byte{'\n'})
		checkReadLikeJSON(t, string(first))
	}
}

// The store's own lines are read without a reader of JSON, except for texts that are
// empty or have escapes.
func TestUsualLinesAreUsual(t *testing.T) {
	t.Parallel()
	l := someLease()
	l.Origin = storage.Origin{Route: "POST /payments", Holder: "pod-1", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0"}
	l.Age, l.Remember = time.Second, time.Hour
	header := storage.Header{{Name: "Content-Type", Value: "application/json"}, {Op: storage.Add, Name: "X", Value: "\xff"}}
	response := storage.Result{State: storage.Completed, Status: 201, Header: header, Body: []byte("{}"), Retain: time.Hour, Sketch: []byte("sketch")}
	for _, value := range [][]byte{encodeClaim(&l, someTime), encodeReleased(l, someTime), encodeResult(l, response, someTime)} {
		first, _, _ := bytes.Cut(value, []byte{'\n'})
		var read line
		usual := read.readUsual(string(first))
		if other, err := readAny(string(first)); !usual || err != nil || !reflect.DeepEqual(read, other) {
			t.Errorf("%s\nis read as %+v (usual: %t)\nwant %+v, %v", first, read, usual, other, err)
		}
	}
}

// A line with escapes is as good, and so is a line that an operator has edited.
func TestUnusualLinesAreReadToo(t *testing.T) {
	t.Parallel()
	l := someLease()
	l.Fingerprint = "é\"\\"
	for name, value := range map[string]string{
		"escapes": string(encodeClaim(&l, someTime)),
		"spaces":  strings.Replace(string(encodeClaim(&l, someTime)), `,"v":1`, `, "v": 1`, 1),
		"order":   strings.Replace(string(encodeClaim(&l, someTime)), `,"v":1,"attempt":2`, `,"attempt":2,"v":1`, 1),
	} {
		held, err := decode([]byte(value))
		if err != nil || held.record.Fingerprint != l.Fingerprint || held.record.Attempt != 2 || held.lease != l.TTL {
			t.Errorf("%s: decode returned %+v and %v", name, held, err)
		}
	}
}

// isPlain reads words of eight bytes, so each byte must count at each place.
func TestIsPlain(t *testing.T) {
	t.Parallel()
	for size := range 20 {
		for place := range size {
			for c := range 256 {
				text := []byte(strings.Repeat("a", size))
				text[place] = byte(c)
				want := c >= ' ' && c <= '~' && c != '"' && c != '\\'
				if got := isPlain(string(text)); got != want {
					t.Errorf("isPlain(%q) is %t, want %t", text, got, want)
				}
			}
		}
	}
}

func usualValues() map[string][]byte {
	l := someLease()
	remembered := l
	remembered.Remember, remembered.Steps = time.Hour, "charge\n"
	from := l
	from.Origin, from.Age = storage.Origin{Route: "POST /payments", Holder: "pod-é", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0"}, time.Second
	header := storage.Header{{Name: "Content-Type", Value: "application/json"}, {Op: storage.Delete, Name: "Server"}, {Name: "X", Value: "\xff"}}
	return map[string][]byte{
		"a claim":                 encodeClaim(&l, someTime),
		"a remembered claim":      encodeClaim(&remembered, someTime),
		"a claim of an origin":    encodeClaim(&from, someTime),
		"a response of an origin": encodeResult(from, storage.Result{State: storage.Failed, Status: 400, Header: header, Body: []byte("{}"), Retain: time.Hour}, someTime),
		"a released key":          encodeReleased(l, someTime),
		"a response":              encodeResult(l, storage.Result{State: storage.Completed, Status: 201, Header: header[:1], Body: []byte("{}")}, someTime),
		"a bare response":         encodeResult(l, storage.Result{State: storage.Failed, Status: 400}, someTime),
		"a sketched response":     encodeResult(l, storage.Result{State: storage.Unreplayable, Status: 200, Sketch: []byte("sketch")}, someTime),
	}
}

func BenchmarkLine(b *testing.B) {
	value := usualValues()["a response"]
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = decode(value)
		}
	})
	first, _, _ := strings.Cut(string(value), "\n")
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var l line
			_ = l.read(first)
		}
	})
	b.Run("read any", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = readAny(first)
		}
	})
	b.Run("read by encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var l line
			_ = json.Unmarshal([]byte(first), &l)
		}
	})
	b.Run("encode a claim", func(b *testing.B) {
		b.ReportAllocs()
		l := someLease()
		for b.Loop() {
			encodeClaim(&l, someTime)
		}
	})
}
