package fingerprint

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// canonicalNumber returns the canonical spelling of a number.
func canonicalNumber(tb testing.TB, spelled string) string {
	tb.Helper()
	var b builder
	b.matcher.use(nil)
	if err := b.json([]byte(spelled)); err != nil {
		tb.Fatalf("%s: %v", spelled, err)
	}
	return string(b.draft.text)
}

func TestCanonicalNumbers(t *testing.T) {
	t.Parallel()
	for spelled, want := range map[string]string{
		"7": "7", "-7": "-7", "0": "0", "-0": "0", "-0.0e9": "0", "10": "10", "4200": "4200", "42000": "42e3", "-1000": "-1e3",
		"1e1": "10", "1e2": "100", "1e3": "1e3", "100e-2": "1", "19.90": "19.9", "1.5e1": "15", "1.5E+5": "15e4",
		"0.5": "0.5", "50e-2": "0.5", "0.50": "0.5", "-0.050": "-5z1", "5e-3": "5z2", "12e-2": "0.12", "10.0": "10", "20.10": "20.1", "500.000": "500", "-100": "-100", "12e-9": "12z7", "120e-9": "12z6",
		"1e999999999999999999": "1e999999999999999999", "10e999999999999999999": "1e1000000000000000000",
		"1.50E1000000000000000000": "1.50E1000000000000000000", "-5e-01000000000000000000": "-5e-01000000000000000000",
	} {
		if got := canonicalNumber(t, spelled); got != want {
			t.Errorf("%s is %s, want %s", spelled, got, want)
		}
	}
}

// The canonical spelling is never longer than another: the text has the capacity for the
// document alone.
func TestNumbersNeverGrow(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := rand.New(rand.NewPCG(seed, 0))
	digits := func() string {
		first := strconv.Itoa(g.IntN(1 << g.IntN(30)))
		return first + strings.Repeat(strconv.Itoa(g.IntN(2)), g.IntN(1<<g.IntN(10)))
	}
	for range 20_000 {
		spelled := "0"
		if g.IntN(3) > 0 {
			spelled = strconv.Itoa(1+g.IntN(9)) + digits()
		}
		if g.IntN(2) == 0 {
			spelled += "." + strings.Repeat("0", g.IntN(20)) + digits()
		}
		if g.IntN(2) == 0 {
			spelled += "e" + strconv.Itoa(g.IntN(1<<(1+g.IntN(20)))-g.IntN(1<<(1+g.IntN(20))))
		}
		if canonical := canonicalNumber(t, spelled); len(canonical) > len(spelled) {
			t.Errorf("%s became %s", spelled, canonical)
		}
	}
}
