package fingerprint

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Strip returns the JSON document without the excluded fields, all else as it
// was, in memory of its own. The fingerprint of what it returns is the one of
// json with fields excluded. See [Exclude] for the notation of fields.
//
// It returns an error if a field is malformed, or if json is not valid, nested
// deeper than 512 levels or longer than 256 MiB.
func Strip(json []byte, fields []string) ([]byte, error) {
	x, err := Exclude(fields...)
	if err != nil {
		return nil, err
	}
	removals, err := findExcluded(json, x)
	if err != nil {
		return nil, fmt.Errorf("fingerprint: cannot strip: %w", err)
	}
	if len(removals) == 1 {
		if stripped, ok := deleteOne(json, removals[0]); ok {
			return stripped, nil
		}
	}
	return cut(json, removals), nil
}

// findExcluded returns what x excludes from json, in order and without overlap.
func findExcluded(json []byte, x *Exclusion) ([]removal, error) {
	if len(json) > maxCanonical {
		return nil, errTooLong
	}
	b := readings.Get().(*Reading)
	defer b.Close()
	b.matcher.use(x)
	w := walker{source: json, draft: &b.draft, matcher: &b.matcher, recording: true}
	err := w.walk()
	return w.removals, err
}

// cut returns a copy of json without the removals.
func cut(json []byte, removals []removal) []byte {
	rest := make([]byte, 0, len(json))
	from := 0
	for _, r := range removals {
		rest = append(rest, json[from:r.start]...)
		from = r.end
	}
	return append(rest, json[from:]...)
}

// deleteOne leaves the usual case, a single value at a plain path, to sjson.
//
// More is not for it: it deletes the first of several members of one name, in one
// pass over the document each, and has meanings of its own for : - and others.
// So it is asked only if it would find by that path the very value to be deleted.
func deleteOne(json []byte, r removal) ([]byte, bool) {
	document := string(json)
	value := gjson.Result{Index: r.value, Raw: document[r.value:r.valueEnd]}
	path := value.Path(document)
	if !isPlainPath(path) || find(document, path) != r.value {
		return nil, false
	}
	stripped, err := sjson.DeleteBytes(json, path)
	return stripped, err == nil
}

// isPlainPath reports whether path is short, for sjson reads a document once for each
// segment, and of characters that mean nothing but themselves.
func isPlainPath(path string) bool {
	const (
		maxSegments = 8
		plain       = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
	)
	return path != "" && strings.Trim(path, plain) == "" && strings.Count(path, ".") < maxSegments
}

// find returns the offset of the value at path, found as sjson does: segment by
// segment, where gjson would go back and try the next of several members of one
// name. It returns 0, where no value inside of a document is, if there is none.
func find(document, path string) int {
	offset := 0
	for segment := range strings.SplitSeq(path, ".") {
		found := gjson.Get(document, segment)
		if found.Index == 0 {
			return 0
		}
		offset += found.Index
		document = found.Raw
	}
	return offset
}
