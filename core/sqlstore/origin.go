package sqlstore

import (
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// encodeOrigin encodes an origin as one text of four lines, because each column of a
// row costs each replay some time. It is null for no origin.
func encodeOrigin(o storage.Origin) any {
	if o == (storage.Origin{}) {
		return nil
	}
	lines := [...]string{escaped(o.Route), escaped(o.Holder), escaped(o.KeyHash), escaped(o.Trace)}
	return strings.Join(lines[:], "\n")
}

// decodeOrigin is the inverse of encodeOrigin, for an empty text too.
func decodeOrigin(o *storage.Origin, encoded string) (err error) {
	rest := encoded
	for _, text := range []*string{&o.Route, &o.Holder, &o.KeyHash, &o.Trace} {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if *text, err = unescaped(line); err != nil {
			return corrupt("its origin is %s", excerpt(encoded))
		}
	}
	return nil
}

// escaped returns the text in characters that every database encoding has, and without
// line breaks.
func escaped(text string) string {
	if isPlain(text) && !strings.Contains(text, `\`) {
		return text
	}
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}

func unescaped(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	return strconv.Unquote(`"` + text + `"`)
}
