package ledger

import (
	"strings"
	"unicode/utf8"
)

// The longest texts of a storage.Origin.
const (
	MaxOriginRoute = 200
	MaxOriginText  = 100
)

// Shortened returns text as stores keep it: UTF-8 without NUL, cut at a rune.
func Shortened(text string, limit int) string {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
