package records

import (
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// OriginText returns the origin as five lines, or "" for no origin. It is one text, because
// each column of a database's row costs each replay some time.
func OriginText(o storage.Origin) string {
	if o == (storage.Origin{}) {
		return ""
	}
	lines := [...]string{Escape(o.Route), Escape(o.Holder), Escape(o.KeyHash), Escape(o.Trace), Escape(o.Program)}
	return strings.Join(lines[:], "\n")
}

// ParseOrigin is the inverse of OriginText. It returns false for a text that OriginText
// cannot return.
func ParseOrigin(encoded string) (o storage.Origin, readable bool) {
	rest := encoded
	for _, text := range []*string{&o.Route, &o.Holder, &o.KeyHash, &o.Trace, &o.Program} {
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
	if IsPrintable(text) && !strings.Contains(text, `\`) {
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
