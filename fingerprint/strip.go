package fingerprint

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Strip returns a copy of a JSON document without the excluded fields. All other text
// is unchanged. The fingerprint of the copy equals the fingerprint of json with the
// fields excluded. See [Exclude] for the notation of fields.
//
// Strip returns an error if a field is malformed, or if json is not valid, nested
// deeper than 512 levels or longer than 256 MiB.
func Strip(json []byte, fields []string) ([]byte, error) {
	x, err := Exclude(fields...)
	if err != nil {
		return nil, err
	}
	return x.Strip(json)
}

// Strip is the function Strip for compiled fields.
func (x *Exclusion) Strip(json []byte) ([]byte, error) {
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

// findExcluded returns the ranges that x excludes from json, in order and without
// overlap.
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

// deleteOne uses sjson for the usual case, a single value at a plain path.
//
// Other cases do not suit sjson: it deletes only the first of several members of one
// name, passes over the document once per deletion, and gives : - and other
// characters a meaning. deleteOne therefore checks that sjson would find exactly this
// value at the path.
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

// isPlainPath reports whether path is short and has only characters without a meaning
// for sjson. sjson reads a document once for each segment.
func isPlainPath(path string) bool {
	const (
		maxSegments = 8
		plain       = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
	)
	return path != "" && strings.Trim(path, plain) == "" && strings.Count(path, ".") < maxSegments
}

// find returns the offset of the value at path, or 0 if there is no value: no inner
// value begins at 0. It searches segment by segment, as sjson does. gjson would go
// back and try the next of several members of one name.
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
