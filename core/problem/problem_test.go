package problem

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// Case 72: a problem has a Retry-After exactly where another try can succeed: a 409
// while a handler runs, every 503, and the 429 of a scope's limit.
func TestOnlyTemporaryProblemsAreRetried(t *testing.T) {
	t.Parallel()
	for code, kind := range kinds {
		temporary := code == InProgress || code == ScopeLimited || kind.status == http.StatusServiceUnavailable
		if p := New(code, ""); p.RetryAfter > 0 != temporary {
			t.Errorf("%s has RetryAfter %v, want one: %v", code, p.RetryAfter, temporary)
		}
	}
}

// A code without texts would be a problem of status zero.
func TestEveryCodeHasItsWords(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, parser.SkipObjectResolution)
	testkit.Must(t, err)
	var declared []string
	ast.Inspect(file, func(node ast.Node) bool {
		group, isGroup := node.(*ast.GenDecl)
		if !isGroup || group.Tok != token.CONST {
			return true
		}
		for _, spec := range group.Specs {
			value, isText := spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit)
			if code, err := strconv.Unquote(value.Value); isText && err == nil && spec.(*ast.ValueSpec).Names[0].IsExported() {
				declared = append(declared, code)
			}
		}
		return true
	})
	slices.Sort(declared)
	if !slices.Equal(declared, Codes()) {
		t.Errorf("declared are %v\nwith texts   %v", declared, Codes())
	}
}

// goldenCode is a code with the values that clients may rely on.
type goldenCode struct {
	Code    string
	Status  int
	Type    string
	Retries bool
}

func meaning(code string) goldenCode {
	p := New(code, "")
	return goldenCode{Code: p.Code, Status: p.Status, Type: p.Type, Retries: p.RetryAfter > 0}
}

// A code keeps its meaning.
func TestGoldenCodes(t *testing.T) {
	t.Parallel()
	golden.Each(t, "codes.jsonl", func(*testing.T) (all []goldenCode) {
		for _, code := range Codes() {
			all = append(all, meaning(code))
		}
		return all
	}, func(t *testing.T, released goldenCode) {
		t.Helper()
		golden.Want(t, meaning(released.Code), released)
	})
}
