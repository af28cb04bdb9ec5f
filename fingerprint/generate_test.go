package fingerprint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// generator makes random documents of few names and values, in many spellings.
// Duplicates, near misses and exclusions are therefore frequent.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 0))} }

// randomGenerator logs its seed.
func randomGenerator(t *testing.T) generator {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return newGenerator(seed)
}

func pick[T any](g generator, choices ...T) T { return choices[g.IntN(len(choices))] }

func (g generator) document(depth int) *node {
	n := &node{}
	switch kind := g.IntN(10); {
	case depth > 0 && kind < 5:
		n.kind = '{'
	case depth > 0 && kind < 7:
		n.kind = '['
	case kind < 9:
		n.kind = '"'
		n.text = g.text()
		return n
	default:
		n.literal = pick(g, "0", "1", "1.0", "-0", "1e0", "1E0", "1000", "1e3", "0.5", "5e-1", "5E-4", "19.90", "9007199254740992", "9007199254740993", "true", "false", "null")
		return n
	}
	for range g.IntN(5) {
		if n.kind == '{' {
			n.names = append(n.names, g.name())
		}
		n.children = append(n.children, g.document(depth-1))
	}
	return n
}

func (g generator) name() []unit {
	return pick(g, unitsOf("id"), unitsOf("ID"), unitsOf("meta"), unitsOf("trace"), unitsOf("items"), unitsOf("nonce"),
		unitsOf("Nonce"), unitsOf("t"), unitsOf("0"), unitsOf("1"), unitsOf("a.b"), unitsOf("*"), unitsOf("é"), unitsOf("É"), unitsOf("\uFFFD"), unitsOf("\u212A"), unitsOf("k"), g.text())
}

func (g generator) text() (units []unit) {
	for range g.IntN(4) {
		piece := pick(g, "a", "A", "\"", "\\", "/", "u", "d800", "\n", "\x00", "\x7f", "é", "😀", "\uFFFD", "\xff", "\xed\xa0\x80", "\xe2\x82", "longer than a word")
		if g.IntN(8) == 0 {
			units = append(units, loneSurrogate+pick[unit](g, 0xD800, 0xDBFF, 0xDC00, 0xDFFF))
		} else {
			units = append(units, unitsOf(piece)...)
		}
	}
	return g.paired(units)
}

// paired replaces text that a parser would read as a surrogate pair.
func (g generator) paired(units []unit) []unit {
	for i := 1; i < len(units); i++ {
		if units[i-1] >= loneSurrogate && units[i-1] < loneSurrogate+0xDC00 && units[i] >= loneSurrogate+0xDC00 {
			units[i] = 'x'
		}
	}
	return units
}

// spell writes n with random white space, order of members and escapes.
func (g generator) spell(n *node) []byte {
	var out strings.Builder
	g.space(&out)
	switch n.kind {
	case '{':
		out.WriteByte('{')
		for count, i := range g.order(n) {
			if count > 0 {
				out.WriteByte(',')
			}
			g.space(&out)
			g.spellText(&out, n.names[i])
			g.space(&out)
			out.WriteByte(':')
			out.Write(g.spell(n.children[i]))
		}
		g.space(&out)
		out.WriteByte('}')
	case '[':
		out.WriteByte('[')
		for i, child := range n.children {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(g.spell(child))
		}
		g.space(&out)
		out.WriteByte(']')
	case '"':
		g.spellText(&out, n.text)
	default:
		out.WriteString(n.literal)
	}
	g.space(&out)
	return []byte(out.String())
}

// order returns the members' indexes shuffled. Names that differ only in case keep
// their order.
func (g generator) order(n *node) []int {
	order := g.Perm(len(n.children))
	byName := map[string][]int{}
	for _, i := range order {
		name := decodedName(n.names[i])
		byName[name] = append(byName[name], i)
	}
	for _, same := range byName {
		slices.Sort(same)
	}
	for at, i := range order {
		name := decodedName(n.names[i])
		order[at] = byName[name][0]
		byName[name] = byName[name][1:]
	}
	return order
}

func (g generator) space(out *strings.Builder) {
	out.WriteString(pick(g, "", "", "", " ", "\n\t", "\r "))
}

func (g generator) spellText(out *strings.Builder, units []unit) {
	out.WriteByte('"')
	for len(units) > 0 {
		if units[0] >= loneSurrogate {
			g.spellCode(out, uint16(units[0]-loneSurrogate))
			units = units[1:]
			continue
		}
		char, size := utf8.DecodeRune(bytesOf(units))
		if char == utf8.RuneError && size == 1 {
			out.WriteByte(byte(units[0]))
		} else {
			g.spellRune(out, char)
		}
		units = units[size:]
	}
	out.WriteByte('"')
}

func bytesOf(units []unit) (text []byte) {
	for _, u := range units {
		if u >= loneSurrogate {
			break
		}
		text = append(text, byte(u))
	}
	return text
}

func (g generator) spellRune(out *strings.Builder, char rune) {
	short := strings.IndexRune("\"\\/\b\f\n\r\t", char)
	plain := char >= ' ' && char != '"' && char != '\\'
	switch choice := g.IntN(4); {
	case plain && choice < 2:
		out.WriteRune(char)
	case short >= 0 && choice < 3:
		out.WriteByte('\\')
		out.WriteByte(`"\/bfnrt`[short])
	default:
		for _, code := range utf16.Encode([]rune{char}) {
			g.spellCode(out, code)
		}
	}
}

func (g generator) spellCode(out *strings.Builder, code uint16) {
	fmt.Fprintf(out, pick(g, `\u%04x`, `\u%04X`), code)
}

// changed returns a copy of n with one change or none.
func (g generator) changed(n *node) *node {
	c := *n
	c.children, c.names = slices.Clone(n.children), slices.Clone(n.names)
	if len(c.children) == 0 {
		return g.document(1)
	}
	i := g.IntN(len(c.children))
	switch choice := g.IntN(6); {
	case choice == 0:
		c.children = slices.Delete(c.children, i, i+1)
		if c.names != nil {
			c.names = slices.Delete(c.names, i, i+1)
		}
	case choice == 1 && c.names != nil:
		c.names[i] = g.name()
	case choice == 2:
		j := g.IntN(len(c.children))
		c.children[i], c.children[j] = c.children[j], c.children[i]
	default:
		c.children[i] = g.changed(c.children[i])
	}
	return &c
}

// damaged returns text with one byte dropped or replaced, or its end cut off.
func (g generator) damaged(text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	at := g.IntN(len(text))
	switch g.IntN(3) {
	case 0:
		return slices.Concat(text[:at], text[at+1:])
	case 1:
		text = slices.Clone(text)
		text[at] = pick(g, '"', '\\', '{', '}', '[', ']', ',', ':', '0', '-', '.', 'e', 'u', ' ', '\v', byte(g.IntN(256)))
		return text
	default:
		return text[:at]
	}
}

func (g generator) rules() (chosen []rule) {
	for range g.IntN(4) {
		chosen = append(chosen, pick(g, rules...))
	}
	return chosen
}
