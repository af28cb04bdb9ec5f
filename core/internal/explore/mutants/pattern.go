package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// pattern is Go text that matches nodes of a syntax tree: an expression, the element of a
// composite literal, statements, or cases. White space, comments and the case of letters
// do not count: a function that moves to another package is exported.
//
//	$x      any expression or name, the same one wherever $x stands
//	$x...   any statements, arguments or elements, also none
//	$_      any expression or name
//	$0      in the replacement: the whole match
//
// The text may have two readings: the cases of a switch can be those of a select.
type pattern [][]ast.Node

var wildcard = regexp.MustCompile(`\$(\w+)(\.\.\.)?`)

// The names of wildcards in a parsed pattern begin with these texts.
const (
	one  = "wildcard_"
	many = "wildcards_"
)

func parsePattern(text string) (p pattern, err error) {
	text = wildcard.ReplaceAllStringFunc(text, func(found string) string {
		if name, repeated := strings.CutSuffix(found[1:], "..."); repeated {
			return many + name
		}
		return one + found[1:]
	})
	list := framed("_ = T{", text, "}") // an expression or an element
	if list == nil {
		list = framed("", text, "")
	}
	p = pattern{list, framed("switch {\n", text, "\n}"), framed("select {\n", text, "\n}")}
	p = slices.DeleteFunc(p, func(list []ast.Node) bool { return list == nil })
	if len(p) == 0 {
		return nil, errors.New("the pattern is no expression, statement or case of Go")
	}
	return p, nil
}

// framed parses text between two other texts, and returns the nodes of text, or nil.
func framed(before, text, after string) (list []ast.Node) {
	before = "package p\nfunc _() {\n" + before
	file, err := parser.ParseFile(token.NewFileSet(), "", before+text+after+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	begin := file.FileStart + token.Pos(len(before))
	ast.Inspect(file, func(n ast.Node) bool {
		inside := n != nil && n.Pos() >= begin && n.End() <= begin+token.Pos(len(text))
		if inside {
			list = append(list, n)
		}
		return !inside
	})
	return list
}

func nodes[T ast.Node](list []T) (all []ast.Node) {
	for _, n := range list {
		all = append(all, n)
	}
	return all
}

// match is a place that a pattern matches.
type match struct {
	source   []byte
	base     token.Pos // of the source
	from, to ast.Node
	captured map[string]string // by the names of wildcards
}

// find returns the matches in a function's body.
func (p pattern) find(f *function) (found []match) {
	ast.Inspect(f.body, func(n ast.Node) bool {
		for _, wanted := range p {
			for list := listOf(n, len(wanted)); len(list) >= len(wanted); list = list[1:] {
				part := list[:len(wanted)]
				m := match{f.source, f.base, part[0], part[len(part)-1], make(map[string]string)}
				if m.equal(reflect.ValueOf(wanted), reflect.ValueOf(part)) {
					found = append(found, m)
				}
			}
		}
		return true
	})
	return found
}

// listOf returns the list of statements in n, or n where one node is wanted.
func listOf(n ast.Node, wanted int) []ast.Node {
	if wanted == 1 && n != nil {
		return []ast.Node{n}
	}
	switch n := n.(type) {
	case *ast.BlockStmt:
		return nodes(n.List)
	case *ast.CaseClause:
		return nodes(n.Body)
	case *ast.CommClause:
		return nodes(n.Body)
	default:
		return nil
	}
}

// equal reports whether a part of the pattern matches a part of the source, both of which
// it walks by reflection.
func (m *match) equal(p, s reflect.Value) bool {
	switch p.Kind() {
	case reflect.Interface, reflect.Pointer:
		if p.IsNil() || s.IsNil() {
			return p.IsNil() && s.IsNil()
		}
		if name, ok := wildcardIn(p, one); ok {
			e, ok := reflect.TypeAssert[ast.Expr](s)
			return ok && m.capture(name, e, e)
		}
		return p.Elem().Type() == s.Elem().Type() && m.equal(p.Elem(), s.Elem())
	case reflect.Slice:
		return m.equalLists(p, s)
	case reflect.Struct:
		for i := range p.NumField() {
			if _, position := reflect.TypeAssert[token.Pos](p.Field(i)); !position && !m.equal(p.Field(i), s.Field(i)) {
				return false
			}
		}
		return true
	case reflect.String:
		return strings.EqualFold(p.String(), s.String())
	default:
		return p.Equal(s)
	}
}

func (m *match) equalLists(p, s reflect.Value) bool {
	if p.Len() == 0 {
		return s.Len() == 0
	}
	rest := p.Slice(1, p.Len())
	name, ok := wildcardIn(p.Index(0), many)
	if !ok {
		return s.Len() > 0 && m.equal(p.Index(0), s.Index(0)) && m.equalLists(rest, s.Slice(1, s.Len()))
	}
	before := maps.Clone(m.captured)
	for n := range s.Len() + 1 {
		if m.captureList(name, s.Slice(0, n)) && m.equalLists(rest, s.Slice(n, s.Len())) {
			return true
		}
		m.captured = maps.Clone(before)
	}
	return false
}

// wildcardIn returns the name of the wildcard that a part of a pattern is.
func wildcardIn(p reflect.Value, kind string) (string, bool) {
	node := p.Interface()
	if s, ok := node.(*ast.ExprStmt); ok {
		node = s.X
	}
	if id, ok := node.(*ast.Ident); ok {
		return strings.CutPrefix(id.Name, kind)
	}
	return "", false
}

// capture notes the text of a wildcard. It returns false if the text was another before.
func (m *match) capture(name string, from, to ast.Node) bool {
	text := string(m.source[from.Pos()-m.base : to.End()-m.base])
	before, known := m.captured[name]
	m.captured[name] = text
	return name == "_" || !known || before == text
}

func (m *match) captureList(name string, s reflect.Value) bool {
	if s.Len() == 0 {
		return true
	}
	from, isNode := reflect.TypeAssert[ast.Node](s.Index(0))
	to, _ := reflect.TypeAssert[ast.Node](s.Index(s.Len() - 1))
	return isNode && m.capture(name, from, to)
}

// replaced returns the source with the replacement in place of the match.
func (m *match) replaced(replacement string) []byte {
	m.capture("0", m.from, m.to)
	text := wildcard.ReplaceAllStringFunc(replacement, func(found string) string {
		return m.captured[strings.TrimSuffix(found[1:], "...")]
	})
	return fmt.Appendf(nil, "%s%s%s", m.source[:m.from.Pos()-m.base], text, m.source[m.to.End()-m.base:])
}
