package main

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

const sample = `package sample

func (r *Run) Watch() int {
	if r.left() <= 0 && !r.engine.closed { // the comment does not count
		r.end(1, 2)
		return 1
	}
	switch { case r.over: return 2 }
	select { case <-r.done: default: }
	all := claim{Key: r.key, TTL: 3}
	r.end(all)
	return r.left()
}
`

func TestPattern(t *testing.T) {
	t.Parallel()
	type row struct{ pattern, replacement, want string }
	testkit.Each(t, map[string]row{
		"an expression":              {"$r.left() <= 0", "false", "if false && !r.engine.closed {"},
		"the case of letters":        {"!$engine.Closed", "$engine.open", "r.left() <= 0 && r.engine.open {"},
		"statements":                 {"$run.end($_)\nreturn $x", "return $x", "TTL: 3}\n\treturn r.left()\n"},
		"any statements":             {"if $x && $y { $body... }", "if $x || $y { $body... }", "closed { r.end(1, 2)\n\t\treturn 1 }"},
		"arguments":                  {"$r.end(1, $rest...)", "$0; $r.end($rest...)", "r.end(1, 2); r.end(2)"},
		"an element":                 {"TTL: $_", "TTL: 4", "r.key, TTL: 4}"},
		"elements":                   {"claim{$first..., TTL: $x}", "claim{TTL: $x, $first...}", "claim{TTL: 3, Key: r.key}"},
		"a case":                     {"case $r.over: $body...", "", "switch {  }"},
		"a case of a select":         {"case <-$_:", "$0 return 3", "case <-r.done: return 3 default:"},
		"one statement":              {"return 1", "", "r.end(1, 2)\n\t\t\n"},
		"twice":                      {"$r.left()", "", "2 matches"},
		"the same wildcard":          {"$r.left() <= $r", "", "0 matches"},
		"another number of elements": {"claim{Key: $_}", "", "0 matches"},
		"no Go":                      {"if {", "", "the pattern is no expression"},
		"nothing":                    {"", "", "the pattern is no expression"},
	}, func(t *testing.T, c row) {
		e := engine{files: token.NewFileSet(), packages: make(map[string][]*ast.File)}
		testkit.Must(t, e.parse("sample", "sample.go", []byte(sample)))
		var got string
		if p, err := parsePattern(c.pattern); err != nil {
			got = err.Error()
		} else if found := p.find(&e.functions[0]); len(found) != 1 {
			got = string(rune('0'+len(found))) + " matches"
		} else {
			got = string(found[0].replaced(c.replacement))
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	})
}

// A mutant that does not apply is named at once, with the place where its function may
// have moved to.
func TestMutantDoesNotApply(t *testing.T) {
	t.Parallel()
	e, err := load(t.Context())
	testkit.Must(t, err)
	for name, c := range map[string]struct{ function, pattern, replacement, want string }{
		"moved to another type":  {"Watcher.LoseInTime", "$now.Reaches($_)", "false", "moved to ledger.Hold.LoseInTime?"},
		"moved to another name":  {"Hold.loseLate", `"%w: it could not be renewed in time: %w"`, "", "moved to ledger.Hold.LoseInTime?"},
		"nowhere":                {"Hold.LoseInTime", "$a.noSuchMethod()", "", "the pattern matches 0 times in Hold.LoseInTime, want once"},
		"in several places":      {"Hold.LoseInTime", "$r.mu", "", "the pattern matches 2 times in Hold.LoseInTime, want once"},
		"no change":              {"Hold.LoseInTime", "$now.Reaches($_)", "$0", "changes nothing"},
		"no Go any more":         {"Hold.LoseInTime", "$now.Reaches($_)", "if", "expected operand"},
		"an unused variable":     {"Hold.left", "return $now.Left($_)", "return 0", "declared and not used: now"},
		"an unknown name":        {"Hold.LoseInTime", "$now.Reaches($_)", "$now.leaves()", "leaves undefined"},
		"an import is left over": {"Hold.LoseInTime", "fmt.Errorf($_...)", "error(nil)", "\"fmt\" imported and not used"},
	} {
		m := &mutant{function: c.function, pattern: c.pattern, replacement: c.replacement}
		testkit.Fails(t, name+": apply", e.apply(m), nil, c.want)
	}
}

// Each mutant changes one place of the engine, and compiles. Whether the explorer notices
// a mutant is the subject of make mutants, which takes minutes.
func TestEachMutantApplies(t *testing.T) {
	t.Parallel()
	mutants, err := readAll(t.Context(), ".", nil)
	if err != nil || len(mutants) < 40 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
}
