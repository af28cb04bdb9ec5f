package fingerprint_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 61: encoding/json gives a field to the last member whose name folds to the
// field's, so the order of such members is part of the request.
func TestMembersThatDifferInCaseKeepTheirOrder(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("n", 20)
	for _, names := range [][2]string{
		{"amount", "Amount"},
		{"a", "A"},
		{"k", "\u212a"},
		{"K", "\u212a"},
		{"s", "\u017f"},
		{"S", "\u017f"},
		{"ä", "Ä"},
		{"å", "\u212b"},
		{"ß", "\u1e9e"},
		{"µ", "\u03bc"},
		{"ς", "Σ"},
		{"ω", "\u2126"},
		{"\U00010400", "\U00010428"},
		{"ǅ", "ǆ"},
		{"\xff", "\ufffd"},
		{`\ud800`, "\ufffd"},
		{`\udfff`, "\xfe"},
		{`a\"`, `A\"`},
		{`a\\b`, `A\\B`},
		{pad + "k", pad + "\u212a"},
		{pad + "ä" + pad, pad + "Ä" + pad},
		{pad + "a" + pad, pad + "A" + pad},
		{"ä" + pad + "a", "Ä" + pad + "A"},
		{"bank", "ban\u212a"},
		{"sessions", "\u017fe\u017f\u017fion\u017f"},
		{"12345678k", "12345678\u212a"},
	} {
		t.Run(fmt.Sprintf("%q", names), func(t *testing.T) {
			t.Parallel()
			for _, around := range []string{"", `"zz":0,"!":1,"m":2,`, many(20)} {
				first := "{" + around + pair(names[0], 1) + "," + pair(names[1], 100) + "}"
				second := "{" + around + pair(names[1], 100) + "," + pair(names[0], 1) + "}"
				same := "{" + pair(names[0], 1) + "," + around + pair(names[1], 100) + "}"
				if ofJSON([]byte(first), nil) == ofJSON([]byte(second), nil) {
					t.Errorf("%s and %s are equal", first, second)
				}
				testkit.Equal(t, ofJSON([]byte(first), nil), ofJSON([]byte(same), nil), "%s and %s differ", first, same)
			}
		})
	}
	for _, names := range [][2]string{{"a", "b"}, {"ä", "a"}, {"ä", "ö"}, {"i", "ı"}, {"I", "İ"}, {"ss", "ß"}, {"a_b", "ab"}, {"\u212a", "l"}, {"12345678ä", "12345678ö"}} {
		first := "{" + pair(names[0], 1) + "," + pair(names[1], 2) + "}"
		second := "{" + pair(names[1], 2) + "," + pair(names[0], 1) + "}"
		testkit.Equal(t, ofJSON([]byte(first), nil), ofJSON([]byte(second), nil), "%s and %s differ", first, second)
	}
}

// pair returns a member with this spelling of the name.
func pair(name string, value int) string { return `"` + name + `":` + strconv.Itoa(value) }

// many returns unordered members, enough for the sort of long lists.
func many(count int) string {
	var members strings.Builder
	for i := range count {
		fmt.Fprintf(&members, `"%c%d":0,`, 'a'+i*7%26, i)
	}
	return members.String()
}

// Case 61: documents with equal fingerprints are equal to encoding/json, in a struct
// and in a map.
func TestEqualFingerprintsDecodeAlike(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	type target struct {
		K  any `json:"k"`
		S  any `json:"Sums"`
		A  any `json:"ä"`
		O  any `json:"åÖ"`
		R  any `json:"\ufffd"`
		L  any `json:"averylongname"`
		LA any `json:"averylongnamä"`
	}
	names := []string{
		"k", "K", "\u212a", "sums", "Sums", "\u017fUM\u017f", "ä", "Ä", "åÖ", "Åö", "\u212bö", "\xff", "\ufffd", `\ud800`,
		"averylongname", "AVeryLongName", "averylongnamä", "aVERYlongnamÄ", "averylongnamö",
	}
	random := randomGenerator(t)
	seen := map[string][]any{}
	for range 20_000 {
		var members []string
		for range 1 + random.IntN(3) {
			members = append(members, pair(names[random.IntN(len(names))], random.IntN(3)))
		}
		if random.IntN(4) == 0 {
			members = append(members, strings.TrimSuffix(many(20), ","))
		}
		document := "{" + strings.Join(members, ",") + "}"
		var fields target
		var all map[string]any
		testkit.Must(t, json.Unmarshal([]byte(document), &fields))
		testkit.Must(t, json.Unmarshal([]byte(document), &all))
		sum := ofJSON([]byte(document), nil)
		if before := seen[sum]; before != nil && !reflect.DeepEqual(before[1:], []any{fields, all}) {
			t.Fatalf("%s has the fingerprint of %s, and decodes to %v and %v, not %v", document, before[0], fields, all, before[1:])
		}
		seen[sum] = []any{document, fields, all}
	}
}

// Case 61: the table agrees with package unicode on every rune.
func TestFoldOfEveryRune(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	for char := rune(0x80); char <= unicode.MaxRune; char++ {
		next := unicode.SimpleFold(char)
		if next == char || char == 0xfffd || 0xd800 <= char && char < 0xe000 {
			continue
		}
		first, second := fmt.Sprintf(`{"%c":1,"%c":2}`, char, next), fmt.Sprintf(`{"%c":2,"%c":1}`, next, char)
		if ofJSON([]byte(first), nil) == ofJSON([]byte(second), nil) {
			t.Errorf("%s and %s are equal", first, second)
		}
	}
}

// Case 32 for names that need folding: names of one fold, which are compared to the
// end pair by pair, cost little more than as many names of one spelling.
func BenchmarkFoldedNames(b *testing.B) {
	for name, body := range foldAttacks() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				ofJSON(body, nil)
			}
		})
	}
}

func foldAttacks() map[string][]byte {
	attack := func(count, length int, variants ...string) []byte {
		random := rand.New(rand.NewPCG(1, 2))
		var document strings.Builder
		for i := range count {
			document.WriteString(`,"`)
			for range length {
				document.WriteString(variants[random.IntN(len(variants))])
			}
			fmt.Fprintf(&document, `%06d":1`, count-i)
		}
		return []byte("{" + document.String()[1:] + "}")
	}
	return map[string][]byte{
		"ASCII short":  attack(40_000, 10, "a", "A"),
		"ASCII long":   attack(1000, 1000, "a", "A"),
		"umlaut short": attack(40_000, 8, "ä", "Ä"),
		"umlaut long":  attack(1000, 500, "ä", "Ä"),
		"umlaut few":   attack(12, 40_000, "ä", "Ä"),
		"escapes":      attack(1000, 160, `\ud800`, "\xff"),
		"one spelling": attack(40_000, 10, "a"),
	}
}
