package records_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/internal/records"
)

// Exactly the texts that encoding/hex writes are read as digits, and are written back
// unchanged.
func FuzzUnhex(f *testing.F) {
	digits := strings.Repeat("0123456789abcdef", 4)
	for _, one := range []string{digits, strings.ToUpper(digits), digits[1:] + "g", digits[1:] + "/", digits[1:] + ":", digits[1:] + "`", "\xff" + digits[1:], ""} {
		f.Add(one)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bytes, err := hex.DecodeString(text)
		want := err == nil && len(text) == 64 && hex.EncodeToString(bytes) == text
		raw, ok := records.Unhex(text)
		if ok != want {
			t.Fatalf("Unhex(%q) is %t, want %t", text, ok, want)
		}
		if again := hex.EncodeToString(raw[:]); ok && again != text {
			t.Errorf("Unhex(%q) is spelled %q", text, again)
		}
	})
}

// A fingerprint of another form is none, and any other is spelled as it was.
func TestRawFingerprint(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]bool{"sha256:" + digits: true, "sha256:" + digits[1:]: false, "sha512:" + digits: false, digits: false} {
		raw, ok := records.RawFingerprint(text)
		if ok != want || ok && records.SpellFingerprint(&raw) != text {
			t.Errorf("RawFingerprint(%q) is %t, want %t, and its text again", text, ok, want)
		}
	}
}
