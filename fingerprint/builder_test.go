package fingerprint

import (
	"fmt"
	"strings"
	"testing"
)

// Moving members writes a few bytes past the text. The buffers of a new builder
// always have the capacity.
func TestSpareBytesAfterForms(t *testing.T) {
	t.Parallel()
	for length := range 300 {
		name, value := strings.Repeat("n", length), strings.Repeat("v", length)
		form := fmt.Sprintf("c%[1]s=%[2]s&b%[1]s=%[2]s&a=", name, value)
		var b builder
		b.matcher.use(nil)
		if !b.form([]byte(form)) {
			t.Errorf("%q is not read", form)
		}
		if text := string(b.draft.text); length < 100 && !strings.HasPrefix(text, "d\x01ad\x00,") {
			t.Errorf("%q became %q", form, text)
		}
	}
}

// JSON needs the same spare bytes, because a survey reads whole words.
func TestSpareBytesAfterJSON(t *testing.T) {
	t.Parallel()
	for length := range 600 {
		text := strings.Repeat("x", length)
		for _, body := range []string{`{"b":"` + text + `","a":1}`, `{"b":"` + strings.Repeat("x", small) + `","a":"` + text + `"}`, `{"a":"` + text + `"}`, `{"` + text + `":1}`} {
			var fresh Reading
			fresh.read(&Request{ContentType: jsonType, Body: []byte(body)}, nil)
			if sketch := fresh.AppendSketch(nil, [16]byte{}); len(sketch) == 0 {
				t.Errorf("no sketch of %s", body)
			}
		}
	}
}

// The matcher's stacks shrink when the walker leaves an element.
func TestMatcherLeavesPlaces(t *testing.T) {
	t.Parallel()
	x, err := Exclude("items.*.meta.*.nonce")
	if err != nil {
		t.Fatal(err)
	}
	var fresh Reading
	fresh.read(&Request{ContentType: jsonType, Body: []byte(`{"items":[` + strings.Repeat(`{"meta":[{"a":1},{"nonce":1}]},`, 100) + `1]}`)}, x)
	if m := &fresh.matcher; len(m.places) != 2 || len(m.alive) != 1 { // nowhere and the root
		t.Errorf("%d places and %d paths are left, want those of the root", len(m.places), len(m.alive))
	}
}
