package fingerprint

import "testing"

// The expected values are those of the reference implementation of SipHash-1-3.
func TestSipHash(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"":                0xd1fba762150c532c,
		"siphash":         0x8264ceeccb16bcbe,
		"digest-sip_hash": 0xce31007e34130c0a,
	} {
		padded := []byte("01234567" + text + `"1234567`)
		if got := sipHashOf([16]byte{}).absorb(padded, 8, 8+len(text)).sum(); got != want {
			t.Errorf("%q: got %x, want %x", text, got, want)
		}
		absorbed, quotation := sipHashOf([16]byte{}).absorbString(padded, 8)
		if quotation != 8+len(text) {
			t.Errorf("%q: the string ends at %d, want %d", text, quotation, 8+len(text))
		}
		if got := absorbed.sum(); len(text) < wordSize && got != want {
			t.Errorf("%q as a string: got %x, want %x", text, got, want)
		}
	}
}

// Equal strings have equal hashes and different strings different hashes, for any text
// after the string and any position of an escape.
func TestSipHashOfStrings(t *testing.T) {
	t.Parallel()
	seen := map[uint64]string{}
	for _, text := range []string{
		"", "a", "\x00", "\x00\x00", "1234567", "12345678", "12345678\x00", "12345678\b", "123456789", "12345678\x01\x00",
		`\"`, `\\`, `\\\\`, `1234567\"`, `123456\"8`, `12345678\"`, `1234567\"12345678901234567`, `1234567\\12345678901234567`, `\ud800 12345678`,
	} {
		var hashes [2]uint64
		for i, behind := range []string{`"}}}}}}}}`, `":"\",\\\"`} {
			whole := []byte(`01234567` + text + behind)
			absorbed, quotation := sipHashOf([16]byte{1}).absorbString(whole, 8)
			if quotation != 8+len(text) {
				t.Errorf("%q: the string ends at %d, want %d", text, quotation, 8+len(text))
			}
			hashes[i] = absorbed.sum()
		}
		if hashes[0] != hashes[1] {
			t.Errorf("%q: %x and %x", text, hashes[0], hashes[1])
		}
		if other, found := seen[hashes[0]]; found {
			t.Errorf("%q and %q have the same hash", text, other)
		}
		seen[hashes[0]] = text
	}
}

// A path of two steps, a path of one step and a value have different hashes.
func TestSipHashOfSteps(t *testing.T) {
	t.Parallel()
	text := []byte("01234567" + "12345678" + "abcdefgh" + "ABCDEFGH")
	from := sipHashOf([16]byte{1})
	seen := map[uint64]int{}
	for i, absorbed := range []sipHash{
		from.absorb(text, 8, 24),
		from.absorb(text, 8, 16).absorb(text, 16, 24),
		from.absorb(text, 8, 16).then(nameMark).absorb(text, 16, 24),
		from.absorb(text, 8, 16).then(indexMark).absorb(text, 16, 24),
		from.absorb(text, 8, 16).then(valueMark).absorb(text, 16, 24),
		from.absorb(text, 8, 16).then(textMark).absorb(text, 16, 24),
		from.absorb(text, 8, 16),
	} {
		sum := absorbed.sum()
		if other, found := seen[sum]; found {
			t.Errorf("%d and %d have the same hash", i, other)
		}
		seen[sum] = i
	}
}
