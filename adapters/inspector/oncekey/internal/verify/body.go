package verify

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
)

// The functions of this file return another spelling of a JSON object, or another payload, and
// false where the body allows none. They change one place, and keep all other bytes.

// value is a member of an object, or an element of an array, in the bytes of both.
type value struct {
	begin, end           int // of the member with its name, or of the element
	valueBegin, valueEnd int
}

// valuesOf returns the members of an object or the elements of an array, and whether body is one.
func valuesOf(body []byte) (all []value, isObject, is bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	open, err := decoder.Token()
	isObject = open == json.Delim('{')
	if err != nil || !isObject && open != json.Delim('[') {
		return nil, false, false
	}
	for decoder.More() {
		var one value
		if isObject {
			before := int(decoder.InputOffset())
			if _, err := decoder.Token(); err != nil {
				return nil, false, false
			}
			one.begin = before + bytes.IndexByte(body[before:], '"')
		}
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil {
			return nil, false, false
		}
		one.valueEnd = int(decoder.InputOffset())
		one.valueBegin, one.end = one.valueEnd-len(raw), one.valueEnd
		if !isObject {
			one.begin = one.valueBegin
		}
		all = append(all, one)
	}
	return all, isObject, true
}

// isObject reports whether body is a JSON object.
func isObject(body []byte) bool {
	_, object, _ := valuesOf(body)
	return object && json.Valid(body)
}

// spliced returns body with its bytes from begin to end replaced.
func spliced(body []byte, begin, end int, by ...[]byte) []byte {
	return slices.Concat(body[:begin], bytes.Join(by, nil), body[end:])
}

// mostNested is the depth to which a place for a change is looked for: each level reads the
// ones below it again.
const mostNested = 16

// changeFirst replaces the first value for which change returns true, in the order of the text.
func changeFirst(body []byte, depth int, change func([]byte) ([]byte, bool)) ([]byte, bool) {
	if other, is := change(body); is {
		return other, true
	}
	all, _, _ := valuesOf(body)
	for _, one := range all {
		if depth == mostNested {
			break
		}
		if other, is := changeFirst(body[one.valueBegin:one.valueEnd], depth+1, change); is {
			return spliced(body, one.valueBegin, one.valueEnd, other), true
		}
	}
	return nil, false
}

// swapped exchanges the first two members or elements that differ.
func swapped(object bool) func([]byte) ([]byte, bool) {
	return func(body []byte) ([]byte, bool) {
		all, isObject, is := valuesOf(body)
		if !is || isObject != object {
			return nil, false
		}
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			first, second := body[a.begin:a.end], body[b.begin:b.end]
			if !bytes.Equal(first, second) {
				return spliced(body, a.begin, b.end, second, body[a.end:b.begin], first), true
			}
		}
		return nil, false
	}
}

func otherMemberOrder(body []byte) ([]byte, bool) { return changeFirst(body, 0, swapped(true)) }

func otherArrayOrder(body []byte) ([]byte, bool) { return changeFirst(body, 0, swapped(false)) }

var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// otherNumberSpelling writes the first integer n as n.0.
func otherNumberSpelling(body []byte) ([]byte, bool) {
	return changeFirst(body, 0, func(text []byte) ([]byte, bool) {
		return slices.Concat(text, []byte(".0")), integer.Match(text)
	})
}

// nullMember is the member that withNull adds.
const nullMember = `"oncekey_verify":null`

// withNull adds a member whose value is null.
func withNull(body []byte) ([]byte, bool) {
	all, _, _ := valuesOf(body)
	if len(all) == 0 {
		return []byte("{" + nullMember + "}"), true
	}
	last := all[len(all)-1].end
	return spliced(body, last, last, []byte(","+nullMember)), true
}

// malformed returns an object without its end, which is no JSON.
func malformed(body []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSpace(body), []byte("}"))
}

// OtherPayload returns body with another value of its first number, or of its first text if it has
// no number. It returns false if body is no JSON object with either.
func OtherPayload(body []byte) ([]byte, bool) {
	if !isObject(body) {
		return nil, false
	}
	for _, change := range []func([]byte) ([]byte, bool){otherInteger, otherText} {
		if other, is := changeFirst(body, 0, change); is {
			return other, true
		}
	}
	return nil, false
}

func otherInteger(text []byte) ([]byte, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return strconv.AppendInt(nil, n^1, 10), err == nil
}

func otherText(text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '"' {
		return nil, false
	}
	return spliced(text, len(text)-1, len(text)-1, []byte("x")), true
}
