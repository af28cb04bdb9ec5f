package redisstore

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// line is the first line of a value. Token and State come first: the scripts
// compare their bytes.
type line struct {
	Token       string `json:"token"`
	State       string `json:"state"`
	Version     int    `json:"v"`
	Attempt     uint64 `json:"attempt"`
	TookOver    bool   `json:"took_over,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Digest      digest `json:"digest,omitzero"`
	LeaseMS     int64  `json:"lease_ms,omitempty"`
	RetainMS    int64  `json:"retain_ms,omitempty"`
	// At is when the line was written by the writer's clock. It is for human
	// eyes: no program compares it.
	At     string `json:"at"`
	Status int    `json:"status,omitempty"`
	// Headers are fields of three words, operation, name and value, or of four.
	Headers [][]string `json:"headers,omitempty"`
	// Sketch stands in base64.
	Sketch []byte `json:"sketch,omitempty"`
	Size   int    `json:"size"`
}

// appendTo writes what encoding/json would, without HTML's escapes, and a newline.
// It is written out because each request writes a line, and reflection took half
// of the time.
func (l *line) appendTo(b []byte) []byte {
	b = appendText(append(b, `{"token":`...), l.Token)
	b = appendText(append(b, `,"state":`...), l.State)
	b = strconv.AppendInt(append(b, `,"v":`...), int64(l.Version), 10)
	b = strconv.AppendUint(append(b, `,"attempt":`...), l.Attempt, 10)
	if l.TookOver {
		b = append(b, `,"took_over":true`...)
	}
	if l.Fingerprint != "" {
		b = appendText(append(b, `,"fingerprint":`...), l.Fingerprint)
	}
	if l.Digest != (digest{}) {
		b = append(l.Digest.appendTo(append(b, `,"digest":"`...)), '"')
	}
	b = appendNumber(b, `,"lease_ms":`, l.LeaseMS)
	b = appendNumber(b, `,"retain_ms":`, l.RetainMS)
	b = appendText(append(b, `,"at":`...), l.At)
	b = appendNumber(b, `,"status":`, int64(l.Status))
	for i, field := range l.Headers {
		b = append(b, fieldStart(i)...)
		for j, word := range field {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendText(b, word)
		}
		b = append(b, ']')
	}
	if len(l.Headers) > 0 {
		b = append(b, ']')
	}
	if len(l.Sketch) > 0 {
		b = base64.StdEncoding.AppendEncode(append(b, `,"sketch":"`...), l.Sketch)
		b = append(b, '"')
	}
	b = strconv.AppendInt(append(b, `,"size":`...), int64(l.Size), 10)
	return append(b, '}', '\n')
}

// fieldStart is what stands before the words of a header field.
func fieldStart(i int) string {
	if i == 0 {
		return `,"headers":[[`
	}
	return `,[`
}

// appendNumber leaves zero out.
func appendNumber(b []byte, name string, number int64) []byte {
	if number == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), number, 10)
}

func appendText(b []byte, text string) []byte {
	if isPlain(text) {
		b = append(append(b, '"'), text...)
		return append(b, '"')
	}
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return append(b, strings.TrimSuffix(quoted.String(), "\n")...)
}

// isPlain reports whether JSON has the text as it is: as ASCII without escapes.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// read reads a line as appendTo writes it, where all text is plain, and reports
// false for any other, which encoding/json is left to judge.
func (l *line) read(first string) bool {
	r := reader{rest: first}
	l.Token = r.text(`{"token":"`)
	l.State = r.text(`,"state":"`)
	l.Version = int(r.number(`,"v":`, math.MaxInt32))
	l.Attempt = r.number(`,"attempt":`, math.MaxInt64)
	l.TookOver = r.skip(`,"took_over":true`)
	if r.sees(`,"fingerprint":`) {
		l.Fingerprint = r.text(`,"fingerprint":"`)
	}
	if r.sees(`,"digest":`) {
		r.failed = !l.Digest.read(r.text(`,"digest":"`)) || r.failed
	}
	if r.sees(`,"lease_ms":`) {
		l.LeaseMS = int64(r.number(`,"lease_ms":`, math.MaxInt64))
	}
	if r.sees(`,"retain_ms":`) {
		l.RetainMS = int64(r.number(`,"retain_ms":`, math.MaxInt64))
	}
	l.At = r.text(`,"at":"`)
	if r.sees(`,"status":`) {
		l.Status = int(r.number(`,"status":`, math.MaxInt32))
	}
	for r.sees(fieldStart(len(l.Headers))) {
		l.Headers = append(l.Headers, r.words(fieldStart(len(l.Headers))))
	}
	if len(l.Headers) > 0 {
		r.expect("]")
	}
	if r.sees(`,"sketch":`) {
		var err error
		l.Sketch, err = base64.StdEncoding.DecodeString(r.text(`,"sketch":"`))
		r.failed = r.failed || err != nil
	}
	l.Size = int(r.number(`,"size":`, math.MaxInt32))
	r.expect("}")
	return !r.failed && r.rest == ""
}

// reader goes through a line. Once it has failed, its answers mean nothing.
type reader struct {
	rest   string
	failed bool
}

func (r *reader) sees(start string) bool { return !r.failed && strings.HasPrefix(r.rest, start) }

func (r *reader) skip(start string) (found bool) {
	r.rest, found = strings.CutPrefix(r.rest, start)
	return found
}

func (r *reader) expect(start string) { r.failed = !r.skip(start) || r.failed }

// text reads plain text up to its closing quote; start ends in the opening one.
func (r *reader) text(start string) string {
	r.expect(start)
	text, rest, closed := strings.Cut(r.rest, `"`)
	r.failed = r.failed || !closed || !isPlain(text)
	r.rest = rest
	return text
}

// number reads a number that JSON allows and that is no larger than largest.
func (r *reader) number(start string, largest uint64) uint64 {
	r.expect(start)
	digits := 0
	for digits < len(r.rest) && '0' <= r.rest[digits] && r.rest[digits] <= '9' {
		digits++
	}
	number, err := strconv.ParseUint(r.rest[:digits], 10, 64)
	zeros := digits > 1 && r.rest[0] == '0'
	r.failed = r.failed || err != nil || zeros || number > largest
	r.rest = r.rest[digits:]
	return number
}

// words reads one header field.
func (r *reader) words(start string) []string {
	const usual = 3
	words := append(make([]string, 0, usual), r.text(start+`"`))
	for r.sees(`,`) {
		words = append(words, r.text(`,"`))
	}
	r.expect("]")
	return words
}
