package openapi

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
)

// keyPattern returns an expression for the header's values whose keys match an RE2
// expression as a whole: raw, or as an RFC 8941 string in quotes. It returns false for an
// expression with an anchor in its middle, which cannot stand between quotes.
//
// Readers of a document use ECMA-262's syntax, where (?i), \pL, \z and [[:alnum:]] are
// errors or mean something else. So the expression is spelled anew, in the syntax that
// both have. A key is visible ASCII, which leaves no difference in meaning.
func keyPattern(expression string) (pattern string, ok bool) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return "", false // policy.Validate refuses it
	}
	withoutAnchor(parsed, syntax.OpBeginText, syntax.OpBeginLine)
	withoutAnchor(parsed, syntax.OpEndText, syntax.OpEndLine)
	raw, quoted := keySpelling{ok: true}, keySpelling{ok: true, quoted: true}
	pattern = "^(?:" + raw.alternatives(parsed) + `|"` + quoted.sequence(parsed) + `")$`
	return pattern, raw.ok
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

// keySpelling spells an expression for raw keys or for keys in quotes.
type keySpelling struct {
	quoted bool
	ok     bool // no anchor was found
}

// The characters of a key, and of an expression that need an escape outside and inside of
// a class.
const (
	firstOfKey, lastOfKey = '!', '~'
	never                 = `[^\s\S]`
	special               = `^$\.*+?()[]{}|`
	specialInClass        = `^\()[]{}|/-` // ECMA-262's v flag asks for most
)

// alternatives spells an expression that stands between bars or brackets.
func (k *keySpelling) alternatives(re *syntax.Regexp) string {
	if re.Op != syntax.OpAlternate {
		return k.sequence(re)
	}
	all := make([]string, 0, len(re.Sub))
	for _, sub := range re.Sub {
		all = append(all, k.sequence(sub))
	}
	return strings.Join(all, "|")
}

// sequence spells an expression that stands beside others.
func (k *keySpelling) sequence(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpConcat:
		var text strings.Builder
		for _, sub := range re.Sub {
			text.WriteString(k.sequence(sub))
		}
		return text.String()
	case syntax.OpLiteral:
		var text strings.Builder
		for _, char := range re.Rune {
			text.WriteString(k.char(char, re.Flags&syntax.FoldCase != 0))
		}
		return text.String()
	case syntax.OpStar:
		return k.atom(re.Sub[0]) + "*"
	case syntax.OpPlus:
		return k.atom(re.Sub[0]) + "+"
	case syntax.OpQuest:
		return k.atom(re.Sub[0]) + "?"
	case syntax.OpRepeat:
		return k.atom(re.Sub[0]) + times(re.Min, re.Max)
	case syntax.OpWordBoundary: // a quotation mark is no character of a word, as the end of a text
		return `\b`
	case syntax.OpNoWordBoundary:
		return `\B`
	default:
		return k.atom(re)
	}
}

// atom spells an expression that may be repeated.
func (k *keySpelling) atom(re *syntax.Regexp) string {
	if re.Op == syntax.OpLiteral && len(re.Rune) == 1 {
		return k.sequence(re)
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return never
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return k.class([]rune{firstOfKey, lastOfKey})
	case syntax.OpCharClass:
		return k.class(re.Rune)
	case syntax.OpCapture:
		return k.atom(re.Sub[0])
	case syntax.OpEmptyMatch:
		return "(?:)"
	case syntax.OpBeginText, syntax.OpBeginLine, syntax.OpEndText, syntax.OpEndLine:
		k.ok = false
		return never
	default:
		return "(?:" + k.alternatives(re) + ")"
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
func (k *keySpelling) char(char rune, anyCase bool) string {
	ranges := []rune{char, char}
	if anyCase {
		for other := unicode.SimpleFold(char); other != char; other = unicode.SimpleFold(other) {
			ranges = append(ranges, other, other)
		}
	}
	return k.class(ranges)
}

// class spells a set of characters, which is given by ranges. Characters that no key of
// the spelling has are left out.
func (k *keySpelling) class(ranges []rune) string {
	var members []rune
	var all []string // alternatives
	for char := rune(firstOfKey); char <= lastOfKey; char++ {
		switch {
		case !within(ranges, char), !k.quoted && strings.ContainsRune(`",;`, char):
		case k.quoted && (char == '"' || char == '\\'): // the string has a backslash before it
			all = append(all, `(?:\\`+escaped(char, special)+")")
		default:
			members = append(members, char)
		}
	}
	if len(members) > 0 {
		all = append(all, classOf(members))
	}
	switch len(all) {
	case 0:
		return never
	case 1:
		return all[0]
	default:
		return "(?:" + strings.Join(all, "|") + ")"
	}
}

// within reports whether one of the ranges has the character.
func within(ranges []rune, char rune) bool {
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i] <= char && char <= ranges[i+1] {
			return true
		}
	}
	return false
}

// classOf spells characters in order as a class, and a single one as itself.
func classOf(members []rune) string {
	if len(members) == 1 {
		return escaped(members[0], special)
	}
	var text strings.Builder
	text.WriteByte('[')
	for from := 0; from < len(members); {
		to := from
		for to+1 < len(members) && members[to+1] == members[to]+1 {
			to++
		}
		text.WriteString(escaped(members[from], specialInClass))
		if to > from+1 {
			text.WriteByte('-')
		}
		if to > from {
			text.WriteString(escaped(members[to], specialInClass))
		}
		from = to + 1
	}
	text.WriteByte(']')
	return text.String()
}

func escaped(char rune, of string) string {
	if strings.ContainsRune(of, char) {
		return `\` + string(char)
	}
	return string(char)
}
