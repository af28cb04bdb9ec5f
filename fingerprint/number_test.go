package fingerprint_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// sameNumber checks whether two numbers have one fingerprint, alone and inside an array.
func sameNumber(t *testing.T, a, b string, same bool) {
	t.Helper()
	for _, around := range []string{"%s", "[%s]", `{"a":%s,"b":1}`} {
		x, y := fmt.Sprintf(around, a), fmt.Sprintf(around, b)
		testkit.Equal(t, ofJSON([]byte(x), nil) == ofJSON([]byte(y), nil), same, "%.40s and %.40s are equal", x, y)
	}
}

// Case 77: numbers are compared by their exact decimal value.
func TestNumbersByValue(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 400)
	for _, equal := range [][]string{
		{"0", "-0", "0.0", "-0.000", "0e7", "0E+99999999999999999999", "0.0e-1"},
		{"1", "1.0", "10e-1", "0.1e1", "1e0", "1E-0", "1.000e+000"},
		{"100", "1e2", "1.00e2", "0.1e3", "1000e-1"},
		{"1000", "1e3", "1E+03", "100.0e1", "0.001e6"},
		{"42000", "42e3", "4.2e4", "420000e-1"},
		{"-19.9", "-19.90", "-1.99e1", "-199e-1", "-0.199E2"},
		{"0.5", "0.50", "5e-1", "0.05e1"},
		{"0.05", "5e-2", "50e-3", "0.5e-1"},
		{"0.000000001", "1e-9", "0.1e-8", "10e-10"},
		{"12.000000001", "12.0000000010", "12000000001e-9"},
		{"9007199254740993", "9007199254740993.0", "9007199254740.993e3"},
		{"9007199254740992", "9.007199254740992e15"},
		{"9007199254740993.1", "90071992547409931e-1"},
		{"1e999999999", "10e999999998", "0.1E1000000000", "1e00000999999999"},
		{"1e-999999999", "0.1e-999999998"},
		{nines + "e-200", nines[:200] + "." + nines[200:], "0." + nines + "e200"},
	} {
		for _, other := range equal {
			sameNumber(t, equal[0], other, true)
		}
	}
	different := []string{
		"0", "1", "-1", "10", "100", "1000", "1e4", "1e5", "0.1", "0.01", "0.001", "-0.1", "1.1", "11", "1.01", "101", "1.001",
		"5", "50", "0.5", "0.05", "5e20", "5e-20", "9007199254740992", "9007199254740993", "9007199254740992.5", "null", `"1"`, `"0.5"`, `"5z1"`, `"5e3"`,
		"0.1000000000000000055511151231257827", "1e308", "1e309", "1e400", "1e-400", "1e999999999", "1e999999998", "1e-999999999",
		"1e9999999999999999999", "1e9999999999999999998", "1e-9999999999999999999",
	}
	for i, a := range different {
		for j, b := range different {
			sameNumber(t, a, b, i == j)
		}
	}
	if absent, null := ofJSON([]byte(`{"a":1}`), nil), ofJSON([]byte(`{"a":1,"b":null}`), nil); absent == null {
		t.Error("null equals an absent member")
	}
}

// Exponents of any size take no more memory than their digits.
func TestHugeExponents(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	digits := strings.Repeat("7", 1<<20)
	for _, number := range []string{
		"1e999999999", "-1e-999999999", digits, digits + "e-999999999", "0." + digits + "e" + digits, "1e" + digits, "1e-" + strings.Repeat("0", 1<<20) + "7",
		"1" + strings.Repeat("0", 1<<20), "0." + strings.Repeat("0", 1<<20) + "1",
	} {
		sameNumber(t, number, number, true)
		sameNumber(t, number, "3"+strings.TrimPrefix(number, "-"), false)
	}
}

// checkNumbers checks that two numbers have one fingerprint if and only if big.Rat finds
// them equal.
func checkNumbers(t *testing.T, a, b string) {
	t.Helper()
	for _, number := range []string{a, b} {
		if n := parse([]byte(number)); n == nil || n.kind != 0 || !strings.ContainsAny(number, "0123456789") {
			return
		}
		sameNumber(t, number, number, true)
	}
	x, known := new(big.Rat).SetString(strings.TrimSpace(a))
	y, known2 := new(big.Rat).SetString(strings.TrimSpace(b))
	if known && known2 {
		sameNumber(t, a, b, x.Cmp(y) == 0)
	}
}

func TestRandomNumbers(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	g := randomGenerator(t)
	number := func() string {
		var spelled strings.Builder
		spelled.WriteString(pick(g, "", "", "-") + pick(g, "0", "1", "10", "12", "100", "1000", "42000", "9", "99"))
		if g.IntN(2) == 0 {
			spelled.WriteString("." + pick(g, "0", "1", "10", "01", "001", "000", "12", "120"))
		}
		if g.IntN(2) == 0 {
			spelled.WriteString(pick(g, "e", "E") + pick(g, "", "+", "-") + pick(g, "0", "1", "2", "3", "4", "01", "10", "100"))
		}
		return spelled.String()
	}
	for range 20_000 {
		checkNumbers(t, number(), number())
	}
}

func FuzzNumbers(f *testing.F) {
	for _, seed := range [][2]string{
		{"1.0", "10e-1"},
		{"-0", "0.0"},
		{"1000", "1e3"},
		{"0.05", "5e-2"},
		{"9007199254740993", "9007199254740992"},
		{"1e999999999", "1e999999998"},
		{"123.4500e-3", "0.12345"},
		{"1e99999999999999999999", "1"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(checkNumbers)
}
