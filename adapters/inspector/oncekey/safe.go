package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// safe returns a text of others as part of one line that only shows characters. It writes
// every other rune as JSON does (\n, \u001b): controls, new lines, bidirectional marks, runes
// without a width, and unassigned ones. A byte that is not UTF-8 becomes \xff.
func safe(text string) string { return escaped(text, false) }

// escaped is safe, with or without the new lines of the command's own text. The result of a
// JSON document is the same document.
func escaped(text string, keepLines bool) string {
	var b strings.Builder
	for at, r := range text {
		switch {
		case r == '\n' && keepLines, isShown(r):
			if r == utf8.RuneError && text[at] != string(utf8.RuneError)[0] {
				fmt.Fprintf(&b, `\x%02x`, text[at])
				continue
			}
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isShown reports whether a rune has a place of its own on a terminal, or marks the rune
// before it.
func isShown(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// terminal is the writer of everything that the command prints. A text that was not made
// safe before cannot write more than lines.
type terminal struct {
	to   io.Writer
	hide func(string) string // nil: hides nothing
	rest []byte              // the begin of a rune
	err  error               // the first of the writes to the real one
}

// Write implements io.Writer.
func (t *terminal) Write(text []byte) (n int, err error) {
	all := slices.Concat(t.rest, text)
	whole := len(all)
	for cut := 1; cut < utf8.UTFMax && cut <= len(all); cut++ {
		if begin := all[len(all)-cut:]; utf8.RuneStart(begin[0]) {
			if !utf8.FullRune(begin) {
				whole -= cut
			}
			break
		}
	}
	t.rest = slices.Clone(all[whole:])
	return len(text), t.write(string(all[:whole]))
}

func (t *terminal) write(text string) error {
	if t.hide != nil {
		text = t.hide(text)
	}
	_, err := io.WriteString(t.to, escaped(text, true))
	t.err = cmp.Or(t.err, err)
	return err
}

// flush writes a rune that was never completed.
func (t *terminal) flush() {
	rest := string(t.rest)
	t.rest = nil
	_ = t.write(rest) // end reports it
}

// coloured writes a text in a colour.
func (t *terminal) coloured(code, text string) {
	_, _ = io.WriteString(t.to, "\x1b[1;"+code+"m"+safe(text)+"\x1b[0m")
}
