package declared

import (
	"path"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// misplaced lists kinds of middleware that belong outside the guard, by words in the
// function names. Of chi's own, Timeout only sets the deadline of the context.
var misplaced = []struct {
	words  string
	reason string
}{
	{"basicauth basic_auth authenticat jwt bearer signin", "a replay comes before its check, and whoever names a client and knows a key gets the client's response"},
	{"cors", "a browser cannot read the guard's own responses, and a replay names the first request's origin"},
	{"compress gzip gzhttp brotli", "the guard leaves it no Accept-Encoding, so it compresses nothing: outside, each client gets its own coding"},
	{"override", "the guard sees the method from before the override"},
	{"timeout", "it responds while the handler still runs, and a retry may run a second handler; use policy.MaxRun"},
}

// Misplaced returns the reason why a middleware belongs outside the guard, or "".
func Misplaced(function string) string {
	function = strings.ToLower(function)
	for _, kind := range misplaced {
		for word := range strings.FieldsSeq(kind.words) {
			if strings.Contains(path.Base(function), word) && !(word == "timeout" && strings.Contains(function, "github.com/go-chi/chi/")) {
				return kind.reason
			}
		}
	}
	return ""
}

// FunctionOf returns the full name of a function, or the package, file and line of a closure
// that the compiler named after the function of another package that it was inlined into.
func FunctionOf(function any) string {
	found := runtime.FuncForPC(reflect.ValueOf(function).Pointer())
	if found == nil {
		return ""
	}
	file, line := found.FileLine(found.Entry())
	return named(found.Name(), file, line)
}

// foreign is what only the path of a file in a module cache or a vendor folder has.
var foreign = regexp.MustCompile(`^.*/(pkg/mod|vendor)/|@v[^/]*|!`)

func named(function, file string, line int) string {
	in := path.Join(path.Dir(function), strings.Split(path.Base(function), ".")[0])
	from := foreign.ReplaceAllString(path.Dir(file), "")
	if from == path.Dir(file) || strings.HasSuffix(strings.ToLower(from), strings.ToLower(in)) {
		return function
	}
	return from + " (" + path.Base(file) + ":" + strconv.Itoa(line) + ")"
}
