package openapi

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// An expression of RE2 is spelled anew for a document, whose readers use ECMA-262's syntax.
// There (?i), \pL, \z and [[:alnum:]] are errors or mean something else. What spelling
// writes means the same in both, with ECMA-262's u or v flag too.

// pathPattern returns an expression for a path parameter's values, which chi matches with
// this one. It returns false for an expression that is empty, does not compile, or has an
// anchor of lines.
func pathPattern(expression string) (pattern string, ok bool) {
	if expression == "" {
		return "", false
	}
	whole := "^" + strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$") + "$"
	parsed, err := syntax.Parse(whole, syntax.Perl)
	if err != nil {
		return "", false
	}
	s := spelling{alphabet: []rune{0, unicode.MaxRune}, anchors: true}
	return s.alternatives(parsed), !s.failed
}

// keyPattern returns an expression for the header's values whose keys match this one as a
// whole: raw, or as an RFC 8941 string in quotes. It returns false for an expression that
// is empty, does not compile, or has an anchor in its middle, which cannot stand between
// quotes.
func keyPattern(expression string) (pattern string, ok bool) {
	if expression == "" {
		return "", false
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return "", false
	}
	withoutAnchor(parsed, syntax.OpBeginText, syntax.OpBeginLine)
	withoutAnchor(parsed, syntax.OpEndText, syntax.OpEndLine)
	raw := spelling{alphabet: []rune("!!#+-:<~")} // as core.ParseKey
	quoted := spelling{alphabet: []rune("!!#[]~"), escapes: []rune{'"', '\\'}}
	pattern = "^(?:" + raw.alternatives(parsed) + `|"` + quoted.sequence(parsed) + `")$`
	return pattern, !raw.failed
}

// withoutAnchor removes an anchor at the beginning of an expression, or for the end's
// anchor at the end. A key matches as a whole, so it changes nothing there.
func withoutAnchor(re *syntax.Regexp, text, line syntax.Op) {
	switch re.Op {
	case text, line:
		re.Op = syntax.OpEmptyMatch
	case syntax.OpCapture, syntax.OpQuest:
		withoutAnchor(re.Sub[0], text, line)
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			withoutAnchor(sub, text, line)
		}
	case syntax.OpConcat:
		for i := range re.Sub {
			if text == syntax.OpEndText {
				i = len(re.Sub) - 1 - i
			}
			if withoutAnchor(re.Sub[i], text, line); re.Sub[i].Op != syntax.OpEmptyMatch {
				return
			}
		}
	default: // an anchor further inside stays
	}
}

// spelling is a way to spell an expression.
type spelling struct {
	alphabet []rune // ranges of the characters that a value can have
	escapes  []rune // further characters, which a value has behind a backslash
	anchors  bool   // they may stay
	failed   bool   // the expression has something that cannot be spelled
}

const (
	special        = `^$\.*+?()[]{}|`
	specialInClass = `^\()[]{}|/-` // the v flag asks for most
)

// alternatives spells an expression that stands between bars or brackets.
func (s *spelling) alternatives(re *syntax.Regexp) string {
	if re.Op != syntax.OpAlternate {
		return s.sequence(re)
	}
	all := make([]string, 0, len(re.Sub))
	for _, sub := range re.Sub {
		all = append(all, s.sequence(sub))
	}
	return strings.Join(all, "|")
}

// sequence spells an expression that stands beside others.
func (s *spelling) sequence(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpConcat:
		var text strings.Builder
		for _, sub := range re.Sub {
			text.WriteString(s.sequence(sub))
		}
		return text.String()
	case syntax.OpLiteral:
		var text strings.Builder
		for _, char := range re.Rune {
			text.WriteString(s.char(char, re.Flags&syntax.FoldCase != 0))
		}
		return text.String()
	case syntax.OpStar:
		return s.atom(re.Sub[0]) + "*"
	case syntax.OpPlus:
		return s.atom(re.Sub[0]) + "+"
	case syntax.OpQuest:
		return s.atom(re.Sub[0]) + "?"
	case syntax.OpRepeat:
		return s.atom(re.Sub[0]) + times(re.Min, re.Max)
	case syntax.OpWordBoundary: // a quotation mark is no character of a word, as the end of a text
		return `\b`
	case syntax.OpNoWordBoundary:
		return `\B`
	default:
		return s.atom(re)
	}
}

// atom spells an expression that may be repeated.
func (s *spelling) atom(re *syntax.Regexp) string {
	if re.Op == syntax.OpLiteral && len(re.Rune) == 1 {
		return s.sequence(re)
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return s.class(nil)
	case syntax.OpAnyChar:
		return s.class([]rune{0, unicode.MaxRune})
	case syntax.OpAnyCharNotNL:
		return s.class([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune})
	case syntax.OpCharClass:
		return s.class(re.Rune)
	case syntax.OpCapture:
		return s.atom(re.Sub[0])
	case syntax.OpEmptyMatch:
		return "(?:)"
	case syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return s.anchor(re.Op)
	default:
		return "(?:" + s.alternatives(re) + ")"
	}
}

func times(least, most int) string {
	switch most {
	case least:
		return fmt.Sprintf("{%d}", least)
	case -1:
		return fmt.Sprintf("{%d,}", least)
	default:
		return fmt.Sprintf("{%d,%d}", least, most)
	}
}

// char spells one character, or the class of its cases.
func (s *spelling) char(char rune, anyCase bool) string {
	cases := []rune{char, char}
	if anyCase {
		for other := unicode.SimpleFold(char); other != char; other = unicode.SimpleFold(other) {
			cases = append(cases, other, other)
		}
	}
	slices.Sort(cases) // a range of each stays a pair
	return s.class(cases)
}

func (s *spelling) anchor(op syntax.Op) string {
	switch {
	case s.anchors && op == syntax.OpBeginText:
		return "^"
	case s.anchors && op == syntax.OpEndText:
		return "$"
	default: // an anchor of lines too: only the m flag has it
		s.failed = true
		return ""
	}
}

// class spells the characters of sorted ranges that a value can have.
func (s *spelling) class(ranges []rune) string {
	var all []string // alternatives
	for _, char := range s.escapes {
		if len(common(ranges, []rune{char, char})) > 0 {
			all = append(all, `(?:\\`+escaped(char, special)+")")
		}
	}
	if members := common(ranges, s.alphabet); len(members) > 0 || len(all) == 0 {
		all = append(all, classOf(members))
	}
	if len(all) == 1 {
		return all[0]
	}
	return "(?:" + strings.Join(all, "|") + ")"
}

// common returns the characters that are in ranges of both.
func common(a, b []rune) (both []rune) {
	for one := range slices.Chunk(a, 2) {
		for other := range slices.Chunk(b, 2) {
			if from, to := max(one[0], other[0]), min(one[1], other[1]); from <= to {
				both = append(both, from, to)
			}
		}
	}
	return both
}

// classOf spells ranges as a class, and a single character as itself.
func classOf(ranges []rune) string {
	last := len(ranges) - 1
	switch {
	case last < 0:
		return `[^\s\S]`
	case last == 1 && ranges[0] == ranges[1]:
		return escaped(ranges[0], special)
	case last == 1 && ranges[0] == 0 && ranges[1] == unicode.MaxRune:
		return `[\s\S]`
	case ranges[last] == unicode.MaxRune: // such as [^/]
		return "[^" + rangesOf(complement(ranges)) + "]"
	default:
		return "[" + rangesOf(ranges) + "]"
	}
}

// complement returns the characters that are not in the ranges, of which the last has no
// end.
func complement(ranges []rune) (others []rune) {
	next := rune(0)
	for one := range slices.Chunk(ranges, 2) {
		if one[0] > next {
			others = append(others, next, one[0]-1)
		}
		next = one[1] + 1
	}
	return others
}

func rangesOf(ranges []rune) string {
	var text strings.Builder
	for one := range slices.Chunk(ranges, 2) {
		from, to := one[0], one[1]
		text.WriteString(escaped(from, specialInClass))
		if to > from+1 {
			text.WriteByte('-')
		}
		if to > from {
			text.WriteString(escaped(to, specialInClass))
		}
	}
	return text.String()
}

func escaped(char rune, of string) string {
	switch {
	case strings.ContainsRune(of, char):
		return `\` + string(char)
	case char < 0x100 && !unicode.IsPrint(char):
		return fmt.Sprintf(`\x%02x`, char)
	default:
		return string(char)
	}
}
