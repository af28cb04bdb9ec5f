package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/policy"
)

// The example of RFC 9562, appendix A.6, and its time.
const exampleUUIDv7 = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"

var exampleTime = time.Date(2022, time.February, 22, 19, 22, 22, 0, time.UTC)

// The form is that of RFC 9562, sections 4 and 5.7.
var formOfUUIDv7 = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestTimeOfKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]time.Time{
		exampleUUIDv7:                          exampleTime,
		strings.ToLower(exampleUUIDv7):         exampleTime,
		"00000000-0000-7000-8000-000000000000": time.UnixMilli(0),
		"ffffffff-ffff-7fff-bfff-ffffffffffff": time.UnixMilli(1<<48 - 1),
		"01ARYZ6S41TSV4RRFFQ69G5FAV":           time.UnixMilli(1469918176385), // of the ULID specification
		"01aryz6s41tsv4rrffq69g5fav":           time.UnixMilli(1469918176385),
		"00000000000000000000000000":           time.UnixMilli(0),
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ":           time.UnixMilli(1<<48 - 1),
	} {
		if got, has := TimeOfKey(key); !has || !got.Equal(want) {
			t.Errorf("TimeOfKey(%q) = %v, %v, want %v", key, got, has, want)
		}
	}
	for name, key := range map[string]string{
		"none": "", "any key": "order-17", "a UUID of version 4": "8e03978e-40d5-43dd-bc93-6894a57f9324",
		"another variant": "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", "the variant of NCS": "017f22e2-79b0-7cc3-78c4-dc0c0c07398f",
		"without hyphens": "017f22e279b07cc398c4dc0c0c07398f", "in braces": "{" + exampleUUIDv7 + "}", "a longer one": exampleUUIDv7 + "0",
		"no hex digit":          "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
		"more than 128 bits":    "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"an I in the time":      "0IARYZ6S41TSV4RRFFQ69G5FAV",
		"a U at the end":        "01ARYZ6S41TSV4RRFFQ69G5FAU",
		"an L":                  "01ARYZ6S41TSV4RRFFQL9G5FAV",
		"an o":                  "01ARYZ6S41TSV4RRFFQo9G5FAV",
		"25 digits":             "01ARYZ6S41TSV4RRFFQ69G5FA",
		"27 digits":             "01ARYZ6S41TSV4RRFFQ69G5FAVV",
		"a hyphen in the time":  "01ARYZ6S4-TSV4RRFFQ69G5FAV",
		"a key of core.Derived": strings.Repeat("0", 64),
	} {
		if got, has := TimeOfKey(key); has {
			t.Errorf("%s: TimeOfKey(%q) = %v", name, key, got)
		}
	}
}

// The header counts only for a key without a time.
func TestAgeOfKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := func(age time.Duration) string { return time.Now().Add(-age).UTC().Format(http.TimeFormat) }
		v7 := func(age time.Duration) string {
			hex := fmt.Sprintf("%012x", time.Now().Add(-age).UnixMilli())
			return hex[:8] + "-" + hex[8:] + "-7cc3-98c4-dc0c0c07398f"
		}
		const forms = "k must be a UUID of version 7 or a ULID, or any other key with the header Repeatability-First-Sent"
		const future = " must not be from more than five minutes in the future"
		const date = "Repeatability-First-Sent must be given once, as an HTTP date such as Sun, 06 Nov 1994 08:49:37 GMT"
		for name, row := range map[string]struct {
			key   string
			lines []string
			want  time.Duration
			err   string
		}{
			"a key with a time":    {v7(time.Hour), nil, time.Hour, ""},
			"and a header":         {v7(time.Hour), []string{at(time.Minute)}, time.Hour, ""},
			"and a wrong header":   {v7(time.Hour), []string{"now", "now"}, time.Hour, ""},
			"a header":             {"order-17", []string{at(time.Hour)}, time.Hour, ""},
			"the form of RFC 850":  {"order-17", []string{time.Now().Add(-time.Hour).UTC().Format("Monday, 02-Jan-06 15:04:05 GMT")}, time.Hour, ""},
			"the form of asctime":  {"order-17", []string{time.Now().Add(-time.Hour).UTC().Format(time.ANSIC)}, time.Hour, ""},
			"neither":              {"order-17", nil, 0, forms},
			"no date":              {"order-17", []string{"yesterday"}, 0, date},
			"an empty header":      {"order-17", []string{""}, 0, date},
			"two headers":          {"order-17", []string{at(0), at(0)}, 0, date},
			"an early clock":       {v7(-5 * time.Minute), nil, -5 * time.Minute, ""},
			"a very early clock":   {v7(-5*time.Minute - time.Millisecond), nil, 0, "k" + future},
			"an early header":      {"order-17", []string{at(-5 * time.Minute)}, -5 * time.Minute, ""},
			"a very early header":  {"order-17", []string{at(-5*time.Minute - time.Second)}, 0, "Repeatability-First-Sent" + future},
			"the last time of all": {"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", nil, 0, "k" + future},
		} {
			age, err := AgeOfKey(row.key, "k", policy.KeySyntax{}, http.Header{FirstSentHeader: row.lines})
			if age != row.want || err == nil && row.err != "" || err != nil && err.Error() != row.err {
				t.Errorf("%s: %v, %v, want %v, %q", name, age, err, row.want, row.err)
			}
		}
		if _, err := AgeOfKey("order-17", "Call.Key", policy.UUIDKey, nil); err == nil || err.Error() != "Call.Key must be a UUID of version 7 or a ULID" {
			t.Errorf("a call's key: %v", err)
		}
	})
}

// Of each 48 bits of milliseconds both forms give the time back.
func FuzzTimeOfKey(f *testing.F) {
	for _, seed := range []string{exampleUUIDv7, "01ARYZ6S41TSV4RRFFQ69G5FAV", "order-17", "8e03978e-40d5-43dd-bc93-6894a57f9324", ""} {
		f.Add(seed, uint64(1469918176385))
	}
	f.Fuzz(func(t *testing.T, key string, millis uint64) {
		millis &= 1<<48 - 1
		ulid := []byte("0000000000TSV4RRFFQ69G5FAV")
		for i, rest := 9, millis; i >= 0; i, rest = i-1, rest>>5 {
			ulid[i] = crockford[rest%32]
		}
		hex := fmt.Sprintf("%012x", millis)
		for _, made := range []string{string(ulid), strings.ToUpper(string(ulid)), hex[:8] + "-" + hex[8:] + "-7000-a000-000000000000"} {
			if got, has := TimeOfKey(made); !has || got.UnixMilli() != int64(millis) {
				t.Errorf("TimeOfKey(%q) = %v, %v, want %d ms", made, got, has, millis)
			}
		}
		got, has := TimeOfKey(key)
		isV7 := formOfUUIDv7.MatchString(key)
		if has != (isV7 || isULID(key)) {
			t.Errorf("TimeOfKey(%q) = %v, %v", key, got, has)
		}
		if ms := got.UnixMilli(); has && (ms < 0 || ms >= 1<<48) {
			t.Errorf("TimeOfKey(%q) = %v, which is not of 48 bits", key, got)
		}
	})
}

func isULID(key string) bool {
	return len(key) == 26 && key[0] <= '7' && strings.Trim(key, "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz") == ""
}
