package openapi

import (
	"regexp"
	"strings"
)

// plain matches an expression that means the same in RE2, in ECMA-262 with any flag, and
// for a text as for its RFC 8941 string: letters, digits, _ - : / and dots, classes of
// them, groups, alternatives and repetitions.
var plain = regexp.MustCompile(`^(?:` +
	`(?:[\w:/-]|\\[dw.]|\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|\d-\d|[\w:.]|\\[dw])+-?\]|\))` + // one that may be repeated
	`(?:[*+?]|\{\d+(?:,\d*)?\})?\??` +
	`|\((?:\?:)?|\|)+$`)

// plainOf returns an expression without anchors at its ends, for a document, whose readers
// use ECMA-262's syntax. It returns false for an expression that is not plain, because
// (?i), \pL, \z and [[:alnum:]] are errors there or mean something else: the document then
// has no pattern.
func plainOf(expression string) (text string, ok bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$")
	if _, err := regexp.Compile(text); err != nil || !plain.MatchString(text) {
		return "", false
	}
	return strings.ReplaceAll(text, "-]", `\-]`), true // as the v flag asks
}
