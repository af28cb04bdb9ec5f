// Package storedorigin encodes the origin of a record for a database: as one text, because
// each column of a row costs each replay some time.
package storedorigin

import (
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/internal/storedheader"
	"github.com/oncekey/oncekey/core/storage"
)

// Encode returns the origin as four lines, or "" for no origin.
func Encode(o storage.Origin) string {
	if o == (storage.Origin{}) {
		return ""
	}
	lines := [...]string{Escape(o.Route), Escape(o.Holder), Escape(o.KeyHash), Escape(o.Trace)}
	return strings.Join(lines[:], "\n")
}

// Decode is the inverse of Encode. It returns false for a text that Encode cannot return.
func Decode(encoded string) (o storage.Origin, readable bool) {
	rest := encoded
	for _, text := range []*string{&o.Route, &o.Holder, &o.KeyHash, &o.Trace} {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		var err error
		if *text, err = unescape(line); err != nil {
			return storage.Origin{}, false
		}
	}
	return o, true
}

// Escape returns the text in characters that every database encoding has, and without
// line breaks.
func Escape(text string) string {
	if storedheader.IsPrintable(text) && !strings.Contains(text, `\`) {
		return text
	}
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}

func unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	return strconv.Unquote(`"` + text + `"`)
}
