package fingerprint_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The oracle finds the meaning of a JSON document, slowly and independently of the
// package: encoding/json validates, the oracle builds a tree, and a string is a list
// of units.

// unit is a byte of a string (an escaped character is its UTF-8 bytes) or, from
// loneSurrogate on, a lone surrogate.
type unit int

const loneSurrogate unit = 0x10000

type node struct {
	kind     byte   // { [ " or 0 for all else
	literal  string // as spelled
	text     []unit
	names    [][]unit // of the children of an object
	children []*node
}

// parse returns nil unless source is a document that the package reads as JSON.
func parse(source []byte) *node {
	if !json.Valid(source) || depth(source) > 512 {
		return nil
	}
	p := parser(source)
	return p.value()
}

func depth(source []byte) (deepest int) {
	level, inString := 0, false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

type parser []byte

func (p *parser) next() byte {
	*p = parser(strings.TrimLeft(string(*p), " \t\r\n"))
	return (*p)[0]
}

func (p *parser) take() byte {
	c := (*p)[0]
	*p = (*p)[1:]
	return c
}

func (p *parser) value() *node {
	n := &node{kind: p.next()}
	switch n.kind {
	case '{', '[':
		p.take()
		for c := p.next(); c != ']' && c != '}'; c = p.next() {
			if c == ',' {
				p.take()
				p.next()
			}
			if n.kind == '{' {
				n.names = append(n.names, p.text())
				p.next()
				p.take()
			}
			n.children = append(n.children, p.value())
		}
		p.take()
	case '"':
		n.text = p.text()
	default:
		n.kind = 0
		for len(*p) > 0 && !strings.ContainsRune(",]} \t\r\n", rune((*p)[0])) {
			n.literal += string(p.take())
		}
	}
	return n
}

func (p *parser) text() (units []unit) {
	for p.take(); ; {
		switch c := p.take(); c {
		case '"':
			return units
		case '\\':
			units = append(units, p.escape()...)
		default:
			units = append(units, unit(c))
		}
	}
}

func (p *parser) escape() []unit {
	c := p.take()
	if c != 'u' {
		at := strings.IndexByte(`"\/bfnrt`, c)
		return []unit{unit("\"\\/\b\f\n\r\t"[at])}
	}
	code := p.four()
	if code < 0xD800 || code > 0xDFFF {
		return unitsOf(string(rune(code)))
	}
	if rest := string(*p); code < 0xDC00 && strings.HasPrefix(rest, `\u`) {
		ahead := parser(rest[2:])
		if low := ahead.four(); low >= 0xDC00 && low <= 0xDFFF {
			*p = ahead
			return unitsOf(string(rune(0x10000 + (code-0xD800)<<10 + (low - 0xDC00))))
		}
	}
	return []unit{loneSurrogate + unit(code)}
}

func (p *parser) four() int64 {
	code, err := strconv.ParseInt(string((*p)[:4]), 16, 32)
	if err != nil {
		panic(err)
	}
	*p = (*p)[4:]
	return code
}

func unitsOf(text string) (units []unit) {
	for _, c := range []byte(text) {
		units = append(units, unit(c))
	}
	return units
}

// meaning returns a text that two documents share if and only if their meanings are equal.
func (n *node) meaning() string {
	switch n.kind {
	case '{':
		order := make([]int, len(n.children))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(decodedName(n.names[a]), decodedName(n.names[b])) })
		var all strings.Builder
		for _, i := range order {
			fmt.Fprintf(&all, "%v=%s;", n.names[i], n.children[i].meaning())
		}
		return "object(" + all.String() + ")"
	case '[':
		var all strings.Builder
		for _, child := range n.children {
			all.WriteString(child.meaning() + ";")
		}
		return "array(" + all.String() + ")"
	case '"':
		return fmt.Sprint("string", n.text)
	default:
		return literalMeaning(n.literal)
	}
}

// literalMeaning writes a number as an integer that ends in no 0, and a power of ten.
func literalMeaning(literal string) string {
	mantissa, spelled, _ := strings.Cut(strings.ToLower(literal), "e")
	if literal[0] >= 'a' { // true, false or null
		return literal
	}
	sign, mantissa := strings.HasPrefix(mantissa, "-"), strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	integer := strings.TrimRight(digits, "0")
	switch exponent, err := strconv.ParseInt("0"+strings.TrimLeft(spelled, "+-"), 10, 64); {
	case integer == "":
		return "zero"
	case err != nil || exponent >= 1e18:
		return literal
	default:
		if strings.HasPrefix(spelled, "-") {
			exponent = -exponent
		}
		return fmt.Sprint(sign, integer, exponent-int64(len(fraction))+int64(len(digits)-len(integer)))
	}
}

// decodedName returns a name as encoding/json compares it: decoded, without regard to
// case.
func decodedName(units []unit) string {
	var name strings.Builder
	for len(units) > 0 {
		char, size := utf8.DecodeRune(bytesOf(units))
		if units[0] >= loneSurrogate {
			char, size = utf8.RuneError, 1
		}
		for next := unicode.SimpleFold(char); next != char; next = unicode.SimpleFold(next) {
			if next < char { // once round, by way of the smallest
				char = next
			}
		}
		name.WriteRune(char)
		units = units[size:]
	}
	return name.String()
}

// rule is an excluded field and its parsed form.
type rule struct {
	field string
	name  string   // for a name
	path  []string // for a path; "any" is a star, "=" and a name all else
}

var rules = []rule{
	{field: "nonce", name: "nonce"},
	{field: "T", name: "t"},
	{field: `a\.b`, name: "a.b"},
	{field: `\*`, name: "*"},
	{field: `q"`, name: `q"`},
	{field: `\\`, name: `\`},
	{field: "é", name: "é"},
	{field: "\uFFFD", name: "\uFFFD"},
	{field: "meta.id", path: []string{"=meta", "=id"}},
	{field: "Meta.Trace.ID", path: []string{"=meta", "=trace", "=id"}},
	{field: ".Nonce", path: []string{"=nonce"}},
	{field: ".0", path: []string{"=0"}},
	{field: "items.*.id", path: []string{"=items", "any", "=id"}},
	{field: "items.1", path: []string{"=items", "=1"}},
	{field: "*.*.id", path: []string{"any", "any", "=id"}},
	{field: "0.id", path: []string{"=0", "=id"}},
	{field: `meta.a\.b`, path: []string{"=meta", "=a.b"}},
	{field: `items.\*`, path: []string{"=items", "=*"}},
	{field: "meta.-2", path: []string{"=meta", "=-2"}},
}

func fieldsOf(chosen []rule) (fields []string) {
	for _, r := range chosen {
		fields = append(fields, r.field)
	}
	return fields
}

// without returns a copy of n, the node at trail, without excluded members.
func (n *node) without(chosen []rule, trail ...string) *node {
	rest := *n
	rest.names, rest.children = nil, nil
	for i, child := range n.children {
		step, isMember := fmt.Sprint(i), n.kind == '{'
		if isMember {
			step = decodedName(n.names[i])
		}
		here := append(slices.Clone(trail), step)
		if slices.ContainsFunc(chosen, func(r rule) bool { return r.excludes(here, isMember) }) {
			continue
		}
		rest.children = append(rest.children, child.without(chosen, here...))
		if isMember {
			rest.names = append(rest.names, n.names[i])
		}
	}
	return &rest
}

func (r rule) excludes(trail []string, isMember bool) bool {
	if r.path == nil {
		return isMember && trail[len(trail)-1] == decodedName(unitsOf(r.name))
	}
	return slices.EqualFunc(r.path, trail, func(want, got string) bool {
		return want == "any" || decodedName(unitsOf(want)) == "="+got
	})
}
