package fingerprint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

// longHeaders are header values. Parsing takes hundreds of times as long as hashing.
func longHeaders(size int) map[string]string {
	repeated := func(format string) string {
		var all strings.Builder
		for i := 0; all.Len() < size; i++ {
			fmt.Fprintf(&all, format, i)
		}
		return all.String()[:size]
	}
	return map[string]string{
		"parameters": repeated("; p%d=v"),
		"continued":  repeated("; p*%d=v"),
		"encoded":    repeated("; p%d*=utf-8''%%41%%42"),
		"quoted":     repeated(`; p%d="\"\"\""`),
		"semicolons": strings.Repeat(";", size),
	}
}

// Case 61: a header of a megabyte is not parsed, because parsing makes garbage for
// each parameter. The header counts byte by byte.
func TestLongContentTypeIsNotParsed(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for name, parameters := range longHeaders(1 << 20) {
		for _, media := range []string{"application/json", "text/plain", "multipart/form-data; boundary=b"} {
			r := fingerprint.Request{ContentType: media + parameters, Body: []byte(`{"a":1}`)}
			if got := testing.AllocsPerRun(3, func() { fingerprint.Of(r, nil) }); got > 100 {
				t.Errorf("%s, %s: %v allocations", media, name, got)
			}
			other := r
			other.ContentType = "A" + r.ContentType[1:]
			if fingerprint.Of(r, nil) == fingerprint.Of(other, nil) {
				t.Errorf("%s, %s: the header does not count byte by byte", media, name)
			}
		}
	}
}

// Case 61: the same within a form.
func TestLongHeadersOfPartsAreNotParsed(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for name, parameters := range longHeaders(1 << 20) {
		for _, header := range []string{"Content-Disposition: form-data; name=a", "Content-Disposition: form-data; name=a\r\nContent-Type: text/plain"} {
			r := multipartRequest("--b\r\n" + header + parameters + "\r\n\r\nvalue\r\n")
			if got := testing.AllocsPerRun(3, func() { fingerprint.Of(r, nil) }); got > 200 {
				t.Errorf("%.20s, %s: %v allocations", header, name, got)
			}
		}
	}
}

// Case 61: many long headers cost no more than one header over the limit.
func TestHeadersOfAllPartsAreBounded(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for name, parameters := range longHeaders(4000) {
		part := "--b\r\nContent-Disposition: form-data; name=a" + parameters + "\r\n\r\n\r\n"
		few, many := multipartRequest(strings.Repeat(part, 32)), multipartRequest(strings.Repeat(part, 256))
		bounded := testing.AllocsPerRun(3, func() { fingerprint.Of(few, nil) })
		if got := testing.AllocsPerRun(3, func() { fingerprint.Of(many, nil) }); got > 2*bounded+100 {
			t.Errorf("%s: %v allocations for 256 parts, %v for 32", name, got, bounded)
		}
	}
}

func TestHeadersAreParsedUpToALimit(t *testing.T) {
	t.Parallel()
	pad := func(size int) string { return "text/plain; a=" + strings.Repeat("x", size-len("text/plain; a=")) }
	of := func(contentType string) string {
		return fingerprint.Of(fingerprint.Request{ContentType: contentType}, nil)
	}
	for size, same := range map[int]bool{4096: true, 4097: false} {
		contentType := pad(size)
		testkit.Equal(t, of(contentType) == of("TEXT"+contentType[4:]), same, "%d bytes: parsed", size)
	}
}
