package fingerprint_test

import (
	"bytes"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

// sketchOf returns a sketch of r, nil if there is none.
func sketchOf(r fingerprint.Request, x *fingerprint.Exclusion, key [16]byte) []byte {
	reading := fingerprint.Read(r, x)
	defer reading.Close()
	return reading.AppendSketch(nil, key)
}

func TestReading(t *testing.T) {
	t.Parallel()
	x := exclude(t, "nonce")
	testkit.Each(t, map[string]fingerprint.Request{
		"empty request": {},
		"JSON":          jsonRequest(`{"nonce":1,"b":[{"d":1,"c":2}],"a":"x"}`),
		"not JSON":      jsonRequest(`{"b":1,"a":2`),
		"query":         {RawQuery: "b=1&a=2&nonce=3"},
		"query and raw": {RawQuery: "b=1&a=2", ContentType: "text/plain", Body: []byte("b=1")},
		"form":          formRequest("b=1&a=2&nonce=3"),
		"multipart":     multipartRequest(part("b", field("a"), "1")),
		"much":          jsonRequest(string(hill(1 << 12))),
	}, func(t *testing.T, r fingerprint.Request) {
		reading := fingerprint.Read(r, x)
		defer reading.Close()
		want := fingerprint.Of(r, x)
		for range 2 { // neither spoils the other
			if got := reading.AppendFingerprint([]byte("before ")); string(got) != "before "+want {
				t.Errorf("got %s, want %s", got, want)
			}
			sketch := reading.AppendSketch([]byte("before "), sketchKey)
			if !bytes.Equal(sketch, append([]byte("before "), sketchOf(r, x, sketchKey)...)) || len(sketch) > 7+fingerprint.MaxSketch {
				t.Errorf("got the sketch %x", sketch)
			}
			if names, missing := differencesFrom(sketch[7:], r, x, sketchKey); len(names) > 0 || missing > 0 {
				t.Errorf("differs from itself in %q and %d missing", names, missing)
			}
		}
		testkit.Equal(t, len(want), fingerprint.Size, "bytes of a fingerprint")
	})
}

// Two readings can be open at a time, for two concurrent requests.
func TestReadingsAreApart(t *testing.T) {
	t.Parallel()
	first, second := jsonRequest(`{"b":1,"a":2}`), jsonRequest(`{"d":3,"c":4}`)
	one, other := fingerprint.Read(first, nil), fingerprint.Read(second, nil)
	defer one.Close()
	defer other.Close()
	testkit.Equal(t, string(one.AppendFingerprint(nil)), fingerprint.Of(first, nil), "string(one.AppendFingerprint(nil))")
	if names, missing := differencesFrom(one.AppendSketch(nil, sketchKey), second, nil, sketchKey); len(names) != 2 || missing != 2 {
		t.Errorf("got %q and %d missing, want two each", names, missing)
	}
}
