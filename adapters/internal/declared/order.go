package declared

import (
	"path"
	"reflect"
	"runtime"
	"strconv"
	"strings"
)

// misplaced lists kinds of middleware that belong outside the guard, by words in the
// function names.
var misplaced = []struct {
	words  []string
	reason string
}{
	{[]string{"cors"}, "a browser cannot read the guard's own responses, and a replay names the first request's origin"},
	{[]string{"compress", "gzip", "gzhttp", "brotli"}, "the guard leaves it no Accept-Encoding, so it compresses nothing: outside, each client gets its own coding"},
	{[]string{"override"}, "the guard sees the method from before the override"},
	{[]string{"timeout"}, "it responds while the handler still runs, and a retry may run a second handler; use policy.MaxRun"},
}

// Misplaced returns the reason why a middleware belongs outside the guard, or "".
func Misplaced(function string) string {
	if strings.HasPrefix(function, "github.com/go-chi/chi/") && strings.Contains(strings.ToLower(path.Base(function)), "timeout") {
		return "" // chi's Timeout only sets the deadline of the context
	}
	name := strings.ToLower(path.Base(function))
	for _, kind := range misplaced {
		for _, word := range kind.words {
			if strings.Contains(name, word) {
				return kind.reason
			}
		}
	}
	return ""
}

// FunctionOf returns the full name of a function. If the compiler named a closure of
// another module after the function that the closure was inlined into, FunctionOf
// returns the file and line in that module.
func FunctionOf(function any) string {
	found := runtime.FuncForPC(reflect.ValueOf(function).Pointer())
	if found == nil {
		return ""
	}
	file, line := found.FileLine(found.Entry())
	if _, below, inCache := strings.Cut(file, "/pkg/mod/"); inCache {
		file = below
	}
	module, _, versioned := strings.Cut(file, "@v")
	if versioned && !strings.HasPrefix(found.Name(), module) {
		return file + ":" + strconv.Itoa(line)
	}
	return found.Name()
}
